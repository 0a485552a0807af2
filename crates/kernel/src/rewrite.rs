//! Rewrites a switch's message for an app: with the app's transaction ids and 48-bit cookies, and without the flows, groups
//! and meters of others.
//!
//! Works on private copies of whole OpenFlow messages. The switch may misstate every length in them. Places of cookies and
//! numbers (OpenFlow 1.3.5 §7.3.5, §7.4.1, §7.4.2; OpenFlow 1.0.2 §5.3.5, §5.4.2), in bytes from the start of the message or
//! of the entry. [`Layout`](openflow::Layout) has the places that differ between versions:
//!
//! ```text
//! packet-in        16    cookie, since 1.3
//!   group stats     4    group       (length first)
//!   group desc      4    group       (length first)
//!   meter stats     0    meter       (length at 4)
//!   meter config    4    meter       (length first)
//! ```

use std::time::Duration;

use openflow::{Header, Kind, Version, flow_entry_duration};
use thiserror::Error;

use crate::check::{APP_SHIFT, OWN_BITS, Rights};
use control::app::{AppId, Installation};

/// The number in the cookies of the kernel's own flows, in the place of an app's.
pub(crate) const KERNEL: AppId = AppId(0xffff);

/// The priority with which an app sees flows that it wrote before its band moved. It is outside of each band.
pub(crate) const EARLIER: u16 = 0;

const PACKET_IN_COOKIE: usize = 16;

/// Offset of the quoted message in an error.
const QUOTE: usize = Header::SIZE + 4;

// Multipart types (OpenFlow 1.3.5 §7.3.5; flow statistics are the same in 1.0).
const FLOW: u16 = 1;
const GROUP: u16 = 6;
const GROUP_DESC: u16 = 7;
const METER: u16 = 9;
const METER_CONFIG: u16 = 10;

/// A reply whose entries are not what their lengths say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("an entry of a multipart reply, at byte {at}, does not fit into it")]
pub(crate) struct BadEntry {
    at: usize,
}

/// The app whose flow has this cookie.
pub(crate) fn owner(cookie: u64) -> AppId {
    let [high, low, ..] = cookie.to_be_bytes();
    AppId(u16::from_be_bytes([high, low]))
}

/// The cookie of the kernel's own flows.
pub(crate) fn kernel_cookie(installation: Installation) -> u64 {
    u64::from(KERNEL.0) << APP_SHIFT | installation.0 & OWN_BITS
}

/// Replaces the cookie of a packet-in of 1.3 by that of no flow, and returns it; `None` for another message.
pub(crate) fn take_cookie(version: Version, message: &mut [u8]) -> Option<u64> {
    let has_cookie = version.features().packet_in_cookie;
    let is = has_cookie && message.get(1).copied() == Kind::PacketIn.to_wire(version);
    let field = message.get_mut(PACKET_IN_COOKIE..).filter(|_| is)?.first_chunk_mut()?;
    Some(u64::from_be_bytes(std::mem::replace(field, [0xff; 8])))
}

/// Puts an app's own cookie into a packet-in of 1.3.
pub(crate) fn put_cookie(message: &mut [u8], cookie: u64) {
    if let Some(field) = message.get_mut(PACKET_IN_COOKIE..PACKET_IN_COOKIE + 8) {
        field.copy_from_slice(&cookie.to_be_bytes());
    }
}

/// Gives a message its app's transaction id.
pub(crate) fn set_xid(message: &mut [u8], xid: u32) {
    if let Some(field) = message.get_mut(4..8) {
        field.copy_from_slice(&xid.to_be_bytes());
    }
}

/// The transaction id of a message; 0 if it is cut before that.
#[inline]
pub(crate) fn xid(message: &[u8]) -> u32 {
    let xid = message.get(4..).and_then(|rest| rest.first_chunk());
    xid.map_or(0, |xid| u32::from_be_bytes(*xid))
}

/// Strips a flow-removed message's cookie; `None` if it is too short to have one.
pub(crate) fn flow_removed(version: Version, message: &mut [u8]) -> Option<u64> {
    let at = version.layout().flow_removed_cookie;
    let field = message.get_mut(usize::from(at)..)?.first_chunk_mut()?;
    let cookie = u64::from_be_bytes(*field) & OWN_BITS;
    *field = cookie.to_be_bytes();
    Some(cookie)
}

