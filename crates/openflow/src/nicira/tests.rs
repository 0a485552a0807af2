//! Tests without Open vSwitch; `tests/nicira.rs` compares with it.
