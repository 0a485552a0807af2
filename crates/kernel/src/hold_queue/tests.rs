//! Tests the rules of the stages without rings and clock.

use openflow::{MacAddr, PortNo};
use sdk::abi::RecordKind;

use super::*;
use control::policy::{Fail, Policy, Stage};

const G1: AppSlot = AppSlot(0);
const G2: AppSlot = AppSlot(1);
const A: AppSlot = AppSlot(2);
const B: AppSlot = AppSlot(3);
const C: AppSlot = AppSlot(4);

/// The deliveries: the app, and the number of the packet or switch port.
#[derive(Debug, PartialEq, Eq)]
enum To {
    Packet(AppSlot, u8),
    Port(AppSlot, u32),
}

/// Two guards, where the second may be silent, and three control apps in the order A, B, C.
struct Bench {
    holds: Holds,
    plan: Plan,
    queue: VecDeque<usize>,
    now: Instant,
    delivered: Delivered,
}

#[derive(Default)]
struct Delivered {
    what: Vec<To>,
    /// Tickets by packet and app.
    tickets: Vec<(u8, AppSlot, Ticket)>,
    /// An app that has no room.
    full: Option<AppSlot>,
}

impl Deliver for Delivered {
    fn deliver(&mut self, app: AppSlot, held: &Held, ticket: Ticket) -> bool {
        if self.full == Some(app) {
            return false;
        }
        match held {
            Held::Packet(_, message) => {
                self.what.push(To::Packet(app, message[0]));
                self.tickets.push((message[0], app, ticket));
            }
            Held::Port(_, port) => self.what.push(To::Port(app, port.port_no.0)),
        }
        true
    }
}

impl Bench {
    fn new() -> Self {
        let stages = [
            Stage::Guard(Fail::Closed),
            Stage::Guard(Fail::Open),
            Stage::Control,
            Stage::Control,
            Stage::Control,
        ];
        let policies: Vec<Policy> = (0_u16..)
            .zip(stages)
            .map(|(order, stage)| Policy { stage, order, ..Policy::default() })
            .collect();
        Self {
            holds: Holds::default(),
            plan: Plan::of(policies.iter().map(Some)),
            queue: VecDeque::new(),
            now: Instant::now(),
            delivered: Delivered::default(),
        }
    }

    fn packet(&mut self, number: u8, guards: &[AppSlot], controls: &[AppSlot]) -> Ticket {
        let set =
            |apps: &[AppSlot]| apps.iter().fold(Set::EMPTY, |set, app| set.with(Set::of(*app)));
        let wanted = Wanted { guards: set(guards), controls: set(controls), observers: Set::EMPTY };
        let record = Record::new(RecordKind::PacketIn, 4, 1, 1);
        let held = Held::Packet(record, vec![number; 100]);
        let ticket = self.holds.hold(&mut self.queue, ConnId(7), held, wanted, self.now).unwrap();
        self.advance();
        ticket
    }

    fn port(&mut self, number: u32) {
        let port = PortDesc::new(PortNo(number), MacAddr([0; 6]), "eth");
        let controls = self.plan.controls();
        let wanted = Wanted { guards: Set::EMPTY, controls, observers: Set::EMPTY };
        self.holds.hold(&mut self.queue, ConnId(7), Held::Port(2, port), wanted, self.now).unwrap();
        self.advance();
    }

    fn advance(&mut self) {
        self.holds.advance(&mut self.queue, &self.plan, self.now, &mut self.delivered);
    }

    /// Passes the verdict of `app` on packet `number`, which it has received.
    fn answer(&mut self, number: u8, app: AppSlot, stop: bool) {
        let given = |(packet, to, _): &&(u8, AppSlot, Ticket)| (*packet, *to) == (number, app);
        let (_, _, ticket) = *self.delivered.tickets.iter().find(given).expect("it was given");
        self.answer_ticket(ticket, app, stop);
    }

    fn answer_ticket(&mut self, ticket: Ticket, app: AppSlot, stop: bool) {
        if self.holds.verdict(ticket, app, stop, self.now).is_some() {
            self.advance();
        }
    }