/// Makes an error quote the message as its app sent it. `sent_xid` is the transaction id with which it was sent to the switch.
pub(crate) fn error(version: Version, message: &mut [u8], sent_xid: u32, xid: u32) {
    set_xid(message, xid);
    let Some(quote) = message.get_mut(QUOTE..) else { return };
    let Ok(header) = Header::decode(quote) else { return };
    if header.xid != sent_xid {
        return; // text, or another message
    }
    set_xid(quote, xid);
    unmark(version, quote);
}

/// Removes the app's number from a message that was sent, or from the beginning of one.
fn unmark(version: Version, quote: &mut [u8]) {
    let Some(kind) = quote.get(1).map(|kind| Kind::from_wire(version, *kind)) else { return };
    let layout = version.layout();
    let cookies = match kind {
        Ok(Kind::FlowMod) => [Some(layout.flow_mod_cookie), layout.flow_mod_cookie_mask],
        Ok(Kind::MultipartRequest) if is_about_flows(quote) => {
            [layout.flow_request_cookie, layout.flow_request_cookie_mask]
        }
        _ => [None; 2],
    };
    let cookies = cookies.into_iter().flatten().map(usize::from);
    // A quote may end anywhere, also between the two bytes of the app's number.
    for byte in cookies.flat_map(|at| [at, at + 1]) {
        if let Some(byte) = quote.get_mut(byte) {
            *byte = 0;
        }
    }
}

/// Whether this is the beginning of a multipart request about flows, single or aggregated.
fn is_about_flows(quote: &[u8]) -> bool {
    matches!(quote.get(8..10), Some([0, 1 | 2]))
}

/// Rewrites a reply for an app: with its transaction id, its cookies without its number, and only its own flows, groups and
/// meters unless it may see all.
///
/// # Errors
/// [`BadEntry`]: the reply must not be forwarded.
pub(crate) fn reply(
    rights: &Rights,
    version: Version,
    kind: Kind,
    message: &mut Vec<u8>,
    xid: u32,
) -> Result<(), BadEntry> {
    set_xid(message, xid);
    let what = match message.get(8..10) {
        Some(&[high, low]) if kind == Kind::MultipartReply => u16::from_be_bytes([high, low]),
        _ => return Ok(()),
    };
    let (first, features) = (first_entry(version), version.features());
    let entries = match what {
        FLOW => Entries::flows(version),
        // Of a version that does not have one of these types, no app can have requested it.
        GROUP | GROUP_DESC if features.groups => Entries { first, length: 0, least: 8 },
        METER_CONFIG if features.meters => Entries { first, length: 0, least: 8 },
        METER if features.meters => Entries { first, length: 4, least: 8 },
        _ => return Ok(()),
    };
    entries.retain(message, |entry| match what {
        FLOW => {
            let table = usize::from(version.layout().entry_table);
            let may_read = entry.get(table).is_some_and(|table| rights.flow_read.has(*table));
            keep_own_flow(rights.app, cookie_at(version), entry) || may_read
        }
        METER => rights.reads_others() || has(rights.app.meters(), &entry[0..4]),
        METER_CONFIG => rights.reads_others() || has(rights.app.meters(), &entry[4..8]),
        _ => rights.reads_others() || has(rights.app.groups(), &entry[4..8]),
    })
}

fn has(range: std::ops::RangeInclusive<u32>, number: &[u8]) -> bool {
    number.first_chunk().is_some_and(|number| range.contains(&u32::from_be_bytes(*number)))
}

/// Returns the table and the owner of each flow in a reply with flows.
///
/// # Errors
/// [`BadEntry`]: its entries are malformed.
pub(crate) fn places(version: Version, message: &[u8]) -> Result<Vec<(u8, AppId)>, BadEntry> {
    let (mut at, entries) = (Entries::flows(version).first, Entries::flows(version));
    let table = usize::from(version.layout().entry_table);
    let mut places = Vec::new();
    while at < message.len() {
        let bad = BadEntry { at };
        let entry = entries.entry(&message[at..]).ok_or(bad)?;
        let cookie = entry.get(cookie_at(version)..).and_then(|rest| rest.first_chunk());
        let owner = owner(u64::from_be_bytes(*cookie.ok_or(bad)?));
        places.push((*entry.get(table).ok_or(bad)?, owner));
        at += entry.len();
    }
    Ok(places)
}

