//! Tests apps with a pace: the kernel delays their flow-mods, keeps their order, and sends all of them.

use openflow::{FlowMod, Match};

use super::*;

const OTHER: AppId = AppId(2);

fn paced(pace: u32) -> Policy {
    Policy { pace: Some(pace), ..Policy::default() }
}

/// A worker, a switch that has sent packet 9, and the zone of an app with this pace.
fn with_packet_in(pace: u32) -> (Bench, Vec<FakeSwitch>, FakeZone, SeenRecord) {
    let mut bench = Bench::new(1);
    let mut fakes = bench.connect([1]);
    let mut zone = bench.attach_with(&paced(pace));
    zone.snapshot();
    wait_for("the handshake is over", || {
        let message = fakes[0].received.try_recv().ok()?;
        FlowMod::decode(&message).is_ok().then_some(())
    });
    fakes[0].send_packet_in(9);
    let at = wait_for("the packet came", || zone.peek(0).first().copied());
    (bench, fakes, zone, at)
}

/// Writes flow-mods with cookies from `first` on into the ring of a zone.
fn write_flows(zone: &mut FakeZone, epoch: u32, cookies: std::ops::Range<u64>) {
    for cookie in cookies {
        let mut message = Vec::new();
        let add = FlowMod::add(Match::new()).priority(1).cookie(cookie);
        append(&mut message, |out| add.encode(OF, 1, out)).unwrap();
        let room = &mut zone.ends[0].0.messages;
        room.reserve(message.len()).unwrap().copy_from_slice(&message);
        assert!(room.commit_with(1, epoch, message.len(), 0));
    }
}

/// Publishes the messages.
fn handled(zone: &mut FakeZone, records: usize) {
    let (ZoneEnd { records: ring, messages }, bell) = &mut zone.ends[0];
    if messages.done(ring, records) {
        bell.ring();
    }
}

/// The app and the cookie of the next flow-mods that a switch receives.
fn flows(fake: &FakeSwitch, count: usize) -> Vec<(u64, u64)> {
    let messages = std::iter::repeat_with(|| fake.received.recv_timeout(TEST_TIMEOUT).unwrap());
    let flow_mods = messages.filter(|message| message[1] == 14).map(|message| {
        let cookie = u64::from_be_bytes(*message[8..].first_chunk().unwrap());
        (cookie >> 48, cookie & 0xffff_ffff_ffff)
    });
    flow_mods.take(count).collect()
}

#[test]
fn flow_mods_of_a_dead_app_are_sent_at_its_pace() {
    let (mut bench, fakes, mut zone, at) = with_packet_in(200);
    write_flows(&mut zone, at.epoch, 0..100);
    let began = Instant::now();
    handled(&mut zone, 1);
    bench.detach(zone);
    // The worker counts them at the end of a turn.
    let counters = wait_for("most are delayed", || {
        Some(bench.counters()).filter(|counters| counters.delayed >= 80 && counters.paced > 0)
    });
    assert_eq!((counters.flow_mods, counters.refused), (100, 0), "they were admitted");
    let all: Vec<_> = (0..100).map(|cookie| (u64::from(APP.0), cookie)).collect();
    assert_eq!(flows(&fakes[0], 100), all);
    let took = began.elapsed();
    assert!(took > Duration::from_millis(400), "{took:?}"); // a busy machine may take longer
    let counters = bench.counters();
    assert_eq!(counters.paced, 0);
    bench.stop();
}

