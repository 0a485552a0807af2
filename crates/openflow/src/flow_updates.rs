//! Sets up a monitor of all flows of a switch, and reads its updates in place.
//!
//! Each version has flow monitors, in one of three forms:
//!
//! | versions | form | source |
//! | --- | --- | --- |
//! | 1.4, 1.5 | multipart type 16 | OpenFlow 1.4.1 §7.3.5.17, 1.5.1 §7.3.5.23 |
//! | 1.3 | multipart messages and messages of the ONF, types 1870 to 1872 | ONF extension 187 |
//! | 1.0 to 1.2 | statistics of Nicira of type 2, messages of types 21 to 23 | Open vSwitch, `nicira-ext.h` |
//!
//! An update of an entry has these bytes, with the match in OXM, or in NXM in Nicira's form:
//!
//! ```text
//!  0      2      4            6            8      10     12        14        16     24
//! +------+------+-------+----+------------+------+------+---------+---------+------+-------
//! | size | 0..3 | table | rs | idle       | hard | prio | padding           | cookie | match   1.4 and later
//! +------+------+-------+----+------------+------+------+---------+---------+------+-------
//! | size | 0..2 | reason     | prio       | idle | hard | size of | table, 0| cookie | match   ONF, Nicira
//! +------+------+------------+------------+------+------+---------+---------+------+-------
//! ```
//!
//! A monitor reports the changes of its own connection in full when the request says so. Otherwise it only names the message
//! that caused them ([`OwnChanges`]). [`FlowUpdate`](crate::FlowUpdate) has the updates of 1.4 and later as owned values.

use crate::experimenter::ONF;
use crate::header::{begin, check_version};
use crate::nicira::NICIRA;
use crate::wire::read_sized;
use crate::{
    DecodeError, EncodeError, FlowEvent, FlowMod, FlowMonitorCommand, FlowMonitorFlags,
    FlowMonitorRequest, FlowRemovedReason, Header, Kind, Match, MultipartRequest, PortNo, Reader,
    Version,
};

/// Number of the monitor of [`monitor_flows`], and of its second one.
const MONITOR: u32 = 1;
const SECOND: u32 = 2;

/// Multipart types: a flow monitor, and an experimenter's message.
const FLOW_MONITOR: u16 = 16;
const EXPERIMENTER: u16 = 0xffff;

/// Types of the ONF's messages. The first one is also that of the multipart messages.
const ONF_CANCEL: u32 = 1870;
const ONF_PAUSED: u32 = 1871;
const ONF_RESUMED: u32 = 1872;

/// Types of Nicira's messages, and of its statistics.
const NX_STATS: u32 = 2;
const NX_CANCEL: u32 = 21;
const NX_PAUSED: u32 = 22;
const NX_RESUMED: u32 = 23;

/// The flags of Nicira and the ONF: initial, added, deleted and modified entries, and own changes in full.
const NX_FLAGS: u16 = 0b10_1111;

/// How a monitor is asked to report the changes that its own connection makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnChanges {
    /// By `NO_ABBREV` of OpenFlow 1.4 and later, as the specification says; by `OWN` in the forms of the ONF and Nicira.
    Full,
    /// By a second monitor with `ONLY_OWN`, in OpenFlow 1.4 and later. Open vSwitch refuses `NO_ABBREV`, and takes `ONLY_OWN` for
    /// "own changes in full". The first monitor reports the changes of others in any case.
    FullBySecond,
}

impl OwnChanges {
    /// Returns the values to try in this version, in this order: the next one if the switch refuses one, or abbreviates own
    /// changes in spite of it.
    pub fn to_try(version: Version) -> &'static [Self] {
        match Form::of(version) {
            Form::Standard => &[Self::FullBySecond, Self::Full],
            Form::Onf | Form::Nicira => &[Self::Full],
        }
    }
}

/// The form of a version's flow monitors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Standard,
    Onf,
    Nicira,
}

impl Form {
    fn of(version: Version) -> Self {
        match version {
            Version::V1_0 | Version::V1_1 | Version::V1_2 => Self::Nicira,
            Version::V1_3 => Self::Onf,
            Version::V1_4 | Version::V1_5 => Self::Standard,
        }
    }
}

