//! Packet-ins that come in a run are what they are one by one.

use openflow::{PacketIn, append};

use super::*;
use crate::check::{APP_SHIFT, AppRights};
use control::policy::{Capability, Grant, Policy};

const VERSIONS: [Version; Version::COUNT] =
    [Version::V1_0, Version::V1_1, Version::V1_2, Version::V1_3, Version::V1_4, Version::V1_5];

/// A switch that speaks this version.
fn switch_of(version: Version) -> Switch {
    let mut switch = switch(7, 0);
    switch.version = version;
    switch.buffer_table = crate::buffer_table::BufferTable::default();
    switch
}

/// Inserts another field behind the in-port of the packet-in of 1.3 at `start`.
fn insert_in_phy_port(bytes: &mut Vec<u8>, start: usize) {
    bytes.splice(start + 36..start + 36, [0x80, 0, 1 << 1, 4, 0, 0, 0, 9]);
    bytes[start + 3] += 8;
    bytes[start + 27] += 8;
}

/// The bytes of a run of packet-ins, each with a cookie, a buffer and its number as its packet.
fn run(version: Version, packets: &[(u64, Option<u32>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, (cookie, buffer_id)) in (1_u8..).zip(packets) {
        let (frame, start) = ([number; 60], bytes.len());
        let mut packet_in = PacketIn::new(PortNo(3), &frame);
        (packet_in.cookie, packet_in.buffer_id) = (*cookie, *buffer_id);
        append(&mut bytes, |out| packet_in.encode(version, number.into(), out)).unwrap();
        let decoded = PacketIn::decode(&bytes[start..]).unwrap();
        assert_eq!((decoded.in_port, decoded.data), (PortNo(3), &frame[..]));
    }
    bytes
}

/// The whole records that the zone now sees.
fn records(bench: &mut Bench) -> Vec<Vec<u8>> {
    bench.pump();
    let zone = bench.zone.as_mut().unwrap();
    let batch = zone.records.batch(MAX_BATCH).unwrap();
    let records: Vec<Vec<u8>> = batch.iter().map(<[u8]>::to_vec).collect();
    zone.messages.done(&mut zone.records, records.len());
    records
}

/// The effects of a run, delivered as one and message by message.
fn both_ways(version: Version, bytes: &[u8]) -> [(usize, Vec<Vec<u8>>, Bench); 2] {
    both_ways_of(&Policy::default(), version, bytes)
}

/// The same, for an app with this policy.
fn both_ways_of(
    policy: &Policy,
    version: Version,
    bytes: &[u8],
) -> [(usize, Vec<Vec<u8>>, Bench); 2] {
    let bench = || {
        let mut bench = Bench::live(vec![switch_of(version)]);
        bench.app_port.rights = AppRights::of(AppId(1), policy);
        bench
    };
    let (mut single, mut bench) = (bench(), bench());
    let taken = bench.app_port.packet_ins(&mut bench.switches[0], &mut bytes.to_vec());
    let seen = records(&mut bench);
    let mut left = &bytes[..taken];
    while let Some((message, _)) = dal::drivers::openflow::framing::cut(left).unwrap() {
        left = &left[message.len()..];
        let mut message = message.to_vec();
        let cookie = crate::rewrite::take_cookie(version, &mut message);
        let mut view = PacketIn::decode(&message).unwrap();
        view.cookie = cookie.unwrap_or(PacketIn::NO_COOKIE);
        let switch = &mut single.switches[0];
        let record = crate::record::packet_in_record(switch, &view, &message).unwrap();
        if let Some(buffer) = view.buffer_id {
            switch.buffer_table.kept(buffer, crate::plan::Set::EMPTY);
        }
        assert!(single.app_port.packet_in(switch, &record, &message, Ticket::NONE));
    }
    let seen_single = records(&mut single);
    [(taken, seen, bench), (taken, seen_single, single)]
}

#[test]
fn run_of_packet_ins_equals_single_ones() {
    for version in VERSIONS {
        let none = PacketIn::NO_COOKIE;
        let [others, zero] = if version.features().packet_in_cookie {
            [9 << APP_SHIFT | 0x4d, 0]
        } else {
            [none; 2]
        };
        let bytes = run(version, &[(none, None), (others, Some(5)), (none, Some(6)), (zero, None)]);
        let [(taken, run, bench), (_, single, one_by_one)] = both_ways(version, &bytes);
        assert_eq!(taken, bytes.len());
        assert_eq!((run.len(), &run), (4, &single));
        assert_eq!(bench.switches[0].counters.packet_ins, 4);
        assert_eq!(bench.app_port.counts.delivered, one_by_one.app_port.counts.delivered);
        for buffer in 4..8 {
            let given = [&bench, &one_by_one]
                .map(|it| it.switches[0].buffer_table.has(buffer, AppSlot::new(0)));
            assert_eq!(given, [buffer == 5 || buffer == 6; 2], "{buffer}");
        }
        let foreign = (9_u64 << APP_SHIFT | 0x4d).to_be_bytes();
        assert!(!run.concat().windows(8).any(|it| it == foreign));
    }
}

#[test]
fn lldp_buffer_needs_topology_probe() {
    let prober = Grant::unscoped(&[Capability::PacketOut, Capability::TopologyProbe]);
    let prober = Policy { capabilities: prober, ..Policy::default() };
    for (policy, may_send) in [(Policy::default(), false), (prober, true)] {
        for version in VERSIONS {
            let mut bytes =
                run(version, &[(PacketIn::NO_COOKIE, Some(5)), (PacketIn::NO_COOKIE, Some(6))]);
            let second = bytes.windows(60).position(|it| it == [2; 60]).unwrap();
            let lldp_in_snap = [0, 46, 0xaa, 0xaa, 3, 0, 0, 0, 0x88, 0xcc];
            bytes[second + 12..second + 22].copy_from_slice(&lldp_in_snap);
            for (_, seen, bench) in both_ways_of(&policy, version, &bytes) {
                assert_eq!(seen.len(), 2, "the app sees both");
                let given = [5, 6]
                    .map(|buffer| bench.switches[0].buffer_table.has(buffer, AppSlot::new(0)));
                assert_eq!(given, [true, may_send], "{version:?}");
            }
        }
    }
}

/// A packet-in with buffer 5 that brings only the first `size` bytes of a frame.
fn cut_packet_in(version: Version, frame: &[u8], size: usize) -> Vec<u8> {
    let mut packet_in = PacketIn::new(PortNo(3), &frame[..size]);
    packet_in.total_len = 60;
    packet_in.buffer_id = Some(5);
    let mut bytes = Vec::new();
    append(&mut bytes, |out| packet_in.encode(version, 1, out)).unwrap();
    bytes
}

#[test]
fn buffer_of_a_cut_frame_needs_topology_probe() {
    let frame = |types: &[u8]| [&[2; 12], types, &[9; 40]].concat();
    // Frames, and how many bytes of each say that it is no LLDP.
    let frames = [
        (frame(&[0x08, 0]), 14),
        (frame(&[0x81, 0, 0, 7, 0x08, 0]), 18),
        (frame(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 7, 0x08, 0]), 22),
        (frame(&[0, 46, 0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0]), 22),
        (frame(&[0, 46, 0x42, 0x42, 3, 0, 0, 0]), 20),
    ];
    let prober = Grant::unscoped(&[Capability::PacketOut, Capability::TopologyProbe]);
    let prober = Policy { capabilities: prober, ..Policy::default() };
    for (frame, enough) in &frames {
        for version in VERSIONS {
            for size in [0, 11, 12, 13, 14, 17, 18, 19, 20, 21, 22, 30] {
                let bytes = cut_packet_in(version, frame, size);
                let given = |policy: &Policy| {
                    both_ways_of(policy, version, &bytes).map(|(_, seen, bench)| {
                        assert_eq!(seen.len(), 1, "the app sees it");
                        bench.switches[0].buffer_table.has(5, AppSlot::new(0))
                    })
                };
                let case = format!("{size} bytes of {frame:02x?}, {version:?}");
                assert_eq!(given(&Policy::default()), [size >= *enough; 2], "{case}");
                assert_eq!(given(&prober), [true; 2], "{case}");
            }
        }
    }
}

