//! `rosemary pki`: the keys and certificates that switches and the controller show each other.
//!
//! ```text
//! DIR/                           0700; /etc/rosemary/pki for root
//!     ca-key.pem                 the authority's key: needed here only, may be kept elsewhere
//!     ca-cert.pem                its certificate: for the controller and for every switch
//!     controller-key.pem         \ what `rosemary up` shows switches
//!     controller-cert.pem        /
//!     switches/NAME/             what a switch needs, to be copied there as it is
//!         key.pem  cert.pem  ca-cert.pem
//! ```
//!
//! Keys are 0600 and never shown. Nothing is replaced without `--force`.

pub(crate) mod files;
mod make;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use config::Config;
use keys::{Keys, datapaths};
use monitor::keys::{CA_CERT, CONTROLLER_CERT, CONTROLLER_KEY};
use monitor::options::TlsDir;
use openflow::Dpid;
use serde::Serialize;
use zeroize::Zeroizing;

use self::files::New;
use self::make::{Authority, DAYS};
use crate::say;

const CA_KEY: &str = "ca-key.pem";

/// The most days a certificate may be valid: as long as the authority is.
const MOST_DAYS: i64 = 3650;

/// `rosemary pki`.
#[derive(Debug, Clone, Args)]
pub struct PkiArgs {
    #[command(subcommand)]
    command: Pki,
}

#[derive(Debug, Clone, Subcommand)]
enum Pki {
    /// Make an authority, and a key and a certificate for the controller
    Init(Common),
    /// Make a key and a certificate for a switch, and show the commands for Open vSwitch
    Switch(SwitchArgs),
    /// Make a new key and certificate for the controller, by the authority that is there
    Controller(Common),
}

#[derive(Debug, Clone, Args)]
struct Common {
    /// The directory, if it is not the default.
    #[arg(
        long,
        visible_alias = "tls-dir",
        value_name = "DIR",
        help = "Directory of the keys [default: /etc/rosemary/pki for root, \
                $XDG_CONFIG_HOME/rosemary/pki for others]"
    )]
    dir: Option<PathBuf>,
    /// The configuration, if it is not the default one.
    #[arg(
        long,
        value_name = "FILE",
        env = "ROSEMARY_CONFIG",
        hide_env_values = true,
        help = "Configuration, whose tls-dir is used where --dir is not given [default: as for \
                `rosemary up`]"
    )]
    config: Option<PathBuf>,
    /// Replace what is there
    #[arg(long)]
    force: bool,
    /// How long what is issued is valid, in days
    #[arg(long, value_name = "DAYS", default_value_t = DAYS,
          value_parser = clap::value_parser!(u32).range(1..=MOST_DAYS))]
    days: u32,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Args)]
struct SwitchArgs {
    /// A name for the switch: letters, digits, dots, dashes and underscores
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: String,
    /// The datapath that it may call itself; several for one Open vSwitch with several bridges,
    /// any if this is left out. `ovs-vsctl get bridge BRIDGE datapath_id` shows it
    #[arg(long, value_name = "DPID", value_parser = parse_dpid)]
    dpid: Vec<Dpid>,
    /// Where the controller is, for the commands that are shown
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6653")]
    controller: SocketAddr,
    #[command(flatten)]
    common: Common,
}

/// What `init` and `controller` print as JSON; a promise to programs.
#[derive(Debug, Serialize)]
struct NewCertificate<'a> {
    dir: &'a Path,
    ca_cert: PathBuf,
    controller_cert: PathBuf,
    controller_key: PathBuf,
}

/// What `switch` prints as JSON; a promise to programs.
#[derive(Debug, Serialize)]
struct MadeSwitch<'a> {
    name: &'a str,
    dpids: Vec<String>,
    key: PathBuf,
    cert: PathBuf,
    ca_cert: PathBuf,
    commands: [String; 2],
}

