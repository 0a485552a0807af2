//! How often the operator is told of what outsiders can repeat.

use std::collections::HashMap;
use std::time::Instant;

use sys::rate::Rate;

use crate::control::AppId;

/// One for each kind of event that outsiders can repeat.
#[derive(Debug)]
pub(super) struct Rates {
    pub(super) accepted: Rate,
    pub(super) not_accepted: Rate,
    pub(super) connected: Rate,
    pub(super) ports: Rate,
    pub(super) closed: Rate,
    pub(super) disconnected: Rate,
    /// For each app: none can hide another's offences behind a flood of its own.
    pub(super) refused: HashMap<AppId, Rate>,
    pub(super) errors: Rate,
    pub(super) malformed: Rate,
}

impl Rates {
    /// Of which nothing was told yet.
    pub(super) fn new(now: Instant) -> Self {
        let rate = || Rate::new(now);
        Self {
            accepted: rate(),
            not_accepted: Rate::seldom(now),
            connected: rate(),
            ports: rate(),
            closed: rate(),
            disconnected: rate(),
            refused: HashMap::new(),
            errors: rate(),
            malformed: rate(),
        }
    }
}