    fn later(&mut self, time: Duration) {
        self.now += time;
        let mut owners = Vec::new();
        self.holds.expire(self.now, &self.plan, &mut owners);
        assert!(owners.iter().all(|owner| *owner == ConnId(7)));
        self.advance();
    }

    fn delivered(&mut self) -> Vec<To> {
        std::mem::take(&mut self.delivered.what)
    }

    fn is_empty(&self) -> bool {
        self.holds.entries.is_empty() && self.queue.is_empty() && self.holds.bytes == 0
    }
}

#[test]
fn packet_goes_on_when_all_guards_continue() {
    let mut bench = Bench::new();
    let ticket = bench.packet(1, &[G1, G2], &[A]);
    bench.answer_ticket(ticket, G1, false);
    assert_eq!(bench.delivered(), []);
    bench.answer_ticket(ticket, G2, false);
    assert_eq!(bench.delivered(), [To::Packet(A, 1)]);
    assert!(bench.is_empty());
}

#[test]
fn stop_of_any_guard_drops_the_packet() {
    let mut bench = Bench::new();
    let ticket = bench.packet(1, &[G1, G2], &[A]);
    bench.answer_ticket(ticket, G2, true);
    bench.answer_ticket(ticket, G1, false);
    assert_eq!(bench.delivered(), []);
    assert!(bench.is_empty());
}

#[test]
fn silent_guard_passes_or_drops_packets_by_its_policy() {
    for (silent, answers, delivered) in [(G2, G1, true), (G1, G2, false)] {
        let mut bench = Bench::new();
        let ticket = bench.packet(1, &[G1, G2], &[A]);
        bench.answer_ticket(ticket, answers, false);
        bench.later(Duration::from_millis(99));
        assert_eq!(bench.delivered(), []);
        bench.later(Duration::from_millis(1));
        assert_eq!(!bench.delivered().is_empty(), delivered);
        bench.answer_ticket(ticket, silent, true); // too late
        assert!(bench.is_empty());
        assert_eq!(bench.holds.late, [(silent, 1)].into(), "only the silent guard is late");
    }
}

#[test]
fn control_apps_receive_a_packet_in_turn_until_a_stop() {
    let mut bench = Bench::new();
    bench.packet(1, &[], &[A, B, C]);
    assert_eq!(bench.delivered(), [To::Packet(A, 1)]);
    bench.answer(1, A, false);
    assert_eq!(bench.delivered(), [To::Packet(B, 1)]);
    bench.answer(1, B, true);
    assert_eq!(bench.delivered(), []);
    assert!(bench.is_empty());
}

#[test]
fn packet_does_not_wait_for_the_last_control_app() {
    let mut bench = Bench::new();
    bench.packet(1, &[], &[A, B]);
    bench.answer(1, A, false);
    assert!(bench.is_empty());
}

#[test]
fn packet_goes_on_without_a_silent_control_app() {
    let mut bench = Bench::new();
    bench.packet(1, &[], &[A, B]);
    bench.delivered();
    bench.later(PATIENCE);
    assert_eq!(bench.delivered(), [To::Packet(B, 1)]);
    assert!(bench.is_empty());
    assert_eq!(bench.holds.late, [(A, 1)].into());
}

#[test]
fn each_app_has_the_whole_time_for_its_verdict() {
    let almost = PATIENCE.saturating_sub(Duration::from_millis(1));
    for guards in [&[G1][..], &[]] {
        let mut bench = Bench::new();
        let ticket = bench.packet(1, guards, &[A, B, C]);
        bench.later(almost);
        for guard in guards {
            bench.answer_ticket(ticket, *guard, false);
        }
        if guards.is_empty() {
            bench.answer(1, A, false);
            assert_eq!(bench.delivered(), [To::Packet(A, 1), To::Packet(B, 1)]);
        } else {
            assert_eq!(bench.delivered(), [To::Packet(A, 1)]);
        }
        bench.later(almost);
        assert_eq!(bench.delivered(), [], "its own time is not over");
        bench.answer(1, if guards.is_empty() { B } else { A }, true);
        assert!(bench.is_empty());
        bench.later(PATIENCE);
        assert_eq!(bench.delivered(), []);
    }
}

