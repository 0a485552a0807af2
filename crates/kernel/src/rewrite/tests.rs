//! Messages as switches send them, and as apps get them.

use openflow::{
    ErrorMessage, FlowMod, FlowModFlags, FlowRemoved, FlowRemovedReason, FlowStats,
    FlowStatsRequest, GroupDesc, GroupKind, Instructions, Match, MeterConfig, MeterFlags,
    MultipartReply, MultipartRequest, PortNo, ReplyBody, append,
};

use super::*;
use crate::check::AppRights;
use control::policy::{Capability, Grant, Policy};

const VERSIONS: [Version; Version::COUNT] =
    [Version::V1_0, Version::V1_1, Version::V1_2, Version::V1_3, Version::V1_4, Version::V1_5];
const APP: AppId = AppId(7);

fn rights(capabilities: &[Capability]) -> Rights {
    let policy = Policy { capabilities: Grant::unscoped(capabilities), ..Policy::default() };
    AppRights::of(APP, &policy).at(1).clone()
}

fn bytes(encode: impl Fn(&mut [u8]) -> Result<usize, openflow::EncodeError>) -> Vec<u8> {
    let mut out = Vec::new();
    append(&mut out, encode).unwrap();
    out
}

fn cookie(app: u16, own: u64) -> u64 {
    u64::from(app) << 48 | own
}

fn flow(cookie: u64) -> FlowStats<'static> {
    FlowStats {
        table_id: 0,
        duration: Duration::from_secs(1),
        priority: 1,
        idle_timeout: 0,
        hard_timeout: 0,
        importance: 0,
        flags: FlowModFlags::default(),
        cookie,
        packet_count: 1,
        byte_count: 2,
        match_: Match::new().in_port(PortNo(1)),
        instructions: Instructions::default(),
    }
}

fn flows(version: Version, cookies: &[u64]) -> Vec<u8> {
    let body = ReplyBody::Flow(cookies.iter().map(|cookie| flow(*cookie)).collect());
    let reply = MultipartReply { more: true, body };
    bytes(|out| reply.encode(version, 99, out))
}

/// The cookies that an app with these rights sees.
fn seen(rights: &Rights, version: Version, cookies: &[u64]) -> Vec<u64> {
    let mut message = flows(version, cookies);
    reply(rights, version, Kind::MultipartReply, &mut message, 5).unwrap();
    assert_eq!(xid(&message), 5);
    let reply = MultipartReply::decode(&message).unwrap();
    assert!(reply.more);
    let ReplyBody::Flow(flows) = reply.body else { panic!("of flows") };
    flows.iter().map(|flow| flow.cookie).collect()
}

/// Returns the owner of each flow in a reply.
fn owners(version: Version, message: &[u8]) -> Result<Vec<AppId>, BadEntry> {
    Ok(places(version, message)?.into_iter().map(|(_, owner)| owner).collect())
}

#[test]
fn reply_contains_only_own_flows() {
    let cookies = [cookie(7, 1), cookie(8, 2), cookie(0, 3), cookie(7, 4), cookie(0xffff, 0)];
    for version in VERSIONS {
        assert_eq!(seen(&rights(&[]), version, &cookies), [1, 4]);
        assert_eq!(seen(&rights(&[]), version, &cookies[1..3]), [0; 0]);
        assert_eq!(seen(&rights(&[]), version, &[]), [0; 0]);
        let reader = rights(&[Capability::FlowRead]);
        let others = [1, cookie(8, 2), 3, 4, cookie(0xffff, 0)];
        assert_eq!(seen(&reader, version, &cookies), others);
    }
}

#[test]
fn flows_are_sorted_by_owner() {
    for version in VERSIONS {
        let mut message = flows(version, &[cookie(7, 1), cookie(8, 2), cookie(7, 4)]);
        assert_eq!(owners(version, &message), Ok(vec![AppId(7), AppId(8), AppId(7)]));
        message[10..12].fill(0); // the last part
        own_flows(APP, version, &mut message, |_, _| false).unwrap();
        let reply = MultipartReply::decode(&message).unwrap();
        let ReplyBody::Flow(flows) = reply.body else { panic!("of flows") };
        assert!(reply.more && xid(&message) == 0);
        assert!(flows.iter().map(|flow| flow.cookie).eq([1, 4]));
        own_flows(AppId(9), version, &mut message, |_, _| false).unwrap();
        assert_eq!(owners(version, &message), Ok(vec![]));
    }
}

