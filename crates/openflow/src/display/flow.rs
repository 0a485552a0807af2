//! Formats flow entries, their matches, instructions and actions, and packets.

use super::{Bits, Hex, Seconds, list};
use crate::oxm::OPENFLOW_BASIC;
use crate::v1_3::table::OxmId;
use crate::{
    Action, Actions, Bucket, CopiedField, Field, FlowMod, FlowModCommand, FlowModFlags,
    FlowRemoved, FlowRemovedReason, GroupKind, GroupMod, GroupModCommand, Instructions, MacAddr,
    MeterBand, MeterFlags, MeterMod, MeterModCommand, PacketIn, PacketInReason, PacketOut, PortNo,
    Reader,
};
use core::fmt;

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output { port: PortNo::CONTROLLER, max_len } => match *max_len {
                Self::NO_BUFFER => f.write_str("CONTROLLER"),
                max_len => write!(f, "CONTROLLER:{max_len}"),
            },
            Self::Output { port, .. } => write!(f, "output:{port}"),
            Self::Enqueue { port, queue_id } => write!(f, "enqueue:{port}:{queue_id}"),
            Self::SetField(field) => write!(f, "set_field:{field}"),
            Self::SetTpSrc(port) => write!(f, "mod_tp_src:{port}"),
            Self::SetTpDst(port) => write!(f, "mod_tp_dst:{port}"),
            Self::PushVlan(ethertype) => write!(f, "push_vlan:{ethertype:#06x}"),
            Self::PopVlan => f.write_str("pop_vlan"),
            Self::PushMpls(ethertype) => write!(f, "push_mpls:{ethertype:#06x}"),
            Self::PopMpls(ethertype) => write!(f, "pop_mpls:{ethertype:#06x}"),
            Self::PushPbb(ethertype) => write!(f, "push_pbb:{ethertype:#06x}"),
            Self::PopPbb => f.write_str("pop_pbb"),
            Self::SetQueue(queue_id) => write!(f, "set_queue:{queue_id}"),
            Self::Group(group_id) => write!(f, "group:{group_id}"),
            Self::SetNwTtl(ttl) => write!(f, "mod_nw_ttl:{ttl}"),
            Self::DecNwTtl => f.write_str("dec_ttl"),
            Self::SetMplsTtl(ttl) => write!(f, "set_mpls_ttl:{ttl}"),
            Self::DecMplsTtl => f.write_str("dec_mpls_ttl"),
            Self::CopyTtlOut => f.write_str("copy_ttl_out"),
            Self::CopyTtlIn => f.write_str("copy_ttl_in"),
            Self::CopyField { n_bits, from, to } => {
                write!(f, "copy_field:{n_bits} bits,{from}->{to}")
            }
            Self::Meter(meter_id) => write!(f, "meter:{}", MeterId(*meter_id)),
            Self::Nicira(action) => action.fmt(f),
            Self::Experimenter { experimenter, data } => {
                write!(f, "experimenter({experimenter:#x}:{})", Hex(data))
            }
            Self::Unknown { kind, body } => write!(f, "unknown({kind}:{})", Hex(body)),
        }
    }
}

/// `tcp_src[8..]`, or numbers for a field without a name: `oxm_0xffff_2[0..]`.
impl fmt::Display for CopiedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OxmId { class, field, .. } = self.field;
        match Field::name_of(field).filter(|_| class == OPENFLOW_BASIC) {
            Some(name) => f.write_str(name)?,
            None => write!(f, "oxm_{class:#06x}_{field}")?,
        }
        write!(f, "[{}..]", self.offset)
    }
}

impl fmt::Display for Actions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() { f.write_str("drop") } else { list(f, self.iter(), ",") }
    }
}

impl fmt::Display for Instructions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut item = |text: fmt::Arguments<'_>| {
            f.write_str(separator)?;
            separator = ",";
            f.write_fmt(text)
        };
        if let Some(meter) = self.meter {
            item(format_args!("meter:{meter}"))?;
        }
        if !self.apply.is_empty() {
            item(format_args!("{}", self.apply))?;
        }
        if self.clear {
            item(format_args!("clear_actions"))?;
        }
        if !self.write.is_empty() {
            item(format_args!("write_actions({})", self.write))?;
        }
        if let Some((metadata, mask)) = self.metadata {
            item(format_args!("write_metadata:{metadata:#x}/{mask:#x}"))?;
        }
        if let Some(table) = self.goto_table {
            item(format_args!("goto_table:{table}"))?;
        }
        if let Some(trigger) = self.stat_trigger {
            item(format_args!("stat_trigger(flags:{:#x},{})", trigger.flags, trigger.thresholds))?;
        }
        for other in self.others.iter() {
            item(format_args!("{other:?}"))?;
        }
        if separator.is_empty() { f.write_str("drop") } else { Ok(()) }
    }
}