#[test]
fn full_control_app_is_passed_over_at_once() {
    let mut bench = Bench::new();
    bench.delivered.full = Some(A);
    bench.packet(1, &[], &[A, B]);
    assert_eq!(bench.delivered(), [To::Packet(B, 1)]);
    assert!(bench.is_empty());
}

#[test]
fn packets_keep_their_order_through_the_apps() {
    let mut bench = Bench::new();
    let first = bench.packet(1, &[G1], &[A, B]);
    bench.packet(2, &[], &[A, B]); // no guard wants it
    bench.packet(3, &[], &[B]);
    assert_eq!(bench.delivered(), [], "all behind the first");
    bench.answer_ticket(first, G1, false);
    assert_eq!(bench.delivered(), [To::Packet(A, 1), To::Packet(A, 2)]);
    bench.answer(2, A, false);
    assert_eq!(bench.delivered(), [], "B waits for the first");
    bench.answer(1, A, false);
    let in_order = [To::Packet(B, 1), To::Packet(B, 2), To::Packet(B, 3)];
    assert_eq!(bench.delivered(), in_order);
    assert!(bench.is_empty());
}

#[test]
fn port_change_does_not_overtake_packets() {
    let mut bench = Bench::new();
    let first = bench.packet(1, &[G1], &[A]);
    bench.port(5);
    assert_eq!(bench.delivered(), [], "A is next for both, and the packet comes first");
    bench.answer_ticket(first, G1, false);
    assert_eq!(
        bench.delivered(),
        [To::Packet(A, 1), To::Port(A, 5), To::Port(B, 5), To::Port(C, 5)]
    );
    assert!(bench.is_empty());
}

#[test]
fn packets_of_a_disconnected_switch_are_removed() {
    let mut bench = Bench::new();
    let ticket = bench.packet(1, &[G1], &[A]);
    bench.packet(2, &[], &[A, B]);
    bench.holds.forget(&mut bench.queue);
    assert!(bench.is_empty());
    assert_eq!(bench.holds.verdict(ticket, G1, false, bench.now), None);
    let again = bench.packet(3, &[G1], &[A]);
    assert_ne!(again, ticket, "a reused entry has another ticket");
    bench.answer_ticket(ticket, G1, true);
    bench.answer_ticket(again, G1, false);
    assert_eq!(bench.delivered(), [To::Packet(A, 3)]);
}

#[test]
fn flood_behind_a_silent_guard_is_bounded() {
    let mut bench = Bench::new();
    let guards = Wanted { guards: Set::of(G1), controls: Set::of(A), observers: Set::EMPTY };
    let mut hold = |queue: &mut VecDeque<usize>, size: usize| {
        let record = Record::new(RecordKind::PacketIn, 4, 1, 1);
        let held = Held::Packet(record, vec![0; size]);
        bench.holds.hold(queue, ConnId(7), held, guards, bench.now).is_some()
    };
    let long = (0..1000).filter(|_| hold(&mut bench.queue, 60_000)).count();
    assert_eq!(long, (MOST_BYTES - KEPT_BYTES) / 60_000);
    let short = (0..10_000).filter(|_| hold(&mut bench.queue, 1)).count();
    assert_eq!(long + short, MOST_HELD - KEPT);
    let mut others = Vec::new();
    for _ in 0..KEPT / FEW {
        let mut queue = VecDeque::new();
        assert_eq!((0..100).filter(|_| hold(&mut queue, 1)).count(), FEW);
        others.push(queue);
    }
    assert!(!hold(&mut VecDeque::new(), 1), "all is taken");
    assert_eq!(bench.holds.room(0), 0);
    for queue in &mut others {
        bench.holds.forget(queue);
    }
    assert_eq!((bench.holds.room(0) / LEAST, bench.holds.room(FEW)), (KEPT, 0));
    bench.holds.forget(&mut bench.queue);
    assert_eq!([0, FEW].map(|waiting| bench.holds.room(waiting)), [AT_ONCE; 2]);
    bench.packet(1, &[G1], &[A]);
    assert_eq!([0, FEW].map(|waiting| bench.holds.room(waiting)), [AT_ONCE, AT_ONCE - 100]);
    bench.later(PATIENCE);
    assert!(bench.is_empty());
}