/// Does it.
///
/// # Errors
/// What kept it from being done.
pub fn run(args: &PkiArgs) -> anyhow::Result<()> {
    // Keys pass through this process; nobody is to look into it.
    sys::process::forbid_new_privileges().context("cannot close the process to others")?;
    match &args.command {
        Pki::Init(common) => init(common),
        Pki::Switch(args) => switch(args),
        Pki::Controller(common) => controller(common),
    }
}

fn init(common: &Common) -> anyhow::Result<()> {
    let dir = &common.resolve()?;
    files::make_dir(dir)?;
    let (authority, own) = Authority::create()?;
    let controller = authority.controller(common.days)?;
    let new = |name, content, secret| New { path: dir.join(name), content, secret };
    files::write(
        &[
            new(CA_KEY, &own.key, true),
            new(CA_CERT, &own.certificate, false),
            new(CONTROLLER_KEY, &controller.key, true),
            new(CONTROLLER_CERT, &controller.certificate, false),
        ],
        common.force,
    )?;
    say::note(format_args!(
        "made an authority and the controller's certificate in {}",
        dir.display()
    ));
    if dir.join("switches").exists() {
        say::note("switches/ holds certificates of the authority before, which are void now");
    }
    // The same warning applies to the other certificates.
    let [there, up] = match (&common.dir, &common.config) {
        (Some(_), _) => ["--dir", "--tls-dir"].map(|option| format!(" {option} {}", quoted(dir))),
        (None, Some(file)) => ["--config"; 2].map(|option| format!(" {option} {}", quoted(file))),
        (None, None) => [String::new(), String::new()],
    };
    say::note(format_args!(
        "next: `rosemary pki switch NAME --dpid DPID{there}` for each switch, then `rosemary up{up}`"
    ));
    tell(common, dir)
}

fn controller(common: &Common) -> anyhow::Result<()> {
    let dir = &common.resolve()?;
    let controller = open(dir)?.controller(common.days)?;
    let new = |name, content, secret| New { path: dir.join(name), content, secret };
    files::write(
        &[
            new(CONTROLLER_KEY, &controller.key, true),
            new(CONTROLLER_CERT, &controller.certificate, false),
        ],
        common.force,
    )?;
    say::note("made a new certificate for the controller; it is used from the next start on");
    tell(common, dir)
}

fn tell(common: &Common, dir: &Path) -> anyhow::Result<()> {
    let made = NewCertificate {
        dir,
        ca_cert: dir.join(CA_CERT),
        controller_cert: dir.join(CONTROLLER_CERT),
        controller_key: dir.join(CONTROLLER_KEY),
    };
    if common.json {
        return json(&made);
    }
    for path in [&made.ca_cert, &made.controller_cert, &made.controller_key] {
        say::data(format_args!("{}\n", path.display()))?;
    }
    Ok(())
}

fn switch(args: &SwitchArgs) -> anyhow::Result<()> {
    let SwitchArgs { name, dpid, controller, common } = args;
    let dir = common.resolve()?;
    let authority = open(&dir)?;
    let issued = authority.switch(name, dpid, common.days)?;
    let authoritys = read(&dir.join(CA_CERT))?;
    let switches = dir.join("switches");
    files::make_dir(&switches)?;
    let place = switches.join(name);
    files::make_dir(&place)?;
    let made = MadeSwitch {
        name,
        dpids: dpid.iter().map(Dpid::to_string).collect(),
        key: place.join("key.pem"),
        cert: place.join("cert.pem"),
        ca_cert: place.join(CA_CERT),
        commands: [
            format!(
                "ovs-vsctl set-ssl {} {} {}",
                quoted(&place.join("key.pem")),
                quoted(&place.join("cert.pem")),
                quoted(&place.join(CA_CERT))
            ),
            format!("ovs-vsctl set-controller {name} ssl:{controller}"),
        ],
    };
    let new = |path: &PathBuf, content, secret| New { path: path.clone(), content, secret };
    files::write(
        &[
            new(&made.key, &issued.key, true),
            new(&made.cert, &issued.certificate, false),
            new(&made.ca_cert, &authoritys, false),
        ],
        common.force,
    )?;
    if dpid.is_empty() {
        say::note(format_args!(
            "{name} may call itself any datapath, also another switch's; --dpid binds it to one"
        ));
    } else {
        let shown = made.dpids.join(", ");
        say::note(format_args!("{name} may call itself {shown} and nothing else"));
    }
    say::note(format_args!(
        "type on the switch, where the files must be too, with its bridge in place of {name}:"
    ));
    if common.json {
        return json(&made);
    }
    say::data(format_args!("{}\n", made.commands.join("\n")))
}

