//! Formats statistics and descriptions.

use super::flow::{GroupId, MeterId};
use super::{Bits, Hex, Seconds, list};
use crate::flow_removed::duration;
use crate::oxs::{self, Oxs, Stats};
use crate::{
    AggregateStats, Available, Counter, DescText, FlowCounters, FlowEvent, FlowMod, FlowModFlags,
    FlowMonitorCommand, FlowMonitorRequest, FlowStats, FlowStatsRequest, FlowUpdate, GroupDesc,
    GroupFeatures, GroupStats, MeterConfig, MeterFeatures, MeterStats, MultipartReply,
    MultipartRequest, PortNo, PortStats, QueueStats, ReplyBody, ScheduleFeatures, TableStats, v1_3,
};
use core::fmt;
use core::time::Duration;

impl fmt::Display for FlowStatsRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.table_id {
            FlowMod::ALL_TABLES => f.write_str("table=ALL")?,
            table => write!(f, "table={table}")?,
        }
        if self.out_port != PortNo::ANY {
            write!(f, " out_port={}", self.out_port)?;
        }
        if self.out_group != FlowMod::ANY_GROUP {
            write!(f, " out_group={}", self.out_group)?;
        }
        if self.cookie_mask != 0 {
            write!(f, " cookie={:#x}/{:#x}", self.cookie, self.cookie_mask)?;
        }
        if self.match_.is_empty() { Ok(()) } else { write!(f, " {}", self.match_) }
    }
}

impl fmt::Display for MultipartRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Desc
            | Self::Table
            | Self::GroupDesc
            | Self::GroupFeatures
            | Self::MeterFeatures
            | Self::PortDesc
            | Self::TableDesc
            | Self::ControllerStatus => Ok(()),
            Self::Flow(request) | Self::Aggregate(request) | Self::FlowCounters(request) => {
                request.fmt(f)
            }
            Self::PortStats(port) | Self::OnePortDesc(port) => write!(f, "port_no={port}"),
            Self::FlowMonitor(monitors) => list(f, monitors, "; "),
            Self::BundleFeatures(request) => {
                write!(f, "flags={:#x}", request.flags)?;
                request.schedule.iter().try_for_each(|schedule| write!(f, " {schedule}"))
            }
            Self::Queue { port_no, queue_id } | Self::QueueDesc { port_no, queue_id } => {
                write!(f, "port={port_no} queue=")?;
                match queue_id {
                    Some(queue) => queue.fmt(f),
                    None => f.write_str("ALL"),
                }
            }
            Self::Group(id) | Self::OneGroupDesc(id) => write!(f, "group_id={}", GroupId(*id)),
            Self::Meter(id) | Self::MeterConfig(id) => write!(f, "meter={}", MeterId(*id)),
            Self::TableFeatures(tables) => list(f, tables.iter().map(Table), "; "),
            Self::Experimenter { experimenter, data } => {
                write!(f, "experimenter={experimenter:#x} {}", Hex(data))
            }
        }
    }
}

impl fmt::Display for MultipartReply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.more {
            f.write_str("flags=[more] ")?;
        }
        match &self.body {
            ReplyBody::Desc(desc) => desc.fmt(f),
            ReplyBody::Flow(items) => list(f, items, "; "),
            ReplyBody::Aggregate(item) => item.fmt(f),
            ReplyBody::Table(items) => list(f, items, "; "),
            ReplyBody::PortStats(items) => list(f, items, "; "),
            ReplyBody::Queue(items) => list(f, items, "; "),
            ReplyBody::Group(items) => list(f, items, "; "),
            ReplyBody::GroupDesc(items) => list(f, items, "; "),
            ReplyBody::GroupFeatures(item) => item.fmt(f),
            ReplyBody::Meter(items) => list(f, items, "; "),
            ReplyBody::MeterConfig(items) => list(f, items, "; "),
            ReplyBody::MeterFeatures(item) => item.fmt(f),
            ReplyBody::TableFeatures(tables) => list(f, tables.iter().map(Table), "; "),
            ReplyBody::PortDesc(items) => list(f, items, "; "),
            ReplyBody::TableDesc(items) => list(f, items, "; "),
            ReplyBody::QueueDesc(items) => list(f, items, "; "),
            ReplyBody::FlowMonitor(items) => list(f, items, "; "),
            ReplyBody::FlowCounters(items) => list(f, items, "; "),
            ReplyBody::ControllerStatus(items) => list(f, items, "; "),
            ReplyBody::BundleFeatures(item) => {
                write!(f, "capabilities={}", item.capabilities)?;
                item.schedule.iter().try_for_each(|schedule| write!(f, " {schedule}"))
            }
            ReplyBody::Experimenter { experimenter, data } => {
                write!(f, "experimenter={experimenter:#x} {}", Hex(data))
            }
        }
    }
}

impl fmt::Display for DescText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "manufacturer: {}; hardware: {}; software: {}; serial: {}; datapath: {}",
            self.mfr_desc, self.hw_desc, self.sw_desc, self.serial_num, self.dp_desc
        )
    }
}

