//! The resource monitor: starts, watches, restarts and stops all other processes of Rosemary.
//!
//! The monitor owns the process tree, the listening sockets, the lock against a second instance, and the admin socket. It
//! is the one program of Rosemary that must not die, so it does nothing else: one thread runs one loop, in which no call
//! waits for a peer. Two further threads write the log and the incidents, and a
//! third one reads the configuration while an operator's change is planned. If the monitor dies, all its children die with
//! it.
//!
//! | files | contents |
//! | --- | --- |
//! | `event_loop.rs` | the event loop |
//! | `environment.rs`, `launch.rs`, `kernel_settings.rs` | what programs, the processes of an app and each kernel need on this machine |
//! | `processes.rs`, `processes/` | the processes: their starts, messages, output, ends, and connections |
//! | `apps_service.rs` | the service about apps, which the monitor serves itself |
//! | `demotions.rs` | the apps that must not run in the kernel |
//! | `incident_store.rs` | the file of incidents |
//! | `backtrace.rs` | which functions a crashed kernel was calling |
//! | `account_store.rs` | the files of accounts |
//! | `config_store.rs` | the files of the configuration's history |
//! | `usage/` | how much each program uses, and what enforces its limits |
//! | `log_forwarder.rs` | log lines, to the log service |
//! | `sandbox.rs`, `remedy.rs`, `sandbox_probe.rs` | the sandbox of each app and the calls that it refuses; what would allow them; what sandbox this machine supports |
//! | `northbound/` | the HTTP interface: its sockets, keys and tokens |
//! | `admin_server.rs`, `deployment/` | the admin socket; what changes that operators make need from the disk |
//! | `object.rs`, `config_file.rs` | an app's object; an app's own configuration |
//! | `hosting/` | what each hosting needs on this machine: programs, files, sockets |
//! | `packages/`, `one_shot.rs` | installed packages; a child process that answers one request |
//! | `check.rs`, `choice.rs`, `overrides.rs`, `numbers.rs` | checks of what the operator chose; which apps run, also by decisions of operators; their numbers |
//! | `provenance.rs` | checks of the installation's files before they run |
//! | `machine.rs` | the resources of this machine that sessions reserve |
//! | `notify.rs` | reports to systemd |
//! | `listen.rs`, `keys.rs`, `runtime_dir.rs`, `state_dir.rs`, `lock.rs`, `installation.rs`, `users.rs`, `signals.rs`, `options.rs` | what exists before the loop begins |
//!
//! The crate [`supervisor`] decides when each program is started, killed, restarted and held, and who is to blame.
//!
//! The monitor never speaks OpenFlow, parses packets, loads code, waits for a child, or answers for the kernel.

#![forbid(unsafe_code)]

mod account_store;
mod admin_server;
mod apps_service;
mod backtrace;
mod check;
mod choice;
mod config_file;
mod config_store;
mod demotions;
mod deployment;
mod environment;
pub mod error;
mod event_loop;
mod hosting;
mod incident_store;
pub mod installation;
mod kernel_settings;
pub mod keys;
mod launch;
mod listen;
mod lock;
mod log_forwarder;
mod machine;
mod northbound;
mod notify;
mod numbers;
mod object;
mod one_shot;
pub mod options;
mod overrides;
pub mod packages;
mod processes;
pub mod provenance;
mod remedy;
mod runtime_dir;
pub mod sandbox;
pub mod sandbox_probe;
mod signals;
mod state_dir;
mod trial_load;
pub mod usage;
pub mod users;
mod watch;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use control::app::AppId;
use control::incident::{Cause, Evidence, Program};
use control::kernel::PlainTcp;
use control::northbound::{ListenerRole, NorthboundSettings, OfctlRest};
use control::service::{OvsdbStart, ServiceKind};
use rustix::process::geteuid;
use sdk::Limit;
use sdk::services::Service;
use tracing::{info, warn};

