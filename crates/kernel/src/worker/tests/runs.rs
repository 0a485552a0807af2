//! Tests messages that an app sends together when the kernel must refuse some.

use openflow::{
    Action, Blanks, FlowMod, FlowModCommand, FlowModTemplate, GroupKind, GroupMod, GroupModCommand,
    MacAddr, Match,
};
use sdk::Refusal;
use series::{BLANKS_SIZE, MAX_SERIES};

use super::*;
use control::policy::{Capability, Quota};

/// A message for the switch, and whether it may go out.
fn messages() -> Vec<(Vec<u8>, bool)> {
    let out = |number: u32| {
        let (mut message, data) = (Vec::new(), number.to_be_bytes());
        let packet_out = PacketOut::new(PortNo(1), &[], &data);
        append(&mut message, |out| packet_out.encode(OF, number, out)).unwrap();
        (message, true)
    };
    let group = |xid| {
        let mut message = Vec::new();
        let (command, kind) = (GroupModCommand::Add, GroupKind::All);
        let group = GroupMod { command, kind, group_id: 0, buckets: Vec::new() };
        append(&mut message, |out| group.encode(OF, xid, out)).unwrap();
        (message, false) // it was not granted
    };
    let flow = |xid, cookie| {
        let mut message = Vec::new();
        let add = FlowMod::add(Match::new()).priority(1).cookie(cookie);
        append(&mut message, |out| add.encode(OF, xid, out)).unwrap();
        (message, cookie < 1 << 48)
    };
    vec![
        group(100),
        out(1),
        flow(2, 7),
        flow(101, 1 << 48),
        group(102),
        out(3),
        (vec![4, 13, 0, 8], false), // cut short
        flow(4, 8),
        out(5),
        group(103),
    ]
}

/// A worker, a switch that has completed its handshake and sent packet 9, and the zone, which has not handled it.
pub(super) fn with_packet_in() -> (Bench, Vec<FakeSwitch>, FakeZone, SeenRecord) {
    with_packet_in_and(&Policy::default())
}

/// The same, where the app has this policy.
pub(super) fn with_packet_in_and(
    policy: &Policy,
) -> (Bench, Vec<FakeSwitch>, FakeZone, SeenRecord) {
    let mut bench = Bench::new(1);
    let mut fakes = bench.connect([1]);
    let mut zone = bench.attach_with(policy);
    zone.snapshot();
    wait_for("the handshake is over", || {
        let message = fakes[0].received.try_recv().ok()?;
        is_barrier(&message).then_some(()) // the last of the kernel's own
    });
    fakes[0].send_packet_in(9);
    let at = wait_for("the packet came", || zone.peek(0).first().copied());
    (bench, fakes, zone, at)
}

fn is_barrier(message: &[u8]) -> bool {
    let header = Header::decode(message).unwrap();
    Kind::from_wire(OF, header.kind) == Ok(Kind::BarrierRequest)
}

/// Sends a message to a connection of a switch before the current packet is [`handled`]: as a series of this many
/// messages, or a single one if the number is 0.
pub(super) fn send_message(
    zone: &mut FakeZone,
    (dpid, epoch): (u64, u32),
    sent: &[u8],
    series: u32,
) {
    let room = &mut zone.ends[0].0.messages;
    room.reserve(sent.len()).unwrap().copy_from_slice(sent);
    assert!(room.commit_with(dpid, epoch, sent.len(), series));
}

/// Completes the current packet, which publishes the messages.
pub(super) fn handled(zone: &mut FakeZone) {
    let (ZoneEnd { records, messages }, bell) = &mut zone.ends[0];
    if messages.done(records, 1) {
        bell.ring();
    }
}

/// Has the switch send an error about a message of `kind` and `size` with this transaction id. Returns the transaction
/// id in the error that the app receives.
fn error_about(
    fake: &mut FakeSwitch,
    zone: &mut FakeZone,
    (kind, size): (u8, u8),
    xid: u32,
) -> u32 {
    let quote = [&[4, kind, 0, size][..], &xid.to_be_bytes()].concat();
    let error = [&[4, 1, 0, 20][..], &xid.to_be_bytes(), &[0, 1, 0, 8], &quote].concat();
    fake.socket.write_all(&error).unwrap();
    let error_record = wait_for("the error came", || {
        let ends = &mut zone.ends[0].0;
        let batch = ends.records.batch(MAX_BATCH).unwrap();
        let error_record = batch.iter().next().map(|record| record[RECORD_HEAD..].to_vec());
        ends.messages.done(&mut ends.records, usize::from(error_record.is_some()));
        error_record
    });
    u32::from_be_bytes(*error_record[4..].first_chunk().unwrap())
}