#[test]
fn buffer_of_a_dropped_packet_in_is_unusable() {
    let mut bench = Bench::live(vec![switch_of(Version::V1_3)]);
    let mut delivered = 0;
    for buffer in 0..200 {
        bench.switches[0].buffer_table.kept(buffer, crate::plan::Set::EMPTY);
        let bytes = run(Version::V1_3, &[(PacketIn::NO_COOKIE, Some(buffer))]);
        let view = PacketIn::decode(&bytes).unwrap();
        let switch = &mut bench.switches[0];
        let record = crate::record::packet_in_record(switch, &view, &bytes).unwrap();
        let taken = bench.app_port.packet_in(switch, &record, &bytes, Ticket::NONE);
        assert_eq!(bench.switches[0].buffer_table.has(buffer, AppSlot::new(0)), taken, "{buffer}");
        delivered += u32::from(taken);
    }
    assert!(0 < delivered && delivered < 200, "{delivered}");
}

#[test]
fn run_ends_before_an_own_packet_or_other_message() {
    let version = Version::V1_3;
    let own = 1 << APP_SHIFT | 0x4d;
    let mut bytes = run(version, &[(u64::MAX, None), (own, None), (u64::MAX, None)]);
    let before = bytes.clone();
    let mut bench = Bench::live(vec![switch_of(version)]);
    let one = bytes.len() / 3;
    assert_eq!(bench.app_port.packet_ins(&mut bench.switches[0], &mut bytes), one);
    assert_eq!(bytes[one..], before[one..], "the cookie is still there");
    let mut rest = bytes[2 * one..].to_vec();
    rest.extend([4, 2, 0, 8, 0, 0, 0, 1]); // an echo request
    rest.extend(&before[..one - 1]); // and a packet-in that is not whole
    assert_eq!(bench.app_port.packet_ins(&mut bench.switches[0], &mut rest), one);
    assert_eq!(bench.app_port.packet_ins(&mut bench.switches[0], &mut rest[one + 8..]), 0);
    assert_eq!(bench.seen(), [Seen::Packet(4), Seen::Packet(4)]);
}