pub use crate::check::{Valid, check};
pub use crate::hosting::python;
pub use supervisor::text::shown;

use crate::account_store::AccountStore;
use crate::admin_server::{AdminServer, AllowedUsers};
use crate::choice::Circumstances;
use crate::config_store::Started;
use crate::demotions::Demotions;
use crate::deployment::Disk;
use crate::deployment::planner::Planner;
use crate::environment::Environment;
use crate::error::StartError;
use crate::event_loop::EventLoop;
use crate::incident_store::IncidentStore;
use crate::installation::Installation;
use crate::kernel_settings::KernelSettings;
use crate::keys::SealedKeys;
use crate::northbound::listeners::Listeners;
use crate::northbound::tokens::Tokens;
use crate::northbound::{NorthboundInput, SharedInput};
use crate::notify::ServiceManager;
use crate::options::Options;
use crate::overrides::Overrides;
use crate::packages::Store;
use crate::processes::Processes;
use crate::runtime_dir::RuntimeDir;
use crate::signals::Signals;
use crate::state_dir::StateDir;
use crate::usage::{EnforcedBy, Enforcement};
use crate::users::Users;
use config::{Config, Require, ServiceRight};
use supervisor::Supervisor;
use supervisor::accounts::Accounts;
use supervisor::change::Basis;
use supervisor::effects::Effects;
use supervisor::kernel::KernelParts;
use supervisor::programs::{Demotions as _, Parts};
use supervisor::sessions::Sessions;
use supervisor::spec::Origin;

/// Queues a line of the monitor's own log, as [`sys::log::in_background`] passes it, for the log service.
pub fn log_own(line: &[u8]) {
    log_forwarder::add_own(line);
}

/// The exclusive use of a state directory. Dropping it ends that.
#[derive(Debug)]
pub struct StateLock(#[expect(dead_code, reason = "it holds the lock")] StateDir);

/// Claims the state directory `dir`, so that no instance starts with it meanwhile. It is made if it is missing.
///
/// # Errors
/// [`StartError::StateInUse`] if an instance uses it; [`StartError::Path`] if it cannot be read or written.
pub fn lock_state(dir: &Path) -> Result<StateLock, StartError> {
    StateDir::claim(dir).map(StateLock)
}

/// Checks, before any process starts, that this machine supports the sandbox that the operator requires.
fn check_sandbox(options: &Options, require: Require, zone: &Path) -> Result<(), StartError> {
    if options.unconfined {
        if require == Require::Full {
            return Err(StartError::IncompleteSandbox("--unconfined was given".into()));
        }
        for _ in 0..3 {
            warn!(
                "UNCONFINED: apps run without a sandbox, with all rights of Rosemary; use this for tests only"
            );
        }
        return Ok(());
    }
    if require == Require::Full {
        let report = sandbox_probe::run(zone)
            .map_err(|source| StartError::System { what: "probe the sandbox", source })?;
        if let Some(gaps) = report.gaps_text() {
            return Err(StartError::IncompleteSandbox(gaps));
        }
    }
    Ok(())
}

/// Finds out what enforces limits on this machine, and warns of those that are enforced less strictly.
fn enforcement(options: &Options) -> Enforcement {
    let enforcement = match () {
        () if options.unconfined => Enforcement::without_groups("--unconfined was given"),
        () if options.no_cgroups => Enforcement::without_groups("--no-cgroups was given"),
        () => Enforcement::find(),
    };
    if let EnforcedBy::GroupWithoutSwap { .. } = enforcement.enforced_by(Limit::Memory) {
        let hint = "boot with swapaccount=1";
        warn!(
            hint,
            "swap is not counted on this machine: an app's /tmp may exceed its memory limit there"
        );
    }
    for limit in [Limit::Memory, Limit::Cpu] {
        if let EnforcedBy::Monitor { why } = enforcement.enforced_by(limit) {
            let limit = limit.name();
            warn!(
                limit,
                why,
                "no cgroups: the monitor kills apps that it sees above this limit; see rosemary doctor"
            );
        }
    }
    enforcement
}

/// Returns the first error of a list that is not empty.
fn first(errors: Vec<StartError>) -> StartError {
    errors.into_iter().next().expect("a list of mistakes is not empty")
}

/// Connects to systemd, if it started the monitor.
fn service_manager() -> Option<ServiceManager> {
    ServiceManager::from_environment().unwrap_or_else(|error| {
        let hint = "systemd may regard Rosemary as not started; see NOTIFY_SOCKET in sd_notify(3)";
        warn!(%error, hint, "could not connect to systemd");
        None
    })
}

/// Where metrics are served, besides the address of the API.
const METRICS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9302);

