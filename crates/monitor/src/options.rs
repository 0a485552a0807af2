//! Defines the options of the monitor, for its own command line and for that of `rosemary up`.

use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use control::hosting::Hosting;
use control::kernel::{MAX_WORKERS, OfferedVersions, PlainTcp, Tuning};
use control::northbound::OfctlRest;

use config::instance::{InstancePaths, StateDir, TlsDir};
use config::{Config, NAME_FORM, alternatives, is_name};

/// The default address for switches: OpenFlow's port, on this machine only.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6653);

/// The second default address: the port that OpenFlow used before IANA assigned 6653. Older Mininets and switches connect
/// to it.
const FORMER_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6633);

/// The default address of the HTTP interface.
const API: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8181);

/// The options of the monitor; they override the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Options {
    /// Address and port at which switches connect; repeatable [default: 127.0.0.1:6653 and 127.0.0.1:6633]
    ///
    /// 0.0.0.0 stands for all IPv4 addresses of this machine, [::] for all IPv6 addresses. --plain decides
    /// which switches may use plain TCP there: by default only those on this machine.
    #[arg(long = "listen", value_name = "ADDR:PORT", value_parser = parse_address)]
    pub listen: Vec<SocketAddr>,
    /// Switches that may use plain TCP: those on this machine, any, or none [default: loopback]
    #[arg(
        long,
        value_name = "WHO",
        value_parser = PossibleValuesParser::new(["loopback", "any", "never"])
            .try_map(|text| text.parse::<PlainTcp>())
    )]
    pub plain: Option<PlainTcp>,
    /// The directory of the TLS keys.
    #[command(flatten)]
    pub tls: TlsDir,
    /// Versions of OpenFlow to offer to switches; the highest common one is chosen [default: all but 1.1, and 1.3 before others]
    #[arg(long, value_name = "VERSION,...")]
    pub openflow: Option<OfferedVersions>,
    /// Number of threads that serve switches, 1 to 16 [default: one per CPU, at most 16]
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_WORKERS))
    )]
    pub workers: Option<u16>,
    /// App to run; repeatable, in order [default: the apps of the configuration]
    ///
    /// The configuration of the app with this name applies. FILE.py runs an app in Python without a signature; the word
    /// after its colon is `python` (default) or `ryu`. For a NAME, the word after the colon chooses the host: `user`
    /// is a zone of its own, and `kernel` is the kernel itself, which then has to trust the app.
    #[arg(long = "app", value_name = "NAME[:user|:kernel]|FILE.py[:ryu]", value_parser = parse_app)]
    pub apps: Vec<AppChoice>,
    /// The state directory.
    #[command(flatten)]
    pub state: StateDir,
    /// Address and port of the HTTP interface, with the API and the page; repeatable [default: 127.0.0.1:8181]
    ///
    /// Addresses of this machine alone, such as 127.0.0.1, have plain HTTP. All others have TLS 1.3 with the keys of `rosemary pki api`.
    /// If the default address is taken, Rosemary warns and starts without it.
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address, conflicts_with = "no_northbound")]
    pub api: Vec<SocketAddr>,
    /// Run no HTTP interface
    #[arg(long)]
    pub no_northbound: bool,
    /// Serve the REST interface of Ryu (its apps for flows and topology) at 127.0.0.1:8080, also for writing
    ///
    /// Every user of this machine can use it without a token. The same as ofctl-rest = "write" in [northbound].
    #[arg(long, conflicts_with = "no_northbound")]
    pub ofctl_rest: bool,
    /// Begin in safe mode: start the apps one at a time, all as user apps, with a check between
    ///
    /// The configuration's table [safe-mode] has their order. `rosemary safe-mode` shows the progress and ends safe
    /// mode.
    #[arg(long)]
    pub safe_mode: bool,
    /// For development: run unsigned apps, which the configuration names by a bare `object`; switches on other
    /// machines then cannot use plain TCP
    #[arg(long)]
    pub allow_unsigned: bool,
    /// Start a release that is older than the last one; see `verify` in [start]
    ///
    /// The next start accepts the older one, too.
    #[arg(long)]
    pub allow_downgrade: bool,
    /// For development: apply the configuration again when the file of an app changes, as `rosemary reload` does
    ///
    /// The app starts again with its new file. If the file does not load, because of a syntax error for example, the running app stays.
    #[arg(long)]
    pub watch: bool,
    /// Remove the configuration file and its directory at the end, for commands that make a temporary one.
    #[arg(long, hide = true, requires = "config")]
    pub remove_config: bool,
    /// End with an error when every app is held, for commands that run these apps alone.
    #[arg(long, hide = true)]
    pub end_with_apps: bool,
    /// Runs apps without a sandbox, for tests of the sandbox.
    #[arg(long, hide = true)]
    pub unconfined: bool,
    /// Uses no cgroups, for tests of the other enforcement of limits.
    #[arg(long, hide = true)]
    pub no_cgroups: bool,
    /// The configuration and the runtime directory.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// The addresses at which switches connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddresses {
    /// Rosemary does not start without these.
    pub required: Vec<SocketAddr>,
    /// If it is taken, Rosemary warns and starts without it.
    pub optional: Option<SocketAddr>,
    /// Where devices with the schema `hardware_vtep` connect; Rosemary does not start without these.
    pub vtep: Vec<SocketAddr>,
}

