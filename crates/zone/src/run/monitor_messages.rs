//! Handles the monitor's messages: rings of a new kernel, sockets of services and clients, alerts, the end.

use std::os::fd::OwnedFd;

use control::flight::FlightRecorder;
use control::zone::ZoneRequest;
use sdk::Alert;
use sdk::abi::MAX_BATCH as MAX_ALERTS;
use sys::channel::{Channel, ChannelError};
use sys::doorbell::{Doorbell, DoorbellSender};
use sys::ring::{MAX_BATCH, RingFds, ZoneEnd};

use super::{Guest, Ring, Turn, Zone, ZoneError};

impl<A: Guest> Zone<A> {
    /// Handles the monitor's messages. Returns `false` if one of them stops the zone.
    pub(super) fn read_control(&mut self, monitor: &Channel) -> Result<bool, ZoneError> {
        loop {
            match monitor.receive() {
                Ok((ZoneRequest::Stop, _)) => return Ok(false),
                Ok((ZoneRequest::Rings { capacity, batch }, fds)) => {
                    self.batch = usize::from(batch).clamp(1, MAX_BATCH);
                    self.use_rings(capacity, fds)?;
                }
                Ok((ZoneRequest::Alert { limit, numbers }, _)) => {
                    // More alerts than limits can wait only while no kernel runs.
                    if self.alerts.len() == MAX_ALERTS {
                        self.alerts.drop_oldest(1);
                    }
                    let (head, body) = Alert::to_record(limit, numbers);
                    self.alerts.push(&head.words(), &body);
                }
                Ok((ZoneRequest::LogLevel { level }, _)) => self.app.host().log_level = level,
                Ok((ZoneRequest::Watch, fds)) => self.record_calls(fds)?,
                Ok((ZoneRequest::Service { name }, fds)) => {
                    let mut fds = fds.into_iter();
                    let socket = fds.next();
                    let socket = socket.ok_or(ZoneError::OutOfOrder("Service without a socket"))?;
                    self.app.host().services.connect(&name, socket, fds.next().as_ref());
                }
                Ok((ZoneRequest::Client(client), fds)) => {
                    let socket = fds.into_iter().next();
                    let socket = socket.ok_or(ZoneError::OutOfOrder("Client without a socket"))?;
                    self.app.host().server.connect(client, socket);
                }
                Ok((ZoneRequest::Load { .. } | ZoneRequest::Try { .. }, _)) => {
                    return Err(ZoneError::OutOfOrder("Load twice"));
                }
                Err(ChannelError::WouldBlock) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Starts to record the app's calls in the monitor's flight recorder.
    fn record_calls(&mut self, fds: Vec<OwnedFd>) -> Result<(), ZoneError> {
        let fd = fds.into_iter().next().ok_or(ZoneError::OutOfOrder("Watch without its memory"))?;
        let recorder = FlightRecorder::map(&fd).map_err(ZoneError::Watch)?;
        self.app.host().flight_slot = Some(recorder.slot(0));
        Ok(())
    }

    /// Starts to use the rings of a new kernel. They begin with a snapshot, by which the app forgets its earlier state.
    pub(super) fn use_rings(&mut self, capacity: u32, fds: Vec<OwnedFd>) -> Result<(), ZoneError> {
        // The earlier kernel, if there was one, answers no more.
        self.app.host().pending.lose(&mut self.lost);
        // Unmaps the old rings first: the limit of address space has room for one kernel's rings.
        self.rings.clear();
        self.app.host().messages.clear();
        let mut fds = fds.into_iter();
        self.up_bell = fds.next().map(Doorbell::from_fd);
        let (mut rings, mut writers) = (Vec::new(), Vec::new());
        while let Some(up) = fds.next() {
            let (Some(down), Some(down_bell)) = (fds.next(), fds.next()) else {
                return Err(ZoneError::OutOfOrder("Rings without all their descriptors"));
            };
            let ZoneEnd { records, messages } =
                ZoneEnd::map(&RingFds { up, down }, capacity).map_err(ZoneError::Rings)?;
            let down_bell = DoorbellSender::from_fd(down_bell);
            rings.push(Ring { records, down_bell, unrung_ns: None, turn: Turn::Idle });
            writers.push(messages.into());
        }
        if rings.is_empty() {
            return Err(ZoneError::OutOfOrder("Rings without any"));
        }
        (self.rings, self.app.host().messages) = (rings, writers);
        (self.next, self.snapshot_of) = (0, Some(0));
        Ok(())
    }
}