#[test]
fn run_takes_packet_ins_with_further_fields() {
    let version = Version::V1_3;
    let mut bytes = run(version, &[(u64::MAX, None), (u64::MAX, Some(5)), (u64::MAX, None)]);
    let one = bytes.len() / 3;
    insert_in_phy_port(&mut bytes, one);
    let [(taken, run, _), (_, single, _)] = both_ways(version, &bytes);
    assert_eq!((taken, run.len(), &run), (bytes.len(), 3, &single));
}

#[test]
fn run_ends_before_a_malformed_packet_in() {
    for version in VERSIONS {
        let mut bytes = run(version, &[(u64::MAX, None), (u64::MAX, None)]);
        let one = bytes.len() / 2;
        bytes.truncate(one + 16); // all of the second's header, and a part of its fields
        bytes[one + 3] = 16;
        let mut bench = Bench::live(vec![switch_of(version)]);
        assert_eq!(bench.app_port.packet_ins(&mut bench.switches[0], &mut bytes), one);
        assert_eq!(bench.app_port.packet_ins(&mut bench.switches[0], &mut bytes[one..]), 0);
    }
}

#[test]
fn run_ends_at_a_full_ring() {
    let version = Version::V1_3;
    let others = 9 << APP_SHIFT | 0x4d;
    let mut bytes = run(version, &[(others, None); 40]);
    let before = bytes.clone();
    let mut bench = Bench::live(vec![switch_of(version)]);
    let taken = bench.app_port.packet_ins(&mut bench.switches[0], &mut bytes);
    assert!(0 < taken && taken < bytes.len(), "{taken}");
    assert_eq!(bytes[taken..], before[taken..]);
    let count = bench.switches[0].counters.packet_ins;
    assert_eq!(taken as u64 * 40, count * bytes.len() as u64);
    assert_eq!(bench.app_port.packet_ins(&mut bench.switches[0], &mut bytes[taken..]), 0);
    assert_eq!(bench.seen().len() as u64, count);
}
