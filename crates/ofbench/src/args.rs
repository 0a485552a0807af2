//! The command line, and what it means.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use openflow::Version;

use crate::hosts::{self, Addresses};
use crate::ledger::AnsweredBy;
use crate::load::{Pace, Plan};
use crate::question::{LEAST_FRAME, MOST_IDS, MOST_OPEN, Open, Template};
use crate::tls::{Files, Tls};

/// Puts load on an OpenFlow controller, and checks its answers.
///
/// Emulates switches that send packet-ins and take flow-mods and packet-outs, as a learning switch
/// in the controller would answer them.
#[derive(Debug, Parser)]
#[command(name = "ofbench", version, after_help = AFTER_HELP)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "\
First steps:
  ofbench null &                       something to try it on: answers without thinking
  ofbench throughput 127.0.0.1:6653    how many packet-ins a second are answered
  ofbench latency 127.0.0.1:6653       how long each answer takes
  ofbench throughput A:6653 --vs B:6653 --repeat 5
                                       two controllers, in turn, pair by pair

Exit codes: 0 done, 1 failed or answered wrongly, 2 wrong usage.";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Ask as fast as the controller answers
    Throughput(LoadArgs),
    /// Ask one question at a time, on each switch
    Latency(LoadArgs),
    /// Ask by the clock, and measure from when each question was due
    Rate {
        /// Packet-ins a second, over all switches
        #[arg(long, value_name = "N", value_parser = parse_rate)]
        rate: f64,
        /// What all loads have in common
        #[command(flatten)]
        load: LoadArgs,
    },
    /// Carry out the flow-mods: their rate, and the time until a barrier behind them
    FlowMod(LoadArgs),
    /// Connect, complete the handshake, hang up, call again
    Connect(LoadArgs),
    /// Connect and say nothing: what idle switches cost the processes of --pids
    Idle(LoadArgs),
    /// Flood with one switch: how long others wait for echo, ARP, port events and handshakes
    Flood(LoadArgs),
    /// Be the switches of a network, for controllers that discover it
    Switches(SwitchesArgs),
    /// Be a controller that answers without thinking: what sockets allow at most
    Null(NullArgs),
}

/// What all loads have in common.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct LoadArgs {
    /// The controller
    #[arg(value_name = "HOST:PORT")]
    pub controller: String,
    /// How many switches
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub switches: usize,
    /// How many hosts talk on each switch
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(2..=hosts::MOST as u64))]
    pub macs: usize,
    /// Over how many ports of each switch they are spread
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=1000))]
    pub ports: u16,
    /// The version of OpenFlow
    #[arg(long, value_name = "VERSION", default_value = "1.3")]
    pub of: Of,
    /// Send packets whole, instead of keeping them in the switch
    #[arg(long)]
    pub no_buffer: bool,
    /// Buffer ids that each switch uses, from 0 on and again [default: 2147483648]
    #[arg(long, value_name = "N", conflicts_with = "no_buffer",
          value_parser = clap::value_parser!(u32).range(1024..=i64::from(MOST_IDS)))]
    pub buffer_ids: Option<u32>,
    /// Buffers that each switch says it has [default: as many as it needs]
    #[arg(long, value_name = "N")]
    pub claim_buffers: Option<u32>,
    /// Bytes of a packet
    #[arg(long, value_name = "BYTES", default_value_t = 64,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(LEAST_FRAME as u64..=9000))]
    pub frame: usize,
    /// With --no-buffer: what answers a packet-in
    #[arg(long, value_name = "MESSAGE", default_value = "packet-out")]
    pub answer: Answer,
    /// Packet-ins of a switch that wait for an answer at a time [default: 192 KiB of them; 1 for
    /// latency]
    #[arg(long, value_name = "N",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=MOST_OPEN as u64))]
    pub window: Option<usize>,
    /// How the hosts' addresses are chosen
    #[arg(long, value_name = "HOW", default_value = "random")]
    pub addresses: Addresses,
    /// What the hosts' addresses follow from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The datapath-id of the first switch; the others' follow
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub dpid: u64,
    /// How long an interval is measured, in seconds
    #[arg(long, value_name = "S", default_value = "5", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// How many intervals; with --vs, how many pairs
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub repeat: usize,
    /// How many threads drive the switches
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=256))]
    pub threads: usize,
    /// Tell how equally switches were served: the least by the most answers of a switch, in the worst span of at
    /// least 100 ms
    #[arg(long)]
    pub fairness: bool,
    /// Keep each thread on a core of its own, among those that taskset leaves
    #[arg(long)]
    pub pin: bool,
    /// How to connect by TLS
    #[command(flatten)]
    pub tls: TlsArgs,
    /// How long all switches may take to connect, in seconds
    #[arg(long, value_name = "S", default_value = "30", value_parser = parse_seconds)]
    pub patience: Duration,
    /// How long an answer may take before its packet-in is given up, in seconds
    #[arg(long, value_name = "S", default_value = "2", value_parser = parse_seconds)]
    pub give_up: Duration,
    /// Processes whose processor time is the controller's
    #[arg(long, value_name = "PID,...", value_delimiter = ',')]
    pub pids: Vec<u32>,
    /// Another controller to compare with: measured in turn with the first
    #[arg(long, value_name = "HOST:PORT")]
    pub vs: Option<String>,
    /// Processes whose processor time is the other controller's
    #[arg(long, value_name = "PID,...", value_delimiter = ',', requires = "vs")]
    pub vs_pids: Vec<u32>,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// How to connect by TLS.
