//! The groups and meters of a switch, with their owners.
//!
//! An app has a range of numbers for its groups and one for its meters, and counts its own from 0.

use std::ops::RangeInclusive;

use control::app::AppId;
use control::query::EntryPart;
use openflow::{DecodeError, GroupDesc, MeterConfig, MultipartReply, ReplyBody};
use serde::Serialize;

use crate::client::{ClientError, Kernel};
use crate::trace::messages;

/// A group of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupStatus {
    /// Its number on the switch.
    pub group_id: u32,
    /// The app that owns it; `other` if someone else made it.
    pub owner: String,
    /// The number by which its owner knows it.
    pub own_id: u32,
    /// Which buckets a packet takes: `all`, `select`, `indirect` or `ff`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its buckets, as text.
    pub buckets: Vec<String>,
}

/// A meter of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MeterStatus {
    /// Its number on the switch.
    pub meter_id: u32,
    /// The app that owns it; `other` if someone else made it.
    pub owner: String,
    /// The number by which its owner knows it.
    pub own_id: u32,
    /// How it counts, as text.
    pub flags: String,
    /// Its bands, as text.
    pub bands: Vec<String>,
}

impl Kernel {
    /// Requests the groups of a switch, by their numbers. Returns `None` if no such switch is connected.
    ///
    /// # Errors
    /// [`ClientError::Failed`] if the switch does not report them; the kernel does not reply.
    pub fn groups(&self, dpid: u64) -> Result<Option<Vec<GroupStatus>>, ClientError> {
        let Some((bytes, owners)) = self.entries(dpid, EntryPart::Groups)? else {
            return Ok(None);
        };
        let groups = read(&bytes, |body| match body {
            ReplyBody::GroupDesc(groups) => groups,
            _ => Vec::new(), // the kernel has checked the type
        });
        let groups = groups.map_err(malformed)?;
        let mut groups: Vec<_> = groups.iter().map(|group| of_group(group, &owners)).collect();
        groups.sort_by_key(|group| group.group_id);
        Ok(Some(groups))
    }

    /// Requests the meters of a switch, by their numbers. Returns `None` if no such switch is connected.
    ///
    /// # Errors
    /// As [`groups`](Self::groups).
    pub fn meters(&self, dpid: u64) -> Result<Option<Vec<MeterStatus>>, ClientError> {
        let Some((bytes, owners)) = self.entries(dpid, EntryPart::Meters)? else {
            return Ok(None);
        };
        let meters = read(&bytes, |body| match body {
            ReplyBody::MeterConfig(meters) => meters,
            _ => Vec::new(),
        });
        let meters = meters.map_err(malformed)?;
        let mut meters: Vec<_> = meters.iter().map(|meter| of_meter(meter, &owners)).collect();
        meters.sort_by_key(|meter| meter.meter_id);
        Ok(Some(meters))
    }
}

fn malformed(error: DecodeError) -> ClientError {
    ClientError::Failed(format!("the switch's answer is malformed: {error}"))
}

/// Reads the entries of multipart replies.
fn read<T>(bytes: &[u8], entries: impl Fn(ReplyBody<'_>) -> Vec<T>) -> Result<Vec<T>, DecodeError> {
    let mut all = Vec::new();
    for message in messages(bytes) {
        all.extend(entries(MultipartReply::decode(message?)?.body));
    }
    Ok(all)
}

fn of_group(group: &GroupDesc, owners: &[(AppId, String)]) -> GroupStatus {
    let (owner, first) = owned(group.group_id, owners, AppId::groups);
    GroupStatus {
        group_id: group.group_id,
        owner,
        own_id: group.group_id - first,
        kind: group.kind.to_string(),
        buckets: group.buckets.iter().map(ToString::to_string).collect(),
    }
}

fn of_meter(meter: &MeterConfig, owners: &[(AppId, String)]) -> MeterStatus {
    let (owner, first) = owned(meter.meter_id, owners, AppId::meters);
    MeterStatus {
        meter_id: meter.meter_id,
        owner,
        own_id: meter.meter_id - first,
        flags: meter.flags.to_string(),
        bands: meter.bands.iter().map(ToString::to_string).collect(),
    }
}

/// Returns the name of the app in whose range a number is, and the first number of that range.
fn owned(
    number: u32,
    owners: &[(AppId, String)],
    range: impl Fn(AppId) -> RangeInclusive<u32>,
) -> (String, u32) {
    let owner = owners.iter().find(|(app, _)| range(*app).contains(&number));
    owner
        .map_or_else(|| ("other".to_owned(), 0), |(app, name)| (name.clone(), *range(*app).start()))
}

#[cfg(test)]
mod tests {
    use openflow::{Action, Bucket, GroupKind, MeterBand, MeterFlags, PortNo};

    use super::*;

    #[test]
    fn numbers_show_the_owner() {
        let owners = [(AppId(7), "operator".to_owned())];
        let bucket = Bucket::new([Action::output(PortNo(2))]);
        let group =
            |group_id| GroupDesc { kind: GroupKind::All, group_id, buckets: vec![bucket.clone()] };
        let own = of_group(&group(0x7_0003), &owners);
        assert_eq!((own.owner.as_str(), own.own_id, own.kind.as_str()), ("operator", 3, "all"));
        assert!(own.buckets[0].contains("output:2"), "{own:?}");
        for number in [0, 5, 0x8_0000, 0xffff_ff00] {
            let other = of_group(&group(number), &owners);
            assert_eq!((other.owner.as_str(), other.own_id), ("other", number));
        }
        let bands = vec![MeterBand::Drop { rate: 5, burst_size: 0 }];
        let meter = MeterConfig { flags: MeterFlags(1), meter_id: 0x701, bands };
        let own = of_meter(&meter, &owners);
        assert_eq!((own.owner.as_str(), own.own_id, own.flags.as_str()), ("operator", 1, "kbps"));
        assert!(own.bands[0].contains("rate=5"), "{own:?}");
    }
}