/// Sends a packet in each of `rounds` rounds in which A is silent, and forgets the deliveries.
fn silence(bench: &mut Bench, rounds: u8) {
    for number in 0..rounds {
        bench.packet(100 + number, &[], &[A, B]);
        bench.later(PATIENCE);
    }
    bench.delivered();
}

fn news(bench: &mut Bench) -> Vec<News> {
    bench.holds.patience.take_news().collect()
}

#[test]
fn silent_control_app_is_skipped_until_it_answers() {
    let mut bench = Bench::new();
    silence(&mut bench, 2);
    assert_eq!(news(&mut bench), []);
    silence(&mut bench, 1);
    assert_eq!(news(&mut bench), [News::Skipped { app: A }]);
    bench.packet(1, &[], &[A, B]);
    bench.packet(2, &[], &[A, B]);
    let both = [To::Packet(A, 1), To::Packet(B, 1), To::Packet(A, 2), To::Packet(B, 2)];
    assert_eq!(bench.delivered(), both, "at once, also to A");
    assert!(bench.is_empty());
    assert_eq!(bench.holds.late, [(A, 3)].into());
    let tickets = |bench: &Bench, number| {
        let of =
            bench.delivered.tickets.iter().filter(|(packet, to, _)| (*packet, *to) == (number, A));
        of.map(|(_, _, ticket)| *ticket != Ticket::NONE).collect::<Vec<_>>()
    };
    assert_eq!((tickets(&bench, 1), tickets(&bench, 2)), (vec![true], vec![true]));
    let took = Duration::from_millis(49);
    bench.later(took);
    bench.answer(1, A, true);
    assert_eq!(news(&mut bench), [News::WaitedFor { app: A, packets: 2, took }]);
    assert_eq!(bench.holds.patience.packets(A), 2);
    bench.packet(3, &[], &[A, B]);
    assert_eq!(bench.delivered(), [To::Packet(A, 3)], "it is waited for");
    bench.answer(3, A, true);
    assert!(bench.is_empty());
}

#[test]
fn packets_that_wait_together_are_one_round() {
    let mut bench = Bench::new();
    for number in 0..20 {
        bench.packet(number, &[], &[A, B]);
        bench.later(Duration::from_millis(1));
    }
    bench.later(PATIENCE);
    assert_eq!((news(&mut bench), bench.holds.late[&A]), (vec![], 20));
}

#[test]
fn answer_in_time_resets_the_count() {
    let mut bench = Bench::new();
    for _ in 0..10 {
        silence(&mut bench, 2);
        bench.delivered.tickets.clear();
        bench.packet(1, &[], &[A, B]);
        bench.answer(1, A, false);
    }
    assert_eq!(news(&mut bench), []);
}

#[test]
fn control_app_that_answers_after_50_ms_is_skipped() {
    for (time, is_skipped) in [(99, true), (50, true), (49, false)] {
        let mut bench = Bench::new();
        for number in 0..20 {
            bench.packet(number, &[], &[A, B]);
            bench.later(Duration::from_millis(time));
            bench.answer(number, A, false);
        }
        assert_eq!(bench.holds.patience.skips(A), is_skipped, "{time} ms");
    }
}

#[test]
fn guard_that_answers_just_in_time_is_never_skipped() {
    let mut bench = Bench::new();
    for number in 0..20 {
        let ticket = bench.packet(number, &[G1, G2], &[A]);
        bench.later(Duration::from_millis(99));
        bench.answer_ticket(ticket, G1, false);
        bench.answer_ticket(ticket, G2, true);
    }
    assert_eq!((news(&mut bench), bench.delivered()), (vec![], vec![]));
}

#[test]
fn probe_answered_late_is_followed_by_another() {
    let mut bench = Bench::new();
    silence(&mut bench, 3);
    news(&mut bench);
    bench.packet(1, &[], &[A, B]);
    bench.later(PATIENCE * 2);
    bench.answer(1, A, false);
    assert_eq!(news(&mut bench), [], "it answers, and too late");
    bench.packet(2, &[], &[A, B]);
    bench.later(Duration::from_secs(1)); // as if it was restarted, and this was lost
    bench.packet(3, &[], &[A, B]);
    bench.answer(3, A, false);
    assert!(matches!(news(&mut bench)[..], [News::WaitedFor { app: A, packets: 3, .. }]));
}