#[test]
fn admitted_messages_of_a_run_keep_their_order() {
    let (bench, fakes, mut zone, at) = with_packet_in();
    for (message, _) in messages() {
        send_message(&mut zone, (1, at.epoch), &message, 0);
    }
    handled(&mut zone);
    for (sent, _) in messages().into_iter().filter(|(_, passes)| *passes) {
        expect_message(&fakes[0], sent);
    }
    let expected = messages().into_iter().filter(|(_, passes)| !passes);
    let expected: Vec<_> =
        expected.map(|(message, _)| message[..message.len().min(64)].to_vec()).collect();
    let refused: Vec<_> = refusals(&mut zone, 5).into_iter().map(|(_, message)| message).collect();
    assert_eq!(refused, expected, "as the app wrote them");
    bench.stop();
}

/// Checks that the switch's next message is that of the app; returns its transaction id.
fn expect_message(fake: &FakeSwitch, mut sent: Vec<u8>) -> u32 {
    let message = fake.received.recv_timeout(TEST_TIMEOUT).unwrap();
    sent[4..8].copy_from_slice(&message[4..8]); // transaction ids are the kernel's
    if sent[1] == 14 {
        sent[8..10].copy_from_slice(&APP.0.to_be_bytes()); // and so is the cookie's top
    }
    assert_eq!(message, sent);
    u32::from_be_bytes(*message[4..].first_chunk().unwrap())
}

/// Returns the next refusal in a ring, if there is one: the reason and the message's beginning.
fn refused(zone: &mut FakeZone, ring: usize) -> Option<(u8, Vec<u8>)> {
    let ends = &mut zone.ends[ring].0;
    loop {
        let batch = ends.records.batch(1).unwrap();
        let record = batch.iter().next()?;
        let kind = u16::from_le_bytes([record[4], record[5]]);
        let body = &record[RECORD_HEAD..];
        // Where the text behind the message begins, if there is one.
        let message = match u16::from_le_bytes([record[28], record[29]]) {
            0 => body,
            offset => &body[..offset.into()],
        };
        let refusal = (record[40], message.to_vec());
        ends.messages.done(&mut ends.records, 1);
        if kind == RecordKind::Refused as u16 {
            return Some(refusal);
        }
    }
}

/// Returns the next `count` of them.
fn refusals(zone: &mut FakeZone, count: usize) -> Vec<(u8, Vec<u8>)> {
    (0..count).map(|_| wait_for("a refusal came", || refused(zone, 0))).collect()
}

fn blanks(number: u8, buffer_id: Option<u32>) -> Blanks {
    Blanks {
        in_port: PortNo(number.into()),
        eth_dst: MacAddr([2, 0, 0, 0, 0, number]),
        eth_src: MacAddr([2, 0, 0, 0, 1, number]),
        buffer_id,
        output: PortNo(9),
    }
}

/// The blanks in the form in which an app writes them.
fn written(blanks: &Blanks) -> [u8; BLANKS_SIZE] {
    let numbers = [blanks.in_port.0, blanks.output.0, blanks.buffer_id.unwrap_or(u32::MAX)];
    let mut bytes = numbers.map(u32::to_le_bytes).concat();
    bytes.extend(blanks.eth_dst.0.iter().chain(&blanks.eth_src.0));
    bytes.try_into().unwrap()
}

/// A series whose first transaction id is 50.
fn series(add: &FlowMod<'_>, all: &[Blanks]) -> Vec<u8> {
    let template = FlowModTemplate::new(add, OF).unwrap();
    let mut sent = template.message().to_vec();
    sent[4..8].copy_from_slice(&50_u32.to_be_bytes());
    sent.extend(all.iter().flat_map(written));
    sent
}

/// Returns the flow-mod of a series as a single message.
fn alone(add: &FlowMod<'_>, blanks: &Blanks, xid: u32) -> Vec<u8> {
    let mut message = vec![0; 128];
    let template = FlowModTemplate::new(add, OF).unwrap();
    let size = template.fill(blanks, xid, &mut message).unwrap();
    message.truncate(size);
    message
}