/// Where Ryu's REST interface is served: at its own default port, for this machine only.
const OFCTL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// Where the routes of apps are served, if an app has some: beside the API, for this machine only.
const APP_ROUTES: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8182);

/// Binds the sockets for metrics and for Ryu's REST interface. An app that asks for the same port has precedence.
fn add_others(
    listeners: &mut Listeners,
    options: &Options,
    config: &Config,
) -> Result<(), StartError> {
    let ofctl = options.ofctl(config);
    let mut wanted = vec![(ListenerRole::Metrics, METRICS)];
    if ofctl != OfctlRest::Off {
        wanted.push((ListenerRole::Ofctl, OFCTL));
    }
    for (role, address) in wanted {
        let asks = |app: &&config::AppConfig| {
            let mut listen = app.host_keys.listen.iter();
            app.enabled && listen.any(|(_, it)| it.port() == address.port())
        };
        if let Some(app) = config.apps.iter().flatten().find(asks) {
            let app = &app.name;
            warn!(app, %address, role = ?role, "left an address of the HTTP interface to an app, which asks for its port");
            continue;
        }
        listeners.add(role, (address, false), false)?;
    }
    if ofctl == OfctlRest::Write && listeners.address(ListenerRole::Ofctl).is_some() {
        warn!(address = %OFCTL, "EVERY USER OF THIS MACHINE can write flows through Ryu's REST interface, which knows no tokens");
    }
    Ok(())
}

/// Binds the sockets of the HTTP interface, unless there is none.
///
/// # Errors
/// [`StartError::Northbound`]: the system refuses an address that the operator chose; the keys for TLS cannot be used; the file of
/// tokens is damaged.
fn northbound_input(
    options: &Options,
    (config, apps): (&Config, &[choice::App]),
    (runtime, state): (&RuntimeDir, &Path),
    group: Option<u32>,
) -> Result<Option<NorthboundInput>, StartError> {
    let Some((addresses, chosen)) = options.api(config) else { return Ok(None) };
    let keys = check::api_keys(options, config)?;
    let mut listeners = Listeners::default();
    for address in addresses {
        listeners.add(ListenerRole::Api, (address, chosen), runtime.took_over())?;
    }
    add_others(&mut listeners, options, config)?;
    let chosen = config.northbound.app_routes;
    let app_routes = (chosen.unwrap_or(APP_ROUTES), chosen.is_some());
    if apps.iter().any(|app| app.spec.keys.service_rights.contains(&ServiceRight::ServeHttp)) {
        listeners.add(ListenerRole::Apps, app_routes, runtime.took_over())?;
    }
    listeners.add_unix(runtime.path(), group);
    let config::Northbound { loopback, names, .. } = config.northbound.clone();
    let uid = geteuid().as_raw();
    let ofctl = options.ofctl(config);
    let settings = NorthboundSettings { loopback, names, uid, ofctl };
    let tokens = Tokens::load(state)?;
    Ok(Some(NorthboundInput { listeners, settings, tokens, app_routes, keys }))
}