#[test]
fn fail_closed_guard_is_waited_for_after_any_answer() {
    for (guard, other, is_waited_for) in [(G1, G2, true), (G2, G1, false)] {
        let mut bench = Bench::new();
        for number in 0..3 {
            let ticket = bench.packet(number, &[G1, G2], &[A]);
            bench.answer_ticket(ticket, other, false);
            bench.later(PATIENCE);
        }
        assert_eq!(news(&mut bench), [News::Skipped { app: guard }]);
        let probe = bench.holds.pass_over(guard, bench.now);
        let other = bench.holds.pass_over(guard, bench.now);
        bench.answer_ticket(other, guard, false);
        assert!(bench.holds.patience.skips(guard), "one packet at a time is the probe");
        bench.later(PATIENCE * 5);
        bench.answer_ticket(probe, guard, false);
        assert_eq!(!bench.holds.patience.skips(guard), is_waited_for);
    }
}

/// Sends A `per_ms` packets in each of `time` milliseconds. A answers `batch` packets every `takes` milliseconds.
/// Returns how often A began to be skipped.
fn flood(bench: &mut Bench, time: u64, per_ms: u64, batch: usize, takes: u64) -> usize {
    let (mut waiting, mut skipped, mut busy_until) = (VecDeque::new(), 0, takes);
    for ms in 0..time {
        for _ in 0..per_ms {
            bench.packet(1, &[], &[A, B]);
        }
        let given = bench.delivered.tickets.drain(..);
        waiting.extend(given.filter(|(_, to, _)| *to == A).map(|(_, _, ticket)| ticket));
        bench.delivered();
        if waiting.is_empty() {
            busy_until = ms + takes;
        } else if ms >= busy_until {
            busy_until = ms + takes;
            for _ in 0..batch.min(waiting.len()) {
                let ticket = waiting.pop_front().expect("it is there");
                bench.answer_ticket(ticket, A, false);
            }
        }
        bench.later(Duration::from_millis(1));
        let begun = |news: &News| matches!(news, News::Skipped { .. });
        skipped += bench.holds.patience.take_news().filter(begun).count();
    }
    skipped
}

#[test]
fn busy_control_app_is_never_skipped() {
    // 2000 a second, 1000 a second in batches, 50 a second.
    for (per_ms, batch, takes) in [(3, 2, 1), (2, 64, 64), (1, 1, 20)] {
        let mut bench = Bench::new();
        assert_eq!(flood(&mut bench, 2000, per_ms, batch, takes), 0, "{batch} in {takes} ms");
        assert!(bench.holds.late[&A] > 100, "packets waited long in its queue");
    }
}

#[test]
fn control_app_that_needs_100_ms_per_packet_is_skipped() {
    let mut bench = Bench::new();
    assert_eq!(flood(&mut bench, 2000, 1, 1, 100), 1, "once and for all");
    assert!(bench.holds.patience.skips(A));
}

#[test]
fn recovered_control_app_is_waited_for_under_load() {
    let mut bench = Bench::new();
    silence(&mut bench, 3);
    news(&mut bench);
    assert!(bench.holds.patience.skips(A));
    flood(&mut bench, 3000, 3, 64, 60);
    assert!(!bench.holds.patience.skips(A));
}

#[test]
fn fail_open_guard_with_a_long_queue_is_not_skipped() {
    let mut bench = Bench::new();
    let mut waiting = VecDeque::new();
    for ms in 0..2000 {
        waiting.push_back(bench.packet(1, &[G2], &[A]));
        if ms % 2 == 0 {
            let ticket = waiting.pop_front().expect("it is there");
            bench.answer_ticket(ticket, G2, false);
        }
        bench.later(Duration::from_millis(1));
    }
    assert!(bench.holds.late[&G2] > 100, "packets waited long in its queue");
    assert_eq!(news(&mut bench), []);
}
