//! `rosemary switch adopt`: points a bridge of Open vSwitch to this Rosemary, in one transaction.

mod plan;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use ::ovsdb::driver::{Address, Connection, TransactError};
use ::ovsdb::{Done, ErrorKind, Failure};
use anyhow::{Context as _, anyhow, bail, ensure};
use clap::{Args, ValueEnum};
use config::Config;
use keys::datapaths::CertifiedDatapaths;
use openflow::{Dpid, OfferedVersions};
use serde::Serialize;

use self::plan::{Change, Plan, SwitchKeys, Wish};
use super::database::{DatabaseArgs, TRANSACTION, explained};
use crate::client;
use crate::lab::ovs_name;
use crate::say;
use crate::table::Table;

pub(super) const AFTER_HELP: &str = "\
The command sets the controller, the OpenFlow versions and the fail mode of a bridge, and with options its name, its datapath id and the \
paths of the keys of the switch. All changes are one transaction: if the bridge changes at the same time, nothing is done. \
Then it waits until the switch has connected. --dry-run shows the changes and makes none.

The database must be reachable: on the switch `ovs-vsctl set-manager pssl:6640`. It presents the certificate of `rosemary pki switch`, and \
may be adopted for the datapaths that this certificate names. tcp: is neither encrypted nor authenticated: use it in a lab.

With ssl: the switch needs keys of its own. The database holds only their paths, and cannot transport files: copy the files of `rosemary \
pki switch` to the switch by other means first.

With fail mode `secure` the bridge keeps its flows while no controller is connected, and forwards nothing that they do not match. With \
`standalone` it becomes an ordinary switch after some 15 s.

Exit codes: 0 the switch has connected, or --dry-run or --wait 0; 1 refused, failed, or not connected in time; 2 wrong usage.";

/// Options of `rosemary switch adopt`.
#[derive(Debug, Clone, Args)]
pub struct AdoptArgs {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// The bridge [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub bridge: Option<String>,
    /// Address of this Rosemary, as the switch reaches it: ssl:ADDR:PORT or tcp:ADDR:PORT [default: where Rosemary listens]
    #[arg(long, value_name = "ADDRESS")]
    pub controller: Option<Target>,
    /// Behaviour of the bridge while no controller is connected
    #[arg(long, value_enum, default_value_t = FailMode::Secure)]
    pub fail_mode: FailMode,
    /// A name of the datapath, which OpenFlow reports as its description
    #[arg(long, value_name = "TEXT", value_parser = parse_name)]
    pub name: Option<String>,
    /// A new datapath id, such as 00:00:00:00:00:00:00:01, 0x1 or 1
    #[arg(long, value_name = "DPID")]
    pub datapath_id: Option<Dpid>,
    /// The switch's keys.
    #[command(flatten)]
    pub keys: KeyPaths,
    /// Replace other controllers of the bridge, and other keys of the switch
    #[arg(long)]
    pub replace: bool,
    /// Show the changes and make none
    #[arg(long)]
    pub dry_run: bool,
    /// How long to wait until the switch has connected, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub wait: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Paths of the keys on the switch.
#[derive(Debug, Clone, Default, Args)]
pub struct KeyPaths {
    /// Path of the private key on the switch
    #[arg(long, value_name = "PATH", requires_all = ["switch_cert", "switch_ca_cert"], value_parser = parse_path)]
    pub switch_key: Option<PathBuf>,
    /// Path of the certificate on the switch
    #[arg(long, value_name = "PATH", requires = "switch_key", value_parser = parse_path)]
    pub switch_cert: Option<PathBuf>,
    /// Path of the authority's certificate on the switch
    #[arg(long, value_name = "PATH", requires = "switch_key", value_parser = parse_path)]
    pub switch_ca_cert: Option<PathBuf>,
}

/// Behaviour of a bridge while no controller is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailMode {
    /// It keeps its flows.
    Secure,
    /// It becomes an ordinary switch.
    Standalone,
}

/// The address of a controller, as Open vSwitch writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    tls: bool,
    address: SocketAddr,
}