#[derive(Debug, Clone, Args)]
pub struct TlsArgs {
    /// Connect by TLS, with ca-cert.pem, cert.pem and key.pem of a directory, as `rosemary pki
    /// switch` makes it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["tls_ca", "tls_cert", "tls_key"])]
    pub tls_dir: Option<PathBuf>,
    /// Connect by TLS: the authority that issued the controller's certificate
    #[arg(long, value_name = "FILE", requires_all = ["tls_cert", "tls_key"])]
    pub tls_ca: Option<PathBuf>,
    /// The switches' certificate
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub tls_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub tls_key: Option<PathBuf>,
}

/// `ofbench switches`.
#[derive(Debug, Clone, Args)]
pub struct SwitchesArgs {
    /// The controller
    #[arg(value_name = "HOST:PORT")]
    pub controller: String,
    /// Which switches are linked: line:N, ring:N, mesh:N, tree:DEPTH,FANOUT, fat-tree:K, or a file
    #[arg(long, value_name = "TOPOLOGY", default_value = "line:2")]
    pub topology: String,
    /// Ports of each switch that have no link
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub more_ports: u16,
    /// The version of OpenFlow
    #[arg(long, value_name = "VERSION", default_value = "1.3")]
    pub of: Of,
    /// The datapath-id of the first switch; the others' follow
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub dpid: u64,
    /// Leave after so many seconds [default: at Ctrl-C]
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    pub seconds: Option<Duration>,
    /// How to connect by TLS
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Print JSON at the end, for programs
    #[arg(long)]
    pub json: bool,
}

/// `ofbench null`.
#[derive(Debug, Clone, Args)]
pub struct NullArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6653")]
    pub listen: SocketAddr,
    /// The version of OpenFlow [default: what the switch speaks]
    #[arg(long, value_name = "VERSION")]
    pub of: Option<Of>,
    /// Stay on one core, the first of those that taskset leaves
    #[arg(long)]
    pub pin: bool,
}

/// A version of OpenFlow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Of {
    /// OpenFlow 1.0.
    #[value(name = "1.0")]
    V1_0,
    /// OpenFlow 1.3.
    #[value(name = "1.3")]
    V1_3,
}

impl From<Of> for Version {
    fn from(of: Of) -> Self {
        match of {
            Of::V1_0 => Self::V1_0,
            Of::V1_3 => Self::V1_3,
        }
    }
}

/// What answers a packet-in that is not buffered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Answer {
    /// The packet-out with its frame.
    PacketOut,
    /// The flow-mod with its addresses.
    FlowMod,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// As fast as the controller answers.
    Throughput,
    /// One question at a time.
    Latency,
    /// By the clock.
    Rate(f64),
    /// As fast as it answers, with tables that keep the flows.
    FlowMod,
    /// Handshakes.
    Connect,
    /// Nothing.
    Idle,
    /// A flood of one switch, and others beside it.
    Flood,
}

impl Mode {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::Rate(_) => "rate",
            Self::FlowMod => "flow-mod",
            Self::Connect => "connect",
            Self::Idle => "idle",
            Self::Flood => "flood",
        }
    }
}

/// Bytes of questions that wait, where it is not said how many.
const WAITING: usize = 192 * 1024;

/// The pause before the first question.
const SETTLE: Duration = Duration::from_millis(100);

/// The same where it is measured what the controller does unasked.
const IDLE_SETTLE: Duration = Duration::from_secs(2);

/// The most flows that a switch's table holds.
const MAX_FLOWS: usize = 1_000_000;