fn json(made: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string(made).context("cannot write JSON")?;
    say::data(format_args!("{text}\n"))
}

impl Common {
    fn resolve(&self) -> anyhow::Result<PathBuf> {
        let dir = TlsDir { tls_dir: self.dir.clone() };
        let config = match &self.dir {
            Some(_) => Config::default(),
            None => Config::load(self.config.as_deref())?,
        };
        dir.resolve(&config).context(
            "there is no place for keys: neither XDG_CONFIG_HOME nor HOME is set; name a directory \
             with --dir",
        )
    }
}

/// Takes the authority in `dir`, whose key must be its own.
fn open(dir: &Path) -> anyhow::Result<Authority> {
    let (certificate, key) = (read(&dir.join(CA_CERT))?, read(&dir.join(CA_KEY))?);
    let own = Keys {
        certificate: certificate.as_bytes().to_vec(),
        key: Zeroizing::new(key.as_bytes().to_vec()),
        authorities: certificate.as_bytes().to_vec(),
    };
    let cannot = || format!("the authority in {} cannot issue certificates", dir.display());
    own.server_config().with_context(cannot)?;
    Authority::open(&certificate, &key).with_context(cannot)
}

fn read(path: &Path) -> anyhow::Result<Zeroizing<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Zeroizing::new(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("{} is missing; `rosemary pki init` makes it", path.display())
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn parse_name(text: &str) -> Result<String, &'static str> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    // RFC 5280's bound of a common name; and no name that hides, or looks like an option.
    if datapaths::is_misleading(text) {
        Err(
            "a name without \"rosemary\" and then \"dpid\": it would be taken for a datapath's; name that by --dpid",
        )
    } else if (1..=64).contains(&text.len())
        && text.chars().all(good)
        && !text.starts_with(['.', '-'])
    {
        Ok(text.to_owned())
    } else {
        Err("1 to 64 letters, digits, dots, dashes and underscores, a letter or digit first")
    }
}

fn parse_dpid(text: &str) -> Result<Dpid, &'static str> {
    text.parse().map_err(|_| {
        "as 00:00:00:00:00:00:00:01, 0x1, or the 16 digits that `ovs-vsctl get bridge BRIDGE \
         datapath_id` shows"
    })
}

