//! Serves the calls of the app: messages go into the down ring, requests to services, text to the log.

use std::os::fd::OwnedFd;

use control::flight::FlightSlot;
use control::log::LogLevel;
use control::zone::SwitchNumbers;
use sdk::abi::Level;
use sdk::abi::host::Host;
use sdk::services::host::Services;
use sdk::services::table::Slot;
use sdk::services::{AskError, RequestId, Service};
use sdk::serving::ClientRequest;
use sys::log::APP;
use tracing::{debug, error, info, warn};

use crate::outgoing::Outgoing;
use crate::pending::PendingRequests;
use crate::server::Server;
use crate::watched::Watched;

/// Most incidents of a batch.
const MOST_INCIDENTS: usize = 16;

/// Most audit records of a batch that go to the monitor.
const MOST_AUDITS: usize = 64;

/// The host that the app calls through the app ABI.
#[derive(Debug)]
pub struct ZoneHost {
    app: String,
    numbers: SwitchNumbers,
    config: Vec<u8>,
    /// The level of the app's log.
    pub log_level: LogLevel,
    /// Takes messages for switches, one for each ring; empty until the kernel has passed rings.
    pub messages: Vec<Outgoing>,
    /// The ring of the current batch, which also takes its messages.
    pub ring: usize,
    /// The app's requests that switches have not answered.
    pub pending: PendingRequests,
    /// The app's requests to services.
    pub services: Services,
    /// The app's clients, and the table that it publishes.
    pub server: Server,
    /// Incidents that the app reported in the current batch.
    pub incidents: Vec<(String, String)>,
    /// The problem that the app stated last, if the monitor does not know it yet.
    pub problem: Option<String>,
    /// Audit records that the app wrote in the current batch.
    pub audits: Vec<String>,
    /// Whether the current batch came by no ring. The app cannot stop its records then: no other app gets them.
    pub aside: bool,
    /// The descriptors that the app itself waits for.
    pub watched: Watched,
    /// Records in the flight recorder that the app is being called, if the monitor watches the zone.
    pub flight_slot: Option<FlightSlot>,
}

impl ZoneHost {
    /// A host without rings for an app with this name, its numbers, its configuration and its services.
    pub fn new(app: String, numbers: SwitchNumbers, config: Vec<u8>, services: Services) -> Self {
        Self {
            app,
            numbers,
            config,
            log_level: LogLevel::default(),
            messages: Vec::new(),
            ring: 0,
            pending: PendingRequests::default(),
            services,
            server: Server::default(),
            incidents: Vec::new(),
            problem: None,
            audits: Vec::new(),
            aside: false,
            watched: Watched::default(),
            flight_slot: None,
        }
    }

    /// The app's name.
    pub fn name(&self) -> &str {
        &self.app
    }

    /// The app's numbers on switches.
    pub fn numbers(&self) -> SwitchNumbers {
        self.numbers
    }

    fn messages(&mut self) -> Option<&mut Outgoing> {
        self.messages.get_mut(self.ring)
    }
}

impl Host for ZoneHost {
    fn reserve(&mut self, size: usize) -> Option<&mut [u8]> {
        self.messages()?.reserve(size)
    }

    fn commit(&mut self, dpid: u64, epoch: u32, size: usize, series: u32) -> bool {
        let Some(messages) = self.messages.get_mut(self.ring) else { return false };
        let is_sent = messages.commit(dpid, epoch, size, series);
        if is_sent
            && series == 0
            && let Some(head) = messages.last_head()
        {
            self.pending.sent(dpid, epoch, head);
        }
        is_sent
    }

    fn room(&self) -> usize {
        self.messages.get(self.ring).map_or(0, Outgoing::free)
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
        let aside = self.aside;
        if let Some(messages) = self.messages().filter(|_| !aside) {
            messages.stop(number);
        }
    }

    fn log(&mut self, level: Level, text: &str) {
        // This bounds the memory of one batch. A record beyond it is a line of the app's own log.
        let is_audit = level == Level::Audit && self.server.is_provider();
        if is_audit && self.audits.len() < MOST_AUDITS {
            self.audits.push(text.to_owned());
        } else {
            log(&self.app, self.log_level, level, text);
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

    fn publish(&mut self, slot: u32, record: &Slot) -> bool {
        self.server.publish(slot, record)
    }

    fn answer(&mut self, request: ClientRequest, more: bool, body: &[u8]) {
        self.server.answer(request, more, body);
    }

    fn report_incident(&mut self, summary: &str, evidence: &str) {
        // The monitor limits them too. This bounds the memory of one batch.
        if self.incidents.len() < MOST_INCIDENTS {
            self.incidents.push((beginning(summary), beginning(evidence)));
        }
    }

    fn set_problem(&mut self, text: &str) {
        self.problem = Some(beginning(text));
    }
}

/// Returns the first 1024 characters of an app's text, so that one text cannot fill a message to the monitor.
fn beginning(text: &str) -> String {
    text.chars().take(1024).collect()
}

/// Writes a line of the app to the operator's log, if its level admits it.
pub fn log(app: &str, admitted: LogLevel, level: Level, text: &str) {
    if !admitted.admits(level.into()) {
        return;
    }
    // The app's text must not look like lines of another program.
    let text = text.escape_debug();
    match level {
        Level::Error => error!(target: APP, app, "{text}"),
        Level::Warn => warn!(target: APP, app, "{text}"),
        Level::Info | Level::Audit => info!(target: APP, app, "{text}"),
        Level::Debug => debug!(target: APP, app, "{text}"),
    }
}
