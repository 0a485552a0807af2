//! Tests the description that a session requests after the handshake.

use super::*;

/// A switch that has just completed the handshake; the transaction ids of the requests for its description.
fn after_handshake(version: Version) -> (Script, Vec<u32>) {
    let mut script = Script::offering(OfferedVersions::only(&[version]).unwrap());
    script.receive(&hello(&[version])).unwrap();
    script.receive(&features(version, 0)).unwrap();
    if version.features().port_desc {
        script.sent();
        script.receive(&ports(version, 1, false)).unwrap();
    }
    script.session.configure(&mut script.out);
    let xids = script.xids();
    let mut last = xids[xids.len() - 2..].to_vec();
    for time in [MS, 4 * S] {
        script.at(time).unwrap();
    }
    last.extend(script.xids());
    (script, last)
}

fn table_stats(version: Version, more: bool, xid: u32) -> Vec<u8> {
    let old = !version.features().table_features;
    let stats = TableStats {
        table_id: 3,
        name: old.then(Default::default),
        wildcards: 0,
        max_entries: if old { 1000 } else { 0 },
        active_count: 7,
        lookup_count: 0,
        matched_count: 0,
    };
    let reply = MultipartReply { more, body: ReplyBody::Table(vec![stats]) };
    bytes(|out| reply.encode(version, xid, out))
}

#[test]
fn descriptions_of_a_switch_are_events() {
    for version in VERSIONS {
        let (mut script, xids) = after_handshake(version);
        let config = SwitchConfig { flags: 1, miss_send_len: 0xffff };
        let reply = bytes(|out| config.encode_reply(version, xids[0], out));
        let event = script.receive(&reply).unwrap();
        assert!(matches!(event, Some(Event::Described(Description::Config(it))) if it == config));
        for more in [true, false] {
            let reply = table_stats(version, more, xids[1]);
            let Some(Event::Described(Description::Tables(tables))) =
                script.receive(&reply).unwrap()
            else {
                panic!("no such event")
            };
            let max_entries = (!version.features().table_features).then_some(1000);
            assert_eq!(tables, [Table { table_id: 3, max_entries, active_count: Some(7) }]);
        }
        // The last part has closed the request.
        let reply = table_stats(version, false, xids[1]);
        let event = script.receive(&reply).unwrap();
        assert!(matches!(event, Some(Event::Reply(Kind::MultipartReply))));
    }
}

/// The answer takes some switches long: it is requested after the network is known again, and not by all at once.
#[test]
fn sizes_of_tables_are_requested_later() {
    let mut ms = 0;
    for version in VERSIONS {
        let mut script = Script::up(version);
        let mut moments = Vec::new();
        for ms in (0..4_900).step_by(100) {
            script.at(ms * MS).unwrap();
            moments.extend(script.sent().into_iter().map(|kind| (ms, kind)));
        }
        match moments[..] {
            [] => assert!(!version.features().table_features),
            [(at @ 2_000..=4_100, Kind::MultipartRequest)] => ms = at,
            _ => panic!("{version}: {moments:?}"),
        }
    }
    // A switch whose datapath id another connection has is configured late: its sizes are requested then.
    let mut script = Script::up(Version::V1_3);
    script.at(10 * S).unwrap();
    script.sent();
    script.note_received(10 * S);
    script.session.configure(&mut script.out);
    script.sent();
    script.at(10 * S + 100 * MS).unwrap();
    script.at(10 * S + (ms + 200) * MS).unwrap();
    assert_eq!(script.sent(), [Kind::MultipartRequest]);
}

#[test]
fn neighbouring_switches_are_asked_for_sizes_at_different_times() {
    let mut all: Vec<Duration> =
        (1..=20).map(|dpid| session::spread(openflow::Dpid(dpid))).collect();
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0] + 30 * MS <= pair[1]), "{all:?}");
}

