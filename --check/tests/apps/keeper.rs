//! Sends requests to the storage and the broker when they start, and logs the replies.
//!
//! It counts their starts under the key `starts` with compare-and-set, and tries to access another app's namespace. An
//! instance that counts the start of the number in its configuration panics.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use rosemary_sdk::services::broker;
use rosemary_sdk::services::storage::{Answer, Expect};
use rosemary_sdk::services::{RequestId, Service};
use rosemary_sdk::{App, Event, Network, export_app};

/// The app whose namespace it tries to access, and the host to which it connects.
const OTHER: &str = "observer";
const HOST: (&str, u16) = ("127.0.0.1", 7007);

#[derive(Default)]
struct Keeper {
    starts: Option<RequestId>,
    count: u64,
    /// The start with which it panics.
    last: Option<u64>,
    counted: Option<RequestId>,
    others: Vec<(&'static str, RequestId)>,
    connection: Option<(File, String)>,
}

impl Keeper {
    fn service_up(&mut self, service: Service, network: &mut Network<'_>) {
        network.info(&format!("{service} is there"));
        match service {
            Service::Storage => {
                self.starts = network.storage().get(b"starts").ok();
                let mut storage = network.storage().of(OTHER);
                let read = storage.get(b"secret");
                let written = storage.put(b"secret", b"mine now", Expect::Anything);
                let named = [("reading", read), ("writing", written)];
                self.others =
                    named.into_iter().filter_map(|(what, it)| Some((what, it.ok()?))).collect();
            }
            Service::Broker => {
                if let Err(error) = network.connect(HOST.0, HOST.1) {
                    network.warn(&format!("not asked: {error}"));
                }
                if network.connect("localhost", HOST.1).is_err() {
                    network.warn("the second was not asked");
                }
            }
            _ => {}
        }
    }

    fn storage_answered(
        &mut self,
        request: RequestId,
        answer: Answer<'_>,
        network: &mut Network<'_>,
    ) {
        if let Some((what, _)) = self.others.iter().find(|(_, id)| *id == request) {
            return network.info(&format!("{what} data of {OTHER}: {answer:?}"));
        }
        if self.starts == Some(request) {
            let (before, expect) = match answer {
                Answer::Value { version, value } => {
                    let value = value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                    (value, Expect::Version(version))
                }
                _ => (0, Expect::Nothing),
            };
            self.count = before + 1;
            let value = self.count.to_le_bytes();
            self.counted = network.storage().put(b"starts", &value, expect).ok();
        } else if self.counted == Some(request) {
            if let Answer::Conflict { .. } = answer {
                // Another instance has counted meanwhile.
                self.starts = network.storage().get(b"starts").ok();
                return;
            }
            network.info(&format!("start {} is kept: {answer:?}", self.count));
            assert_ne!(self.last, Some(self.count), "the last start before a panic");
        }
    }

    /// Sends a line over the connection and receives one.
    fn speak(&mut self, network: &mut Network<'_>) {
        let Some((connection, heard)) = &mut self.connection else { return };
        let mut room = [0; 64];
        while let Ok(size @ 1..) = connection.read(&mut room) {
            heard.push_str(&String::from_utf8_lossy(&room[..size]));
        }
        if heard.ends_with('\n') {
            network.info(&format!("heard {heard:?}"));
            self.connection = None;
        } else {
            network.wake_at(network.now() + Duration::from_millis(20));
        }
    }
}

impl App for Keeper {
    fn create() -> Self {
        Self::default()
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        self.last = (!text.is_empty())
            .then(|| text.trim().parse())
            .transpose()
            .map_err(|_| "expected a number".to_owned())?;
        Ok(())
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        match event {
            Event::ServiceUp(service) => self.service_up(service, network),
            Event::Storage { request, answer: Ok(answer) } => {
                self.storage_answered(request, answer, network);
            }
            Event::Broker { request, answer: Ok(broker::Answer::Connected) } => {
                let Some(connection) = network.take(request) else { return };
                let mut connection = File::from(connection);
                if connection.write_all(b"hello\n").is_ok() {
                    self.connection = Some((connection, String::new()));
                }
            }
            // Without a named service, no event reports that one is available.
            Event::SnapshotEnd => {
                if let Err(error) = network.storage().get(b"starts") {
                    network.info(&format!("not asked: {error}"));
                }
            }
            Event::Broker { answer, .. } => network.info(&format!("broker: {answer:?}")),
            Event::Storage { answer, .. } => network.info(&format!("storage: {answer:?}")),
            _ => {}
        }
        self.speak(network);
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        self.speak(network);
    }
}

export_app!(Keeper, name = "keeper");
