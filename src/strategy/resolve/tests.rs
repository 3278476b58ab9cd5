//! Tests of resolve.
