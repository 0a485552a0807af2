//! Measures the delay of the first ping between two hosts behind Open vSwitch, with four controllers in turns: Rosemary
//! with `forwarding`, Rosemary with the learning switch, `ovs-testcontroller`, and `ofbench null`, which floods.
//!
//! ```text
//! h1 --\
//!       s1 (OVS) -- 127.0.0.1:6653  one of the controllers
//! h2 --/
//! ```
//!
//! Before each ping both hosts get new Ethernet and IP addresses and empty ARP tables. So the ping waits for an ARP request,
//! its reply, an echo request and its reply, and each is a packet-in if no earlier one has led to a flow for it. The
//! controllers take turns, a block of pings each, and only the one that is measured runs.
//!
//! `first_ping ryu OSKEN-MANAGER RYU-APP OSKEN-APP [PINGS]` compares an app of Ryu on Rosemary and under os-ken's manager over
//! OpenFlow 1.3; `experiments/speed/speed.py --only python` runs that.

#![forbid(unsafe_code)]

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use cli::lab::{self, Host, Lab, LabError, Of, Rosemary, Running, Switch};
use rosemary_tests::experiment::{finished, note};
use rosemary_tests::rosemary_binary;
use rustix::process::Signal;

const ADDRESS: &str = "127.0.0.1:6653";

/// Number of pings per block.
const BLOCK: usize = 25;

/// Time limit for a connection, and for the ping before a block. Open vSwitch retries after a second, and `forwarding`
/// floods out of a port when its probe window has passed.
const PATIENCE: Duration = Duration::from_secs(20);

