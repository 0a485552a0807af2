//! Messages that an app sends together, some of which must not go out.

use openflow::{FlowMod, GroupKind, GroupMod, GroupModCommand, Match};

use super::*;

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

#[test]
fn what_may_go_out_of_a_run_does_in_its_order_and_the_rest_is_told() {
    let mut bench = Bench::new(1);
    let mut fakes = bench.connect([1]);
    let mut zone = bench.attach();
    zone.snapshot();
    while fakes[0].told.try_recv().is_ok() {} // the handshake
    fakes[0].packet(9);
    let at = wait_for("the packet came", || zone.peek(0).first().copied());
    let (ZoneEnd { records, messages: room }, bell) = &mut zone.ends[0];
    for (message, _) in messages() {
        room.reserve(message.len()).unwrap().copy_from_slice(&message);
        assert!(room.commit(1, at.epoch, message.len()));
    }
    if room.done(records, 1) {
        bell.ring();
    }
    for (mut sent, _) in messages().into_iter().filter(|(_, passes)| *passes) {
        let mut told = fakes[0].told.recv_timeout(PATIENCE).unwrap();
        told[4..8].copy_from_slice(&sent[4..8]); // transaction ids are the kernel's
        if sent[1] == 14 {
            sent[8..10].copy_from_slice(&APP.0.to_be_bytes()); // and so is the cookie's top
        }
        assert_eq!(told, sent);
    }
    let mut refused = Vec::new();
    wait_for("all refusals came", || {
        let ends = &mut zone.ends[0].0;
        let batch = ends.records.batch(MAX_BATCH).unwrap();
        let count = batch.len();
        refused.extend(batch.iter().map(|record| record[RECORD_HEAD..].to_vec()));
        ends.messages.done(&mut ends.records, count);
        (refused.len() == 5).then_some(())
    });
    let expected = messages().into_iter().filter(|(_, passes)| !passes);
    let expected: Vec<_> =
        expected.map(|(message, _)| message[..message.len().min(64)].to_vec()).collect();
    assert_eq!(refused, expected, "as the app wrote them");
    bench.stop();
}