impl fmt::Display for FlowModFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = &[
            (1 << 0, "send_flow_rem"),
            (1 << 1, "check_overlap"),
            (1 << 2, "reset_counts"),
            (1 << 3, "no_packet_counts"),
            (1 << 4, "no_byte_counts"),
            (1 << 15, "emergency"),
        ];
        Bits { bits: self.0.into(), names }.fmt(f)
    }
}

impl fmt::Display for FlowModCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Add => "ADD",
            Self::Modify => "MOD",
            Self::ModifyStrict => "MOD_STRICT",
            Self::Delete => "DEL",
            Self::DeleteStrict => "DEL_STRICT",
        })
    }
}

impl fmt::Display for FlowMod<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.command)?;
        match self.table_id {
            0 => {}
            Self::ALL_TABLES => f.write_str(" table:ALL")?,
            table => write!(f, " table:{table}")?,
        }
        write!(f, " priority={}", self.priority)?;
        if !self.match_.is_empty() {
            write!(f, ",{}", self.match_)?;
        }
        if self.cookie_mask != 0 {
            write!(f, " cookie:{:#x}/{:#x}", self.cookie, self.cookie_mask)?;
        } else if self.cookie != 0 {
            write!(f, " cookie:{:#x}", self.cookie)?;
        }
        if self.idle_timeout != 0 {
            write!(f, " idle:{}", self.idle_timeout)?;
        }
        if self.hard_timeout != 0 {
            write!(f, " hard:{}", self.hard_timeout)?;
        }
        if let Some(buffer_id) = self.buffer_id {
            write!(f, " buf:{buffer_id:#x}")?;
        }
        if self.out_port != PortNo::ANY {
            write!(f, " out_port:{}", self.out_port)?;
        }
        if self.out_group != Self::ANY_GROUP {
            write!(f, " out_group:{}", self.out_group)?;
        }
        if self.flags != FlowModFlags::default() {
            write!(f, " {}", self.flags)?;
        }
        if self.importance != 0 {
            write!(f, " importance:{}", self.importance)?;
        }
        write!(f, " actions={}", self.instructions)
    }
}

impl fmt::Display for FlowRemovedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::IdleTimeout => f.pad("idle"),
            Self::HardTimeout => f.pad("hard"),
            Self::Delete => f.pad("delete"),
            Self::GroupDelete => f.pad("group_delete"),
            Self::METER_DELETE => f.pad("meter_delete"),
            Self::EVICTION => f.pad("eviction"),
            Self::Other(other) => write!(f, "{other}"),
        }
    }
}

impl fmt::Display for FlowRemoved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "priority={}", self.priority)?;
        if !self.match_.is_empty() {
            write!(f, ",{}", self.match_)?;
        }
        write!(f, " reason={} table_id={}", self.reason, self.table_id)?;
        if self.cookie != 0 {
            write!(f, " cookie:{:#x}", self.cookie)?;
        }
        write!(f, " duration={}", Seconds(self.duration))?;
        if self.idle_timeout != 0 {
            write!(f, " idle={}", self.idle_timeout)?;
        }
        if self.hard_timeout != 0 {
            write!(f, " hard={}", self.hard_timeout)?;
        }
        write!(f, " pkts={} bytes={}", self.packet_count, self.byte_count)
    }
}

impl fmt::Display for PacketInReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoMatch => f.pad("no_match"),
            Self::Action => f.pad("action"),
            Self::InvalidTtl => f.pad("invalid_ttl"),
            Self::ACTION_SET => f.pad("action_set"),
            Self::GROUP => f.pad("group"),
            Self::PACKET_OUT => f.pad("packet_out"),
            Self::Other(other) => write!(f, "{other}"),
        }
    }
}

impl fmt::Display for PacketIn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.table_id != 0 {
            write!(f, "table_id={} ", self.table_id)?;
        }
        if self.cookie != Self::NO_COOKIE {
            write!(f, "cookie={:#x} ", self.cookie)?;
        }
        write!(f, "total_len={} in_port={}", self.total_len, self.in_port)?;
        for field in self.match_.fields().filter(|field| !matches!(field, Field::InPort(_))) {
            write!(f, " {field}")?;
        }
        write!(f, " (via {}) data_len={}", self.reason, self.data.len())?;
        match self.buffer_id {
            Some(buffer_id) => write!(f, " buffer={buffer_id:#010x}")?,
            None => f.write_str(" (unbuffered)")?,
        }
        ethernet(f, self.data)
    }
}

