//! Counters that a switch may not have.
//!
//! A switch that lacks a counter sends the largest value of the field, all ones (OpenFlow 1.3.5 §5.8, 1.0.2 §5.3.5). Messages keep
//! the value of the wire; whoever shows or judges a counter reads it with [`Available::available`].

use core::fmt;

/// A number in a message that a switch may not have.
pub trait Available: Copy + Eq + fmt::Display {
    /// The value that means "not available".
    const ABSENT: Self;

    /// Returns the number; `None` if the switch does not have it.
    fn available(self) -> Option<Self> {
        (self != Self::ABSENT).then_some(self)
    }
}

impl Available for u32 {
    const ABSENT: Self = Self::MAX;
}

impl Available for u64 {
    const ABSENT: Self = Self::MAX;
}
