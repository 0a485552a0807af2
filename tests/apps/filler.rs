//! Writes values into the storage until a write is refused, then checks that all acknowledged values exist, and repeats.

#![forbid(unsafe_code)]

use std::time::Duration;

use rosemary_sdk::services::storage::{Answer, Expect};
use rosemary_sdk::services::{AskError, RequestId, Service};
use rosemary_sdk::{App, Event, Network, export_app};

/// Bytes of a value.
const SIZE: usize = 16 * 1024;

#[derive(Default)]
struct Filler {
    /// Number of acknowledged values; the keys are their numbers.
    written: u32,
    /// Number of values checked since the refusal.
    looked: Option<u32>,
    last: Option<RequestId>,
}

impl Filler {
    fn go_on(&mut self, network: &mut Network<'_>) {
        let asked = match self.looked {
            None => {
                let key = self.written.to_be_bytes();
                let value = [self.written.to_le_bytes()[0]; SIZE];
                network.storage().put(&key, &value, Expect::Nothing)
            }
            Some(looked) => network.storage().get(&looked.to_be_bytes()),
        };
        self.last = asked.inspect_err(|error: &AskError| network.error(&error.to_string())).ok();
    }

    fn answered(&mut self, answer: Answer<'_>, network: &mut Network<'_>) {
        match (answer, self.looked) {
            (Answer::Done { .. }, None) => self.written += 1,
            (Answer::Refused(why), None) => {
                network.info(&format!("refused {why:?} after {} values", self.written));
                self.looked = Some(0);
            }
            (Answer::Value { value, .. }, Some(looked))
                if value == [looked.to_le_bytes()[0]; SIZE] =>
            {
                self.looked = Some(looked + 1);
            }
            (answer, looked) => return network.error(&format!("{looked:?}: {answer:?}")),
        }
        if self.looked == Some(self.written) {
            network.info(&format!("all {} values are there", self.written));
            self.looked = None;
            return network.wake_at(network.now() + Duration::from_millis(100));
        }
        self.go_on(network);
    }
}

impl App for Filler {
    fn create() -> Self {
        Self::default()
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        match event {
            Event::ServiceUp(Service::Storage) => self.go_on(network),
            Event::Storage { request, answer } if self.last == Some(request) => match answer {
                Ok(answer) => self.answered(answer, network),
                Err(error) => network.error(&error.to_string()),
            },
            _ => {}
        }
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        self.go_on(network);
    }
}

export_app!(Filler, name = "filler");