/// What controls the switch.
#[derive(Debug, Clone, Copy)]
enum Controller<'w> {
    /// Rosemary with this app.
    App(&'static str),
    /// Rosemary with this app of Ryu.
    Ryu(&'w str),
    /// The program of os-ken's manager, and its app.
    OsKen(&'w str, &'w str),
    OvsTest,
    Null,
}

const CONTROLLERS: [(&str, Controller<'static>); 4] = [
    ("Rosemary, `forwarding`", Controller::App("forwarding")),
    ("Rosemary, `learning-switch`", Controller::App("learning-switch")),
    ("`ovs-testcontroller`", Controller::OvsTest),
    ("`ofbench null`", Controller::Null),
];

/// A controller that runs.
enum Started<'lab> {
    Rosemary(Rosemary<'lab>),
    /// Dropping it ends it.
    Other(Running),
}

impl<'lab> Started<'lab> {
    fn start(lab: &'lab Lab, controller: Controller<'_>) -> anyhow::Result<Self> {
        let (name, command) = match controller {
            Controller::App(app) => {
                let rosemary = Rosemary::start(lab, &rosemary_binary(), &["--app", app])?;
                return Ok(Self::Rosemary(rosemary));
            }
            Controller::Ryu(app) => {
                let command = ["ryu", app];
                return Ok(Self::Rosemary(Rosemary::start_by(lab, &rosemary_binary(), &command)?));
            }
            Controller::OsKen(manager, app) => {
                let mut command = lab.command(manager);
                command.args(["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", "6653"]);
                command.arg(app);
                ("osken-manager", command)
            }
            Controller::OvsTest => {
                let mut command = lab.command("ovs-testcontroller");
                command.arg("ptcp:6653:127.0.0.1");
                ("ovs-testcontroller", command)
            }
            Controller::Null => {
                let mut command = lab.command(rosemary_binary().with_file_name("ofbench"));
                command.args(["null", "--listen", ADDRESS]);
                ("ofbench", command)
            }
        };
        Ok(Self::Other(lab.start(name, command)?))
    }

    fn must_run(&mut self) -> anyhow::Result<()> {
        Ok(match self {
            Self::Rosemary(rosemary) => rosemary.must_run(),
            Self::Other(other) => other.must_run(),
        }?)
    }

    fn stop(self) -> anyhow::Result<()> {
        if let Self::Rosemary(rosemary) = self {
            rosemary.stop(Signal::TERM)?;
        }
        Ok(())
    }
}

/// The results of one controller.
#[derive(Debug, Default)]
struct Pings {
    times: Vec<Duration>,
    lost: usize,
}

fn main() -> ExitCode {
    finished(run())
}

fn run() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &String| text.parse::<usize>().context("expected a number of pings");
    let (pings, controllers, versions) = match &words[..] {
        [] => (200, CONTROLLERS.to_vec(), &[Of::V1_0, Of::V1_3][..]),
        [ryu, manager, app, other, rest @ ..] if ryu == "ryu" && rest.len() <= 1 => {
            let controllers = vec![
                ("Rosemary, `simple_switch_13`", Controller::Ryu(app)),
                ("os-ken's manager, `simple_switch_13`", Controller::OsKen(manager, other)),
            ];
            (rest.first().map_or(Ok(100), number)?, controllers, &[Of::V1_3][..])
        }
        [option, rest @ ..] if option == "--only" => {
            ensure!(
                matches!(rest, [it] if it == "rosemary"),
                "--only is for one controller: --only rosemary"
            );
            let own = |controller: &Controller<'_>| matches!(controller, Controller::App(_));
            let own = CONTROLLERS.into_iter().filter(|(_, it)| own(it)).collect();
            (200, own, &[Of::V1_0, Of::V1_3][..])
        }
        [text] => (number(text)?, CONTROLLERS.to_vec(), &[Of::V1_0, Of::V1_3][..]),
        _ => {
            bail!(
                "usage: first_ping [PINGS], first_ping --only rosemary, or first_ping ryu OSKEN-MANAGER RYU-APP OSKEN-APP [PINGS]"
            )
        }
    };
    ensure!(pings > 0, "expected a number of pings above 0");
    if controllers.iter().any(|(_, it)| matches!(it, Controller::OvsTest)) {
        lab::require(&["ovs-testcontroller"])?;
    }
    let lab = Lab::enter()?;
    let mut text = String::new();
    for &of in versions {
        let switch = lab.switch(if of == Of::V1_0 { "s0" } else { "s3" }, of)?;
        let hosts = [
            lab.host(&format!("{}-a", switch.name()), &switch)?,
            lab.host(&format!("{}-b", switch.name()), &switch)?,
        ];
        let mut results: Vec<Pings> = controllers.iter().map(|_| Pings::default()).collect();
        let mut fresh = 0;
        let mut done = 0;
        while done < pings {
            let block = BLOCK.min(pings - done);
            done += block;
            for (&(name, controller), result) in controllers.iter().zip(&mut results) {
                disconnect(&switch)?;
                let mut started = Started::start(&lab, controller)?;
                connect(&lab, &switch)?;
                lab.wait_for(format!("{name} forwards"), PATIENCE, |_| {
                    fresh += 1;
                    Ok(first_ping(&hosts, fresh)?.map(drop))
                })?;
                for _ in 0..block {
                    fresh += 1;
                    match first_ping(&hosts, fresh)? {
                        Some(time) => result.times.push(time),
                        None => result.lost += 1,
                    }
                }
                started.must_run()?;
                started.stop()?;
                note(format_args!("OpenFlow {of}, {name}: {done} of {pings} pings"));
            }
        }
        for ((name, _), result) in controllers.iter().zip(results) {
            text += &row(&format!("OpenFlow {of}, {name}"), result);
        }
        switch.stand_alone()?;
    }
    let head = "| first ping, in ms | pings | lost | median | quartiles | p90 | longest |\n\
                | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n";
    std::io::stdout().write_all(format!("{head}{text}").as_bytes())?;
    Ok(())
}

/// Disconnects the switch from its controller and empties it.
fn disconnect(switch: &Switch<'_>) -> anyhow::Result<()> {
    switch.connect_to("ptcp:6699:127.0.0.1")?;
    switch.ofctl(&["del-flows"])?;
    Ok(())
}

/// Connects the switch and waits until it has reported that.
fn connect(lab: &Lab, switch: &Switch<'_>) -> anyhow::Result<()> {
    switch.connect_to(&format!("tcp:{ADDRESS}"))?;
    lab.wait_for("the switch connects", PATIENCE, |evidence| {
        let bridges = lab.run("ovs-vsctl", &["--db=unix:/run/lab/db.sock", "show"])?;
        let connected = bridges.contains("is_connected: true");
        evidence.0 = bridges;
        Ok(connected.then_some(()))
    })?;
    // The switch reports the connection before the end of the handshake, and an app receives its event later.
    Ok(lab.pause(Duration::from_millis(500))?)
}

/// Gives the hosts new addresses and makes the first ping the second; `None` if there was no answer within a second.
///
/// The IP addresses are new, too: `forwarding` answers an ARP request for an address that it knows, and a new Ethernet
/// address for that would look like an attack.
fn first_ping(hosts: &[Host<'_>; 2], fresh: u16) -> Result<Option<Duration>, LabError> {
    let [high, low] = fresh.to_be_bytes();
    let address = |number: u8| format!("10.{number}.{high}.{low}");
    for (host, number) in hosts.iter().zip(1_u8..) {
        let mac = format!("02:00:{number:02x}:00:{high:02x}:{low:02x}");
        host.run("ip", &["address", "flush", "dev", "eth0"])?;
        host.run("ip", &["link", "set", "eth0", "address", &mac])?;
        host.run("ip", &["address", "add", &format!("{}/8", address(number)), "dev", "eth0"])?;
        host.run("ip", &["neighbour", "flush", "dev", "eth0"])?;
    }
    // A lost ping is a result here, not a failure of the command.
    let ping = format!("ping -n -c 1 -W 1 {} || true", address(2));
    Ok(round_trip(&hosts[0].run("sh", &["-c", &ping])?))
}

/// Reads the time in the output of `ping`.
fn round_trip(output: &str) -> Option<Duration> {
    let (ms, _) = output.split_once("time=")?.1.split_once(" ms")?;
    Duration::try_from_secs_f64(ms.parse::<f64>().ok()? / 1000.0).ok()
}

fn row(name: &str, Pings { mut times, lost }: Pings) -> String {
    times.sort_unstable();
    let count = times.len();
    let ms = |at: usize| times.get(at).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0);
    let [first, median, third, p90] = [25, 50, 75, 90].map(|percent| ms(count * percent / 100));
    let longest = ms(count.saturating_sub(1));
    format!(
        "| {name} | {} | {lost} | {median:.2} | {first:.2} to {third:.2} | {p90:.2} | {longest:.2} |\n",
        count + lost
    )
}
