//! An app that takes 200 ms for each packet; other apps must not wait for it.

#![forbid(unsafe_code)]

use std::thread;
use std::time::Duration;

use rosemary_sdk::{App, Event, Network, export_app};

const TIME: Duration = Duration::from_millis(200);

struct Slow;

impl App for Slow {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, event: Event<'_>, _network: &mut Network<'_>) {
        if let Event::PacketIn(_) = event {
            thread::sleep(TIME);
        }
    }
}

export_app!(Slow, name = "slow");