#[test]
fn series_is_sent_as_single_flow_mods() {
    let (bench, mut fakes, mut zone, at) = with_packet_in();
    let add = FlowMod::add(Match::new()).priority(1).cookie(7);
    let foreign = FlowMod::add(Match::new()).priority(1).cookie(1 << 48);
    let all = [blanks(1, None), blanks(2, Some(77)), blanks(3, None)];
    let packet_out = |xid| {
        let mut message = Vec::new();
        let out = PacketOut::new(PortNo(1), &[], &[]);
        append(&mut message, |room| out.encode(OF, xid, room)).unwrap();
        message
    };
    let whole = series(&add, &all);
    let many = series(&add, &[blanks(1, None); MAX_SERIES + 1]);
    let (now, past) = (at.epoch, at.epoch + 1);
    let sent = [
        (packet_out(1), 0),
        (whole.clone(), 3),
        (packet_out(2), 0),
        (series(&foreign, &all[..2]), 2),
        (whole.clone(), 2),
        (whole.clone(), u32::MAX),
        (many.clone(), u32::try_from(MAX_SERIES).unwrap() + 1),
        (packet_out(3), 7),
        (whole[..8].to_vec(), 1),
        (series(&add, &all[2..]), 1),
    ];
    for (message, count) in &sent {
        send_message(&mut zone, (1, now), message, *count);
    }
    send_message(&mut zone, (1, past), &whole, 3);
    handled(&mut zone);
    let expected = [
        packet_out(1),
        alone(&add, &all[0], 0),
        alone(&add, &all[2], 0),
        packet_out(2),
        alone(&add, &all[2], 0),
    ];
    let mut xids = Vec::new();
    for sent in expected {
        xids.push(expect_message(&fakes[0], sent));
    }
    assert!(xids.is_sorted_by(|a, b| a < b), "{xids:?}");
    let beginning = |message: Vec<u8>| message[..message.len().min(64)].to_vec();
    let shape = Refusal::Shape as u8;
    let expected = [
        (Refusal::Buffer as u8, beginning(alone(&add, &all[1], 51))),
        (Refusal::Cookie as u8, beginning(alone(&foreign, &all[0], 50))),
        (Refusal::Cookie as u8, beginning(alone(&foreign, &all[1], 51))),
        (shape, beginning(whole.clone())),
        (shape, beginning(whole.clone())),
        (shape, beginning(many)),
        (shape, packet_out(3)),
        (shape, whole[..8].to_vec()),
        (Refusal::Epoch as u8, beginning(alone(&add, &all[0], 50))),
        (Refusal::Epoch as u8, beginning(alone(&add, &all[1], 51))),
        (Refusal::Epoch as u8, beginning(alone(&add, &all[2], 52))),
    ];
    assert_eq!(refusals(&mut zone, expected.len()), expected, "as the app wrote them");
    // An error about one of them finds it.
    let own = error_about(&mut fakes[0], &mut zone, (14, 104), xids[2]);
    assert_eq!(own, 52, "the app's own transaction id");
    bench.stop();
}

#[test]
fn single_message_and_series_are_refused_in_one_order() {
    let quota = Quota { flow_mods: 0, ..Quota::NONE };
    let (bench, fakes, mut zone, at) = with_packet_in_and(&Policy { quota, ..Policy::default() });
    let own = FlowMod::add(Match::new()).priority(1).cookie(7);
    let foreign = own.clone().cookie(1 << 48);
    let cases = [
        (&foreign, Some(77), Refusal::Cookie),
        (&own, Some(77), Refusal::Quota),
        (&own, None, Refusal::Quota),
    ];
    let mut expected = Vec::new();
    for (add, buffer, why) in cases {
        let flow = blanks(1, buffer);
        let message = alone(add, &flow, 50);
        send_message(&mut zone, (1, at.epoch), &message, 0);
        send_message(&mut zone, (1, at.epoch), &series(add, &[flow]), 1);
        expected.extend([(why as u8, message[..64].to_vec()), (why as u8, message[..64].to_vec())]);
    }
    handled(&mut zone);
    assert_eq!(refusals(&mut zone, expected.len()), expected);
    assert!(fakes[0].received.try_recv().is_err(), "nothing was sent");
    bench.stop();
}

