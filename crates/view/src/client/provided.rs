//! Reads the table of a service that an app provides, and sends it requests, over a connection that the monitor made.

use std::os::fd::OwnedFd;
use std::time::Instant;

use sdk::services::table::{Slot, Table};
use sdk::services::{ANSWER_HEAD, MAX_MESSAGE, REQUEST_OF_APP, Service};
use sys::channel::ChannelError;
use sys::packets::{PacketError, Packets};
use sys::table::TableReader;

use super::{ClientError, REPLY_TIMEOUT, wait};

/// A connection to a service that an app provides.
#[derive(Debug)]
pub struct Provided {
    service: Service,
    socket: Packets,
    table: TableReader,
}

impl Provided {
    pub(super) fn new(service: Service, fds: Vec<OwnedFd>) -> Result<Self, ClientError> {
        let unexpected = || ClientError::Unexpected { peer: "the monitor" };
        let [socket, table] = <[OwnedFd; 2]>::try_from(fds).map_err(|_| unexpected())?;
        let slots = service.table_slots().ok_or_else(unexpected)?;
        let table = TableReader::map(&table, slots).map_err(|_| unexpected())?;
        Ok(Self { service, socket: Packets::from_fd(socket), table })
    }

    /// Returns whether the app that provides the service still runs. Discards its notices of changes.
    pub fn is_open(&self) -> bool {
        let mut room = vec![0; ANSWER_HEAD + MAX_MESSAGE];
        loop {
            match self.socket.receive(&mut room) {
                Ok(_) => {}
                Err(PacketError::WouldBlock) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Sends a request to the app that provides the service, and returns its first answer.
    ///
    /// # Errors
    /// The app does not answer.
    pub fn request(&self, body: &[u8]) -> Result<Vec<u8>, ClientError> {
        let mut first = None;
        self.request_all(body, |answer| {
            first.get_or_insert_with(|| answer.to_vec());
            false
        })?;
        first.ok_or(ClientError::Unexpected { peer: self.service.name() })
    }

    /// Sends a request to the app that provides the service, and passes each answer to `next`, until it is the last one or `next`
    /// returns `false`.
    ///
    /// # Errors
    /// The app does not answer.
    pub fn request_all(
        &self,
        body: &[u8],
        mut next: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), ClientError> {
        let peer = self.service.name();
        let no_reply = |error| {
            let source = match error {
                PacketError::System(error) => ChannelError::System(error),
                PacketError::TooLong => ChannelError::Malformed("it is too long".into()),
                PacketError::Closed | PacketError::WouldBlock => ChannelError::Closed,
            };
            ClientError::NoReply { peer, source }
        };
        let packet = [&1_u64.to_le_bytes()[..], &[REQUEST_OF_APP], body].concat();
        self.socket.send(&packet).map_err(no_reply)?;
        let deadline = Instant::now() + REPLY_TIMEOUT;
        let mut room = vec![0; ANSWER_HEAD + MAX_MESSAGE];
        loop {
            match self.socket.receive(&mut room) {
                Ok((size, _)) => {
                    let more = room.get(ANSWER_HEAD - 1) == Some(&1);
                    let answer = room.get(ANSWER_HEAD..size);
                    let goes_on = next(answer.ok_or(ClientError::Unexpected { peer })?);
                    if !(more && goes_on) {
                        return Ok(());
                    }
                }
                Err(PacketError::WouldBlock) => wait(&self.socket, peer, REPLY_TIMEOUT, deadline)?,
                Err(error) => return Err(no_reply(error)),
            }
        }
    }
}

impl Table for Provided {
    fn slots(&self) -> u32 {
        self.table.slots()
    }

    fn version(&self) -> u64 {
        self.table.version()
    }

    fn read(&self, slot: u32) -> Slot {
        self.table.read(slot)
    }
}