/// Runs Rosemary until SIGTERM, SIGINT, SIGQUIT or a closed terminal. Returns whether all processes have ended.
///
/// # Errors
/// [`StartError`] if it cannot start. It then leaves nothing behind except a state directory.
pub fn run(options: &Options) -> Result<bool, StartError> {
    let system = |what| move |source| StartError::System { what, source };
    let config = Config::load(options.instance.config.as_deref())?;
    provenance::begin(options, &config)?;
    let installation = Installation::find()?;
    let state_dir = options.state.resolve(&config)?;
    let dir = options.instance.resolve(&config)?;
    // First, because the default action of a signal would leave the files that follow behind.
    let signals = Signals::catch().map_err(system("catch signals"))?;
    sys::closing::start().map_err(system("start a thread"))?;
    sys::process::forbid_new_privileges().map_err(system("forbid new privileges"))?;
    let runtime = RuntimeDir::claim(&dir)?;
    // Before the apps, so that an unreadable directory is not reported as a fault of an app.
    let state = StateDir::claim(&state_dir)?;
    // Before anything follows from the configuration, which may be taken back here.
    let same_dirs = |earlier: &Config| {
        let is_same = options.state.resolve(earlier).ok().as_ref() == Some(&state_dir)
            && options.instance.resolve(earlier).ok().as_ref() == Some(&dir);
        is_same.then_some(()).ok_or_else(|| "it names other directories".to_owned())
    };
    let Started { config, history, unconfirmed } =
        config_store::start(config, state.path(), same_dirs);
    provenance::accept_number(state.path(), options.allow_downgrade)?;
    let overrides = Overrides::load(state.path())?;
    let (store, version) = (&Store::of(state.path()), None);
    let around = Circumstances {
        options,
        installation: &installation,
        store,
        overrides: &overrides,
        version,
    };
    let choice = choice::apps_to_start(&config, &around).map_err(first)?;
    let (warnings, mut apps) = (choice.warnings(), choice.apps);
    choice::note_guards(store, apps.iter(), std::iter::empty());
    keep_keys(&mut apps, &state);
    let inactive = choice::inactive(&config, &around);
    let own = check::own_dirs(options, &config, &dir, &state_dir);
    if let Some(mistake) = check::reads(&apps, &own, &config).into_iter().next() {
        return Err(mistake);
    }
    if runtime.took_over() {
        warn!(dir = %dir.display(), "took over from an instance that had been killed");
    }
    let keys = keys_for_switches(options, &config)?;
    let plain = options.plain(&config);
    warn_of_plain(plain);
    let listeners = listen::bind_listeners(&options.listen(&config), runtime.took_over())?;
    let numbers = numbers::of(&state, apps.iter().map(|app| (app.name(), app.spec.key())))?;
    let demotions = Demotions::load(state.path())?;
    check_sandbox(options, config.require, &installation.zone)?;
    let (admin, group) = runtime.bind_admin()?;
    let northbound = northbound_input(options, (&config, &apps), (&runtime, state.path()), group)?;
    let admin = AdminServer::new(admin, AllowedUsers { uid: geteuid().as_raw(), group });
    log_start(&listeners, &dir, &config, apps.len());
    warn_of_apps(&apps, config.notices.iter().chain(&warnings));
    // Only now, since all these directories must exist to be resolved.
    let never = keep_away(&mut apps, &own);
    let workers = options.workers(&config);
    let tuning = config::with_environment(options.tuning(&config), variable)?;
    let running: Vec<_> = numbers.iter().copied().zip(apps.iter().map(choice::App::name)).collect();
    let absent = numbers::absent(&state, &running, &config)?;
    let id = numbers::installation(&state)?;
    let partition = machine::partition(options, &config);
    let without_partition = partition.as_ref().err().cloned();
    let partition = partition.ok().flatten();
    let keys = keys.map(Rc::new);
    let databases = databases(&config, keys.is_some(), id);
    let own_keys = keys.clone();
    let settings =
        KernelSettings { listeners, plain, keys: own_keys, workers, tuning, installation: id };
    let machine = machine::find(&settings, &state_dir, partition.as_ref());
    let sessions = machine::admit(machine, &config)?;
    let mut incidents = IncidentStore::load(state.path());
    incidents.set_time();
    let (hours, account_store) = AccountStore::load(state.path());
    let environment = Environment {
        installation: installation.clone(),
        users: Users::find()?,
        require: (!options.unconfined).then_some(config.require),
        enforcement: Arc::new(enforcement(options).with_rings(settings.ring_bytes())),
        effects: Effects::default(),
        incidents: incidents.incidents().clone(),
        state_dir: state_dir.clone(),
        quotas: config.quotas,
        databases,
        keys,
    };
    let processes = Processes::new(&environment, partition, Instant::now());
    let planner = Planner { options: options.clone(), installation, state_dir, own, never };
    if runtime.took_over() {
        record_takeover(&mut incidents);
    }
    give_rights(&numbers, &mut apps);
    let interface = northbound.map(SharedInput::from);
    let effects = environment.effects.clone();
    let apps = (numbers, apps);
    let kernel = environment.kernel(settings, absent, config.supervision.kernel_limits);
    let sessions = (sessions, without_partition, Accounts::new(hours));
    let parts =
        parts((kernel, apps, interface.clone()), (demotions, sessions), &config, &environment)?;
    environment.users.log();
    let disk = Disk::new(planner, Rc::new(environment), overrides);
    let deployment = Box::new(disk.clone());
    let basis = Basis { deployment, config, inactive, warnings, history, unconfirmed };
    let mut supervisor = Supervisor::new(parts, basis, options.end_with_apps);
    begin_safe_mode(options, &mut supervisor);
    supervisor.programs().warn_of_apps_in_kernel();
    let programs = (supervisor, processes, effects);
    let stores = (incidents, account_store);
    let admin = (admin, signals);
    let mut event_loop =
        EventLoop::new(programs, stores, interface, admin, disk, service_manager());
    let all_ended = event_loop.run().map_err(system("wait for events"))?;
    event_loop.held().map_or(Ok(all_ended), |held| Err(StartError::AppsHeld(held)))
}