#[test]
fn quota_and_buffer_divide_alike_messages() {
    for most in [2, Quota::NONE.flow_mods] {
        let quota = Quota { flow_mods: most, ..Quota::NONE };
        let (bench, mut fakes, mut zone, at) =
            with_packet_in_and(&Policy { quota, ..Policy::default() });
        keeps_a_packet(&mut fakes[0], &mut zone);
        let add = FlowMod::add(Match::new()).priority(1).cookie(7);
        // The app received buffer 77, and may use it once.
        let buffers = [Some(77), Some(77), None, None];
        let all: Vec<_> =
            (1..).zip(buffers).map(|(number, buffer)| blanks(number, buffer)).collect();
        send_message(&mut zone, (1, at.epoch), &series(&add, &all), 4);
        handled(&mut zone);
        let message =
            |number: usize| alone(&add, &all[number], 50 + u32::try_from(number).unwrap());
        let beginning = |number| message(number)[..64].to_vec();
        expect_message(&fakes[0], message(0));
        expect_message(&fakes[0], message(2));
        let buffer = (Refusal::Buffer as u8, beginning(1));
        if most == 2 {
            let quota = (Refusal::Quota as u8, beginning(3));
            assert_eq!(refusals(&mut zone, 2), [buffer, quota]);
        } else {
            expect_message(&fakes[0], message(3));
            assert_eq!(refusals(&mut zone, 1), [buffer]);
        }
        assert!(fakes[0].received.try_recv().is_err(), "and no more");
        bench.stop();
    }
}

/// A series with packets whose first transaction id is 50.
fn with_packets(add: &FlowMod<'_>, all: &[(Blanks, &[u8])]) -> Vec<u8> {
    let mut sent = series(add, &[]);
    for (blanks, packet) in all {
        sent.extend(written(blanks));
        sent.extend(u32::try_from(packet.len()).unwrap().to_le_bytes());
        sent.extend_from_slice(packet);
    }
    sent
}

/// The packet-out behind a flow-mod.
fn behind(blanks: &Blanks, packet: &[u8], xid: u32) -> Vec<u8> {
    let (mut message, actions) = (Vec::new(), [Action::output(blanks.output)]);
    let packet_out = PacketOut::new(blanks.in_port, &actions, packet);
    append(&mut message, |room| packet_out.encode(OF, xid, room)).unwrap();
    message
}

#[test]
fn packets_of_a_series_follow_its_flow_mods() {
    let (bench, mut fakes, mut zone, at) = with_packet_in();
    let add = FlowMod::add(Match::new()).priority(1).cookie(7);
    let foreign = FlowMod::add(Match::new()).priority(1).cookie(1 << 48);
    let lldp = [&[7; 12][..], &[0x88, 0xcc, 0, 0]].concat();
    let all = [
        (blanks(1, None), &b"a packet"[..]),
        (blanks(2, Some(77)), b"another"), // a buffer that the app did not receive
        (blanks(3, None), &lldp),
        (blanks(4, None), b""),
        (blanks(5, None), b"the last"),
    ];
    let whole = with_packets(&add, &all);
    let (now, past) = (at.epoch, at.epoch + 1);
    let sent = [
        (now, whole.clone(), 5),
        (now, with_packets(&foreign, &all[4..]), 1),
        (now, whole.clone(), 4),
        (now, whole[..whole.len() - 1].to_vec(), 5),
        (past, with_packets(&add, &all[..1]), 1),
    ];
    for (epoch, message, count) in &sent {
        send_message(&mut zone, (1, *epoch), message, *count);
    }
    handled(&mut zone);
    let flow = |number: usize, xid| alone(&add, &all[number].0, xid);
    let packet = |number: usize, xid| behind(&all[number].0, all[number].1, xid);
    let sent = [
        flow(0, 50),
        flow(2, 52),
        flow(3, 53),
        flow(4, 54),
        packet(0, 55),
        packet(1, 56),
        packet(4, 58),
        packet(4, 51), // whose flow-mod was refused
    ];
    let xids = sent.map(|sent| expect_message(&fakes[0], sent));
    assert!(xids.is_sorted_by(|a, b| a < b), "{xids:?}");
    let beginning = |message: Vec<u8>| message[..message.len().min(64)].to_vec();
    let expected = [
        (Refusal::Buffer as u8, beginning(flow(1, 51))),
        (Refusal::Capability as u8, beginning(packet(2, 57))),
        (Refusal::Cookie as u8, beginning(alone(&foreign, &all[4].0, 50))),
        (Refusal::Shape as u8, beginning(whole.clone())),
        (Refusal::Shape as u8, beginning(whole)),
        (Refusal::Epoch as u8, beginning(flow(0, 50))),
        (Refusal::Epoch as u8, beginning(packet(0, 51))),
    ];
    assert_eq!(refusals(&mut zone, expected.len()), expected, "as the app wrote them");
    // An error about one of the packets finds it.
    let own = error_about(&mut fakes[0], &mut zone, (13, 48), xids[6]);
    assert_eq!(own, 58, "the app's own transaction id");
    bench.stop();
}

