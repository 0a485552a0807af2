//! A control app that answers every marked packet with exactly one packet-out to port 2, and ends when a packet's task
//! says so.
//!
//! The answers are independent, so the packets that arrive behind port 2 show how often each one was handled.

#![forbid(unsafe_code)]

#[allow(dead_code, unreachable_pub, reason = "the tests use the rest of it")]
#[path = "../src/mark.rs"]
mod mark;

use rosemary_sdk::{Action, App, Event, Network, PortNo, export_app};

use mark::{Mark, Task};

struct Sender;

impl App for Sender {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        let Event::PacketIn(packet_in) = event else { return };
        let Some(mark) = Mark::of(packet_in.data) else { return };
        match mark.task {
            Task::Pass => {
                let to_port_2 = [Action::output(PortNo(2))];
                if let Err(error) = network.packet_out_for(&packet_in, &to_port_2) {
                    network.error(&format!("{} was not answered: {error}", mark.sequence));
                }
            }
            #[expect(clippy::disallowed_methods, reason = "this is what the test is about")]
            Task::Exit if !packet_in.repeated => std::process::exit(0),
            Task::Panic if !packet_in.repeated => panic!("packet {} said so", mark.sequence),
            Task::PanicAlways => panic!("packet {} always says so", mark.sequence),
            Task::Exit | Task::Panic | Task::Report => {}
        }
    }
}

export_app!(Sender, name = "sender");
