//! Prints and logs lines, without a request to a switch.
//!
//! Every tenth of a second it prints a line and logs one of each level. If its configuration is `panic`, it panics
//! instead.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this app is about printing")]

use std::time::Duration;

use rosemary_sdk::{App, Event, Network, export_app};

const EVERY: Duration = Duration::from_millis(100);

/// More bytes than a pipe holds.
const FLOOD: usize = 3_000;

#[derive(Default)]
struct Printer {
    panics: bool,
    rounds: u32,
}

impl App for Printer {
    fn create() -> Self {
        println!("printed at its creation");
        eprintln!("printed as an error");
        for (name, value) in std::env::vars() {
            println!("variable {name}={value}");
        }
        Self::default()
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        self.panics = text.trim() == "panic";
        if text.trim() == "flood" {
            (0..FLOOD).for_each(|number| println!("one of many lines, number {number}"));
        }
        Ok(())
    }

    fn on_event(&mut self, _: Event<'_>, network: &mut Network<'_>) {
        network.wake_at(network.now() + EVERY);
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        network.wake_at(network.now() + EVERY);
        assert!(!self.panics, "configured to panic");
        self.rounds += 1;
        let round = self.rounds;
        println!("printed in round {round}");
        network.debug(&format!("detail of round {round}"));
        network.info(&format!("news of round {round}"));
        network.warn(&format!("warning of round {round}"));
    }
}

export_app!(Printer, name = "printer");
