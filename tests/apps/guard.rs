//! A guard that stops every marked packet and no other. `guard.c` is the same app in C.

#![forbid(unsafe_code)]

#[allow(dead_code, unreachable_pub, reason = "the tests use the rest of it")]
#[path = "../src/mark.rs"]
mod mark;

use rosemary_sdk::{App, Event, Network, export_app};

use mark::Mark;

struct Guard;

impl App for Guard {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        if let Event::PacketIn(packet_in) = event
            && Mark::of(packet_in.data).is_some()
        {
            network.stop();
        }
    }
}

export_app!(Guard, name = "guard");
