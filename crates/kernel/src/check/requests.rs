//! Decides which requests an application may send to a switch, and which changes beside flows, groups and packets.
//!
//! An app sees the statistics of its own flows, groups and meters, and with `flow.read` those of all. An app that may
//! neither write nor read them would see nothing, so its request is refused. Requests are narrowed here as far as the
//! version allows; entries of others are removed from the replies ([`rewrite`](crate::rewrite)). OpenFlow 1.0 cannot
//! narrow a sum, so there an aggregate takes `flow.read`.

use std::fmt;

use control::policy::TableSet;
use openflow::{
    Experimenter, FlowStatsRequest, GroupMod, Header, Kind, MeterBand, MeterMod, MeterModCommand,
    MultipartRequest, PortMod, QueueConfig, TableMod, Version,
};
use sdk::Refusal;

use super::past_checks::Needs;
use super::{Allowed, Checked, Mark, OWN_BITS, Rights, allow, past_checks};

/// The kind of a message. Of a request: the kind of reply that it is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expects {
    pub(crate) kind: Kind,
    /// The type of a multipart message, else 0.
    pub(crate) what: u16,
}

/// Names of multipart types, at the place of their numbers (OpenFlow 1.5.1 §7.3.5).
const MULTIPART: [&str; 20] = [
    "description",
    "flows",
    "aggregate",
    "tables",
    "ports",
    "queues",
    "groups",
    "group descriptions",
    "group features",
    "meters",
    "meter configuration",
    "meter features",
    "table features",
    "port descriptions",
    "table descriptions",
    "queue descriptions",
    "flow monitor",
    "flow counters",
    "controller status",
    "bundle features",
];

/// `multipart_reply of type 1 (flows)`, or `barrier_reply`.
impl fmt::Display for Expects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, what } = self;
        if !matches!(kind, Kind::MultipartReply | Kind::MultipartRequest) {
            return kind.fmt(f);
        }
        match MULTIPART.get(usize::from(*what)) {
            Some(name) => write!(f, "{kind} of type {what} ({name})"),
            None => write!(f, "{kind} of type {what}"),
        }
    }
}

impl Expects {
    pub(crate) fn only(kind: Kind) -> Self {
        Self { kind, what: 0 }
    }

    /// The kind of a message, for the log; `None` if it is not one of OpenFlow.
    pub(crate) fn of(message: &[u8]) -> Option<Self> {
        let version = Version::from_wire(*message.first()?).ok()?;
        let kind = Kind::from_wire(version, *message.get(1)?).ok()?;
        let is_multipart = matches!(kind, Kind::MultipartReply | Kind::MultipartRequest);
        let what = Self::multipart(message).filter(|_| is_multipart).map_or(0, |it| it.what);
        Some(Self { kind, what })
    }

    /// A multipart reply of the type that a whole multipart message has.
    pub(crate) fn multipart(message: &[u8]) -> Option<Self> {
        let what = message.get(Header::SIZE..)?.first_chunk()?;
        Some(Self { kind: Kind::MultipartReply, what: u16::from_be_bytes(*what) })
    }
}

impl Rights {
    /// A barrier has no effect on others: an app that may change a switch may ask whether the change is done.
    pub(super) fn barrier(&self, message: &[u8]) -> Result<Allowed, Refusal> {
        allow(message.len() == Header::SIZE, Refusal::Shape)?;
        let writes = self.packet_out
            || !self.flow_write.is_empty()
            || self.group_write
            || self.meter_write
            || self.switch_config
            || !self.experimenters.is_empty();
        allow(writes, Refusal::Capability)?;
        Ok(Allowed::Request(Expects::only(Kind::BarrierReply)))
    }

    pub(super) fn get_config(&self, message: &[u8]) -> Result<Allowed, Refusal> {
        allow(message.len() == Header::SIZE, Refusal::Shape)?;
        allow(self.stats_read, Refusal::Capability)?;
        Ok(Allowed::Request(Expects::only(Kind::GetConfigReply)))
    }

    pub(super) fn queue_config(&self, message: &[u8]) -> Result<Allowed, Refusal> {
        QueueConfig::decode_request(message).map_err(|_| Refusal::Shape)?;
        allow(self.stats_read, Refusal::Capability)?;
        Ok(Allowed::Request(Expects::only(Kind::QueueGetConfigReply)))
    }