/// The parts of all programs.
///
/// # Errors
/// The program of a service or of the HTTP interface is missing.
fn parts(
    (kernel, (numbers, apps), interface): (
        KernelParts,
        (Vec<AppId>, Vec<choice::App>),
        Option<SharedInput>,
    ),
    (demotions, (sessions, without_partition, accounts)): (
        Demotions,
        (Sessions, Option<String>, Accounts),
    ),
    config: &Config,
    environment: &Environment,
) -> Result<Parts, StartError> {
    let services = environment.services(&needed_services(&apps, config))?;
    let apps = numbers.into_iter().zip(apps);
    let apps = apps.map(|(id, app)| {
        let demoted = demotions.why(app.name()).map(str::to_owned);
        launch::app(id, app, environment, demoted.as_deref())
    });
    let apps = apps.collect();
    let northbound = interface.map(|it| environment.northbound(Box::new(it))).transpose()?;
    Ok(Parts {
        kernel,
        apps,
        services,
        northbound,
        rules: config.supervision,
        safe_mode: config.safe_mode.clone(),
        sessions,
        without_partition,
        accounts,
        demotions: Box::new(demotions),
        effects: environment.effects.clone(),
        incidents: environment.incidents.clone(),
    })
}

/// Loads the keys for TLS to switches, if there are some.
///
/// # Errors
/// They cannot be used, or switches could not connect without them.
fn keys_for_switches(options: &Options, config: &Config) -> Result<Option<SealedKeys>, StartError> {
    let keys = keys::load(&options.tls, config)
        .map_err(|error| error.at(config.position_of("controller", "tls-dir")))?;
    check::transport(options, config, keys.is_some())?;
    Ok(keys)
}

