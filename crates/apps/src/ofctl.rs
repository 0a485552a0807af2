//! Provides the service `ofctl`: owns the flows, groups and meters that clients of Ryu's REST interface write, and asks switches for
//! their statistics.
//!
//! `owner/mod.rs` has the mechanism, which the app `operator` shares. Clients of Ryu choose any priority from 0 to 65535; this app
//! assigns priorities of its band to them in the same order (`owner/priorities.rs`).

#![forbid(unsafe_code)]

#[path = "owner/mod.rs"]
mod owner;

use rosemary_sdk::{App, Event, Network, export_app};

use self::owner::{Numbering, Owner};

/// See the module's description.
struct Ofctl(Owner);

impl App for Ofctl {
    fn create() -> Self {
        Self(Owner::new(Numbering::Assigned))
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        self.0.on_event(&event, network);
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        self.0.on_wake(network);
    }
}

export_app!(Ofctl, name = "ofctl");