/// Encodes the request for a monitor of all changes of all flows, which begins with a list of the flows; returns its size. The
/// list has the request's transaction id.
///
/// # Errors
/// [`EncodeError::Unsupported`] for [`OwnChanges::FullBySecond`] before OpenFlow 1.4; [`EncodeError::NoRoom`] if `out` is too small.
pub fn monitor_flows(
    version: Version,
    own: OwnChanges,
    xid: u32,
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    let form = Form::of(version);
    if own == OwnChanges::FullBySecond && form != Form::Standard {
        return Err(EncodeError::Unsupported { field: "a second flow monitor", version });
    }
    if form == Form::Standard {
        let changes =
            FlowMonitorFlags::ADD.0 | FlowMonitorFlags::REMOVED.0 | FlowMonitorFlags::MODIFY.0;
        let initial = changes | FlowMonitorFlags::INITIAL.0;
        let add = |id, flags| FlowMonitorRequest::add(id, FlowMonitorFlags(flags), Match::new());
        let monitors = match own {
            OwnChanges::Full => vec![add(MONITOR, initial | FlowMonitorFlags::NO_ABBREV.0)],
            OwnChanges::FullBySecond => {
                vec![add(MONITOR, initial), add(SECOND, changes | FlowMonitorFlags::ONLY_OWN.0)]
            }
        };
        return MultipartRequest::FlowMonitor(monitors).encode(version, xid, out);
    }
    let mut to = begin(Kind::MultipartRequest, version, xid, out)?;
    to.u16(EXPERIMENTER);
    if form == Form::Onf {
        to.zeros(6);
        to.u32(ONF);
        to.u32(ONF_CANCEL);
        to.u32(MONITOR);
        to.u16(NX_FLAGS);
        to.u16(EMPTY_MATCH);
        to.u32(PortNo::ANY.0);
        to.u8(FlowMod::ALL_TABLES);
        to.zeros(3);
        to.u16(OXM);
        to.u16(EMPTY_MATCH);
        to.zeros(4);
    } else {
        to.zeros(if version == Version::V1_0 { 2 } else { 6 });
        to.u32(NICIRA);
        to.u32(NX_STATS);
        to.zeros(if version == Version::V1_0 { 4 } else { 0 });
        to.u32(MONITOR);
        to.u16(NX_FLAGS);
        to.u16(u16::MAX); // any port
        to.u16(0); // an empty match
        to.u8(FlowMod::ALL_TABLES);
        to.zeros(5);
    }
    to.finish()
}

/// Encodes the message that ends the monitor of [`monitor_flows`]; returns its size.
///
/// # Errors
/// [`EncodeError::NoRoom`] if `out` is too small.
pub fn end_monitor(
    version: Version,
    own: OwnChanges,
    xid: u32,
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    let form = Form::of(version);
    if form == Form::Standard {
        let ids: &[u32] =
            if own == OwnChanges::FullBySecond { &[MONITOR, SECOND] } else { &[MONITOR] };
        let monitors = ids.iter().map(|id| FlowMonitorRequest {
            command: FlowMonitorCommand::Delete,
            ..FlowMonitorRequest::add(*id, FlowMonitorFlags::default(), Match::new())
        });
        return MultipartRequest::FlowMonitor(monitors.collect()).encode(version, xid, out);
    }
    let mut to = begin(Kind::Experimenter, version, xid, out)?;
    let (experimenter, subtype) =
        if form == Form::Onf { (ONF, ONF_CANCEL) } else { (NICIRA, NX_CANCEL) };
    to.u32(experimenter);
    to.u32(subtype);
    to.u32(MONITOR);
    to.finish()
}

/// Size of an empty match without its padding.
const EMPTY_MATCH: u16 = 4;

/// The type of a match that consists of fields (`OFPMT_OXM`).
const OXM: u16 = 1;

