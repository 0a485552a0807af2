//! The provider's side of a service with a table: publishes records, and answers requests of clients.
//!
//! An application whose name is that of a service with a table *provides* the service. It writes records with
//! [`Network::publish`]; the host passes the table and its changes to the clients. [`Event::Client`](crate::Event::Client)
//! are requests that the table does not answer.

use crate::abi::Level;
use crate::network::Network;
use crate::services::table::Slot;
use thiserror::Error;

/// A client of the service that this application provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// A request of a client, which [`Network::answer`] answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientRequest {
    /// The client.
    pub client: ClientId,
    /// The number that the client gave it.
    pub id: u64,
}

/// Something that a client did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientEvent<'a> {
    /// It has connected.
    Connected {
        /// The client.
        client: ClientId,
        /// The number of its application; 0 for an operator.
        app: u16,
        /// The name of the application, or of the operator.
        name: &'a str,
        /// Its capabilities that concern this service, separated by spaces; `operator` for an operator.
        rights: &'a str,
    },
    /// It sent a request.
    Request {
        /// The request, for the answer.
        request: ClientRequest,
        /// The number of its application; 0 for an operator.
        app: u16,
        /// The content, at most [`MAX_MESSAGE`](crate::services::MAX_MESSAGE) bytes.
        body: &'a [u8],
    },
    /// It has disconnected: it gets no more answers.
    Disconnected(ClientId),
}

/// The kind of a record about a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ClientNews {
    /// See [`ClientEvent::Connected`].
    Connected = 0,
    /// See [`ClientEvent::Request`].
    Request = 1,
    /// See [`ClientEvent::Disconnected`].
    Disconnected = 2,
}

impl ClientNews {
    /// Returns the kind with this number in a record.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Connected, Self::Request, Self::Disconnected]
            .into_iter()
            .find(|it| *it as u8 == number)
    }
}

impl<'a> ClientEvent<'a> {
    /// Encodes the body of a record about a new client.
    pub fn connected_body(name: &str, rights: &str) -> Vec<u8> {
        let name = &name.as_bytes()[..name.len().min(usize::from(u8::MAX))];
        let size = u8::try_from(name.len()).unwrap_or(u8::MAX);
        [&[size][..], name, rights.as_bytes()].concat()
    }

    /// Decodes a record.
    pub(crate) fn of((kind, client, app, id): (u8, u64, u32, u64), body: &'a [u8]) -> Option<Self> {
        let (client, app) = (ClientId(client), u16::try_from(app).ok()?);
        Some(match ClientNews::from_number(kind)? {
            ClientNews::Connected => {
                let (size, rest) = body.split_first()?;
                let (name, rights) = rest.split_at_checked(usize::from(*size))?;
                let text = |bytes| std::str::from_utf8(bytes).ok();
                Self::Connected { client, app, name: text(name)?, rights: text(rights)? }
            }
            ClientNews::Request => {
                Self::Request { request: ClientRequest { client, id }, app, body }
            }
            ClientNews::Disconnected => Self::Disconnected(client),
        })
    }
}

/// Why a record was not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PublishError {
    /// The table has no such slot, or this application provides no service.
    #[error("there is no such slot in a table of this app")]
    NoSlot,
}

impl Network<'_> {
    /// Writes a record into the table that this application publishes. Readers see it at once; clients are notified when
    /// the batch is done. A record of zeroes empties the slot.
    ///
    /// # Errors
    /// [`PublishError`]; nothing was written.
    pub fn publish(&mut self, slot: u32, record: &Slot) -> Result<(), PublishError> {
        if self.host().publish(slot, record) { Ok(()) } else { Err(PublishError::NoSlot) }
    }

    /// Answers a request of a client; `more` announces a further answer to the same request. An answer to a client that has
    /// disconnected is discarded.
    ///
    /// # Panics
    /// If the answer is longer than [`MAX_MESSAGE`](crate::services::MAX_MESSAGE).
    pub fn answer(&mut self, request: ClientRequest, more: bool, body: &[u8]) {
        assert!(body.len() <= crate::services::MAX_MESSAGE, "an answer of at most MAX_MESSAGE");
        self.host().answer(request, more, body);
    }

    /// Writes an audit record about a change that a client with the right `operator` has requested: who, what, and the state before
    /// and after. At most 1024 bytes of it are kept.
    pub fn audit(&mut self, record: &str) {
        self.host().log(Level::Audit, record);
    }

    /// Records an incident that an operator should know of: what happened, and the evidence. The monitor accepts a few per
    /// minute of an application and counts the others.
    pub fn report_incident(&mut self, summary: &str, evidence: &str) {
        self.host().report_incident(summary, evidence);
    }

    /// States a problem that stops the application's work, as a phrase that says what to do; `None` ends it.
    ///
    /// It is an incident, and a reason for which `rosemary status` calls Rosemary degraded, until the application states `None` or
    /// ends. At most 1024 bytes of it are kept. In the kernel the text is only logged.
    pub fn set_problem(&mut self, problem: Option<&str>) {
        self.host().set_problem(problem.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_events_are_decoded() {
        let body = ClientEvent::connected_body("forwarding", "topology.read topology.drain");
        let event = ClientEvent::of((0, 9, 3, 0), &body).unwrap();
        let rights = "topology.read topology.drain";
        let (client, name) = (ClientId(9), "forwarding");
        assert_eq!(event, ClientEvent::Connected { client, app: 3, name, rights });
        let request = ClientRequest { client, id: 4 };
        let event = ClientEvent::of((1, 9, 0, 4), b"x").unwrap();
        assert_eq!(event, ClientEvent::Request { request, app: 0, body: b"x" });
        assert_eq!(ClientEvent::of((2, 9, 0, 0), &[]), Some(ClientEvent::Disconnected(client)));
    }

    #[test]
    fn malformed_records_are_ignored() {
        assert_eq!(ClientEvent::of((0, 9, 3, 0), &[]), None);
        assert_eq!(ClientEvent::of((0, 9, 3, 0), &[2, b'a']), None);
        assert_eq!(ClientEvent::of((0, 9, 3, 0), &[1, 0xff]), None);
        assert_eq!(ClientEvent::of((0, 9, 70_000, 0), &[0]), None);
        assert_eq!(ClientEvent::of((7, 9, 3, 0), &[0]), None);
    }
}
