//! Tests of mesh.
