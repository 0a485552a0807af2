//! Answers multipart requests of OpenFlow 1.3.5 §7.3.5 from the device.
//!
//! The database has no counters of flows and ports. A counter that is not available has its highest value (OpenFlow 1.3.5 §5.8).

use std::collections::BTreeMap;
use std::time::Instant;

use openflow::{
    Action, AggregateStats, DescText, EncodeError, FlowStats, Instructions, MultipartReply,
    MultipartRequest, PortDesc, PortNo, PortStats, ReplyBody, TableStats, Text,
};

use super::OF;
use super::device::{Device, Entry};
use super::refusal::Refusal;
use super::rule::Key;
use super::selection::Selection;

/// A counter that the device does not have.
const UNKNOWN: u64 = u64::MAX;

/// Most bytes of the items of a message, below the 64 KiB of a whole one.
const MOST_BYTES: usize = 60_000;

/// Bytes of a flow without its outputs, of an output, of a port, and of a port's counters: as much or more.
const FLOW: usize = 128;
const OUTPUT: usize = 16;
const PORT: usize = 64;
const COUNTERS: usize = 112;

/// The facts behind the answers.
pub(super) struct Facts<'d> {
    pub(super) device: &'d Device,
    /// When the session saw each flow first.
    pub(super) since: &'d BTreeMap<Key, Instant>,
    pub(super) now: Instant,
}

impl Facts<'_> {
    /// Returns the messages that answer a request.
    ///
    /// # Errors
    /// [`Refusal`]: the device has nothing of the kind.
    pub(super) fn answer(&self, xid: u32, request: &[u8]) -> Result<Vec<Vec<u8>>, Refusal> {
        let request = MultipartRequest::decode(request)
            .map_err(|error| Refusal::Malformed(error.to_string()))?;
        let parts = match request {
            MultipartRequest::Desc => one(ReplyBody::Desc(Box::new(self.description())), xid),
            MultipartRequest::Flow(request) => self.flows(&Selection::of_request(&request), xid),
            MultipartRequest::Aggregate(request) => {
                let selection = Selection::of_request(&request);
                let flows = self.covered(&selection).count();
                let flow_count = u32::try_from(flows).unwrap_or(u32::MAX);
                let (packet_count, byte_count) = (UNKNOWN, UNKNOWN);
                one(
                    ReplyBody::Aggregate(AggregateStats { packet_count, byte_count, flow_count }),
                    xid,
                )
            }
            MultipartRequest::Table => one(ReplyBody::Table(vec![self.table()]), xid),
            MultipartRequest::PortStats(port) => {
                let counters: Vec<PortStats> = self.ports(port).map(counters).collect();
                split(counters, |_| COUNTERS, ReplyBody::PortStats, xid)
            }
            MultipartRequest::PortDesc => {
                split(self.ports(PortNo::ANY).collect(), |_| PORT, ReplyBody::PortDesc, xid)
            }
            MultipartRequest::Group(_)
            | MultipartRequest::GroupDesc
            | MultipartRequest::GroupFeatures => return Err(Refusal::Kind("groups".into())),
            MultipartRequest::Meter(_)
            | MultipartRequest::MeterConfig(_)
            | MultipartRequest::MeterFeatures => return Err(Refusal::Kind("meters".into())),
            MultipartRequest::Queue { .. } => return Err(Refusal::Kind("queues".into())),
            _ => return Err(Refusal::Kind("requests of this kind".into())),
        };
        parts.map_err(|error| Refusal::Malformed(error.to_string()))
    }

    fn description(&self) -> DescText {
        let Device { name, description, .. } = self.device;
        DescText {
            mfr_desc: Text::default(),
            hw_desc: Text::new(description),
            sw_desc: Text::new("OVSDB hardware_vtep"),
            serial_num: Text::default(),
            dp_desc: Text::new(name),
        }
    }

    fn covered(&self, selection: &Selection) -> impl Iterator<Item = &Entry> {
        self.device.entries.values().filter(move |entry| selection.covers(entry))
    }

    fn table(&self) -> TableStats {
        TableStats {
            table_id: 0,
            name: None,
            wildcards: 0,
            max_entries: 0,
            active_count: u32::try_from(self.device.entries.len()).unwrap_or(u32::MAX),
            lookup_count: UNKNOWN,
            matched_count: UNKNOWN,
        }
    }

    fn ports(&self, port: PortNo) -> impl Iterator<Item = PortDesc> {
        let ports = self.device.ports.values().copied();
        ports.filter(move |desc| port == PortNo::ANY || desc.port_no == port)
    }

    fn flows(&self, selection: &Selection, xid: u32) -> Result<Vec<Vec<u8>>, EncodeError> {
        let covered: Vec<(&Entry, Vec<Action>)> =
            self.covered(selection).map(|entry| (entry, entry.rule.actions())).collect();
        let flows = covered.iter().map(|(entry, actions)| {
            let (listed, key) = (entry.listed(), entry.rule.key());
            let since = self.since.get(&key).copied().unwrap_or(self.now);
            FlowStats {
                table_id: 0,
                duration: self.now.saturating_duration_since(since),
                priority: listed.priority,
                idle_timeout: 0,
                hard_timeout: 0,
                flags: listed.flags,
                importance: 0,
                cookie: listed.cookie,
                packet_count: UNKNOWN,
                byte_count: UNKNOWN,
                match_: key.to_match(),
                instructions: Instructions {
                    apply: actions.as_slice().into(),
                    ..Instructions::default()
                },
            }
        });
        let size = |flow: &FlowStats<'_>| FLOW + OUTPUT * flow.instructions.apply.iter().count();
        split(flows.collect(), size, ReplyBody::Flow, xid)
    }
}

fn counters(port: PortDesc) -> PortStats {
    PortStats {
        port_no: port.port_no,
        rx_packets: UNKNOWN,
        tx_packets: UNKNOWN,
        rx_bytes: UNKNOWN,
        tx_bytes: UNKNOWN,
        rx_dropped: UNKNOWN,
        tx_dropped: UNKNOWN,
        rx_errors: UNKNOWN,
        tx_errors: UNKNOWN,
        rx_frame_err: UNKNOWN,
        rx_over_err: UNKNOWN,
        rx_crc_err: UNKNOWN,
        collisions: UNKNOWN,
        duration: None,
    }
}

fn one(body: ReplyBody<'_>, xid: u32) -> Result<Vec<Vec<u8>>, EncodeError> {
    Ok(vec![part(body, false, xid)?])
}

fn part(body: ReplyBody<'_>, more: bool, xid: u32) -> Result<Vec<u8>, EncodeError> {
    let reply = MultipartReply { more, body };
    let mut message = Vec::new();
    openflow::append(&mut message, |out| reply.encode(OF, xid, out))?;
    Ok(message)
}

/// Divides items over messages; there is at least one message.
fn split<'a, T>(
    items: Vec<T>,
    size: impl Fn(&T) -> usize,
    body: impl Fn(Vec<T>) -> ReplyBody<'a>,
    xid: u32,
) -> Result<Vec<Vec<u8>>, EncodeError> {
    let (mut parts, mut next, mut used) = (Vec::new(), Vec::new(), 0);
    for item in items {
        let size = size(&item);
        if used + size > MOST_BYTES && !next.is_empty() {
            parts.push(part(body(std::mem::take(&mut next)), true, xid)?);
            used = 0;
        }
        used += size;
        next.push(item);
    }
    parts.push(part(body(next), false, xid)?);
    Ok(parts)
}