impl fmt::Display for PacketOut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in_port={}", self.in_port)?;
        for field in self.pipeline.fields().filter(|field| !matches!(field, Field::InPort(_))) {
            write!(f, " {field}")?;
        }
        write!(f, " actions={}", self.actions)?;
        if let Some(buffer_id) = self.buffer_id {
            return write!(f, " buffer={buffer_id:#010x}");
        }
        write!(f, " data_len={}", self.data.len())?;
        ethernet(f, self.data)
    }
}

/// Formats the Ethernet header of a packet, if it is complete.
fn ethernet(f: &mut fmt::Formatter<'_>, packet: &[u8]) -> fmt::Result {
    let mut packet = Reader::new(packet, 0);
    let header = (packet.array("eth_dst"), packet.array("eth_src"), packet.u16("eth_type"));
    let (Ok(dst), Ok(src), Ok(ethertype)) = header else { return Ok(()) };
    let (src, dst) = (MacAddr(src), MacAddr(dst));
    write!(f, " eth_src={src},eth_dst={dst},eth_type={ethertype:#06x}")
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bucket=")?;
        if let Some(id) = self.bucket_id {
            write!(f, "bucket_id:{id},")?;
        }
        if self.weight != 0 {
            write!(f, "weight:{},", self.weight)?;
        }
        if self.watch_port != PortNo::ANY {
            write!(f, "watch_port:{},", self.watch_port)?;
        }
        if self.watch_group != Self::ANY_GROUP {
            write!(f, "watch_group:{},", self.watch_group)?;
        }
        write!(f, "actions={}", Actions::from(&self.actions))
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.pad("all"),
            Self::Select => f.pad("select"),
            Self::Indirect => f.pad("indirect"),
            Self::FastFailover => f.pad("ff"),
            Self::Other(other) => write!(f, "{other}"),
        }
    }
}

/// A group number, or the word for every group.
pub(super) struct GroupId(pub(super) u32);

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            GroupMod::ALL_GROUPS => f.write_str("all"),
            Bucket::ANY_GROUP => f.write_str("any"),
            id => id.fmt(f),
        }
    }
}

/// A bucket number in a command, or the word for the first, the last and every bucket.
struct BucketId(u32);

impl fmt::Display for BucketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Bucket::FIRST => f.write_str("first"),
            Bucket::LAST => f.write_str("last"),
            Bucket::ALL => f.write_str("all"),
            id => id.fmt(f),
        }
    }
}

/// A meter number, or the word for every meter and for the virtual ones.
pub(super) struct MeterId(pub(super) u32);

impl fmt::Display for MeterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            MeterMod::ALL_METERS => f.write_str("all"),
            0xffff_fffe => f.write_str("controller"),
            0xffff_fffd => f.write_str("slowpath"),
            id => id.fmt(f),
        }
    }
}

impl fmt::Display for GroupMod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.command {
            GroupModCommand::Add => f.write_str("ADD")?,
            GroupModCommand::Modify => f.write_str("MOD")?,
            GroupModCommand::Delete => f.write_str("DEL")?,
            GroupModCommand::InsertBucket(id) => {
                write!(f, "INSERT_BUCKET command_bucket_id:{}", BucketId(id))?;
            }
            GroupModCommand::RemoveBucket(id) => {
                write!(f, "REMOVE_BUCKET command_bucket_id:{}", BucketId(id))?;
            }
        }
        write!(f, " group_id={},type={}", GroupId(self.group_id), self.kind)?;
        self.buckets.iter().try_for_each(|bucket| write!(f, ",{bucket}"))
    }
}

impl fmt::Display for MeterFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = &[(1, "kbps"), (2, "pktps"), (4, "burst"), (8, "stats")];
        Bits { bits: self.0.into(), names }.fmt(f)
    }
}

impl fmt::Display for MeterBand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drop { rate, burst_size } => {
                write!(f, "type=drop rate={rate} burst_size={burst_size}")
            }
            Self::DscpRemark { rate, burst_size, prec_level } => write!(
                f,
                "type=dscp_remark rate={rate} burst_size={burst_size} prec_level={prec_level}"
            ),
            Self::Experimenter { rate, burst_size, experimenter, data } => write!(
                f,
                "type=experimenter({experimenter:#x}:{}) rate={rate} burst_size={burst_size}",
                Hex(data)
            ),
            Self::Unknown { kind, body } => write!(f, "type={kind} {}", Hex(body)),
        }
    }
}

impl fmt::Display for MeterMod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.command {
            MeterModCommand::Add => "ADD",
            MeterModCommand::Modify => "MOD",
            MeterModCommand::Delete => "DEL",
        })?;
        write!(f, " meter={} {} bands=", MeterId(self.meter_id), self.flags)?;
        list(f, &self.bands, ", ")
    }
}
