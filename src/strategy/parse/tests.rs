//! Tests of parse.
