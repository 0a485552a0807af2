//! A flow-mod of which many alike are sent.

use std::sync::atomic::{AtomicU64, Ordering};

use openflow::{Blanks, EncodeError, FlowMod, FlowModTemplate, Version};

use crate::network::SendError;
use crate::own::Own;

/// A flow-mod made ahead for switches of every version; see
/// [`Network::template`](crate::Network::template).
#[derive(Debug, Clone)]
pub struct Template {
    /// No other's, but those that were made of this one.
    id: u64,
    v1_0: Result<FlowModTemplate, EncodeError>,
    v1_3: Result<FlowModTemplate, EncodeError>,
}

impl Template {
    /// Bytes for which there must be room.
    pub(crate) const ROOM: usize = 128;

    /// Of a flow-mod whose priority and group are the application's own.
    pub(crate) fn new(flow_mod: &FlowMod<'_>, own: Own) -> Result<Self, SendError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut flow_mod = flow_mod.clone().priority(own.priority(flow_mod.priority)?);
        flow_mod.out_group = own.group(flow_mod.out_group)?;
        Ok(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            v1_0: FlowModTemplate::new(&flow_mod, Version::V1_0),
            v1_3: FlowModTemplate::new(&flow_mod, Version::V1_3),
        })
    }

    /// By which it is told from others.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// For a switch of this version.
    #[inline]
    pub(crate) fn of(&self, version: Version) -> Result<&FlowModTemplate, EncodeError> {
        let template = match version {
            Version::V1_0 => &self.v1_0,
            Version::V1_3 => &self.v1_3,
        };
        template.as_ref().map_err(Clone::clone)
    }
}

/// A flow for a pair of hosts, and the packet that asked for it, which came whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowAndPacket<'p> {
    /// What is filled into the template.
    pub flow: Blanks,
    /// The packet, from its Ethernet header on, which goes out behind the flow-mod by the flow's output; none goes if it
    /// is empty, as where the switch has kept it in the flow's buffer.
    pub packet: &'p [u8],
}
