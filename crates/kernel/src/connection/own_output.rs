//! Appends the kernel's own messages to the output of a switch. No quota concerns them. They pass the messages that wait in
//! queues, except for a table-miss entry that follows an app's delete: it goes where that delete goes, behind it.
//! `worker::sending` appends the messages of apps.

use dal::Session;
use openflow::EncodeError;

/// The output of a connection, for messages of the kernel.
#[derive(Debug)]
pub(crate) struct OwnOutput<'c> {
    session: &'c mut (dyn Session + 'static),
    out: &'c mut Vec<u8>,
}

/// A message that was appended.
#[derive(Debug)]
pub(crate) struct Sent<'c> {
    pub(crate) xid: u32,
    pub(crate) message: &'c [u8],
}

impl<'c> OwnOutput<'c> {
    pub(crate) fn new(session: &'c mut (dyn Session + 'static), out: &'c mut Vec<u8>) -> Self {
        Self { session, out }
    }

    /// Appends a message, which `encode` writes with a new transaction id.
    ///
    /// # Errors
    /// The version of the switch does not have the message. Nothing is appended.
    pub(crate) fn send(
        &mut self,
        encode: impl Fn(u32, &mut [u8]) -> Result<usize, EncodeError>,
    ) -> Result<Sent<'_>, EncodeError> {
        let (xid, start) = (self.session.xid(), self.out.len());
        openflow::append(self.out, |out| encode(xid, out))?;
        Ok(Sent { xid, message: &self.out[start..] })
    }

    /// Removes the last message, of `size` bytes.
    pub(crate) fn withdraw(&mut self, size: usize) {
        self.out.truncate(self.out.len() - size);
    }

    /// See [`Session::monitor_flows`].
    pub(crate) fn monitor_flows(&mut self) {
        self.session.monitor_flows(self.out);
    }

    /// See [`Session::configure`].
    pub(crate) fn configure(&mut self) -> u32 {
        self.session.configure(self.out)
    }
}
