//! Delivers records to an app, by rings or by calls in this process.

use sdk::abi::Words;
use sys::ring::Room;

use super::hosted::Hosted;
use super::rings::Rings;
use crate::hold_queue::Ticket;

/// How records reach the app.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are few, and rings are looked at for each packet"
)]
pub(super) enum Delivery {
    /// Not at all: the app does not run.
    Nowhere,
    /// By the rings that this worker shares with the process of the app, whatever its hosting runs there.
    Rings(Rings),
    /// By calls of the app, which runs in this process.
    Calls(Box<Hosted>),
}

impl Delivery {
    pub(super) fn rings(&self) -> Option<&Rings> {
        match self {
            Self::Rings(rings) => Some(rings),
            Self::Nowhere | Self::Calls(_) => None,
        }
    }

    pub(super) fn rings_mut(&mut self) -> Option<&mut Rings> {
        match self {
            Self::Rings(rings) => Some(rings),
            Self::Nowhere | Self::Calls(_) => None,
        }
    }

    pub(super) fn hosted(&self) -> Option<&Hosted> {
        match self {
            Self::Calls(hosted) => Some(hosted),
            Self::Nowhere | Self::Rings(_) => None,
        }
    }

    pub(super) fn hosted_mut(&mut self) -> Option<&mut Hosted> {
        match self {
            Self::Calls(hosted) => Some(hosted),
            Self::Nowhere | Self::Rings(_) => None,
        }
    }

    /// Whether the app's only record is also the backlog's oldest: it is delivered alone and not handled yet.
    pub(super) fn is_in_flight(&self) -> bool {
        match self {
            Self::Nowhere => false,
            Self::Rings(rings) => rings.in_flight,
            Self::Calls(hosted) => hosted.in_flight,
        }
    }

    /// Notes whether the app's only record is also the backlog's oldest.
    pub(super) fn set_in_flight(&mut self, in_flight: bool) {
        match self {
            Self::Nowhere => {}
            Self::Rings(rings) => rings.in_flight = in_flight,
            Self::Calls(hosted) => hosted.in_flight = in_flight,
        }
    }

    /// Number of records that the app has not handled.
    pub(super) fn outstanding(&self) -> usize {
        match self {
            Self::Nowhere => 0,
            Self::Rings(rings) => rings.ring.outstanding() as usize,
            Self::Calls(hosted) => hosted.waiting(),
        }
    }

    /// Writes a record that needs no verdict; `false` if there is no room for it.
    pub(super) fn push(&mut self, head: &Words, body: &[u8], room: Room) -> bool {
        self.push_ticket(head, body, room, Ticket::NONE)
    }

    /// Writes a record; `false` if there is no room for it.
    #[inline]
    pub(super) fn push_ticket(
        &mut self,
        head: &Words,
        body: &[u8],
        room: Room,
        ticket: Ticket,
    ) -> bool {
        match self {
            Self::Nowhere => false,
            Self::Rings(rings) => rings.ring.push(head, body, room, ticket),
            Self::Calls(hosted) => hosted.push(head, body, room, ticket),
        }
    }
}
