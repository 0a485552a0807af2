//! What the application's calls lead to: the down ring, and the log.

use sdk::abi::Level;
use sdk::abi::host::Host;
use sys::flight::Seat;
use sys::ring::DownWriter;
use tracing::{debug, error, info, warn};

use crate::control::Numbers;

/// The zone's side of the app ABI.
#[derive(Debug)]
pub struct ZoneHost {
    app: String,
    numbers: Numbers,
    config: Vec<u8>,
    /// Where messages go, for each ring; none until the kernel has given rings.
    pub messages: Vec<DownWriter>,
    /// By which ring the batch in hand came, and its messages go.
    pub ring: usize,
    /// Where it is noted that the app is being called, if somebody looks.
    pub seat: Option<Seat>,
}

impl ZoneHost {
    /// For the application with this name, these numbers and this configuration, without rings.
    pub fn new(app: String, numbers: Numbers, config: Vec<u8>) -> Self {
        Self { app, numbers, config, messages: Vec::new(), ring: 0, seat: None }
    }

    fn messages(&mut self) -> Option<&mut DownWriter> {
        self.messages.get_mut(self.ring)
    }
}

impl Host for ZoneHost {
    fn reserve(&mut self, size: usize) -> Option<&mut [u8]> {
        self.messages()?.reserve(size)
    }

    fn commit(&mut self, dpid: u64, epoch: u32, size: usize) -> bool {
        self.messages().is_some_and(|messages| messages.commit(dpid, epoch, size))
    }

    fn room(&self) -> usize {
        self.messages.get(self.ring).map_or(0, DownWriter::free)
    }

    fn band(&self) -> (u16, u16) {
        self.numbers.band
    }

    fn groups(&self) -> (u32, u32) {
        self.numbers.groups
    }

    fn meters(&self) -> (u32, u32) {
        self.numbers.meters
    }

    fn config(&self) -> &[u8] {
        &self.config
    }

    fn stop(&mut self, number: usize) {
        if let Some(messages) = self.messages() {
            messages.stop(number);
        }
    }

    fn log(&mut self, level: Level, text: &str) {
        let app = self.app.as_str();
        // An application's text must not pass for lines of another program.
        let text = text.escape_debug();
        match level {
            Level::Error => error!(app, "{text}"),
            Level::Warn => warn!(app, "{text}"),
            Level::Info => info!(app, "{text}"),
            Level::Debug => debug!(app, "{text}"),
        }
    }
}