/// An app named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppChoice {
    /// Its name.
    pub name: String,
    /// What hosts it, if the option says so.
    pub host: Option<Hosting>,
    /// The file of the app, if the option names a file.
    pub file: Option<PathBuf>,
}

impl AppChoice {
    /// The app with this name in the configuration.
    pub fn named(name: &str, host: Option<Hosting>) -> Self {
        Self { name: name.to_owned(), host, file: None }
    }
}

impl fmt::Display for AppChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}", file.display())?,
            None => f.write_str(&self.name)?,
        }
        match self.host {
            Some(host) => write!(f, ":{}", host.name),
            None => Ok(()),
        }
    }
}

/// The name of the lock file in the runtime directory.
pub const LOCK_FILE: &str = "rosemary.lock";

impl Options {
    /// Returns arguments that parse to these options.
    pub fn to_args(&self) -> Vec<OsString> {
        let mut args = Vec::new();
        for address in &self.listen {
            args.extend(["--listen".into(), address.to_string().into()]);
        }
        if let Some(plain) = self.plain {
            args.extend(["--plain".into(), plain.to_string().into()]);
        }
        if let Some(dir) = &self.tls.tls_dir {
            args.extend(["--tls-dir".into(), dir.into()]);
        }
        if let Some(workers) = self.workers {
            args.extend(["--workers".into(), workers.to_string().into()]);
        }
        if let Some(openflow) = self.openflow {
            args.extend(["--openflow".into(), openflow.to_string().replace(' ', "").into()]);
        }
        for app in &self.apps {
            args.extend(["--app".into(), app.to_string().into()]);
        }
        for address in &self.api {
            args.extend(["--api".into(), address.to_string().into()]);
        }
        if self.no_northbound {
            args.push("--no-northbound".into());
        }
        if self.ofctl_rest {
            args.push("--ofctl-rest".into());
        }
        if self.safe_mode {
            args.push("--safe-mode".into());
        }
        if self.allow_unsigned {
            args.push("--allow-unsigned".into());
        }
        if self.allow_downgrade {
            args.push("--allow-downgrade".into());
        }
        if self.watch {
            args.push("--watch".into());
        }
        if self.remove_config {
            args.push("--remove-config".into());
        }
        if self.end_with_apps {
            args.push("--end-with-apps".into());
        }
        if self.unconfined {
            args.push("--unconfined".into());
        }
        if self.no_cgroups {
            args.push("--no-cgroups".into());
        }
        let paths = [
            ("--state-dir", &self.state.state_dir),
            ("--config", &self.instance.config),
            ("--runtime-dir", &self.instance.runtime_dir),
        ];
        for (option, path) in paths {
            if let Some(path) = path {
                args.extend([option.into(), path.into()]);
            }
        }
        args
    }

    /// Whether the app may run without a signature: the option says so, or names the app's file, by which the operator
    /// vouches for it.
    pub fn allows_unsigned(&self, app: &str) -> bool {
        self.allow_unsigned || self.apps.iter().any(|it| it.name == app && it.file.is_some())
    }

    /// Whether some app may run without a signature.
    pub fn allows_any_unsigned(&self) -> bool {
        self.allow_unsigned || self.apps.iter().any(|it| it.file.is_some())
    }