    pub(super) fn multipart(&self, version: Version, message: &[u8]) -> Result<Checked, Refusal> {
        let expects = Expects::multipart(message).ok_or(Refusal::Shape)?;
        let request = MultipartRequest::decode(message).map_err(|_| Refusal::Shape)?;
        allow(self.stats_read, Refusal::Capability)?;
        let mark = match request {
            MultipartRequest::Desc
            | MultipartRequest::Table
            | MultipartRequest::PortStats(_)
            | MultipartRequest::Queue { .. }
            | MultipartRequest::GroupFeatures
            | MultipartRequest::MeterFeatures
            | MultipartRequest::PortDesc
            | MultipartRequest::OnePortDesc(_)
            | MultipartRequest::TableDesc
            | MultipartRequest::QueueDesc { .. } => Mark::None,
            // With tables in it, the request changes them.
            MultipartRequest::TableFeatures(tables) => {
                allow(tables.is_empty(), Refusal::Kind)?;
                Mark::None
            }
            MultipartRequest::Flow(flows) => {
                let (reads, writes) = (self.flow_read, self.flow_write);
                let sees_some = reads.meets(flows.table_id) || writes.meets(flows.table_id);
                allow(sees_some, Refusal::Capability)?;
                // Flows of tables that it may not read are removed from the reply.
                narrowed(version, &flows, reads.meets(flows.table_id))?
            }
            MultipartRequest::Aggregate(flows) => {
                let reads_all = self.flow_read.has(flows.table_id);
                let narrows = version.features().cookie_masks;
                let has_own = narrows && self.flow_write.meets(flows.table_id);
                allow(reads_all || has_own, Refusal::Capability)?;
                narrowed(version, &flows, reads_all)?
            }
            MultipartRequest::GroupDesc => {
                allow(self.reads_others() || self.group_write, Refusal::Capability)?;
                Mark::None
            }
            MultipartRequest::Group(group) | MultipartRequest::OneGroupDesc(group) => {
                allow(self.reads_others() || self.group_write, Refusal::Capability)?;
                if group != GroupMod::ALL_GROUPS && !self.reads_others() {
                    self.group(group)?;
                }
                Mark::None
            }
            MultipartRequest::Meter(meter) | MultipartRequest::MeterConfig(meter) => {
                allow(self.reads_others() || self.meter_write, Refusal::Capability)?;
                if meter != MeterMod::ALL_METERS && !self.reads_others() {
                    self.meter(meter)?;
                }
                Mark::None
            }
            MultipartRequest::Experimenter { experimenter, data } => {
                allow(self.experimenters.contains(&experimenter), Refusal::Capability)?;
                self.has_needs(past_checks::of_statistics(version, experimenter, data))?;
                Mark::None
            }
            _ => return Err(Refusal::Kind),
        };
        Ok(Checked { mark, ..Checked::only(version, Allowed::Request(expects)) })
    }

    /// Whether it may see groups and meters of others.
    pub(crate) fn reads_others(&self) -> bool {
        self.flow_read.has(TableSet::ALL)
    }

    pub(super) fn meter_mod(&self, message: &[u8]) -> Result<Allowed, Refusal> {
        let meter_mod = MeterMod::decode(message).map_err(|_| Refusal::Shape)?;
        allow(self.meter_write, Refusal::Capability)?;
        self.meter(meter_mod.meter_id)?;
        for band in &meter_mod.bands {
            let may = match band {
                MeterBand::Drop { .. } | MeterBand::DscpRemark { .. } => true,
                MeterBand::Experimenter { experimenter, .. } => {
                    self.experimenters.contains(experimenter)
                }
                _ => false,
            };
            allow(may, Refusal::Action)?;
        }
        Ok(Allowed::MeterMod { deletes: meter_mod.command == MeterModCommand::Delete })
    }

    pub(super) fn port_mod(&self, message: &[u8]) -> Result<Allowed, Refusal> {
        PortMod::decode(message).map_err(|_| Refusal::Shape)?;
        allow(self.switch_config, Refusal::Capability)?;
        Ok(Allowed::Config)
    }

    pub(super) fn table_mod(&self, message: &[u8]) -> Result<Allowed, Refusal> {
        TableMod::decode(message).map_err(|_| Refusal::Shape)?;
        allow(self.switch_config, Refusal::Capability)?;
        Ok(Allowed::Config)
    }

    pub(super) fn experimenter(
        &self,
        version: Version,
        message: &[u8],
    ) -> Result<Allowed, Refusal> {
        let Experimenter { experimenter, data } =
            Experimenter::decode(message).map_err(|_| Refusal::Shape)?;
        allow(self.experimenters.contains(&experimenter), Refusal::Capability)?;
        self.has_needs(past_checks::of_message(version, experimenter, data))?;
        Ok(Allowed::Experimenter)
    }

    /// Whether the app has what an experimenter's message needs beside its grant.
    fn has_needs(&self, needs: Needs) -> Result<(), Refusal> {
        match needs {
            Needs::Nothing => Ok(()),
            Needs::SwitchConfig => allow(self.switch_config, Refusal::Capability),
            Needs::FlowRead => allow(self.reads_others(), Refusal::Capability),
            Needs::Refused => Err(Refusal::Kind),
        }
    }

    /// Whether a meter is the app's own.
    pub(super) fn meter(&self, meter_id: u32) -> Result<(), Refusal> {
        allow(self.app.meters().contains(&meter_id), Refusal::Id)
    }
}

/// Narrows a request to the app's own flows, unless it may read others' too.
fn narrowed(
    version: Version,
    flows: &FlowStatsRequest,
    reads_others: bool,
) -> Result<Mark, Refusal> {
    allow((flows.cookie | flows.cookie_mask) & !OWN_BITS == 0, Refusal::Cookie)?;
    // With `flow.read` too, a cookie that the app names is one of its own.
    let all = reads_others && flows.cookie_mask == 0;
    Ok(match version.layout().flow_request_cookie {
        Some(at) if !all => Mark::CookieAndMask { at },
        _ => Mark::None,
    })
}
