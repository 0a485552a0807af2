//! Tests of the decisions, with simulated apps and switches.

use std::time::Duration;

use rosemary_sdk::Dpid;
use rosemary_sdk::services::apps::{AppCounters, Measure, Sender};

use crate::config::{Config, Remedy};
use crate::protector::{Act, Protector};

const S: Dpid = Dpid(1);
const BULK: u16 = 7;
const FORWARDING: u16 = 8;

/// Two apps and two switches.
struct Sim {
    protector: Protector,
    now: Duration,
    /// Flow-mods per second of `bulk` to switch 1, and of `forwarding` to both switches.
    bulk: u64,
    forwarding: u64,
    /// Packet-ins per second for `forwarding`.
    packets: u64,
    /// Flow-mods of `bulk` per second that the kernel refuses or delays.
    refused: u64,
    answer: Duration,
    bps: u64,
    /// Sums: bulk's flow-mods and refusals; forwarding's flow-mods per switch, and its packet-ins; bytes.
    sums: [u64; 5],
    epoch: u32,
    drainable: bool,
    acts: Vec<(Duration, Act)>,
}

impl Sim {
    fn new(config: &str) -> Self {
        let mut sim = Self {
            protector: Protector::new(Config::read(config).unwrap()),
            now: Duration::from_secs(100),
            bulk: 0,
            forwarding: 0,
            packets: 0,
            refused: 0,
            answer: Duration::from_micros(400),
            bps: 8_000_000,
            sums: [0; 5],
            epoch: 1,
            drainable: true,
            acts: Vec::new(),
        };
        sim.pass(20.0);
        sim
    }

    fn counters(&self) -> (Vec<AppCounters>, Vec<Sender>) {
        let [bulk, refused, forwarding, packets, _] = self.sums;
        let app = |number, name: &str, flow_mods, delivered, refused| AppCounters {
            number,
            name: name.into(),
            delivered,
            flow_mods,
            refused,
            delayed: 0,
            limit: None,
        };
        let apps = vec![
            app(BULK, "bulk", bulk, 0, refused),
            app(FORWARDING, "forwarding", 2 * forwarding, packets, 0),
        ];
        let sender = |dpid, app, flow_mods| Sender { dpid, epoch: self.epoch, app, flow_mods };
        let mut senders = Vec::new();
        senders.extend((bulk > 0).then(|| sender(S, BULK, bulk)));
        for dpid in [S, Dpid(2)].into_iter().filter(|_| forwarding > 0) {
            senders.push(sender(dpid, FORWARDING, forwarding));
        }
        (apps, senders)
    }

    /// Lets time pass, with a reading of everything each half second.
    fn pass(&mut self, seconds: f64) {
        let end = self.now + Duration::from_secs_f64(seconds);
        while self.now < end {
            self.now += Duration::from_millis(500);
            let rates = [self.bulk, self.refused, self.forwarding, self.packets, self.bps / 8];
            for (sum, rate) in self.sums.iter_mut().zip(rates) {
                *sum += rate / 2;
            }
            let (apps, senders) = self.counters();
            self.protector.on_counters(self.now, apps, &senders);
            for dpid in [S, Dpid(2)] {
                self.protector.on_answer(dpid, self.answer);
                let ms = u64::try_from(self.now.as_millis()).unwrap();
                self.protector.on_bytes(dpid, ms, self.sums[4]);
            }
            let may_drain =
                |_| if self.drainable { Ok(()) } else { Err("no other path".to_owned()) };
            let acts = self.protector.go_on(self.now, may_drain);
            self.acts.extend(acts.into_iter().map(|act| (self.now, act)));
        }
    }

    /// The acts without incidents and logs.
    fn remedies(&self) -> Vec<Act> {
        let is_remedy = |act: &&Act| !matches!(act, Act::Incident { .. } | Act::Log(_));
        self.acts.iter().map(|(_, act)| act).filter(is_remedy).cloned().collect()
    }