impl fmt::Display for FlowStats<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cookie={:#x}, duration={}, table={}, n_packets={}, n_bytes={}",
            self.cookie,
            Seconds(self.duration),
            self.table_id,
            Kept(self.packet_count),
            Kept(self.byte_count)
        )?;
        if self.idle_timeout != 0 {
            write!(f, ", idle_timeout={}", self.idle_timeout)?;
        }
        if self.hard_timeout != 0 {
            write!(f, ", hard_timeout={}", self.hard_timeout)?;
        }
        if self.flags != FlowModFlags::default() {
            write!(f, ", {}", self.flags)?;
        }
        if self.importance != 0 {
            write!(f, ", importance={}", self.importance)?;
        }
        write!(f, ", priority={}", self.priority)?;
        if !self.match_.is_empty() {
            write!(f, ",{}", self.match_)?;
        }
        write!(f, " actions={}", self.instructions)
    }
}

impl fmt::Display for FlowCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "table={}, reason={}, duration={}, idle={}, n_packets={}, n_bytes={}, priority={}",
            self.table_id,
            self.reason,
            Age(self.duration),
            Age(self.idle_time),
            Kept(self.packet_count),
            Kept(self.byte_count),
            self.priority
        )?;
        if self.match_.is_empty() { Ok(()) } else { write!(f, ",{}", self.match_) }
    }
}

impl fmt::Display for FlowMonitorRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let command = match self.command {
            FlowMonitorCommand::Add => "ADD",
            FlowMonitorCommand::Modify => "MOD",
            FlowMonitorCommand::Delete => "DEL",
            FlowMonitorCommand::Other(other) => return write!(f, "command {other}"),
        };
        let names = &[
            (1, "initial"),
            (2, "add"),
            (4, "removed"),
            (8, "modify"),
            (16, "instructions"),
            (32, "no_abbrev"),
            (64, "only_own"),
        ];
        let flags = Bits { bits: self.flags.0.into(), names };
        write!(f, "{command} id={} flags={flags}", self.monitor_id)?;
        match self.table_id {
            FlowMod::ALL_TABLES => {}
            table => write!(f, " table={table}")?,
        }
        if self.out_port != PortNo::ANY {
            write!(f, " out_port={}", self.out_port)?;
        }
        if self.out_group != FlowMod::ANY_GROUP {
            write!(f, " out_group={}", self.out_group)?;
        }
        if self.match_.is_empty() { Ok(()) } else { write!(f, " {}", self.match_) }
    }
}

impl fmt::Display for FlowUpdate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = match self {
            Self::Abbreviated(xid) => return write!(f, "event=ABBREV xid={xid:#x}"),
            Self::Paused => return f.write_str("event=PAUSED"),
            Self::Resumed => return f.write_str("event=RESUMED"),
            Self::Full(change) => change,
        };
        f.write_str(match change.event {
            FlowEvent::Initial => "event=INITIAL",
            FlowEvent::Added => "event=ADDED",
            FlowEvent::Removed => "event=REMOVED",
            FlowEvent::Modified => "event=MODIFIED",
        })?;
        if change.event == FlowEvent::Removed {
            write!(f, " reason={}", change.reason)?;
        }
        write!(f, " table={}", change.table_id)?;
        if change.idle_timeout != 0 {
            write!(f, " idle_timeout={}", change.idle_timeout)?;
        }
        if change.hard_timeout != 0 {
            write!(f, " hard_timeout={}", change.hard_timeout)?;
        }
        write!(f, " cookie={:#x} priority={}", change.cookie, change.priority)?;
        if !change.match_.is_empty() {
            write!(f, ",{}", change.match_)?;
        }
        write!(f, " actions={}", change.instructions)
    }
}

impl fmt::Display for ScheduleFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "schedule(accuracy={} max_future={} max_past={} timestamp={})",
            Seconds(self.accuracy),
            Seconds(self.max_future),
            Seconds(self.max_past),
            Seconds(self.timestamp)
        )
    }
}

/// The fields of the specification; others as numbers.
impl fmt::Display for Stats<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(f, self.fields.iter().map(StatsField), ",")
    }
}

struct StatsField<'a>(Oxs<'a>);

impl fmt::Display for StatsField<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Oxs { class, field, payload, .. } = self.0;
        let value = payload.iter().fold(0_u64, |value, &byte| value << 8 | u64::from(byte));
        let half = |bits: u64| u32::try_from(bits & 0xffff_ffff).unwrap_or(u32::MAX);
        let seconds = || Seconds(duration(half(value >> 32), half(value)));
        match field {
            _ if class != oxs::OPENFLOW_BASIC => {
                write!(f, "oxs_{class:#06x}_{field}={}", Hex(payload))
            }
            oxs::DURATION => write!(f, "duration={}", seconds()),
            oxs::IDLE_TIME => write!(f, "idle={}", seconds()),
            oxs::FLOW_COUNT => write!(f, "flow_count={value}"),
            oxs::PACKET_COUNT => write!(f, "packet_count={value}"),
            oxs::BYTE_COUNT => write!(f, "byte_count={value}"),
            _ => write!(f, "oxs_{class:#06x}_{field}={}", Hex(payload)),
        }
    }
}

