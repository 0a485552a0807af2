//! Apps die repeatedly under traffic: every packet accepted by the kernel takes effect exactly
//! once, and the rest continues.
//!
//! ```text
//!  h1 --- marked packets ---> sender, which sends each on ---> port 2: h2
//!                       \---> observer, which counts them
//!  h3 <-- pings on a flow --> h4        h3 --- pings without a flow ---> learning switch ---> h5
//! ```
//!
//! No other packet leaves by port 2, which is excluded from flooding. The observer's count, h2's
//! count and the switch's counter of port 2 must therefore agree, packet by packet.
//!
//! The promise is 1 s until new packets and flows are served. The test prints the times, and
//! asserts them with a margin for a busy machine.

use std::env;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use cli::lab::{Host, Lab, LabError, Of, Rosemary, Switch};
use cli::status::Report;
use control::operator::ProgramState;
use rosemary_tests::apps::{configure, in_rust};
use rosemary_tests::mark::{SequenceCounter, Task};
use rosemary_tests::net::{APP, INTERVAL, SOON};
use rosemary_tests::random::Random;
use rosemary_tests::stream::{ETHERTYPE, Stream};
use rosemary_tests::{in_a_lab_for, kill, over_versions, rosemary_binary};

/// The app that answers marked packets.
const SENDER: &str = "sender";

/// Interval between marked packets.
const EVERY: Duration = Duration::from_millis(2);

/// An app that ran shorter is restarted only after this time.
const MIN_RUN: Duration = Duration::from_secs(1);

/// Five times the promise.
const SERVED_WITHIN: Duration = Duration::from_secs(5);

/// Number of deaths in `make test`; `make soak` sets more with `ROSEMARY_DEATHS`.
const DEATHS: u32 = 20;

/// Time limit of a round on a busy machine.
const ROUND: Duration = Duration::from_secs(8);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    /// `SIGKILL`, also of the learning switch.
    Killed,
    /// Caused by a packet's task.
    By(Task),
}

over_versions!(killed_apps_process_each_packet_once, |of| deaths(of, Death::Killed));

#[test]
fn exiting_app_processes_each_packet_once() {
    deaths(Of::V1_3, Death::By(Task::Exit));
}

#[test]
fn panicking_app_processes_each_packet_once() {
    deaths(Of::V1_3, Death::By(Task::Panic));
}

fn deaths(of: Of, death: Death) {
    let rounds = env::var("ROSEMARY_DEATHS").map_or(DEATHS, |n| n.parse().expect("a number"));
    in_a_lab_for(ROUND * rounds + SOON * 3, move |lab| {
        let mut random = Random::seeded();
        let mut scene = Scene::set(lab, of)?;
        let mut rows = Vec::new();
        for round in 1..=rounds {
            rows.push(scene.round(round, death, &mut random)?);
        }
        scene.end(death, &rows)
    });
}

#[test]
fn fatal_packet_is_set_aside() {
    in_a_lab_for(SOON * 12, |lab| {
        let mut scene = Scene::set(lab, Of::V1_3)?;
        scene.stream.send(Task::PanicAlways, 7)?;
        scene.rosemary.wait_for("it ended the app twice", SOON, |status| {
            let app = status.app(SENDER)?;
            (app.restarts == 2 && app.state == ProgramState::Running).then_some(())
        })?;
        println!("{}", scene.rosemary.wait_for_log(&[SENDER, "set a record aside"], SOON)?);
        scene.compare()?;
        let restarts = scene.status()?.app(SENDER).map(|app| app.restarts);
        assert_eq!(restarts, Some(2), "it was not delivered for the third time");
        Ok(())
    });
}

/// Measurements of a round.
#[derive(Debug)]
struct Row {
    /// Whether the app was younger than its minimum run time.
    young: bool,
    /// Time from the death until a later packet arrived.
    packets_after: Duration,
    /// Time from the death until a ping without a flow was answered.
    flow_after: Duration,
}

/// All participants.
struct Scene<'lab> {
    lab: &'lab Lab,
    rosemary: Rosemary<'lab>,
    s1: Switch<'lab>,
    hosts: [Host<'lab>; 5],
    stream: Stream,
    before: Report,
    epoch: u32,
    /// Packets that left by port 2 before the stream started.
    left_before: u64,
    /// When the apps were last seen to have started.
    running_since: Instant,
}