#[test]
fn series_does_not_bypass_capabilities_or_version() {
    let mut policy = Policy::default();
    policy.capabilities.retain(|grant| grant.capability != Capability::PacketOut);
    let (bench, fakes, mut zone, at) = with_packet_in_and(&policy);
    let add = FlowMod::add(Match::new()).priority(1).cookie(7);
    let all = [(blanks(1, None), &b"a packet"[..]), (blanks(2, None), b"another")];
    let mut of_1_0 = with_packets(&add, &all);
    let template = FlowModTemplate::new(&add, Version::V1_0).unwrap();
    of_1_0.splice(..104, template.message().iter().copied());
    for sent in [of_1_0, with_packets(&add, &all)] {
        send_message(&mut zone, (1, at.epoch), &sent, 2);
    }
    handled(&mut zone);
    for (blanks, _) in &all {
        expect_message(&fakes[0], alone(&add, blanks, 0));
    }
    let reasons: Vec<_> = refusals(&mut zone, 6).into_iter().map(|(why, _)| why).collect();
    let (shape, capability) = (Refusal::Shape as u8, Refusal::Capability as u8);
    assert_eq!(reasons, [shape, shape, capability, capability, capability, capability]);
    assert!(fakes[0].received.try_recv().is_err(), "and no more");
    bench.stop();
}

#[test]
fn refused_series_does_not_evict_senders() {
    let (bench, mut fakes, mut zone, at) = with_packet_in();
    let add = FlowMod::add(Match::new()).priority(1).cookie(7);
    let foreign = FlowMod::add(Match::new()).priority(1).cookie(1 << 48);
    let to = (1, at.epoch);
    let send_refused = |zone: &mut FakeZone| {
        for _ in 0..30 {
            send_message(zone, to, &series(&foreign, &[blanks(2, None)]), 1);
        }
        handled(zone);
    };
    send_message(&mut zone, to, &series(&add, &[blanks(1, None)]), 1);
    send_refused(&mut zone);
    let xid = expect_message(&fakes[0], alone(&add, &blanks(1, None), 50));
    // As many messages as the transaction table remembers, in portions for which a ring has room.
    for _ in 0..40 {
        assert_eq!(refusals(&mut zone, 30).len(), 30);
        fakes[0].send_packet_in(9);
        wait_for("the packet came", || zone.peek(0).first().copied());
        send_refused(&mut zone);
    }
    refusals(&mut zone, 30);
    // The same with admitted messages in between.
    let mut of_xid = (51_u32..).map(|xid| {
        let add = if xid.is_multiple_of(2) { &add } else { &foreign };
        let mut sent = series(add, &[blanks(1, None)]);
        sent[4..8].copy_from_slice(&xid.to_be_bytes());
        sent
    });
    for _ in 0..35 {
        fakes[0].send_packet_in(9);
        wait_for("the packet came", || zone.peek(0).first().copied());
        for sent in of_xid.by_ref().take(60) {
            send_message(&mut zone, to, &sent, 1);
        }
        handled(&mut zone);
        let messages =
            std::iter::repeat_with(|| fakes[0].received.recv_timeout(TEST_TIMEOUT).unwrap());
        let flow_mods = messages.filter(|message| message[1] == 14); // the kernel also requests the number of flows
        assert_eq!(flow_mods.take(30).count(), 30);
        refusals(&mut zone, 30);
    }
    let own = error_about(&mut fakes[0], &mut zone, (14, 104), xid);
    assert_eq!(own, 50, "the app's own transaction id");
    bench.stop();
}

