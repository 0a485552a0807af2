//! Defines [`Template`], a flow-mod that many flow-mods for pairs of hosts are made from.

use std::sync::atomic::{AtomicU64, Ordering};

use openflow::{EncodeError, FlowMod, FlowModTemplate, Version};

use crate::network::SendError;
use crate::own::Own;

/// A flow-mod encoded in advance for switches of every version; made by
/// [`Network::template`](crate::Network::template).
#[derive(Debug, Clone)]
pub struct Template {
    /// Unique, except that clones share it.
    id: u64,
    /// In the order of [`Version::ALL`].
    by_version: [Result<FlowModTemplate, EncodeError>; Version::COUNT],
}

impl Template {
    /// Makes a template of a flow-mod whose priority and group count from 0.
    pub(crate) fn new(flow_mod: &FlowMod<'_>, own: Own) -> Result<Self, SendError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut flow_mod = flow_mod.clone().priority(own.priority(flow_mod.priority)?);
        flow_mod.out_group = own.group(flow_mod.out_group)?;
        Ok(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            by_version: Version::each(|version| FlowModTemplate::new(&flow_mod, version)),
        })
    }

    /// Returns the number that identifies this template.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the template for switches of this version.
    #[inline]
    pub(crate) fn of(&self, version: Version) -> Result<&FlowModTemplate, EncodeError> {
        self.by_version[version.index()].as_ref().map_err(Clone::clone)
    }
}