/// A full queue is not the fault of a switch that reads.
#[test]
fn refusal_of_a_paced_app_names_its_pace() {
    let (bench, _fakes, mut zone, at) = with_packet_in(1);
    let most = (crate::app_queues::MOST_PACED / 50) as u64;
    let portion = 200;
    for first in (0..most).step_by(portion) {
        write_flows(&mut zone, at.epoch, first..first + portion as u64);
        handled(&mut zone, usize::from(first == 0));
        wait_for("they are checked", || {
            let counters = bench.counters();
            (counters.flow_mods + counters.refused >= first + portion as u64).then_some(())
        });
    }
    let remedies = wait_for("a refusal came", || {
        let batch = zone.ends[0].0.records.batch(MAX_BATCH).unwrap();
        let is_full = |record: &&[u8]| {
            record[4..6] == (RecordKind::Refused as u16).to_le_bytes()
                && record[40] == sdk::Refusal::Full as u8
        };
        let full: Vec<String> = batch
            .iter()
            .filter(is_full)
            .map(|record| String::from_utf8_lossy(record).into_owned())
            .collect();
        (!full.is_empty()).then_some(full)
    });
    assert!(remedies[0].contains("raise `pace` in its [[app]]"), "{remedies:?}");
    bench.stop();
}

#[test]
fn other_app_does_not_wait_for_a_paced_one() {
    let (mut bench, fakes, mut zone, at) = with_packet_in(1);
    let mut other = bench.attach_as(OTHER, &Policy { order: 1, ..Policy::default() });
    other.snapshot();
    write_flows(&mut zone, at.epoch, 0..50);
    handled(&mut zone, 1);
    assert_eq!(flows(&fakes[0], 1), [(1, 0)]);
    write_flows(&mut other, at.epoch, 0..50);
    handled(&mut other, 0);
    let seen = flows(&fakes[0], 50);
    let of_other = seen.iter().filter(|(app, _)| *app == u64::from(OTHER.0)).count();
    assert!(of_other >= 45, "{seen:?}");
    bench.stop();
}

#[test]
fn change_of_the_pace_concerns_messages_that_wait() {
    let (bench, fakes, mut zone, at) = with_packet_in(1);
    write_flows(&mut zone, at.epoch, 0..50);
    handled(&mut zone, 1);
    assert_eq!(flows(&fakes[0], 1), [(1, 0)]);
    let know = || Command::Know { app: APP, name: "app-1".into(), policy: Policy::default() };
    bench.each(know);
    let rest: Vec<_> = (1..50).map(|cookie| (1, cookie)).collect();
    assert_eq!(flows(&fakes[0], 49), rest);
    bench.stop();
}

#[test]
fn messages_beyond_the_queue_of_a_paced_app_are_refused() {
    let (bench, mut fakes, mut zone, at) = with_packet_in(1);
    let mut refused = None;
    for round in 0..20_u64 {
        write_flows(&mut zone, at.epoch, round * 200..(round + 1) * 200);
        handled(&mut zone, 1);
        bench.switches();
        fakes[0].send_packet_in(9);
        refused = wait_for("a record came", || {
            let (ZoneEnd { records, .. }, _) = &mut zone.ends[0];
            let batch = records.batch(MAX_BATCH).unwrap();
            let record = batch.iter().next().map(SeenRecord::of)?;
            Some(Some(record).filter(|record| record.kind == RecordKind::Refused as u16))
        });
        if refused.is_some() {
            break;
        }
    }
    assert!(refused.is_some(), "the queue has a bound");
    let counters = bench.counters();
    let most = crate::app_queues::MOST_PACED as u64;
    assert!(counters.paced <= most + 1024, "{counters:?}");
    assert!(counters.refused > 0, "{counters:?}");
    bench.stop();
}

#[test]
fn senders_are_counted_for_each_switch() {
    let (bench, fakes, mut zone, at) = with_packet_in(1_000);
    write_flows(&mut zone, at.epoch, 0..7);
    handled(&mut zone, 1);
    assert_eq!(flows(&fakes[0], 7).len(), 7);
    let (reply, answers) = std::sync::mpsc::channel();
    bench.each(|| Command::Senders { after: None, reply: reply.clone() });
    let senders = answers.recv().unwrap();
    let sender = control::query::SwitchSender { dpid: 1, epoch: at.epoch, app: APP, flow_mods: 7 };
    assert_eq!(senders, [sender]);
    bench.stop();
}
