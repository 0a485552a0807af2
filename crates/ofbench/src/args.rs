//! Parses the command line and turns it into a [`Plan`].

mod controller;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use openflow::Version;

use crate::checker::AnsweredBy;
use crate::hosts::{self, Addresses};
use crate::load::{Pace, Plan};
use crate::packet_ins::{MAX_IDS, MAX_PENDING, MIN_FRAME, PacketInTemplate, PendingPacketIns};
use crate::tls::{Files, Tls};

pub use controller::{ChartArgs, ControllerTlsArgs, MeasureSwitchArgs, NullArgs, TlsMatrixArgs};

/// Generates load on an OpenFlow controller and checks its answers.
///
/// Emulates switches that send packet-ins and expect the flow-mods and packet-outs of a learning
/// switch in the controller.
#[derive(Debug, Parser)]
#[command(name = "ofbench", version, after_help = AFTER_HELP)]
pub struct Arguments {
    /// The mode
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "\
First steps:
  ofbench null &                       a controller to try it on
  ofbench throughput 127.0.0.1:6653    how many packet-ins it answers a second
  ofbench latency 127.0.0.1:6653       how long each answer takes
  ofbench throughput A:6653 --vs B:6653 --repeat 5
                                       compares two controllers, pair by pair
  ofbench latency 127.0.0.1:6653 --plot DIR --markdown
                                       draws charts, and prints a table for a report
  ofbench measure-switch --listen 0.0.0.0:6653 --in eth1 --out eth2
                                       measures a switch between two interfaces

Exit codes: 0 success, 1 failure or wrong answer, 2 wrong usage.";

/// A mode of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send packet-ins as fast as the controller answers
    Throughput(LoadArgs),
    /// Send one packet-in at a time on each switch
    Latency(LoadArgs),
    /// Send packet-ins at a fixed rate; latency counts from the scheduled time
    Rate {
        /// Packet-ins a second, over all switches
        #[arg(long, value_name = "N", value_parser = parse_rate)]
        rate: f64,
        /// Options common to all loads
        #[command(flatten)]
        load: LoadArgs,
    },
    /// Keep the flows in tables: flow-mod rate, and time to the barrier that follows
    FlowMod(LoadArgs),
    /// Connect, complete the handshake, disconnect, repeat
    Connect(LoadArgs),
    /// Connect and stay idle: the cost of idle switches in the processes of --pids
    Idle(LoadArgs),
    /// Flood from one switch: how long others wait for echo, ARP, port events and handshakes
    Flood(LoadArgs),
    /// Emulate the switches of a network, for controllers that discover topology
    Switches(SwitchesArgs),
    /// Run a controller that answers without learning: the upper bound of this machine's sockets
    Null(NullArgs),
    /// Measure a switch: packet-in delay and its parts, flow set-up, flow-mods, statistics, table capacity
    MeasureSwitch(MeasureSwitchArgs),
    /// Probe which TLS versions, suites and certificates a controller or switch accepts, and what they cost
    TlsMatrix(TlsMatrixArgs),
    /// Draw a chart from a description in JSON
    Chart(ChartArgs),
    /// Write the manual pages, one per command, to a directory
    #[command(hide = true)]
    Man {
        /// The directory
        dir: PathBuf,
    },
}

