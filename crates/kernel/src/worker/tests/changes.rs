//! Tests change sets from the ring of a zone to the switch, and their outcomes back.

use openflow::{ErrorMessage, FlowMod, FlowRemoved, FlowRemovedReason, Match};
use sdk::changes::CHANGE_SET;
use sdk::{Applied, CommitId, Committed, Event, Guarantee, NotApplied, Refusal};

use super::runs::{handled, send_message, with_packet_in, with_packet_in_and};
use super::*;
use crate::rewrite::{KERNEL, owner};
use control::policy::{Fail, Quota, Stage};

fn flow(cookie: u64) -> Vec<u8> {
    let mut message = Vec::new();
    let add = FlowMod::add(Match::new()).priority(1).cookie(cookie);
    append(&mut message, |out| add.encode(OF, 0, out)).unwrap();
    message
}

/// A change set, as an app writes it.
fn set(commit: u32, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut set = [[0; 4], commit.to_le_bytes()].concat();
    for message in messages {
        set.resize(set.len().next_multiple_of(8), 0);
        set.extend(message);
    }
    set
}

/// A set's number and its outcome: the guarantee, or the refused change.
type Told = (u32, Result<Guarantee, (usize, Option<Refusal>)>);

/// Returns the next outcome in a ring.
fn outcome(zone: &mut FakeZone, ring: usize) -> Told {
    wait_for("the outcome came", || {
        let ends = &mut zone.ends[ring].0;
        loop {
            let batch = ends.records.batch(1).unwrap();
            let record = batch.iter().next()?.to_vec();
            ends.messages.done(&mut ends.records, 1);
            let Some(Event::Committed(Committed { commit: CommitId(id), outcome, .. })) =
                Event::of_bytes(&record)
            else {
                continue;
            };
            return Some((
                id,
                match outcome {
                    Ok(Applied { guarantee, .. }) => Ok(guarantee),
                    Err(NotApplied::Refused { index, why, .. }) => Err((index, why)),
                    Err(other) => panic!("{other:?}"),
                },
            ));
        }
    })
}

fn next_message(fake: &FakeSwitch) -> Vec<u8> {
    fake.received.recv_timeout(TEST_TIMEOUT).unwrap()
}

#[test]
fn one_refused_change_refuses_the_set() {
    let quota = Quota { flow_mods: 3, ..Quota::NONE };
    let (bench, fakes, mut zone, at) = with_packet_in_and(&Policy { quota, ..Policy::default() });
    let mut buffered = flow(1);
    buffered[32..36].copy_from_slice(&77_u32.to_be_bytes());
    let packet_out = {
        let mut message = Vec::new();
        let out = PacketOut::new(PortNo(1), &[], &[]);
        append(&mut message, |room| out.encode(OF, 0, room)).unwrap();
        message
    };
    let of = |middle: Vec<u8>| [flow(1), middle, flow(2)];
    let cases = [
        (of(flow(1 << 48)), at.epoch, 1, Refusal::Cookie),
        (of(packet_out), at.epoch, 1, Refusal::Kind),
        (of(buffered), at.epoch, 1, Refusal::Buffer),
        (of(vec![4, 14, 0, 8, 0, 0, 0, 0]), at.epoch, 1, Refusal::Shape),
        (of(flow(1)), at.epoch + 1, 0, Refusal::Epoch),
    ];
    for ((messages, epoch, ..), commit) in cases.iter().zip(1..) {
        send_message(&mut zone, (1, *epoch), &set(commit, messages), CHANGE_SET);
    }
    let many = [of(flow(1)), of(flow(1))].concat();
    send_message(&mut zone, (1, at.epoch), &set(9, &many), CHANGE_SET);
    handled(&mut zone);
    for ((_, _, index, why), commit) in cases.into_iter().zip(1..) {
        assert_eq!(outcome(&mut zone, 0), (commit, Err((index, Some(why)))));
    }
    assert_eq!(outcome(&mut zone, 0), (9, Err((0, Some(Refusal::Quota)))));
    assert!(fakes[0].received.try_recv().is_err(), "nothing was sent");
    bench.stop();
}

/// Answers the trial of bundles: the switch has none.
fn refuse_bundles(fake: &mut FakeSwitch) {
    let open = next_message(fake);
    let xid = u32::from_be_bytes(*open[4..].first_chunk().unwrap());
    assert!(openflow::BundleControl::decode(&open).is_ok(), "{open:?}");
    let (kind, code) = (ErrorMessage::BAD_REQUEST, 3);
    let error = ErrorMessage { version: OF, kind, code, data: &open };
    let mut message = Vec::new();
    append(&mut message, |out| error.encode(xid, out)).unwrap();
    fake.socket.write_all(&message).unwrap();
}

