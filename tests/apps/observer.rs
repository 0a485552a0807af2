//! An observer that counts its copies of marked packets, and logs the count when a packet's task says so.

#![forbid(unsafe_code)]

#[allow(dead_code, unreachable_pub, reason = "the tests use the rest of it")]
#[path = "../src/mark.rs"]
mod mark;

use rosemary_sdk::{App, Event, Network, export_app};

use mark::{Mark, SequenceCounter, Task};

#[derive(Default)]
struct Observer(SequenceCounter);

impl App for Observer {
    fn create() -> Self {
        Self::default()
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        let Event::PacketIn(packet_in) = event else { return };
        match Mark::of(packet_in.data) {
            Some(Mark { task: Task::Pass, sequence }) => self.0.count(sequence),
            Some(Mark { task: Task::Report, sequence }) => {
                network.info(&format!("report {sequence}: {}", self.0.text()));
            }
            _ => {}
        }
    }
}

export_app!(Observer, name = "observer");