impl<'lab> Scene<'lab> {
    fn set(lab: &'lab Lab, of: Of) -> anyhow::Result<Self> {
        // The deaths are the test's, so none of the apps is held for them.
        let marked = format!("ethertypes = [{ETHERTYPE}]\nrestart = {{ restarts = 100000 }}");
        configure(&[
            &in_rust(SENDER, &marked),
            &in_rust("observer", &format!("{marked}\nstage = \"observe\"")),
            &format!(
                "[[app]]\nname = \"{APP}\"\nethertypes = [0x0800, 0x0806]\nrestart = {{ restarts = 100000 }}\n"
            ),
        ])?;
        let s1 = lab.switch("s1", of)?;
        let hosts = ["h1", "h2", "h3", "h4", "h5"].map(|name| lab.host(name, &s1));
        let [h1, h2, h3, h4, h5] = hosts;
        let hosts = [h1?, h2?, h3?, h4?, h5?];
        let [h1, h2, h3, h4, h5] = &hosts;
        s1.flood_not_to(h2)?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let epoch = rosemary.wait_for_switch(&s1)?.epoch;
        // Static ARP entries avoid ARP requests, which are repeated only once a second.
        for (one, other) in [(h3, h4), (h4, h3), (h3, h5), (h5, h3)] {
            one.knows(other)?;
        }
        ensure!(h3.ping(h4, 3, INTERVAL)?.lost() == 0, "there are flows between h3 and h4");
        let before = rosemary.wait_for("it answers", SOON, |status| Some(status.clone()))?;
        let left_before = left_by(&s1, h2)?;
        let stream = Stream::start(h1, h2, EVERY)?;
        let running_since = Instant::now();
        let mut scene =
            Self { lab, rosemary, s1, hosts, stream, before, epoch, left_before, running_since };
        scene.wait_for("packets arrive", |scene| (scene.stream.arrived() > 10).then_some(()))?;
        Ok(scene)
    }

    fn round(&mut self, round: u32, death: Death, random: &mut Random) -> anyhow::Result<Row> {
        let [_, _, h3, h4, h5] = &self.hosts;
        for (from, to) in [(h3, h5), (h5, h3)] {
            let flow = format!("dl_src={},dl_dst={}", from.mac(), to.mac());
            self.s1.ofctl(&["del-flows", &flow])?;
        }
        // Three of four deaths happen when an immediate restart is allowed.
        let young = round.is_multiple_of(4);
        let age = if young {
            random.up_to(MIN_RUN)
        } else {
            MIN_RUN + random.up_to(Duration::from_millis(400))
        };
        let mut established = h3.ping_in_background(h4, 40, INTERVAL)?;
        established.wait_for(2, SOON)?;
        self.lab.pause(age.saturating_sub(self.running_since.elapsed()))?;
        let before = self.status()?;
        let (died, died_at) = (Instant::now(), SystemTime::now());
        match death {
            Death::Killed => {
                kill(app_pid(&before, SENDER)?)?;
                self.lab.pause(random.up_to(Duration::from_millis(20)))?;
                kill(app_pid(&before, APP)?)?;
            }
            Death::By(task) => self.stream.send(task, round.into())?,
        }
        let [_, _, h3, _, h5] = &self.hosts;
        let mut new = h3.ping_in_background(h5, 500, INTERVAL)?;
        let packets_after = self.wait_for("packets arrive again", |scene| {
            scene.stream.first_arrival(died + Duration::from_millis(5))
        })?;
        new.wait_for(1, SOON)?;
        let flow_after = new.first_reply_after(died_at).context("a ping was answered")?;
        drop(new);

        let apps: &[&str] = if death == Death::Killed { &[SENDER, APP] } else { &[SENDER] };
        let restarts = |status: &Report, app: &str| status.app(app).map(|app| app.restarts);
        let after = self.rosemary.wait_for("the apps are back", SOON, |status| {
            let back = |name: &&str| {
                let app = status.app(name);
                app.is_some_and(|app| app.state == ProgramState::Running)
                    && restarts(status, name) > restarts(&before, name)
            };
            apps.iter().all(back).then(|| status.clone())
        })?;
        self.running_since = Instant::now();
        for app in apps {
            let died = restarts(&before, app).map(|n| n + 1);
            ensure!(restarts(&after, app) == died, "{app} died once in round {round}: {after:?}");
        }
        let established = established.finish()?;
        ensure!(established.lost() == 0, "round {round}: pings were lost: {established:?}");
        let row = Row { young, packets_after, flow_after };
        println!("round {round}: {row:?}");
        ensure!(packets_after < SERVED_WITHIN && flow_after < SERVED_WITHIN, "{row:?}");
        Ok(row)
    }