/// Options common to all loads.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct LoadArgs {
    /// The controller's address
    #[arg(value_name = "HOST:PORT")]
    pub controller: String,
    /// Number of switches
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub switches: usize,
    /// Number of hosts behind each switch
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(2..=hosts::MAX_HOSTS as u64))]
    pub macs: usize,
    /// Number of ports of each switch; the hosts are spread over them
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=1000))]
    pub ports: u16,
    /// OpenFlow version
    #[arg(long, value_name = "VERSION", value_parser = versions(), default_value = "1.3")]
    pub of: Version,
    /// Send whole packets instead of buffering them in the switch
    #[arg(long)]
    pub no_buffer: bool,
    /// Number of buffer ids that each switch cycles through [default: 2147483648]
    #[arg(long, value_name = "N", conflicts_with = "no_buffer",
          value_parser = clap::value_parser!(u32).range(1024..=i64::from(MAX_IDS)))]
    pub buffer_ids: Option<u32>,
    /// Number of buffers that each switch announces [default: as many as it needs]
    #[arg(long, value_name = "N")]
    pub claim_buffers: Option<u32>,
    /// Size of a packet in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(MIN_FRAME as u64..=9000))]
    pub frame: usize,
    /// With --no-buffer: which message answers a packet-in
    #[arg(long, value_name = "MESSAGE", default_value = "packet-out")]
    pub answer: Answer,
    /// Pending packet-ins of a switch at a time [default: 192 KiB of them; 1 for latency]
    #[arg(long, value_name = "N",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=MAX_PENDING as u64))]
    pub window: Option<usize>,
    /// How host addresses are chosen
    #[arg(long, value_name = "HOW", default_value = "random")]
    pub addresses: Addresses,
    /// Seed of the host addresses
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Datapath id of the first switch; the others follow
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub dpid: u64,
    /// Duration of an interval, in seconds
    #[arg(long, value_name = "S", default_value = "5", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// Number of intervals; with --vs, number of pairs
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub repeat: usize,
    /// Number of threads that drive the switches
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=256))]
    pub threads: usize,
    /// Report fairness: fewest by most answers of a switch, in the worst span of at least 100 ms
    #[arg(long)]
    pub fairness: bool,
    /// Pin each thread to its own core, among those that taskset allows
    #[arg(long)]
    pub pin: bool,
    /// TLS options
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Time limit for all switches to connect, in seconds
    #[arg(long, value_name = "S", default_value = "30", value_parser = parse_seconds)]
    pub patience: Duration,
    /// Pause between the last handshake and the first packet-in, in seconds; for controllers that
    /// discover the network first [default: 0.1; 2 for idle]
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    pub settle: Option<Duration>,
    /// Time after which a packet-in counts as unanswered, in seconds
    #[arg(long, value_name = "S", default_value = "2", value_parser = parse_seconds)]
    pub give_up: Duration,
    /// Processes of the controller whose CPU time is measured
    #[arg(long, value_name = "PID,...", value_delimiter = ',')]
    pub pids: Vec<u32>,
    /// A second controller to compare with; the two are measured in alternation
    #[arg(long, value_name = "HOST:PORT")]
    pub vs: Option<String>,
    /// Processes of the second controller whose CPU time is measured
    #[arg(long, value_name = "PID,...", value_delimiter = ',', requires = "vs")]
    pub vs_pids: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print a Markdown table
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Draw throughput over time and the distribution of latency as SVG files in this directory
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
    /// With --plot: replace the files of an earlier run
    #[arg(long, requires = "plot")]
    pub force: bool,
}

/// TLS options.
#[derive(Debug, Clone, Args)]
pub struct TlsArgs {
    /// Connect with TLS, using ca-cert.pem, cert.pem and key.pem of a directory, as `rosemary pki
    /// switch` writes them
    #[arg(long, value_name = "DIR", conflicts_with_all = ["tls_ca", "tls_cert", "tls_key"])]
    pub tls_dir: Option<PathBuf>,
    /// Connect with TLS: the CA that issued the controller's certificate
    #[arg(long, value_name = "FILE", requires_all = ["tls_cert", "tls_key"])]
    pub tls_ca: Option<PathBuf>,
    /// Certificate of the switches
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub tls_key: Option<PathBuf>,
}

/// Options of `ofbench switches`.
#[derive(Debug, Clone, Args)]
pub struct SwitchesArgs {
    /// The controller's address
    #[arg(value_name = "HOST:PORT")]
    pub controller: String,
    /// Topology: line:N, ring:N, mesh:N, tree:DEPTH,FANOUT, fat-tree:K, or a file
    #[arg(long, value_name = "TOPOLOGY", default_value = "line:2")]
    pub topology: String,
    /// Number of ports without a link on each switch
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub more_ports: u16,
    /// OpenFlow version
    #[arg(long, value_name = "VERSION", value_parser = versions(), default_value = "1.3")]
    pub of: Version,
    /// Datapath id of the first switch; the others follow
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub dpid: u64,
    /// Exit after this many seconds [default: at Ctrl-C]
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    pub seconds: Option<Duration>,
    /// TLS options
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Print JSON at the end
    #[arg(long)]
    pub json: bool,
    /// Print a Markdown table at the end
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
}

/// Parses the name of an OpenFlow version.
fn versions() -> impl TypedValueParser<Value = Version> {
    let values = Version::ALL
        .iter()
        .map(|version| PossibleValue::new(version.name()).help(format!("OpenFlow {version}")));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Version>())
}

/// Which message answers a packet-in that is not buffered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Answer {
    /// The packet-out that carries its frame.
    PacketOut,
    /// The flow-mod that matches its addresses.
    FlowMod,
}