/// An answer about table 5, which holds a million flows, with these properties.
fn table_features(xid: u32, properties: &[u8]) -> Vec<u8> {
    let size = |size: usize| u16::try_from(size).unwrap().to_be_bytes();
    let [high, low] = size(80 + properties.len());
    let mut reply = vec![4, 19, high, low];
    reply.extend(xid.to_be_bytes());
    reply.extend([0, 12, 0, 0, 0, 0, 0, 0]);
    reply.extend(size(64 + properties.len()));
    reply.extend([5, 0, 0, 0, 0, 0]);
    reply.extend([0; 32 + 8 + 8 + 4]);
    reply.extend(1_000_000_u32.to_be_bytes());
    reply.extend(properties);
    reply
}

#[test]
fn table_features_contain_the_size_of_a_table() {
    let properties: [&[u8]; 8] = [
        &[],
        // Instructions and actions with 4 bytes each, with 8, and with all fields of an output.
        &[0, 0, 0, 12, 0, 1, 0, 4, 0, 6, 0, 4, 0, 0, 0, 0],
        &[0, 0, 0, 20, 0, 1, 0, 8, 0, 0, 0, 0, 0, 6, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0, 6, 0, 20, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        // An experimenter's action; next tables; OXM ids with an experimenter's.
        &[0, 4, 0, 12, 0xff, 0xff, 0, 8, 0, 0, 0x23, 0x20, 0, 0, 0, 0],
        &[0, 2, 0, 7, 6, 7, 8, 0],
        &[0, 8, 0, 16, 0x80, 0, 0, 4, 0xff, 0xff, 2, 8, 0, 0, 0x23, 0x20],
        // A property of a type that 1.3 does not have, with its padding.
        &[0, 22, 0, 10, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0],
    ];
    for properties in properties {
        let (mut script, xids) = after_handshake(Version::V1_3);
        let reply = table_features(xids[2], properties);
        let Some(Event::Described(Description::Tables(tables))) = script.receive(&reply).unwrap()
        else {
            panic!("no such event: {properties:x?}")
        };
        let table = Table { table_id: 5, max_entries: Some(1_000_000), active_count: None };
        assert_eq!(tables, [table]);
    }
}

#[test]
fn switch_that_refuses_a_description_stays_up() {
    for version in VERSIONS {
        let (mut script, xids) = after_handshake(version);
        for xid in xids {
            let error = ErrorMessage { version, kind: 1, code: 1, data: &[] };
            let error = bytes(|out| error.encode(xid, out));
            let event = script.receive(&error).unwrap();
            assert!(matches!(event, Some(Event::Described(Description::Nothing))));
            // The request is closed, so later errors are about other messages.
            assert!(matches!(script.receive(&error).unwrap(), Some(Event::Error(_))));
        }
        assert!(script.session.is_up());
    }
}

#[test]
fn description_of_another_type_is_malformed() {
    let (mut script, xids) = after_handshake(Version::V1_3);
    let garbled = bytes(|out| {
        SwitchConfig { flags: 0, miss_send_len: 0 }.encode_reply(Version::V1_3, xids[1], out)
    });
    assert!(matches!(script.receive(&garbled).unwrap(), Some(Event::Malformed(_))));
    let desc = bytes(|out| PortDescReply::encode(&[port(1)], false, Version::V1_3, xids[2], out));
    let Some(Event::Malformed(error)) = script.receive(&desc).unwrap() else {
        panic!("no such event")
    };
    let words = "multipart_reply.type at byte 8 is 0xd, expected 3 (tables)";
    assert!(error.to_string().starts_with(words), "{error}");
    let barrier = bytes(|out| Kind::BarrierReply.encode_empty(Version::V1_3, xids[0], out));
    assert!(matches!(script.receive(&barrier).unwrap(), Some(Event::Malformed(_))));
    assert!(matches!(script.receive(&barrier).unwrap(), Some(Event::Reply(_))), "it is closed");
    assert!(script.session.is_up());
}