#[test]
fn error_about_a_forgotten_message_is_reported() {
    let (bench, mut fakes, mut zone, at) = with_packet_in();
    let out = |xid: u32| {
        let (mut message, data) = (Vec::new(), xid.to_be_bytes());
        let packet_out = PacketOut::new(PortNo(1), &[], &data);
        append(&mut message, |room| packet_out.encode(OF, xid, room)).unwrap();
        message
    };
    for number in 0..300_u32 {
        send_message(&mut zone, (1, at.epoch), &out(number.wrapping_mul(0x9e37_79b1)), 0);
    }
    handled(&mut zone);
    let xids: Vec<u32> = (0..300_u32)
        .map(|it| expect_message(&fakes[0], out(it.wrapping_mul(0x9e37_79b1))))
        .collect();
    let own = error_about(&mut fakes[0], &mut zone, (13, 28), xids[299]);
    assert_eq!(own, 299_u32.wrapping_mul(0x9e37_79b1), "it is remembered");
    let quote = [&[4, 13, 0, 28][..], &xids[0].to_be_bytes()].concat();
    let error = [&[4, 1, 0, 20][..], &xids[0].to_be_bytes(), &[0, 1, 0, 8], &quote].concat();
    fakes[0].socket.write_all(&error).unwrap();
    let lost = wait_for("the loss was reported", || zone.peek(0).first().copied());
    assert_eq!(lost.kind, RecordKind::Lost as u16);
    assert_eq!(bench.counters().lost, 1);
    bench.stop();
}

#[test]
fn series_is_forwarded_to_the_switchs_worker() {
    let mut bench = Bench::new(2);
    let mut fakes = bench.connect([1, 2]);
    let mut zone = bench.attach();
    zone.snapshot();
    fakes[0].send_packet_in(9);
    fakes[1].send_packet_in(9);
    let seen = [0, 1].map(|ring| wait_for("each came", || zone.peek(ring).first().copied()));
    assert_ne!(seen[0].dpid, seen[1].dpid, "each worker has one");
    let other = fakes.iter().find(|fake| fake.dpid == seen[1].dpid).unwrap();
    while other.received.try_recv().is_ok() {} // the handshake
    let add = FlowMod::add(Match::new()).priority(1).cookie(7);
    let all = [blanks(1, None), blanks(2, Some(77)), blanks(3, None)];
    let whole = series(&add, &all);
    let packets = with_packets(&add, &[(all[0], b"a packet")]);
    for (sent, count) in [(&whole, 3), (&whole, 2), (&packets, 1)] {
        send_message(&mut zone, (seen[1].dpid, seen[1].epoch), sent, count);
    }
    handled(&mut zone);
    for blanks in [&all[0], &all[2], &all[0]] {
        expect_message(other, alone(&add, blanks, 0));
    }
    expect_message(other, behind(&all[0], b"a packet", 0));
    let beginning = |message: &[u8]| message[..64].to_vec();
    // Each of the two workers reports its refusals.
    let shape = wait_for("it is none", || refused(&mut zone, 0));
    assert_eq!(shape, (Refusal::Shape as u8, beginning(&whole)));
    let buffer = wait_for("it was not given", || refused(&mut zone, 1));
    assert_eq!(buffer, (Refusal::Buffer as u8, beginning(&alone(&add, &all[1], 51))));
    bench.stop();
}

/// Has the switch send a packet-in with buffer 77, and waits until the zone sees it behind the one in hand.
fn keeps_a_packet(fake: &mut FakeSwitch, zone: &mut FakeZone) {
    let mut packet_in = PacketIn::new(PortNo(1), &[8; 60]);
    packet_in.buffer_id = Some(77);
    let mut message = Vec::new();
    append(&mut message, |out| packet_in.encode(OF, 0, out)).unwrap();
    fake.socket.write_all(&message).unwrap();
    wait_for("the packet came", || (zone.peek(0).len() == 2).then_some(()));
}

#[test]
fn delete_does_not_use_up_the_buffer() {
    let flow = |command| FlowMod::new(command, Match::new()).priority(1).cookie(7);
    let (bench, mut fakes, mut zone, at) = with_packet_in();
    keeps_a_packet(&mut fakes[0], &mut zone);
    let [add, delete] = [FlowModCommand::Add, FlowModCommand::Delete];
    for (command, number) in [(delete, 1), (FlowModCommand::DeleteStrict, 2), (add, 3), (add, 4)] {
        let sent = alone(&flow(command), &blanks(number, Some(77)), number.into());
        send_message(&mut zone, (1, at.epoch), &sent, 0);
    }
    handled(&mut zone);
    let command = |_| {
        wait_for("a flow-mod came", || {
            let message = fakes[0].received.try_recv().ok()?;
            let flow_mod = FlowMod::decode(&message).ok()?;
            (flow_mod.priority > 0).then_some(flow_mod.command) // the kernel's own may come late
        })
    };
    assert_eq!([0; 3].map(command), [delete, FlowModCommand::DeleteStrict, add]);
    let refused = refusals(&mut zone, 1);
    assert_eq!((refused[0].0, refused[0].1[7]), (Refusal::Buffer as u8, 4), "the add used it up");
    bench.stop();
}