#[test]
fn flows_of_an_earlier_band_have_priority_0() {
    for version in VERSIONS {
        let of = |priority, milliseconds| FlowStats {
            priority,
            duration: Duration::from_millis(milliseconds),
            ..flow(cookie(7, u64::from(priority)))
        };
        let body = ReplyBody::Flow(vec![of(5, 1500), of(6, 2500), of(9, 0)]);
        let reply = MultipartReply { more: false, body };
        let mut message = bytes(|out| reply.encode(version, 99, out));
        let is_earlier =
            |priority, age: Duration| priority > 8 || age >= Duration::from_millis(2500);
        own_flows(APP, version, &mut message, is_earlier).unwrap();
        let ReplyBody::Flow(flows) = MultipartReply::decode(&message).unwrap().body else {
            panic!("of flows")
        };
        let seen: Vec<_> = flows.iter().map(|it| (it.cookie, it.priority)).collect();
        assert_eq!(seen, [(5, 5), (6, EARLIER), (9, EARLIER)], "{version}");
    }
}

#[test]
fn entry_that_does_not_fit_keeps_the_whole_reply_back() {
    for version in VERSIONS {
        let whole = flows(version, &[cookie(7, 1), cookie(8, 2)]);
        let first = usize::from(version.layout().multipart_entries);
        let least = u16::from(version.layout().entry_min_size);
        for length in [0, 1, 7, 8, least - 1, 0x8000, 0xffff] {
            let mut message = whole.clone();
            message[first..first + 2].copy_from_slice(&length.to_be_bytes());
            let bad = reply(&rights(&[]), version, Kind::MultipartReply, &mut message, 5);
            assert_eq!(bad, Err(BadEntry { at: first }), "{length} in {version}");
            message[first..first + 2].copy_from_slice(&length.to_be_bytes());
            assert_eq!(owners(version, &message), Err(BadEntry { at: first }));
        }
        for size in 0..whole.len() {
            let mut message = whole[..size].to_vec();
            let _ = owners(version, &message);
            let _ = own_flows(APP, version, &mut message.clone(), |_, _| true);
            let _ = reply(&rights(&[]), version, Kind::MultipartReply, &mut message, 5);
        }
    }
}

