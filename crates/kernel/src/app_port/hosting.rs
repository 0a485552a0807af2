//! Tracks where an app runs, and writes its records there.

use sdk::abi::Words;
use sys::ring::Room;

use super::hosted::Hosted;
use super::rings::Rings;
use crate::hold_queue::Ticket;

/// Where the app runs.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are few, and rings are looked at for each packet"
)]
pub(super) enum Hosting {
    /// Nowhere: it does not run.
    Nowhere,
    /// In a zone.
    Zone(Rings),
    /// In the kernel's process.
    Kernel(Box<Hosted>),
}

impl Hosting {
    pub(super) fn zone(&self) -> Option<&Rings> {
        match self {
            Self::Zone(rings) => Some(rings),
            Self::Nowhere | Self::Kernel(_) => None,
        }
    }

    pub(super) fn zone_mut(&mut self) -> Option<&mut Rings> {
        match self {
            Self::Zone(rings) => Some(rings),
            Self::Nowhere | Self::Kernel(_) => None,
        }
    }

    pub(super) fn kernel(&self) -> Option<&Hosted> {
        match self {
            Self::Kernel(hosted) => Some(hosted),
            Self::Nowhere | Self::Zone(_) => None,
        }
    }

    pub(super) fn kernel_mut(&mut self) -> Option<&mut Hosted> {
        match self {
            Self::Kernel(hosted) => Some(hosted),
            Self::Nowhere | Self::Zone(_) => None,
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
            Self::Zone(rings) => rings.ring.push(head, body, room, ticket),
            Self::Kernel(hosted) => hosted.push(head, body, room, ticket),
        }
    }
}
