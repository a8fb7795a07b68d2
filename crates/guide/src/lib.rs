//! The code of the guide in `docs/guide`, compiled and run by `tests/blocks.rs`.
