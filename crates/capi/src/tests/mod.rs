//! Tests that call the exported functions.