/// Reports that somebody deleted a flow of the app.
fn report_removal(fake: &mut FakeSwitch) {
    let removed = FlowRemoved {
        match_: Match::new(),
        cookie: u64::from(APP.0) << 48 | 1,
        priority: 1,
        reason: FlowRemovedReason::Delete,
        table_id: 0,
        duration: Duration::ZERO,
        idle_timeout: 0,
        hard_timeout: 0,
        packet_count: 0,
        byte_count: 0,
    };
    let mut message = Vec::new();
    append(&mut message, |out| removed.encode(OF, 0, out)).unwrap();
    fake.socket.write_all(&message).unwrap();
}

/// The kernel puts its own entry behind the flows of the guard, also if they come in a set.
#[test]
fn restoration_ends_when_the_set_of_the_guard_is_applied() {
    let policy = Policy { stage: Stage::Guard(Fail::Closed), ..Policy::default() };
    let (bench, mut fakes, mut zone, at) = with_packet_in_and(&policy);
    handled(&mut zone);
    report_removal(&mut fakes[0]);
    wait_for("the guard learns of the loss", || {
        let kind = zone.peek(0).first()?.kind;
        if kind != RecordKind::FlowsMissing as u16 {
            handled(&mut zone);
            return None;
        }
        Some(())
    });
    assert_eq!(next_message(&fakes[0])[1], 20, "the barrier of the restoration");
    send_message(&mut zone, (1, at.epoch), &set(7, &[flow(1), flow(2)]), CHANGE_SET);
    handled(&mut zone);
    refuse_bundles(&mut fakes[0]);
    for _ in 0..2 {
        let message = next_message(&fakes[0]);
        assert_eq!(owner(FlowMod::decode(&message).unwrap().cookie), APP);
    }
    let mut barrier = next_message(&fakes[0]);
    assert_eq!(barrier[1], 20);
    std::thread::sleep(Duration::from_millis(300));
    let early = fakes[0].received.try_iter().find(|message| message[1] == 14);
    assert_eq!(early, None, "the set is not applied");
    barrier[1] = 21;
    fakes[0].socket.write_all(&barrier).unwrap();
    let entry = std::iter::repeat_with(|| next_message(&fakes[0])).find(|it| it[1] == 14);
    assert_eq!(owner(FlowMod::decode(&entry.unwrap()).unwrap().cookie), KERNEL);
    bench.stop();
}

#[test]
fn set_reaches_a_switch_without_bundles_and_its_outcome_the_app() {
    let (bench, mut fakes, mut zone, at) = with_packet_in();
    send_message(&mut zone, (1, at.epoch), &set(7, &[flow(1), flow(2)]), CHANGE_SET);
    handled(&mut zone);
    refuse_bundles(&mut fakes[0]);
    for cookie in [1, 2] {
        let message = next_message(&fakes[0]);
        let flow_mod = FlowMod::decode(&message).unwrap();
        assert_eq!(flow_mod.cookie, u64::from(APP.0) << 48 | cookie, "it is the app's own");
    }
    let mut barrier = next_message(&fakes[0]);
    assert_eq!(barrier[1], 20);
    barrier[1] = 21;
    fakes[0].socket.write_all(&barrier).unwrap();
    assert_eq!(outcome(&mut zone, 0), (7, Ok(Guarantee::Ordered)));
    assert_eq!(bench.counters().flow_mods, 2);
    bench.stop();
}

#[test]
fn set_for_another_workers_switch_is_forwarded() {
    let mut bench = Bench::new(2);
    let mut fakes = bench.connect([1, 2]);
    let epochs: Vec<u32> = bench.switches().iter().map(|switch| switch.epoch).collect();
    let mut zone = bench.attach();
    zone.snapshot();
    fakes[0].send_packet_in(1);
    wait_for("the packet came", || zone.peek(0).first().copied());
    let foreign = flow(1 << 48);
    send_message(&mut zone, (2, epochs[1]), &set(5, &[flow(1), foreign]), CHANGE_SET);
    handled(&mut zone);
    let refused = outcome(&mut zone, 1);
    assert_eq!(refused, (5, Err((1, Some(Refusal::Cookie)))), "the worker of the switch checks it");
    bench.stop();
}