/// Sets the directories that no app may read, which are Rosemary's own, and returns them.
fn keep_away(apps: &mut [choice::App], own: &[PathBuf]) -> Arc<[PathBuf]> {
    let never: Arc<[PathBuf]> = own.iter().map(|dir| config::fs_read::real(dir)).collect();
    for app in apps {
        app.never = never.clone();
    }
    never
}

fn begin_safe_mode(options: &Options, supervisor: &mut Supervisor) {
    if options.safe_mode {
        let why = "an operator requested it with --safe-mode";
        supervisor.begin_safe_mode(why, Instant::now());
    }
}

/// A variable of the environment. A value that is not Unicode is not valid either, and must not count as unset.
fn variable(name: &str) -> Option<String> {
    Some(std::env::var_os(name)?.to_string_lossy().into_owned())
}

/// The settings of the service of databases.
fn databases(config: &Config, tls: bool, id: control::app::Installation) -> OvsdbStart {
    OvsdbStart { databases: config.ovsdb.clone(), tls, installation: id }
}

/// The log service, the history if it is configured, and the services that apps name. The service of databases also runs for databases
/// alone, as it removes rows of apps that are gone.
fn needed_services(apps: &[choice::App], config: &Config) -> Vec<ServiceKind> {
    let is_named = |it: Service| apps.iter().any(|app| app.spec.keys.services.contains(&it));
    let has_databases =
        |kind: &ServiceKind| *kind == ServiceKind::Ovsdb && !config.ovsdb.is_empty();
    let is_needed = |kind: &ServiceKind| match kind {
        ServiceKind::Log => true,
        ServiceKind::History => config.keeps_history,
        _ => kind.for_apps().is_some_and(is_named) || has_databases(kind),
    };
    ServiceKind::ALL.into_iter().filter(is_needed).collect()
}

/// Logs that Rosemary starts.
fn log_start(listeners: &[listen::Listener], dir: &Path, config: &Config, apps: usize) {
    let listen = listeners.iter().map(|it| it.address().to_string()).collect::<Vec<_>>().join(" ");
    let file = config.file.as_deref().unwrap_or(Path::new("none")).display();
    let (pid, dir) = (std::process::id(), dir.display());
    info!(pid, listen, %dir, config = %file, apps, "Rosemary started");
}

/// Warns if any host may speak OpenFlow over plain TCP.
fn warn_of_plain(plain: PlainTcp) {
    if plain == PlainTcp::Any {
        warn!(
            "plain TCP was allowed from anywhere: any host that reaches the port can pose as any switch"
        );
    }
}

/// Warns of what is unusual about the apps that are to run.
fn warn_of_apps<'a>(apps: &[choice::App], notices: impl Iterator<Item = &'a String>) {
    if apps.is_empty() {
        warn!("no app runs, so nothing answers the switches; name apps with [[app]] or --app");
    }
    for notice in notices {
        warn!("{notice}");
    }
    choice::warn_of_unsigned(apps);
}

/// Gives all apps their rights in services, and warns of rights that name an app without a process.
fn give_rights(numbers: &[AppId], apps: &mut [choice::App]) {
    for (app, right) in choice::give_rights(numbers, apps) {
        warn!(app, right, "granted nothing for a right that names an app which does not run");
    }
}

/// Gives held apps the keys that they had, so that their flows stay theirs.
fn keep_keys(apps: &mut [choice::App], state: &StateDir) {
    for app in apps {
        if let Origin::Unknown { key } = &mut app.spec.origin {
            *key = numbers::last_key(state, &app.spec.keys.name);
        }
    }
}

/// Records that this instance took over from a killed instance.
fn record_takeover(store: &mut IncidentStore) {
    let incidents = store.incidents();
    let evidence = Evidence::fact("it left the files of a running instance behind");
    let id = incidents.open(Program::monitor(), Cause::Unknown, evidence);
    incidents.reaction(id, "this instance took over");
    incidents.close(id, None);
    store.write();
}