    /// The addresses at which switches connect: those given, otherwise the default ones.
    pub fn listen(&self, config: &Config) -> ListenAddresses {
        let given = [&self.listen, &config.listen].into_iter().find(|list| !list.is_empty());
        let (required, optional) = match given {
            Some(required) => (required.clone(), None),
            None => (vec![LISTEN], Some(FORMER_LISTEN)),
        };
        ListenAddresses { required, optional, vtep: config.vtep_listen.clone() }
    }

    /// The addresses of the HTTP interface, and whether the operator chose them; `None` to run none.
    pub fn api(&self, config: &Config) -> Option<(Vec<SocketAddr>, bool)> {
        if self.no_northbound || !config.northbound.enabled && self.api.is_empty() {
            return None;
        }
        let chosen = [&self.api, &config.northbound.api].into_iter().find(|list| !list.is_empty());
        Some(chosen.map_or((vec![API], false), |list| (list.clone(), true)))
    }

    /// What clients of Ryu's REST interface may do.
    pub fn ofctl(&self, config: &Config) -> OfctlRest {
        match self.api(config) {
            None => OfctlRest::Off,
            Some(_) if self.ofctl_rest => OfctlRest::Write,
            Some(_) => config.northbound.ofctl,
        }
    }

    /// The switches that may use plain TCP.
    pub fn plain(&self, config: &Config) -> PlainTcp {
        self.plain.or(config.plain).unwrap_or_default()
    }

    /// The number of threads that serve switches; `None` for one per CPU.
    pub fn workers(&self, config: &Config) -> Option<u16> {
        self.workers.or(config.workers)
    }

    /// The tuning of the workers, before that of the environment.
    pub fn tuning(&self, config: &Config) -> Tuning {
        Tuning { openflow: self.openflow.or(config.tuning.openflow), ..config.tuning }
    }
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "expected an address and a port such as 127.0.0.1:6653, [::1]:6653 or 0.0.0.0:6653 (all IPv4 addresses of \
         this machine)"
            .to_owned()
    })
}

fn parse_app(text: &str) -> Result<AppChoice, String> {
    let (name, host) = text.rsplit_once(':').map_or((text, None), |(name, it)| (name, Some(it)));
    let extension = Hosting::of_file(Path::new(name)).and_then(|it| it.extension);
    let host = host.map(|host| host_named(host, extension)).transpose()?;
    if extension.is_some() {
        return Ok(AppChoice { file: Some(name.into()), host, ..of_file(name)? });
    }
    if !is_name(name) {
        return Err(format!("expected {NAME_FORM}"));
    }
    Ok(AppChoice::named(name, host))
}

/// The hosting with this name, which must run files with this extension, or shared objects.
fn host_named(name: &str, extension: Option<&str>) -> Result<Hosting, String> {
    let hosts: Vec<Hosting> =
        Hosting::configurable().filter(|it| it.extension == extension).collect();
    let host = hosts.iter().find(|it| it.name == name);
    host.copied().ok_or_else(|| {
        let names: Vec<&str> = hosts.iter().map(|it| it.name).collect();
        let what = if extension.is_some() { " of a file" } else { "" };
        format!("expected {} after the colon{what}", alternatives(&names))
    })
}