/// An update, read in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowUpdateView<'a> {
    /// An entry is present, was added, removed or changed. The forms of the ONF and Nicira call a present one added.
    Entry(FlowEntryView<'a>),
    /// The controller's own message with this transaction id changed entries.
    Abbreviated(u32),
    /// No updates follow until [`Resumed`](Self::Resumed), because the switch has no room for them.
    Paused,
    /// Updates follow again.
    Resumed,
}

/// A changed entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowEntryView<'a> {
    /// What happened to it.
    pub event: FlowEvent,
    /// Reason of a removal; of another event, any.
    pub reason: FlowRemovedReason,
    /// Its table.
    pub table_id: u8,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// The fields of its match as the switch wrote them, in OXM or NXM.
    pub match_fields: &'a [u8],
}

/// The updates in a message. Each one was validated.
#[derive(Debug, Clone)]
pub struct FlowUpdates<'a> {
    entries: Reader<'a>,
    form: Form,
    /// The update of a message that is one itself.
    single: Option<FlowUpdateView<'a>>,
    /// Whether more messages with the same transaction id follow.
    pub more: bool,
}

impl<'a> FlowUpdates<'a> {
    /// Decodes a whole message; `None` if it is no message of a flow monitor.
    ///
    /// # Errors
    /// [`DecodeError`] if it is one, and malformed.
    pub fn decode(message: &'a [u8]) -> Result<Option<Self>, DecodeError> {
        let version = check_version(message)?;
        let (header, mut body) = Header::split(message)?;
        let form = Form::of(version);
        let kind = Kind::from_wire(version, header.kind);
        let (more, is) = match kind {
            Ok(Kind::MultipartReply) => {
                let found = body.u16("multipart_reply.type")?;
                let more = body.u16("multipart_reply.flags")? & 1 != 0;
                if version != Version::V1_0 {
                    body.take("multipart_reply.pad", 4)?;
                }
                (more, is_monitor(version, form, found, &mut body)?)
            }
            Ok(Kind::Experimenter) => return Self::pause(form, body),
            _ => (false, false),
        };
        if !is {
            return Ok(None);
        }
        let updates = Self { entries: body, form, single: None, more };
        let mut check = updates.entries;
        while !check.is_empty() {
            update(form, &mut check)?;
        }
        Ok(Some(updates))
    }

    /// Decodes the message of an experimenter after its header: updates pause, or resume.
    fn pause(form: Form, mut body: Reader<'a>) -> Result<Option<Self>, DecodeError> {
        if body.left() < 8 {
            return Ok(None);
        }
        let experimenter = body.u32("experimenter.experimenter")?;
        let single = match (form, experimenter, body.u32("experimenter.exp_type")?) {
            (Form::Onf, ONF, ONF_PAUSED) | (Form::Nicira, NICIRA, NX_PAUSED) => {
                FlowUpdateView::Paused
            }
            (Form::Onf, ONF, ONF_RESUMED) | (Form::Nicira, NICIRA, NX_RESUMED) => {
                FlowUpdateView::Resumed
            }
            _ => return Ok(None),
        };
        body.finish("flow_monitor_paused")?;
        Ok(Some(Self { entries: body, form, single: Some(single), more: false }))
    }
}

/// Whether a multipart message of this type is of a flow monitor. Leaves its updates in `body` then.
fn is_monitor(
    version: Version,
    form: Form,
    found: u16,
    body: &mut Reader<'_>,
) -> Result<bool, DecodeError> {
    let wanted = match form {
        Form::Standard => return Ok(found == FLOW_MONITOR),
        Form::Onf => (ONF, ONF_CANCEL),
        Form::Nicira => (NICIRA, NX_STATS),
    };
    if found != EXPERIMENTER || body.left() < 8 {
        return Ok(false);
    }
    let experimenter = body.u32("experimenter_multipart.experimenter")?;
    let is = (experimenter, body.u32("experimenter_multipart.exp_type")?) == wanted;
    if is && version == Version::V1_0 {
        body.take("nicira_stats.pad", 4)?;
    }
    Ok(is)
}

impl<'a> Iterator for FlowUpdates<'a> {
    type Item = FlowUpdateView<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(single) = self.single.take() {
            return Some(single);
        }
        if self.entries.is_empty() {
            return None;
        }
        update(self.form, &mut self.entries).ok() // it was validated
    }
}