impl fmt::Display for AggregateStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "packet_count={} byte_count={} flow_count={}",
            Kept(self.packet_count),
            Kept(self.byte_count),
            Kept(self.flow_count)
        )
    }
}

impl fmt::Display for TableStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {}", self.table_id)?;
        if let Some(name) = self.name {
            write!(f, " (\"{name}\"):")?;
            if self.wildcards != 0 {
                write!(f, " wild={:#08x},", self.wildcards)?;
            }
            write!(f, " max={},", self.max_entries)?;
        } else {
            f.write_str(":")?;
        }
        write!(
            f,
            " active={}, lookup={}, matched={}",
            Kept(self.active_count),
            Kept(self.lookup_count),
            Kept(self.matched_count)
        )
    }
}

/// A counter that the switch may not have.
struct Kept<N>(N);

impl<N: Available> fmt::Display for Kept<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.available() {
            Some(count) => count.fmt(f),
            None => f.write_str("?"),
        }
    }
}

/// A lifetime, if the switch reports it.
struct Age(Option<Duration>);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("?"),
            Some(age) => Seconds(age).fmt(f),
        }
    }
}

impl fmt::Display for PortStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "port {}: rx pkts={}, bytes={}, drop={}, errs={}, frame={}, over={}, crc={}",
            self.port_no,
            Kept(self.rx_packets),
            Kept(self.rx_bytes),
            Kept(self.rx_dropped),
            Kept(self.rx_errors),
            Kept(self.rx_frame_err),
            Kept(self.rx_over_err),
            Kept(self.rx_crc_err),
        )?;
        write!(
            f,
            " tx pkts={}, bytes={}, drop={}, errs={}, coll={}",
            Kept(self.tx_packets),
            Kept(self.tx_bytes),
            Kept(self.tx_dropped),
            Kept(self.tx_errors),
            Kept(self.collisions),
        )?;
        write!(f, " duration={}", Age(self.duration))
    }
}

impl fmt::Display for QueueStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "port {} queue {}: bytes={}, pkts={}, errors={}",
            self.port_no,
            self.queue_id,
            Kept(self.tx_bytes),
            Kept(self.tx_packets),
            Kept(self.tx_errors),
        )?;
        write!(f, ", duration={}", Age(self.duration))
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet_count={},byte_count={}", Kept(self.packet_count), Kept(self.byte_count))
    }
}

impl fmt::Display for GroupStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "group_id={},duration={},ref_count={},packet_count={},byte_count={}",
            self.group_id,
            Age(self.duration),
            Kept(self.ref_count),
            Kept(self.packet_count),
            Kept(self.byte_count)
        )?;
        for (number, bucket) in self.buckets.iter().enumerate() {
            write!(f, ",bucket{number}:{bucket}")?;
        }
        Ok(())
    }
}

impl fmt::Display for GroupDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group_id={},type={}", self.group_id, self.kind)?;
        self.buckets.iter().try_for_each(|bucket| write!(f, ",{bucket}"))
    }
}

impl fmt::Display for GroupFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "types={:#x} capabilities={:#x}", self.types, self.capabilities)?;
        let kinds = ["all", "select", "indirect", "ff"].iter();
        for (kind, (max, actions)) in kinds.zip(self.max_groups.iter().zip(&self.actions)) {
            write!(f, " {kind}(max_groups={max:#x} actions={actions:#010x})")?;
        }
        Ok(())
    }
}

impl fmt::Display for MeterStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "meter:{} flow_count:{} packet_in_count:{} byte_in_count:{} duration:{} bands:",
            self.meter_id,
            Kept(self.flow_count),
            Kept(self.packet_in_count),
            Kept(self.byte_in_count),
            Age(self.duration)
        )?;
        for (number, band) in self.bands.iter().enumerate() {
            write!(f, " {number}: {band}")?;
        }
        Ok(())
    }
}

impl fmt::Display for MeterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "meter={} {} bands=", MeterId(self.meter_id), self.flags)?;
        list(f, &self.bands, ", ")
    }
}

impl fmt::Display for MeterFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "max_meter:{} max_bands:{} max_color:{} band_types:{:#x} capabilities:{:#x}",
            self.max_meter, self.max_bands, self.max_color, self.band_types, self.capabilities
        )
    }
}

/// A table's features: its identity, and the number of its properties.
struct Table<'a>(v1_3::TableFeatures<'a>);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "table {} (\"{}\"): metadata match={:#x} write={:#x} config={:#x} max_entries={} \
             properties={}",
            self.0.table_id,
            self.0.name,
            self.0.metadata_match,
            self.0.metadata_write,
            self.0.config,
            self.0.max_entries,
            self.0.properties.iter().count()
        )
    }
}
