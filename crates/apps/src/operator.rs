//! Provides the service `operator`: owns the flows, groups and meters that operators write by hand.
//!
//! `owner/mod.rs` has the mechanism, which the app `ofctl` shares. Here a priority is the one on the switch, so that it is the same
//! in `rosemary flows` and in a request.
//!
//! The monitor starts it when an operator enables it. Its flows stay wanted: they return after a restart of a switch, of the
//! kernel and of Rosemary.

#![forbid(unsafe_code)]

#[path = "owner/mod.rs"]
mod owner;

use rosemary_sdk::{App, Event, Network, export_app};

use self::owner::{Numbering, Owner};

/// See the module's description.
struct Operator(Owner);

impl App for Operator {
    fn create() -> Self {
        Self(Owner::new(Numbering::OnSwitch))
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        self.0.on_event(&event, network);
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        self.0.on_wake(network);
    }
}

export_app!(Operator, name = "operator");