impl FromStr for Target {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let target = text.split_once(':').and_then(|(scheme, address)| {
            let tls = match scheme {
                "ssl" => true,
                "tcp" => false,
                _ => return None,
            };
            Some(Self { tls, address: address.parse().ok()? })
        });
        let target = target.filter(|it| !it.address.ip().is_unspecified() && it.address.port() > 0);
        target.ok_or("expected ssl:ADDR:PORT or tcp:ADDR:PORT, such as ssl:192.0.2.1:6653")
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", if self.tls { "ssl" } else { "tcp" }, self.address)
    }
}

/// The result; its JSON is a stable interface.
#[derive(Debug, Serialize)]
struct Adoption<'a> {
    address: String,
    bridge: &'a str,
    datapath_id: Option<String>,
    controller: String,
    dry_run: bool,
    changes: &'a [Change],
    /// Whether the switch has connected; `None` if the command did not wait.
    connected: Option<bool>,
}

/// Adopts a bridge.
///
/// # Errors
/// The database does not answer, the bridge cannot be adopted, or the switch does not connect in time.
pub fn run(args: &AdoptArgs) -> anyhow::Result<()> {
    let config = Config::load(args.database.instance.config.as_deref())?;
    let mut connection = args.database.connect(&config)?;
    let target = target(args, &config, connection.local_address())?;
    let plan = plan::plan(
        connection.image(),
        &wish(args, target, config.tuning.openflow.unwrap_or_default()),
    )?;
    check_certificate(&connection, &plan)?;
    let generation = if args.dry_run { None } else { apply(&mut connection, &plan)? };
    let waited = if args.dry_run || args.wait == 0 {
        None
    } else {
        Some(wait(&mut connection, &plan, target, (generation, args.wait)))
    };
    show(args, &plan, target, waited.as_ref().map(Result::is_ok))?;
    waited.unwrap_or(Ok(()))
}

fn wish(args: &AdoptArgs, target: Target, versions: OfferedVersions) -> Wish {
    let KeyPaths { switch_key, switch_cert, switch_ca_cert } = args.keys.clone();
    let keys = switch_key.zip(switch_cert).zip(switch_ca_cert);
    Wish {
        bridge: args.bridge.clone(),
        target: target.to_string(),
        protocols: versions.versions().map(ovs_name).collect(),
        fail_mode: match args.fail_mode {
            FailMode::Secure => "secure",
            FailMode::Standalone => "standalone",
        },
        name: args.name.clone(),
        datapath_id: args.datapath_id,
        keys: keys.map(|((key, cert), ca_cert)| SwitchKeys { key, cert, ca_cert }),
        replace: args.replace,
    }
}

/// Returns the address at which the switch reaches this Rosemary. `local` is the address of this end of the connection to the database.
fn target(args: &AdoptArgs, config: &Config, local: Option<IpAddr>) -> anyhow::Result<Target> {
    if let Some(target) = args.controller {
        return Ok(target);
    }
    let own = local.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |ip| ip.to_canonical());
    let listen = listening(args, config);
    let address = reachable(&listen, own).with_context(|| {
        let listen: Vec<String> = listen.iter().map(ToString::to_string).collect();
        format!(
            "Rosemary listens on {} only, which the switch of {} does not reach; add an address of this machine to `listen` of \
             [controller], or name one with --controller",
            listen.join(", "),
            args.database.address
        )
    })?;
    let allows_plain = config.plain.unwrap_or_default().allows(address.ip());
    Ok(Target { tls: args.keys.switch_key.is_some() || !allows_plain, address })
}

/// Returns the first address that a switch reaches which this machine reaches by its address `own`.
fn reachable(listen: &[SocketAddr], own: IpAddr) -> Option<SocketAddr> {
    listen.iter().find_map(|address| {
        let ip = address.ip();
        let accepts_own = ip.is_ipv6() || own.is_ipv4();
        if ip.is_unspecified() && accepts_own {
            return Some(SocketAddr::new(own, address.port()));
        }
        let is_reached = !ip.is_unspecified() && (!ip.is_loopback() || own.is_loopback());
        is_reached.then_some(*address)
    })
}