    fn incidents(&self) -> Vec<(String, String)> {
        let of = |(_, act): &(Duration, Act)| match act {
            Act::Incident { summary, evidence } => Some((summary.clone(), evidence.clone())),
            _ => None,
        };
        self.acts.iter().filter_map(of).collect()
    }
}

#[test]
fn suspect_is_found_within_two_seconds() {
    let mut sim = Sim::new("");
    sim.forwarding = 20;
    sim.packets = 20;
    sim.pass(5.0);
    assert_eq!(sim.protector.suspect(S), None);
    sim.bulk = 400;
    sim.pass(1.5); // and half a second for the first reading that it is in
    assert_eq!(sim.protector.suspect(S), Some("bulk"));
    assert_eq!(sim.protector.suspect(Dpid(2)), None, "not at the other switch");
    assert_eq!(sim.remedies(), [], "it does no harm");
    sim.bulk = 0;
    sim.pass(5.0);
    assert_eq!(sim.protector.suspect(S), None);
    assert_eq!(sim.incidents(), []);
}

#[test]
fn forwarding_is_not_suspected_while_ten_thousand_hosts_arrive() {
    let mut sim = Sim::new("trusted = []");
    // Each host causes a packet-in or two, and flows at every switch of its paths.
    (sim.packets, sim.forwarding) = (1_000, 2_000);
    for _ in 0..20 {
        sim.answer += Duration::from_millis(1); // the switches are busy with it
        sim.pass(0.5);
        assert_eq!(sim.protector.suspect(S), None);
        // The flow-mods lag behind the packet-ins.
        sim.packets = if sim.packets == 1_000 { 1_500 } else { 1_000 };
    }
    assert!(sim.sums[3] >= 10_000 && sim.acts.is_empty(), "{:?}", sim.acts);
    // The same rate without packets is suspected.
    sim.packets = 0;
    sim.pass(1.0);
    assert_eq!(sim.protector.suspect(S), Some("forwarding"));
    let mut sim = Sim::new("");
    sim.forwarding = 2_000;
    sim.pass(5.0);
    assert_eq!(sim.protector.suspect(S), None, "by default it is trusted");
}

#[test]
fn harmed_switch_is_drained_until_the_attack_is_over() {
    let mut sim = Sim::new("");
    sim.bulk = 500;
    sim.pass(2.0);
    sim.bps = 7_500_000; // by 6 %
    sim.pass(3.0);
    assert_eq!(sim.remedies(), [], "less than the threshold");
    sim.bps = 5_000_000;
    sim.pass(4.0);
    assert_eq!(sim.remedies(), [Act::Drain(S)]);
    let (summary, evidence) = sim.incidents().remove(0);
    assert!(summary.contains("bulk harms") && summary.contains("is drained"), "{summary}");
    for part in ["500 flow-mods/s", "fell from", "37 %"] {
        assert!(evidence.contains(part), "{part}: {evidence}");
    }
    sim.bps = 0; // the traffic has moved
    sim.pass(30.0);
    assert_eq!(sim.remedies().len(), 1, "the attack goes on");
    sim.bulk = 0;
    sim.pass(9.0);
    assert_eq!(sim.remedies().len(), 1, "it may begin again");
    sim.pass(2.0);
    assert_eq!(sim.remedies(), [Act::Drain(S), Act::Undrain(S)]);
    assert_eq!(sim.incidents().len(), 2);
}

#[test]
fn slow_answers_are_harm() {
    let mut sim = Sim::new("");
    (sim.bulk, sim.answer) = (500, Duration::from_micros(1_200));
    sim.pass(5.0);
    assert_eq!(sim.remedies(), [], "less than a millisecond is noise");
    sim.answer = Duration::from_millis(9);
    sim.pass(5.0);
    assert_eq!(sim.remedies(), [Act::Drain(S)]);
    assert!(sim.incidents()[0].1.contains("9000 us instead of 400 us"), "{:?}", sim.incidents());
}