/// Names the app of a file by the file's name.
fn of_file(file: &str) -> Result<AppChoice, String> {
    let stem = Path::new(file).file_stem().and_then(|it| it.to_str()).unwrap_or_default();
    let name = stem.to_ascii_lowercase().replace('_', "-");
    if !is_name(&name) {
        return Err(format!("the file's name must make {NAME_FORM}; rename {file}"));
    }
    Ok(AppChoice::named(&name, None))
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    pub(crate) fn parse(args: &[&str]) -> Result<Options, String> {
        let args = std::iter::once("test").chain(args.iter().copied());
        Command::try_parse_from(args).map(|it| it.options).map_err(|error| error.to_string())
    }

    #[test]
    fn default_addresses_are_openflow_ports_on_loopback() {
        let listen = parse(&[]).unwrap().listen(&Config::default());
        assert_eq!(listen.required, ["127.0.0.1:6653".parse().unwrap()]);
        assert_eq!(listen.optional, Some("127.0.0.1:6633".parse().unwrap()));
    }

    #[test]
    fn command_line_overrides_configuration() {
        let text = "controller = { listen = [\"127.0.0.1:1\"], runtime-dir = \"r\", \
                    state-dir = \"/s\", plain = \"any\", tls-dir = \"k\", workers = 3 }";
        let config = Config::parse("/etc/x/rosemary.toml".into(), text.into()).unwrap();
        let options = parse(&[]).unwrap();
        let listen = options.listen(&config);
        assert_eq!(listen.required, ["127.0.0.1:1".parse().unwrap()]);
        assert_eq!(listen.optional, None);
        assert_eq!(options.instance.resolve(&config).unwrap(), Path::new("/etc/x/r"));
        assert_eq!(options.state.resolve(&config).unwrap(), Path::new("/s"));
        assert_eq!(options.plain(&config), PlainTcp::Any);
        assert_eq!(options.workers(&config), Some(3));
        assert_eq!(options.tls.resolve(&config).unwrap(), Path::new("/etc/x/k"));
        let args = "--listen [::1]:2 --runtime-dir /r2 --state-dir /s2 --plain loopback --tls-dir /k2 --workers 1 --openflow 1.0,1.4";
        let options = parse(&args.split(' ').collect::<Vec<_>>()).unwrap();
        assert_eq!(options.plain(&config), PlainTcp::Loopback);
        assert_eq!(options.workers(&config), Some(1));
        assert_eq!(options.tls.resolve(&config).unwrap(), Path::new("/k2"));
        assert_eq!(options.listen(&config).required, ["[::1]:2".parse().unwrap()]);
        assert_eq!(options.instance.resolve(&config).unwrap(), Path::new("/r2"));
        assert_eq!(options.state.resolve(&config).unwrap(), Path::new("/s2"));
    }

    #[test]
    fn app_option_is_a_name_and_an_optional_host() {
        let choice = AppChoice::named;
        let options = parse(&["--app", "a", "--app", "b:user", "--app", "c:kernel"]).unwrap();
        let [user, kernel] = ["user", "kernel"].map(Hosting::named);
        assert_eq!(options.apps, [choice("a", None), choice("b", user), choice("c", kernel)]);
        for wrong in ["", "a:b", "../a", "A", "a b", "a:", ":user", "-a"] {
            assert!(parse(&[&format!("--app={wrong}")]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn app_option_may_be_a_file_in_python() {
        let args = ["--app", "/x/My_switch.py", "--app", "l2.py:ryu"];
        let options = parse(&args).unwrap();
        let [first, second] = options.apps.as_slice() else { panic!("two apps") };
        assert_eq!((first.name.as_str(), first.host), ("my-switch", None));
        assert_eq!((second.name.as_str(), second.host), ("l2", Hosting::named("ryu")));
        assert_eq!(options.to_args(), args);
        assert!(options.allows_unsigned("l2") && !options.allows_unsigned("other"));
        for wrong in ["a.py:kernel", "1.py", ".py"] {
            assert!(parse(&["--app", wrong]).is_err(), "{wrong}");
        }
        let error = parse(&["--app", "a.py:kernel"]).unwrap_err();
        assert!(error.contains("expected python or ryu after the colon of a file"), "{error}");
        let error = parse(&["--app", "a:ryu"]).unwrap_err();
        assert!(error.contains("expected user or kernel after the colon"), "{error}");
    }

    #[test]
    fn to_args_gives_the_same_options() {
        let args = "--listen 127.0.0.1:6653 --listen [::1]:6633 --plain never --tls-dir /tmp/k \
                    --workers 2 --openflow 1.3,1.5 --app a:user --app b --safe-mode --allow-unsigned --allow-downgrade --state-dir /tmp/s --config /tmp/c --runtime-dir /tmp/r";
        let args: Vec<&str> = args.split_whitespace().collect();
        let options = parse(&args).unwrap();
        assert_eq!(options.plain, Some(PlainTcp::Never));
        assert_eq!((options.listen.len(), options.apps.len()), (2, 2));
        assert_eq!(options.to_args(), args);
    }

    #[test]
    fn address_without_port_is_refused() {
        let error = parse(&["--listen", "6653"]).unwrap_err();
        assert!(error.contains("as 127.0.0.1:6653"), "{error}");
    }

    #[test]
    fn plain_tcp_is_limited_to_loopback_by_default() {
        assert_eq!(parse(&[]).unwrap().plain(&Config::default()), PlainTcp::Loopback);
        assert_eq!(parse(&[]).unwrap().to_args(), [""; 0]);
        assert!(parse(&["--plain", "yes"]).unwrap_err().contains("loopback, any, never"));
    }
}