    fn end(&mut self, death: Death, rows: &[Row]) -> anyhow::Result<()> {
        let worst = |young: bool| {
            let rows = || rows.iter().filter(|row| row.young == young);
            let packets = rows().map(|row| row.packets_after).max().unwrap_or_default();
            let flow = rows().map(|row| row.flow_after).max().unwrap_or_default();
            format!("packets after {packets:?}, new flows after {flow:?}")
        };
        println!(
            "{} deaths ({death:?}); at worst: {} (promised: 1 s); where the app had run for less \
             than a second: {}",
            rows.len(),
            worst(false),
            worst(true)
        );
        let sent = self.stream.sent();
        let (received, longest) = self.compare()?;
        println!("{sent} packets sent, {} taken; longest way {longest:?}", received.different);
        ensure!(received.different > sent / 2, "there was enough traffic");
        Ok(())
    }

    /// Stops the stream and compares all counters.
    fn compare(&mut self) -> anyhow::Result<(SequenceCounter, Duration)> {
        self.stream.stop();
        self.stream.send(Task::Report, 1)?;
        let line = self.rosemary.wait_for_log(&["observer", "report 1:"], SOON)?;
        let observed: u64 = line
            .split_once("different=")
            .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
            .with_context(|| format!("no count in {line}"))?;
        self.wait_for("all have arrived", |scene| {
            (scene.stream.arrived() >= observed).then_some(())
        })?;
        self.lab.pause(Duration::from_millis(300))?; // repeated packets would have arrived too
        let after = self.status()?;
        let switch = self.rosemary.wait_for_switch(&self.s1)?;
        let left = left_by(&self.s1, &self.hosts[1])? - self.left_before;
        let (received, longest) = self.stream.finish();
        println!("observed: {line}\nreceived: {}\nleft by port 2: {left}", received.text());
        ensure!(switch.dropped == 0, "the kernel took every packet: {switch:?}");
        ensure!(line.contains(&received.text()), "the same packets, each once");
        ensure!((received.again, received.late) == (0, 0), "each once, in order");
        ensure!(left == received.different, "the switch sent {left}");
        ensure!(
            after.programs.kernel == self.before.programs.kernel,
            "the kernel was not restarted"
        );
        ensure!(switch.epoch == self.epoch, "its switch is on the same connection");
        Ok((received, longest))
    }

    fn status(&mut self) -> Result<Report, LabError> {
        self.rosemary.wait_for("Rosemary answers", SOON, |status| Some(status.clone()))
    }

    fn wait_for<T>(
        &mut self,
        what: &str,
        look: impl Fn(&Self) -> Option<T>,
    ) -> Result<T, LabError> {
        self.lab.wait_for(what, SOON, |evidence| {
            let log = self.rosemary.log();
            let lines: Vec<_> = log.lines().rev().take(8).collect();
            let missing = format!("packets under way: {:?}", self.stream.under_way());
            let lines = [missing.as_str()].into_iter().chain(lines.into_iter().rev());
            evidence.0 = lines.collect::<Vec<_>>().join("\n");
            Ok(look(self))
        })
    }
}

fn app_pid(status: &Report, app: &str) -> anyhow::Result<u32> {
    let pid = status.app(app).and_then(|app| app.pid);
    pid.with_context(|| format!("{app} does not run: {status:?}"))
}

/// Returns the number of packets that left by the port of `host`, as counted by the switch.
fn left_by(switch: &Switch<'_>, host: &Host<'_>) -> anyhow::Result<u64> {
    let text = switch.ofctl(&["dump-ports", &host.port().to_string()])?;
    let count = text.split_once("tx pkts=").and_then(|(_, rest)| rest.split(',').next());
    count.and_then(|count| count.parse().ok()).with_context(|| format!("no count in {text}"))
}