#[test]
fn groups_and_meters_are_the_apps_own() {
    let all = |body: ReplyBody<'_>, rights: &Rights| {
        let parts = MultipartReply { more: false, body };
        let mut message = bytes(|out| parts.encode(Version::V1_3, 99, out));
        reply(rights, Version::V1_3, Kind::MultipartReply, &mut message, 5).unwrap();
        match MultipartReply::decode(&message).unwrap().body {
            ReplyBody::GroupDesc(groups) => groups.iter().map(|it| it.group_id).collect(),
            ReplyBody::MeterConfig(meters) => meters.iter().map(|it| it.meter_id).collect(),
            ReplyBody::Group(groups) => groups.iter().map(|it| it.group_id).collect(),
            ReplyBody::Meter(meters) => meters.iter().map(|it| it.meter_id).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    let groups = [7 << 16, 8 << 16, 7 << 16 | 9];
    let meters = [7 << 8, 8 << 8, 7 << 8 | 9];
    let desc = |group_id| GroupDesc { kind: GroupKind::All, group_id, buckets: vec![] };
    let config = |meter_id| MeterConfig { flags: MeterFlags::KBPS, meter_id, bands: vec![] };
    let group_stats = |group_id| openflow::GroupStats {
        group_id,
        ref_count: 0,
        packet_count: 0,
        byte_count: 0,
        duration: None,
        buckets: vec![],
    };
    let meter_stats = |meter_id| openflow::MeterStats {
        meter_id,
        flow_count: 0,
        packet_in_count: 0,
        byte_in_count: 0,
        duration: None,
        bands: vec![],
    };
    for (rights, kept) in
        [(rights(&[]), &[0, 2][..]), (rights(&[Capability::FlowRead]), &[0, 1, 2])]
    {
        let of = |numbers: [u32; 3]| kept.iter().map(|at| numbers[*at]).collect::<Vec<_>>();
        assert_eq!(all(ReplyBody::GroupDesc(groups.map(desc).into()), &rights), of(groups));
        assert_eq!(all(ReplyBody::Group(groups.map(group_stats).into()), &rights), of(groups));
        assert_eq!(all(ReplyBody::MeterConfig(meters.map(config).into()), &rights), of(meters));
        assert_eq!(all(ReplyBody::Meter(meters.map(meter_stats).into()), &rights), of(meters));
    }
}

#[test]
fn error_quotes_the_message_as_its_app_sent_it() {
    for version in VERSIONS {
        let add = FlowMod::add(Match::new()).cookie(0xabc);
        let sent = bytes(|out| add.encode(version, 41, out));
        let mut on_wire = sent.clone();
        on_wire[4..8].copy_from_slice(&900_u32.to_be_bytes());
        let at = usize::from(version.layout().flow_mod_cookie);
        on_wire[at..at + 2].copy_from_slice(&[0, 7]);
        for size in 0..=on_wire.len().min(64) {
            let data = &on_wire[..size];
            let told = ErrorMessage { version, kind: 5, code: 1, data };
            let mut message = bytes(|out| told.encode(900, out));
            error(version, &mut message, 900, 41);
            let told = ErrorMessage::decode(&message).unwrap();
            assert_eq!(xid(&message), 41);
            if size >= Header::SIZE {
                assert_eq!(told.data, &sent[..size], "{size} in {version}");
            }
        }
    }
}

#[test]
fn error_quotes_the_request_before_narrowing() {
    let request =
        FlowStatsRequest { cookie: 5, cookie_mask: 0xff, ..FlowStatsRequest::new(Match::new()) };
    for request in [MultipartRequest::Flow(request.clone()), MultipartRequest::Aggregate(request)] {
        let sent = bytes(|out| request.encode(Version::V1_3, 41, out));
        let mut on_wire = sent.clone();
        let ask = rights(&[Capability::StatsRead, Capability::FlowWrite]);
        ask.check(Version::V1_3, &on_wire).unwrap().mark(ask.app, &mut on_wire);
        assert_ne!(on_wire, sent);
        set_xid(&mut on_wire, 900);
        let told = ErrorMessage { version: Version::V1_3, kind: 1, code: 2, data: &on_wire };
        let mut message = bytes(|out| told.encode(900, out));
        error(Version::V1_3, &mut message, 900, 41);
        assert_eq!(ErrorMessage::decode(&message).unwrap().data, sent);
    }
}

#[test]
fn error_quoting_something_else_is_unchanged() {
    for data in [&b"no, I do not want to"[..], &[4, 14, 0, 80, 0, 0, 0, 1, 0, 7, 0, 0]] {
        let told = ErrorMessage { version: Version::V1_3, kind: 1, code: 1, data };
        let mut message = bytes(|out| told.encode(900, out));
        error(Version::V1_3, &mut message, 900, 41);
        assert_eq!((xid(&message), &message[QUOTE..]), (41, data));
    }
}

#[test]
fn flow_that_went_is_told_with_its_owners_cookie() {
    for version in VERSIONS {
        let removed = FlowRemoved {
            match_: Match::new(),
            cookie: cookie(7, 0xabc),
            priority: 1,
            reason: FlowRemovedReason::IdleTimeout,
            table_id: 0,
            duration: Duration::from_secs(1),
            idle_timeout: 1,
            hard_timeout: 0,
            packet_count: 0,
            byte_count: 0,
        };
        assert_eq!(owner(removed.cookie), APP);
        let mut message = bytes(|out| removed.encode(version, 0, out));
        assert_eq!(flow_removed(version, &mut message), Some(0xabc));
        assert_eq!(FlowRemoved::decode(&message).unwrap().cookie, 0xabc);
        assert_eq!(flow_removed(version, &mut message[..12]), None);
    }
}

#[test]
fn packet_in_cookie_is_restored_for_its_owner() {
    let mut message = vec![4, 10, 0, 42, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 1, 0];
    message.extend(cookie(7, 0xabc).to_be_bytes());
    message.extend([0, 1, 0, 4, 0, 0, 0, 0, 0, 0]);
    message[3] = u8::try_from(message.len()).unwrap();
    assert_eq!(take_cookie(Version::V1_0, &mut message), None);
    for size in 0..24 {
        assert_eq!(take_cookie(Version::V1_3, &mut message[..size]), None);
    }
    assert_eq!(take_cookie(Version::V1_3, &mut message), Some(cookie(7, 0xabc)));
    assert_eq!(openflow::PacketIn::decode(&message).unwrap().cookie, u64::MAX);
    put_cookie(&mut message, 0xabc);
    assert_eq!(openflow::PacketIn::decode(&message).unwrap().cookie, 0xabc);
    message[1] = 13;
    assert_eq!(take_cookie(Version::V1_3, &mut message), None, "no packet-in");
}