/// The measurement of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// Answers a second, as fast as the controller answers.
    Throughput,
    /// Latency of one packet-in at a time.
    Latency,
    /// Latency at a fixed rate, in packet-ins a second.
    Rate(f64),
    /// Like throughput, with tables that keep the flows.
    FlowMod,
    /// Handshakes.
    Connect,
    /// The cost of idle switches.
    Idle,
    /// Service of other switches while one switch floods.
    Flood,
}

impl Mode {
    /// Returns its name on the command line.
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

/// Default for the bytes of pending packet-ins of a switch.
const WAITING: usize = 192 * 1024;

/// The pause before the first packet-in.
const SETTLE: Duration = Duration::from_millis(100);

/// The pause of the idle mode, which measures what the controller does unasked.
const IDLE_SETTLE: Duration = Duration::from_secs(2);

/// Maximum number of flows in a switch's table.
const MAX_FLOWS: usize = 1_000_000;

impl LoadArgs {
    /// Builds the plan of a run from the options.
    ///
    /// # Errors
    /// The host name does not resolve, or the TLS files are invalid.
    pub fn plan(&self, mode: Mode) -> anyhow::Result<Plan> {
        let version = self.of;
        let template = PacketInTemplate::new(version, !self.no_buffer, self.frame)?;
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
            buffer_ids: self.buffer_ids.unwrap_or(MAX_IDS),
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
            settle: self.settle.unwrap_or(if mode == Mode::Idle { IDLE_SETTLE } else { SETTLE }),
            interval: self.seconds,
            intervals: self.repeat,
        };
        if plan.fairness && plan.threads > 1 {
            bail!("--fairness compares the switches of one thread: leave --threads out");
        }
        let (ids, slots) = (plan.buffer_ids, PendingPacketIns::slots_for(plan.window()));
        if slots > ids as usize {
            bail!(
                "with this --window a switch needs {slots} buffer ids, but only {ids} are configured: use --buffer-ids \
                 {slots} or more, or a smaller --window"
            );
        }
        Ok(plan)
    }
}

impl TlsArgs {
    /// Loads the TLS files if TLS was requested.
    ///
    /// # Errors
    /// A file is missing or invalid.
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

/// Resolves `HOST:PORT` to a socket address.
///
/// # Errors
/// The text has another form, or the host name does not resolve.
pub fn resolve(controller: &str) -> anyhow::Result<SocketAddr> {
    if !controller.contains(':') {
        bail!(
            "{controller} has no port; type {controller}:6653, or HOST:PORT such as 127.0.0.1:6653"
        );
    }
    let found = controller
        .to_socket_addrs()
        .with_context(|| format!("{controller} is not a HOST:PORT address such as 127.0.0.1:6653"))?
        .next();
    match found {
        Some(address) => Ok(address),
        None => bail!("{controller} resolves to no address"),
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err("expected 0.001 to 86400 seconds".into());
    }
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if !(0.001..=1e8).contains(&rate) {
        return Err("expected 0.001 to 100000000 a second".into());
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
    fn invalid_options_are_rejected() {
        for words in [
            "ofbench",
            "ofbench throughput",
            "ofbench throughput :1 --switches 0",
            "ofbench throughput :1 --macs 1",
            "ofbench throughput :1 --ports 1",
            "ofbench throughput :1 --of 1.6",
            "ofbench throughput :1 --seconds -1",
            "ofbench throughput :1 --tls-ca a",
            "ofbench throughput :1 --vs-pids 1",
            "ofbench throughput :1 --json --markdown",
            "ofbench throughput :1 --force",
            "ofbench switches :1 --json --markdown",
            "ofbench rate :1",
            "ofbench rate :1 --rate 0",
        ] {
            let error = parse(words).expect_err(words);
            assert_eq!(error.exit_code(), 2, "{words}");
        }
    }

    #[test]
    fn plan_reflects_the_options() {
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
        for version in Version::ALL {
            let words = format!("ofbench connect :1 --of {version}");
            let Command::Connect(load) = parse(&words).unwrap().command else { panic!("connect") };
            assert_eq!(load.of, *version);
        }
        let words = "ofbench latency [::1]:6653";
        let Command::Latency(load) = parse(words).unwrap().command else { panic!("latency") };
        assert_eq!(load.plan(Mode::Latency).unwrap().pace, Pace::Window(1));
    }

    #[test]
    fn invalid_address_is_named_in_the_error() {
        let error = resolve("nowhere").unwrap_err().to_string();
        assert!(error.contains("nowhere") && error.contains("127.0.0.1:6653"), "{error}");
    }
}
