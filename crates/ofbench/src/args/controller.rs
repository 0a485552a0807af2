//! Options of the modes in which this program is the controller.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use openflow::Version;

use super::{parse_rate, parse_seconds, versions};
use crate::measure::{Part, Plan};
use crate::tls::{Files, Server, TlsVersion};

/// TLS options of a controller.
#[derive(Debug, Clone, Args)]
pub struct ControllerTlsArgs {
    /// Require TLS, using ca-cert.pem, controller-cert.pem and controller-key.pem of a directory, as `rosemary pki init`
    /// writes them
    #[arg(long, value_name = "DIR", conflicts_with_all = ["tls_ca", "tls_cert", "tls_key"])]
    pub tls: Option<PathBuf>,
    /// Require TLS: the CA that issued the switches' certificates
    #[arg(long, value_name = "FILE", requires_all = ["tls_cert", "tls_key"])]
    pub tls_ca: Option<PathBuf>,
    /// Certificate of the controller
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub tls_key: Option<PathBuf>,
    /// The only TLS version [default: 1.2 and 1.3]
    #[arg(long, value_name = "VERSION")]
    pub tls_version: Option<TlsVersion>,
    /// The only cipher suite, such as `TLS13_AES_128_GCM_SHA256` [default: all]
    #[arg(long, value_name = "NAME")]
    pub tls_suite: Option<String>,
}

impl ControllerTlsArgs {
    /// Reads the TLS files; `None` for plain TCP.
    ///
    /// # Errors
    /// A file cannot be read or has invalid content, or TLS is restricted but not required.
    pub fn load(&self) -> anyhow::Result<Option<Server>> {
        let files = match (&self.tls, &self.tls_ca, &self.tls_cert, &self.tls_key) {
            (Some(dir), ..) => Files::of_controller(dir),
            (_, Some(ca), Some(cert), Some(key)) => {
                Files { ca: ca.clone(), cert: cert.clone(), key: key.clone() }
            }
            _ if self.tls_version.is_some() || self.tls_suite.is_some() => {
                anyhow::bail!("--tls-version and --tls-suite need --tls or --tls-ca");
            }
            _ => return Ok(None),
        };
        Server::load(&files, self.tls_version, self.tls_suite.as_deref()).map(Some)
    }
}

/// Options of `ofbench null`.
#[derive(Debug, Clone, Args)]
pub struct NullArgs {
    /// Listen address
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6653")]
    pub listen: SocketAddr,
    /// OpenFlow version [default: the newest of the switch]
    #[arg(long, value_name = "VERSION", value_parser = versions())]
    pub of: Option<Version>,
    /// Pin to one core, the first that taskset allows
    #[arg(long)]
    pub pin: bool,
    /// TLS options
    #[command(flatten)]
    pub tls: ControllerTlsArgs,
}

/// Options of `ofbench chart`.
#[derive(Debug, Clone, Args)]
pub struct ChartArgs {
    /// Description of the chart, in JSON
    #[arg(value_name = "FILE")]
    pub description: PathBuf,
    /// The file to write
    #[arg(value_name = "SVG")]
    pub svg: PathBuf,
}

/// Options of `ofbench tls-matrix`.
#[derive(Debug, Clone, Args)]
pub struct TlsMatrixArgs {
    /// The controller's address
    #[arg(value_name = "HOST:PORT", conflicts_with = "listen",
          required_unless_present_any = ["listen", "records_only"])]
    pub controller: Option<String>,
    /// Listen address, to which a switch connects again and again
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<SocketAddr>,
    /// Directory with ca-cert.pem and ca-key.pem of the peer's authority, as `rosemary pki init` writes them: also probes
    /// certificates and measures handshakes
    #[arg(long, value_name = "DIR")]
    pub pki: Option<PathBuf>,
    /// Duration of each measurement of a rate, in seconds
    #[arg(long, value_name = "S", default_value = "1", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// Time limit for a switch to connect, in seconds
    #[arg(long, value_name = "S", default_value = "30", value_parser = parse_seconds)]
    pub patience: Duration,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print a Markdown table
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Only measure records in memory, as JSON: for the child process without AES instructions
    #[arg(long, hide = true)]
    pub records_only: bool,
}

/// Options of `ofbench measure-switch`.
#[derive(Debug, Clone, Args)]
pub struct MeasureSwitchArgs {
    /// Listen address, to which the switch connects. All flows of that switch are deleted
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: SocketAddr,
    /// Interface of this machine by which frames enter the switch. Needs root or `CAP_NET_RAW`
    #[arg(long = "in", value_name = "INTERFACE", requires = "output")]
    pub input: Option<String>,
    /// Interface of this machine by which frames leave the switch
    #[arg(long = "out", value_name = "INTERFACE", requires = "input")]
    pub output: Option<String>,
    /// OpenFlow version [default: the newest of the switch]
    #[arg(long, value_name = "VERSION", value_parser = versions())]
    pub of: Option<Version>,
    /// TLS options
    #[command(flatten)]
    pub tls: ControllerTlsArgs,
    /// The parts to measure [default: all]
    #[arg(long, value_name = "PART,...", value_delimiter = ',')]
    pub only: Vec<Part>,
    /// Number of samples of each delay; of slow ones a tenth
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(10..=1_000_000))]
    pub runs: usize,
    /// Duration of each interval with a rate, in seconds
    #[arg(long, value_name = "S", default_value = "2", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// Flow-mods per second of the part rates
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "10,100,1000,10000",
          value_parser = parse_rate)]
    pub rates: Vec<f64>,
    /// Rules that the switch has besides in the part rates
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=2_000_000))]
    pub background: usize,
    /// Distance of two round trips of the established traffic, in seconds
    #[arg(long, value_name = "S", default_value = "0.001", value_parser = parse_seconds)]
    pub spacing: Duration,
    /// Largest number of flows that the part capacity and the loads install
    #[arg(long, value_name = "N", default_value_t = 100_000,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(10..=2_000_000))]
    pub max_flows: usize,
    /// Size of a frame in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(60..=1500))]
    pub frame: usize,
    /// Time limit for a switch to connect, in seconds
    #[arg(long, value_name = "S", default_value = "30", value_parser = parse_seconds)]
    pub patience: Duration,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print a Markdown table
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Draw box plots and distributions as SVG files in this directory
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
    /// With --plot: replace the files of an earlier run
    #[arg(long, requires = "plot")]
    pub force: bool,
}

impl MeasureSwitchArgs {
    /// Builds the plan of the measurement.
    ///
    /// # Errors
    /// The TLS files are invalid.
    pub fn plan(&self) -> anyhow::Result<Plan> {
        let all = <Part as clap::ValueEnum>::value_variants();
        Ok(Plan {
            tls: self.tls.load()?,
            versions: match self.of {
                Some(of) => vec![of],
                None => Version::ALL.to_vec(),
            },
            interfaces: self.input.clone().zip(self.output.clone()).map(<[String; 2]>::from),
            parts: if self.only.is_empty() { all.to_vec() } else { self.only.clone() },
            runs: self.runs,
            interval: self.seconds,
            rates: self.rates.clone(),
            background: self.background,
            spacing: self.spacing,
            max_flows: self.max_flows,
            frame: self.frame,
            patience: self.patience,
        })
    }
}