/// The path as a shell takes it for one word.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(dir: &Path) -> Common {
        Common { dir: Some(dir.to_owned()), config: None, force: false, days: DAYS, json: true }
    }

    #[test]
    fn directory_may_be_named_as_for_up() {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            pki: PkiArgs,
        }
        for option in ["--dir", "--tls-dir"] {
            let parsed =
                <Command as clap::Parser>::try_parse_from(["pki", "init", option, "/keys"]);
            let Pki::Init(Common { dir, .. }) = parsed.unwrap().pki.command else { panic!("init") };
            assert_eq!(dir, Some("/keys".into()));
        }
    }

    fn switch_args(dir: &Path, name: &str, dpid: Vec<Dpid>) -> SwitchArgs {
        let controller = "127.0.0.1:6653".parse().unwrap();
        SwitchArgs { name: name.into(), dpid, controller, common: common(dir) }
    }

    #[test]
    fn keys_that_were_made_are_what_the_controller_takes() {
        let parent = tempfile::tempdir().unwrap();
        let dir = &parent.path().join("pki");
        init(&common(dir)).unwrap();
        let bytes = |name: &str| std::fs::read(dir.join(name)).unwrap();
        let keys = Keys {
            certificate: bytes(CONTROLLER_CERT),
            key: bytes(CONTROLLER_KEY).into(),
            authorities: bytes(CA_CERT),
        };
        keys.server_config().unwrap();
        let now = std::time::SystemTime::now();
        assert_eq!(keys.warning(now), None);
        let day = std::time::Duration::from_secs(24 * 3600);
        assert!(keys.warning(now + 800 * day).unwrap().starts_with("it expires in 2"));
        assert_eq!(keys.warning(now + 900 * day).as_deref(), Some("it has expired"));
        assert!(keys.warning(now - day).unwrap().contains("not valid yet"));
    }

    #[test]
    fn nothing_is_replaced_without_force() {
        let parent = tempfile::tempdir().unwrap();
        let dir = &parent.path().join("pki");
        init(&common(dir)).unwrap();
        switch(&switch_args(dir, "s1", vec![Dpid(1)])).unwrap();
        let before = std::fs::read(dir.join(CA_KEY)).unwrap();
        for again in [
            init(&common(dir)),
            controller(&common(dir)),
            switch(&switch_args(dir, "s1", Vec::new())),
        ] {
            assert!(again.unwrap_err().to_string().contains("--force"));
        }
        assert_eq!(std::fs::read(dir.join(CA_KEY)).unwrap(), before);
        let controllers = std::fs::read(dir.join(CONTROLLER_CERT)).unwrap();
        controller(&Common { force: true, ..common(dir) }).unwrap();
        assert_ne!(std::fs::read(dir.join(CONTROLLER_CERT)).unwrap(), controllers);
        assert_eq!(std::fs::read(dir.join(CA_KEY)).unwrap(), before, "the authority stays");
    }

    #[test]
    fn authority_whose_key_is_another_ones_issues_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, other) = (&parent.path().join("pki"), &parent.path().join("other"));
        init(&common(dir)).unwrap();
        init(&common(other)).unwrap();
        std::fs::copy(other.join(CA_KEY), dir.join(CA_KEY)).unwrap();
        let error = format!("{:#}", switch(&switch_args(dir, "s1", Vec::new())).unwrap_err());
        assert!(error.contains("not the key of the certificate"), "{error}");
    }

    #[test]
    fn keys_are_where_the_configuration_says_unless_a_directory_is_given() {
        let parent = tempfile::tempdir().unwrap();
        let config = parent.path().join("rosemary.toml");
        std::fs::write(&config, "controller = { tls-dir = \"keys\" }").unwrap();
        let mut by_config = Common { dir: None, config: Some(config), ..common(Path::new("")) };
        init(&by_config).unwrap();
        assert!(parent.path().join("keys").join(CONTROLLER_CERT).is_file());
        by_config.dir = Some("/elsewhere".into());
        assert_eq!(by_config.resolve().unwrap(), Path::new("/elsewhere"));
    }

    #[test]
    fn switch_before_init_is_told_what_to_type() {
        let parent = tempfile::tempdir().unwrap();
        let error = switch(&switch_args(parent.path(), "s1", Vec::new())).unwrap_err();
        assert!(error.to_string().contains("rosemary pki init"), "{error}");
    }

    #[test]
    fn name_that_is_a_path_or_an_option_is_refused() {
        let long = "a".repeat(65);
        let like = "Rosemary_DPID-00.01";
        for name in ["", "..", "a/b", "-f", ".x", "a b", &long, like] {
            assert!(parse_name(name).is_err(), "{name}");
        }
        assert!(parse_name("edge-1.rack_2").is_ok());
    }

    #[test]
    fn path_with_a_space_or_a_quote_stays_one_word() {
        assert_eq!(quoted(Path::new("/etc/rosemary/pki")), "/etc/rosemary/pki");
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