/// Returns the addresses of the running Rosemary, or those of the configuration.
fn listening(args: &AdoptArgs, config: &Config) -> Vec<SocketAddr> {
    let running = client::connect(&args.database.instance).ok().and_then(|it| it.status().ok());
    if let Some(status) = running {
        return status.kernel.listen.iter().filter_map(|it| it.parse().ok()).collect();
    }
    say::note("Rosemary does not run here: the controller's address is that of the configuration");
    if config.listen.is_empty() { vec![monitor::options::LISTEN] } else { config.listen.clone() }
}

/// Checks that the switch's certificate may claim the datapath, so that no switch is adopted in the name of another.
fn check_certificate(connection: &Connection, plan: &Plan) -> anyhow::Result<()> {
    let Some(certificate) = connection.certificate() else { return Ok(()) };
    let datapaths = CertifiedDatapaths::of(certificate)
        .map_err(|error| anyhow!("the switch cannot be trusted: {error}"))?;
    let dpid = plan.datapath_id.with_context(|| {
        format!(
            "the bridge {} states no datapath id, so its certificate cannot be checked; name the id with --datapath-id",
            plan.bridge
        )
    })?;
    datapaths.may_claim(dpid).map_err(|names| {
        anyhow!(
            "the bridge {} is the datapath {dpid}, and the certificate of the switch is for {names}; make a certificate with `rosemary pki \
             switch {} --dpid {dpid} --force`",
            plan.bridge,
            plan.bridge
        )
    })
}

/// Carries out the plan. Returns the number of the configuration, which the switch reports once it has carried it out.
fn apply(connection: &mut Connection, plan: &Plan) -> anyhow::Result<Option<i64>> {
    if plan.operations.is_empty() {
        return Ok(None);
    }
    let done = connection.transact(&plan.operations, TRANSACTION).map_err(|error| match error {
        TransactError::Failed(Failure::Operation { error, .. })
            if error.kind() == ErrorKind::TimedOut =>
        {
            anyhow!(
                "the bridge {} changed at the same time, so nothing was changed; type the command again",
                plan.bridge
            )
        }
        TransactError::Connection(error) => explained(error).context("it is not known whether the bridge was changed; type the command again with --dry-run"),
        error => error.into(),
    })?;
    match done.last() {
        Some(Done::Rows(rows)) => Ok(rows.first().and_then(|row| row.integer("next_cfg"))),
        _ => bail!("the database did not report the number of the configuration"),
    }
}

/// Waits until the switch has carried out the configuration and has connected.
fn wait(
    connection: &mut Connection,
    plan: &Plan,
    target: Target,
    (generation, seconds): (Option<i64>, u64),
) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        let state = state(connection, plan, target, generation);
        if state == State::Connected {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        ensure!(
            !left.is_zero(),
            "{}, and has not connected to {target} within {seconds} s{}; `rosemary logs` shows refused connections",
            match state {
                State::NotApplied =>
                    "the switch has not carried out the changes: does ovs-vswitchd run?",
                _ if plan.changes.is_empty() => "the bridge needs no change",
                _ => "the switch has carried out the changes",
            },
            match &state {
                State::Failing(error) => format!(" ({error})"),
                _ => String::new(),
            }
        );
        connection.next_event(left).map_err(explained)?;
    }
}

/// How far the switch is.
#[derive(Debug, PartialEq, Eq)]
enum State {
    NotApplied,
    Applied,
    /// The last attempt to connect failed with this error.
    Failing(String),
    Connected,
}

fn state(connection: &Connection, plan: &Plan, target: Target, generation: Option<i64>) -> State {
    let image = connection.image();
    let current = image.rows("Open_vSwitch").find_map(|(_, row)| row.integer("cur_cfg"));
    if current < generation {
        return State::NotApplied;
    }
    let target = target.to_string();
    let controllers = image.row("Bridge", plan.uuid).map(|row| row.references("controller"));
    let mut rows = controllers.into_iter().flatten().filter_map(|id| image.row("Controller", id));
    let Some(row) = rows.find(|row| row.text("target") == Some(&target)) else {
        return State::Applied;
    };
    if row.boolean("is_connected") == Some(true) {
        return State::Connected;
    }
    let error = row.entry("status", "last_error");
    error.map_or(State::Applied, |error| State::Failing(error.to_owned()))
}