/// Reads an update.
fn update<'a>(form: Form, from: &mut Reader<'a>) -> Result<FlowUpdateView<'a>, DecodeError> {
    let start = from.left();
    let mut body = read_sized(from, "flow_update.length", start)?;
    let offset = body.offset();
    let found = body.u16("flow_update.event")?;
    let event = match (form, found) {
        (Form::Standard, 0) => FlowEvent::Initial,
        (Form::Standard, 1) | (Form::Onf | Form::Nicira, 0) => FlowEvent::Added,
        (Form::Standard, 2) | (Form::Onf | Form::Nicira, 1) => FlowEvent::Removed,
        (Form::Standard, 3) | (Form::Onf | Form::Nicira, 2) => FlowEvent::Modified,
        (Form::Standard, 4) | (Form::Onf | Form::Nicira, 3) => {
            return Ok(FlowUpdateView::Abbreviated(body.u32("flow_update_abbrev.xid")?));
        }
        (Form::Standard, 5) => return Ok(FlowUpdateView::Paused),
        (Form::Standard, 6) => return Ok(FlowUpdateView::Resumed),
        _ => {
            return Err(DecodeError::BadValue {
                field: "flow_update.event",
                offset,
                found: found.into(),
                expected: "0 to 6 in OpenFlow 1.4 and later, otherwise 0 to 3",
            });
        }
    };
    let entry = match form {
        Form::Standard => standard_entry(event, &mut body)?,
        Form::Onf | Form::Nicira => extension_entry(form, event, &mut body)?,
    };
    Ok(FlowUpdateView::Entry(entry))
}

fn standard_entry<'a>(
    event: FlowEvent,
    body: &mut Reader<'a>,
) -> Result<FlowEntryView<'a>, DecodeError> {
    let table_id = body.u8("flow_update_full.table_id")?;
    let reason = FlowRemovedReason::from_wire(body.u8("flow_update_full.reason")?);
    body.take("flow_update_full.timeouts", 4)?;
    let priority = body.u16("flow_update_full.priority")?;
    body.take("flow_update_full.pad", 4)?;
    let cookie = body.u64("flow_update_full.cookie")?;
    let match_fields = match_fields(body)?;
    Ok(FlowEntryView { event, reason, table_id, priority, cookie, match_fields })
}

fn extension_entry<'a>(
    form: Form,
    event: FlowEvent,
    body: &mut Reader<'a>,
) -> Result<FlowEntryView<'a>, DecodeError> {
    let reason = u8::try_from(body.u16("flow_update_full.reason")?).unwrap_or(u8::MAX);
    let priority = body.u16("flow_update_full.priority")?;
    body.take("flow_update_full.timeouts", 4)?;
    let match_size = body.u16("flow_update_full.match_len")?;
    let table_id = body.u8("flow_update_full.table_id")?;
    body.take("flow_update_full.pad", 1)?;
    let cookie = body.u64("flow_update_full.cookie")?;
    let match_fields = match form {
        Form::Nicira => body.take("flow_update_full.match", match_size.into())?,
        Form::Onf | Form::Standard => match_fields(body)?,
    };
    let reason = FlowRemovedReason::from_wire(reason);
    Ok(FlowEntryView { event, reason, table_id, priority, cookie, match_fields })
}

/// Reads the fields of a match (`ofp_match`, OpenFlow 1.3.5 §7.2.3.1).
fn match_fields<'a>(body: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let offset = body.offset();
    let found = body.u16("match.type")?;
    if found != OXM {
        return Err(DecodeError::BadValue {
            field: "match.type",
            offset,
            found: found.into(),
            expected: "1 (OXM)",
        });
    }
    let offset = body.offset();
    let length = body.u16("match.length")?;
    let bad = DecodeError::BadLength {
        field: "match.length",
        offset,
        found: length.into(),
        expected: "at least its own 4 bytes",
    };
    body.take("match.oxm_fields", length.checked_sub(EMPTY_MATCH).ok_or(bad)?.into())
}

#[cfg(test)]
mod tests;
