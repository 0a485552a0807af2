//! Carries out the calls of an app that runs in this process.

use std::os::fd::OwnedFd;
use std::time::Instant;

use control::app::AppId;
use control::log::LogLevel;
use sdk::abi::Level;
use sdk::abi::host::Host;
use sdk::services::host::Services;
use sdk::services::table::Slot;
use sdk::services::{AskError, RequestId, Service};
use sys::log::APP;
use sys::rate::Rate;
use tracing::{debug, error, info, warn};

use crate::app_port::outbox::Outbox;

/// Receives the app's calls.
#[derive(Debug)]
pub struct KernelHost {
    pub(in crate::app_port) app: AppId,
    pub(in crate::app_port) name: String,
    pub(in crate::app_port) band: (u16, u16),
    pub(in crate::app_port) config: Box<[u8]>,
    pub(in crate::app_port) outbox: Outbox,
    pub(in crate::app_port) stopped: Vec<usize>,
    pub(in crate::app_port) log_level: LogLevel,
    pub(in crate::app_port) lines: Rate,
    /// The instance's requests to services.
    pub(in crate::app_port) services: Services,
}

impl Host for KernelHost {
    fn reserve(&mut self, size: usize) -> Option<&mut [u8]> {
        self.outbox.reserve(size)
    }

    fn commit(&mut self, dpid: u64, epoch: u32, size: usize, series: u32) -> bool {
        self.outbox.commit(dpid, epoch, size, series)
    }

    fn room(&self) -> usize {
        self.outbox.room()
    }

    fn band(&self) -> (u16, u16) {
        self.band
    }

    fn groups(&self) -> (u32, u32) {
        self.app.groups().into_inner()
    }

    fn meters(&self) -> (u32, u32) {
        self.app.meters().into_inner()
    }

    fn config(&self) -> &[u8] {
        &self.config
    }

    fn stop(&mut self, number: usize) {
        self.stopped.push(number);
    }

    fn log(&mut self, level: Level, text: &str) {
        if !self.log_level.admits(level.into()) {
            return;
        }
        let Some(suppressed) = self.lines.admit(Instant::now()) else { return };
        let app = self.name.as_str();
        // An app's text must not look like lines of the kernel.
        let text = text.escape_debug();
        match level {
            Level::Error => error!(target: APP, app, suppressed, "{text}"),
            Level::Warn => warn!(target: APP, app, suppressed, "{text}"),
            Level::Info | Level::Audit => info!(target: APP, app, suppressed, "{text}"),
            Level::Debug => debug!(target: APP, app, suppressed, "{text}"),
        }
    }

    fn ask(&mut self, service: Service, request: &[u8]) -> Result<RequestId, AskError> {
        self.services.ask(service, request)
    }

    fn take(&mut self, request: RequestId) -> Option<OwnedFd> {
        self.services.take_fd(request)
    }

    fn read_table(&self, service: Service, first: u32, records: &mut [Slot]) -> Option<u64> {
        self.services.read_table(service, first, records)
    }
}