fn show(
    args: &AdoptArgs,
    plan: &Plan,
    target: Target,
    connected: Option<bool>,
) -> anyhow::Result<()> {
    let datapath_id = plan.datapath_id.map(|dpid| dpid.to_string());
    if args.json {
        let adoption = Adoption {
            address: args.database.address.to_string(),
            bridge: &plan.bridge,
            datapath_id,
            controller: target.to_string(),
            dry_run: args.dry_run,
            changes: &plan.changes,
            connected,
        };
        let json = serde_json::to_string(&adoption).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    if !plan.changes.is_empty() {
        let mut table = Table::new(["TABLE", "SETTING", "BEFORE", "AFTER"]);
        for Change { table: of, setting, before, after } in &plan.changes {
            let [before, after] = [before, after].map(|it| it.as_deref().unwrap_or("-"));
            table.row([of, setting, before, after]);
        }
        say::data(table.text())?;
    }
    let id = datapath_id.map(|id| format!(" ({id})")).unwrap_or_default();
    let bridge = format!("bridge {}{id}", plan.bridge);
    match (args.dry_run, plan.changes.is_empty()) {
        (_, true) => say::note(format_args!("{bridge} needs no change")),
        (true, false) => say::note(format_args!("{bridge} would change so; nothing was changed")),
        (false, false) => say::note(format_args!("changed {bridge}")),
    }
    if args.database.address_is_plain() {
        say::note("tcp: was used for the database: everyone on the way can read and change it");
    }
    if connected == Some(true) {
        say::note(format_args!("the switch has connected to {target}"));
    }
    Ok(())
}

impl DatabaseArgs {
    /// Whether the connection crosses a network without protection.
    fn address_is_plain(&self) -> bool {
        match &self.address {
            Address::Tcp(host) => {
                !host.name.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
            }
            Address::Tls(_) | Address::Unix(_) => false,
        }
    }
}

fn parse_name(text: &str) -> Result<String, &'static str> {
    // Open vSwitch cuts longer ones (ovs-vswitchd.conf.db(5), other_config:dp-desc).
    if (1..=255).contains(&text.len()) && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("expected 1 to 255 bytes without control characters")
    }
}

fn parse_path(text: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err("expected an absolute path on the switch") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_has_the_form_of_open_vswitch() {
        for text in ["ssl:192.0.2.1:6653", "tcp:[2001:db8::1]:6653"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for text in
            ["192.0.2.1:6653", "ssl:192.0.2.1", "ssl:host:6653", "tcp:0.0.0.0:1", "tcp:192.0.2.1:0"]
        {
            text.parse::<Target>().expect_err(text);
        }
    }

    #[test]
    fn address_is_one_that_the_switch_reaches() {
        let listen = |all: &[&str]| all.iter().map(|it| it.parse().unwrap()).collect::<Vec<_>>();
        let (here, far): (IpAddr, IpAddr) =
            ("127.0.0.1".parse().unwrap(), "192.0.2.1".parse().unwrap());
        let six: IpAddr = "2001:db8::1".parse().unwrap();
        let both = listen(&["127.0.0.1:6653", "0.0.0.0:6654", "[::]:6655"]);
        assert_eq!(reachable(&both, here), Some("127.0.0.1:6653".parse().unwrap()));
        assert_eq!(reachable(&both, far), Some("192.0.2.1:6654".parse().unwrap()));
        assert_eq!(reachable(&both, six), Some("[2001:db8::1]:6655".parse().unwrap()));
        assert_eq!(reachable(&listen(&["127.0.0.1:6653"]), far), None);
        assert_eq!(reachable(&listen(&["[::]:1"]), far), Some("192.0.2.1:1".parse().unwrap()));
        assert_eq!(
            reachable(&listen(&["198.51.100.1:1"]), far),
            Some("198.51.100.1:1".parse().unwrap())
        );
    }
}
