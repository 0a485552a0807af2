//! The control socket of a program: requests to it, and its messages.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sys::channel::{Channel, ChannelError};
use tracing::warn;

use super::Program;
use crate::text::shortened;

impl Program {
    /// Sends it `request`. A process whose control socket is full is killed, since it does not read it.
    pub(crate) fn send<T: Serialize>(&mut self, request: &T, fds: &[BorrowedFd<'_>]) {
        match self.try_send(request, fds) {
            // A closed socket means that the process ends; its pidfd reports that.
            Ok(()) | Err(ChannelError::Closed) => {}
            Err(ChannelError::WouldBlock) => self.kill("it did not read its control socket"),
            Err(error) => self.kill(&error.to_string()),
        }
    }

    /// Sends it `request`, and leaves it alone if it does not read.
    ///
    /// # Errors
    /// The request could not be sent.
    pub(crate) fn try_send<T: Serialize>(
        &self,
        request: &T,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let control = self.process.as_ref().and_then(|process| process.control.as_ref());
        control.ok_or(ChannelError::Closed)?.send(request, fds)
    }

    /// Sends it `request` on behalf of an operator.
    ///
    /// The request is refused unless most of the control socket is free, so operators cannot crowd out the monitor's own
    /// requests.
    ///
    /// # Errors
    /// The request could not be sent.
    pub(crate) fn send_for_operator<T: Serialize>(
        &self,
        request: &T,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let control = self.process.as_ref().and_then(|process| process.control.as_ref());
        if control.is_some_and(Channel::is_crowded) {
            return Err(ChannelError::WouldBlock);
        }
        self.try_send(request, fds)
    }

    /// Receives its next message; `None` if none is there. A malformed message gets the process killed.
    ///
    /// The message's descriptors are missing if the monitor can open no more.
    pub(crate) fn receive<T: DeserializeOwned>(
        &mut self,
        now: Instant,
    ) -> Option<(T, Vec<OwnedFd>)> {
        let process = self.process.as_mut()?;
        match process.control.as_ref()?.receive_immediate() {
            Ok(message) => return Some(message),
            Err(ChannelError::WouldBlock) => {}
            Err(ChannelError::OutOfDescriptors(message)) => match message.read() {
                Ok(message) => {
                    warn!(program = self.name, "received a message without its descriptors");
                    return Some((message, Vec::new()));
                }
                Err(error) => self.kill(&shortened(&error.to_string(), 200)),
            },
            Err(ChannelError::Closed) => {
                // A closed socket stays readable: polled further, it would keep the loop awake.
                process.control = None;
                self.lifecycle.ending(now);
            }
            Err(error) => self.kill(&shortened(&error.to_string(), 200)),
        }
        None
    }
}