impl LoadArgs {
    /// What is to be done to the controller.
    ///
    /// # Errors
    /// There is no such host, or the TLS files are not what they should be.
    pub fn plan(&self, mode: Mode) -> anyhow::Result<Plan> {
        let version = self.of.into();
        let template = Template::new(version, !self.no_buffer, self.frame)?;
        let window = self.window.unwrap_or(WAITING / template.size());
        let pace = match mode {
            Mode::Latency => Pace::Window(self.window.unwrap_or(1)),
            Mode::Rate(rate) => Pace::Rate(rate),
            _ => Pace::Window(window),
        };
        let plan = Plan {
            controller: resolve(&self.controller)?,
            tls: self.tls.load()?,
            version,
            switches: self.switches,
            first_dpid: self.dpid,
            ports: self.ports,
            macs: self.macs,
            addresses: self.addresses,
            seed: self.seed,
            buffered: !self.no_buffer,
            buffer_ids: self.buffer_ids.unwrap_or(MOST_IDS),
            claimed_buffers: self.claim_buffers,
            frame: self.frame,
            answered_by: match self.answer {
                Answer::PacketOut => AnsweredBy::PacketOut,
                Answer::FlowMod => AnsweredBy::FlowMod,
            },
            pace,
            fairness: self.fairness,
            timed: matches!(mode, Mode::Latency | Mode::Rate(_)),
            keep_flows: mode == Mode::FlowMod,
            max_flows: MAX_FLOWS,
            threads: self.threads,
            pin: self.pin,
            patience: self.patience,
            give_up: self.give_up,
            settle: if mode == Mode::Idle { IDLE_SETTLE } else { SETTLE },
            interval: self.seconds,
            intervals: self.repeat,
        };
        if plan.fairness && plan.threads > 1 {
            bail!("--fairness compares the switches of one thread: leave --threads out");
        }
        let (ids, places) = (plan.buffer_ids, Open::places_for(plan.window()));
        if places > ids as usize {
            bail!(
                "with this --window a switch needs {places} buffer ids, and there are {ids}: use --buffer-ids \
                 {places} or more, or a smaller --window"
            );
        }
        Ok(plan)
    }
}

impl TlsArgs {
    /// What is needed to connect by TLS, if it was asked for.
    ///
    /// # Errors
    /// The files are not what they should be.
    pub fn load(&self) -> anyhow::Result<Option<Tls>> {
        let files = match (&self.tls_dir, &self.tls_ca, &self.tls_cert, &self.tls_key) {
            (Some(dir), ..) => Files::in_dir(dir),
            (None, Some(ca), Some(cert), Some(key)) => {
                Files { ca: ca.clone(), cert: cert.clone(), key: key.clone() }
            }
            _ => return Ok(None),
        };
        Tls::load(&files).map(Some)
    }
}

/// The address that a name and a port are.
///
/// # Errors
/// There is no such host.
pub fn resolve(controller: &str) -> anyhow::Result<SocketAddr> {
    let found = controller
        .to_socket_addrs()
        .with_context(|| {
            format!("{controller} is no address of a controller, as 127.0.0.1:6653 is")
        })?
        .next();
    match found {
        Some(address) => Ok(address),
        None => bail!("{controller} has no address"),
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err("expected from 0.001 to 86400 seconds".into());
    }
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if !(0.001..=1e8).contains(&rate) {
        return Err("expected from 0.001 to 100000000 a second".into());
    }
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(words: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(words.split_whitespace())
    }

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for words in [
            "ofbench",
            "ofbench throughput",
            "ofbench throughput :1 --switches 0",
            "ofbench throughput :1 --macs 1",
            "ofbench throughput :1 --ports 1",
            "ofbench throughput :1 --of 1.1",
            "ofbench throughput :1 --seconds -1",
            "ofbench throughput :1 --tls-ca a",
            "ofbench throughput :1 --vs-pids 1",
            "ofbench rate :1",
            "ofbench rate :1 --rate 0",
        ] {
            let error = parse(words).expect_err(words);
            assert_eq!(error.exit_code(), 2, "{words}");
        }
    }

    #[test]
    fn plan_says_what_the_options_say() {
        let words =
            "ofbench rate 127.0.0.1:1 --rate 500 --of 1.0 --no-buffer --seconds 0.5 --dpid 7";
        let Command::Rate { rate, load } = parse(words).unwrap().command else { panic!("rate") };
        let plan = load.plan(Mode::Rate(rate)).unwrap();
        assert_eq!(plan.pace, Pace::Rate(500.0));
        assert_eq!((plan.version, plan.buffered, plan.timed), (Version::V1_0, false, true));
        assert_eq!((plan.interval, plan.first_dpid), (Duration::from_millis(500), 7));
        let words = "ofbench throughput :1 --buffer-ids 100000 --claim-buffers 256";
        let Command::Throughput(load) = parse(words).unwrap().command else { panic!("throughput") };
        let load = LoadArgs { controller: "127.0.0.1:1".into(), ..load };
        let plan = load.plan(Mode::Throughput).unwrap();
        assert_eq!((plan.buffer_ids, plan.claimed_buffers), (100_000, Some(256)));
        let load = LoadArgs { buffer_ids: Some(2048), ..load };
        let error = load.plan(Mode::Throughput).unwrap_err().to_string();
        assert!(error.contains("2048") && error.contains("--buffer-ids 4096"), "{error}");
        let words = "ofbench latency [::1]:6653";
        let Command::Latency(load) = parse(words).unwrap().command else { panic!("latency") };
        assert_eq!(load.plan(Mode::Latency).unwrap().pace, Pace::Window(1));
    }

    #[test]
    fn address_that_is_none_is_named() {
        let error = resolve("nowhere").unwrap_err().to_string();
        assert!(error.contains("nowhere") && error.contains("127.0.0.1:6653"), "{error}");
    }
}