/// Removes the flows of others from a reply with flows, and the app's number from its own cookies. Gives the flows for whose
/// priority and age `is_earlier` holds the priority [`EARLIER`]. Marks the reply as one that more parts follow, and without
/// a transaction id.
///
/// # Errors
/// [`BadEntry`]: its entries are malformed.
pub(crate) fn own_flows(
    app: AppId,
    version: Version,
    message: &mut Vec<u8>,
    is_earlier: impl Fn(u16, Duration) -> bool,
) -> Result<(), BadEntry> {
    set_xid(message, 0);
    if let Some(flags) = message.get_mut(10..12) {
        flags.copy_from_slice(&[0, 1]);
    }
    Entries::flows(version).retain(message, |entry| {
        let is_own = keep_own_flow(app, cookie_at(version), entry);
        if is_own {
            mark_earlier(version, entry, &is_earlier);
        }
        is_own
    })
}

/// Gives a flow the priority [`EARLIER`] if `is_earlier` holds for its priority and age.
fn mark_earlier(version: Version, entry: &mut [u8], is_earlier: impl Fn(u16, Duration) -> bool) {
    let at = usize::from(version.layout().entry_priority);
    let Some(age) = flow_entry_duration(version, entry) else { return };
    let Some(priority) = entry.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) else {
        return;
    };
    if is_earlier(u16::from_be_bytes(*priority), age) {
        *priority = EARLIER.to_be_bytes();
    }
}

/// The place of the cookie in the statistics of a flow.
fn cookie_at(version: Version) -> usize {
    version.layout().entry_cookie.into()
}

/// The place of the first entry of a multipart reply.
fn first_entry(version: Version) -> usize {
    version.layout().multipart_entries.into()
}

/// Whether a flow is the app's own; removes the app's number from its cookie if so.
fn keep_own_flow(app: AppId, cookie_at: usize, entry: &mut [u8]) -> bool {
    let Some(field) = entry.get_mut(cookie_at..).and_then(|rest| rest.first_chunk_mut()) else {
        return false;
    };
    let cookie = u64::from_be_bytes(*field);
    let own = owner(cookie) == app;
    if own {
        *field = (cookie & OWN_BITS).to_be_bytes();
    }
    own
}

/// The layout of the entries of a multipart reply.
#[derive(Debug, Clone, Copy)]
struct Entries {
    first: usize,
    /// Offset of the length in an entry.
    length: usize,
    /// Fewest bytes of an entry.
    least: usize,
}

impl Entries {
    /// The entries of a reply with flows.
    fn flows(version: Version) -> Self {
        let least = version.layout().entry_min_size.into();
        Self { first: first_entry(version), length: 0, least }
    }

    /// The entry with which `rest` begins.
    fn entry(self, rest: &[u8]) -> Option<&[u8]> {
        let length = rest.get(self.length..)?.first_chunk()?;
        let size = usize::from(u16::from_be_bytes(*length));
        rest.get(..size).filter(|_| size >= self.least)
    }

    /// Removes the entries for which `keep` is false, and shortens the message.
    fn retain(
        self,
        message: &mut Vec<u8>,
        mut keep: impl FnMut(&mut [u8]) -> bool,
    ) -> Result<(), BadEntry> {
        let (mut from, mut to) = (self.first, self.first);
        while from < message.len() {
            let bad = BadEntry { at: from };
            let rest = &mut message[from..];
            let length = rest.get(self.length..).and_then(|it| it.first_chunk()).ok_or(bad)?;
            let size = usize::from(u16::from_be_bytes(*length));
            let entry = rest.get_mut(..size).filter(|_| size >= self.least).ok_or(bad)?;
            if keep(entry) {
                message.copy_within(from..from + size, to);
                to += size;
            }
            from += size;
        }
        if to < message.len() {
            message.truncate(to);
            let size = u16::try_from(to).map_err(|_| BadEntry { at: to })?;
            message[2..4].copy_from_slice(&size.to_be_bytes());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