#[test]
fn slow_switch_without_a_suspect_is_left_alone() {
    let mut sim = Sim::new("");
    (sim.bps, sim.answer, sim.bulk) = (1_000_000, Duration::from_millis(50), 40);
    sim.pass(20.0);
    assert_eq!(sim.acts, []);
}

#[test]
fn switch_without_other_paths_is_not_drained() {
    let mut sim = Sim::new("otherwise = \"suspend\"");
    (sim.drainable, sim.bulk, sim.answer) = (false, 500, Duration::from_millis(9));
    sim.pass(4.0);
    let [limit @ Act::Limit { app, measure: Measure::Suspend, why, .. }] = &sim.remedies()[..]
    else {
        panic!("{:?}", sim.acts)
    };
    assert!(app == "bulk" && why.contains("not drained: no other path"), "{why}");
    // It is an incident when the answer says whether it was done.
    assert_eq!(sim.incidents(), []);
    let refused = sim.protector.on_refused(limit, "not granted", sim.now);
    let [Act::Incident { summary, evidence }] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!(summary, "bulk harms a switch and could not be limited");
    assert!(evidence.starts_with("not granted; bulk sends 500 flow-mods/s"), "{evidence}");
}

#[test]
fn throttle_is_renewed_while_the_app_presses() {
    let mut sim = Sim::new("action = \"throttle\"\npace = 20\nquiet = 5");
    (sim.bulk, sim.answer) = (500, Duration::from_millis(9));
    sim.pass(3.0);
    (sim.bulk, sim.refused) = (20, 480); // as the kernel throttles it
    sim.pass(60.0);
    let remedies = sim.remedies();
    let is_limit = |act: &Act| matches!(act, Act::Limit { app, measure: Measure::Throttle(20), .. } if app == "bulk");
    assert!(remedies.len() >= 10 && remedies.iter().all(is_limit), "{remedies:?}");
    sim.refused = 0;
    sim.pass(6.0);
    assert_eq!(sim.remedies().last(), Some(&Act::Release("bulk".into())));
    let ends = sim.remedies().len();
    sim.pass(30.0);
    assert_eq!(sim.remedies().len(), ends, "a slow app is left alone");
}

#[test]
fn remedy_that_is_refused_is_not_repeated() {
    let mut sim = Sim::new("");
    (sim.bulk, sim.answer) = (500, Duration::from_millis(9));
    sim.pass(4.0);
    let acts = sim.protector.on_refused(&Act::Drain(S), "not granted", sim.now);
    assert!(matches!(&acts[..], [Act::Incident { evidence, .. }] if evidence == "not granted"));
    sim.pass(30.0);
    assert_eq!(sim.remedies(), [Act::Drain(S)]);
    sim.bulk = 0;
    sim.pass(20.0);
    assert_eq!(sim.remedies(), [Act::Drain(S)], "there is nothing to undo");
}

#[test]
fn other_kernel_and_other_connection_cause_no_suspicion() {
    let mut sim = Sim::new("");
    sim.bulk = 40;
    sim.pass(30.0);
    sim.epoch = 2; // the same counter, on a connection that begins
    sim.sums[0] = 10;
    sim.pass(0.5);
    sim.sums = [0; 5];
    sim.pass(5.0);
    assert_eq!(sim.protector.suspect(S), None);
    // A protector that starts during a flood sees only what comes from then on.
    let mut late = Sim::new("");
    late.protector = Protector::new(Config::default());
    late.sums[0] = 1_000_000;
    late.pass(2.0);
    assert_eq!(late.protector.suspect(S), None);
}

#[test]
fn drain_from_before_a_restart_ends() {
    let mut sim = Sim::new("");
    sim.protector.on_known_drain(S, sim.now);
    sim.bulk = 500;
    sim.pass(30.0);
    assert_eq!(sim.remedies(), [], "the attack goes on");
    sim.bulk = 0;
    sim.pass(11.0);
    assert_eq!(sim.remedies(), [Act::Undrain(S)]);
    assert_eq!(Config::default().action, Remedy::Drain);
}
