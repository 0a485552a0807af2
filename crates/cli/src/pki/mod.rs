//! `rosemary pki`: creates the keys and certificates for TLS between the controller and switches, and between the HTTP interface and
//! its users ([`api`]).
//!
//! ```text
//! DIR/                           0700; /etc/rosemary/pki for root
//!     ca-key.pem                 the authority's key; only this command needs it
//!     ca-cert.pem                its certificate, for the controller and every switch
//!     controller-key.pem         the controller's key
//!     controller-cert.pem        the certificate that the controller presents
//!     switches/NAME/             files to copy to the switch
//!         key.pem  cert.pem  ca-cert.pem
//!     api/                       the authority, the key and the certificate of the HTTP interface
//!         ca-key.pem  ca-cert.pem  key.pem  cert.pem
//!         revoked.json           the users whose certificates were revoked ([`revoke`])
//!     users/NAME/                files to copy to the user
//!         key.pem  cert.pem  ca-cert.pem
//! ```
//!
//! Keys have mode 0600 and are never printed. Existing files are replaced only with `--force`.

mod api;
pub(crate) mod files;
mod make;
mod revoke;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use config::Config;
use config::instance::TlsDir;
use control::security::KeyPurpose;
use keys::{Keys, datapaths};
use monitor::keys::{CA_CERT, CA_KEY, CONTROLLER_CERT, CONTROLLER_KEY};
use openflow::Dpid;
use serde::Serialize;
use zeroize::Zeroizing;

use self::files::New;
use self::make::{Authority, DAYS, Issued};
use crate::say;

/// The consequence of replacing keys for switches.
const REPLACED: &str = "After that, certificates of the replaced authority are worthless, and nobody with only the replaced \
                        certificate can connect; `rosemary pki controller --force` renews the controller's certificate alone";

/// Maximum validity of a certificate in days: that of the authority.
const MOST_DAYS: i64 = 3650;

/// Options of `rosemary pki`.
#[derive(Debug, Clone, Args)]
pub struct PkiArgs {
    #[command(subcommand)]
    command: Pki,
}

#[derive(Debug, Clone, Subcommand)]
enum Pki {
    /// Create an authority, and a key and a certificate for the controller
    Init(Common),
    /// Create a key and a certificate for a switch, and print the commands for Open vSwitch
    Switch(SwitchArgs),
    /// Create a new key and certificate for the controller with the existing authority
    Controller(Common),
    /// Create a key and a certificate for the HTTP interface, with an authority for its users
    #[command(after_help = api::API_HELP)]
    Api(api::ApiArgs),
    /// Create a key and a certificate for a user of the HTTP interface, and print a command for curl
    #[command(after_help = api::USER_HELP)]
    User(api::UserArgs),
    /// Revoke the certificates of a user of the HTTP interface, which are invalid at once
    #[command(after_help = revoke::HELP)]
    RevokeUser(revoke::RevokeArgs),
}

#[derive(Debug, Clone, Default, Args)]
struct KeyDir {
    /// The directory, unless the default.
    #[arg(
        long,
        visible_alias = "tls-dir",
        value_name = "DIR",
        help = "Directory of the keys [default: /etc/rosemary/pki for root, \
                $XDG_CONFIG_HOME/rosemary/pki for others]"
    )]
    dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
struct Common {
    #[command(flatten)]
    dir: KeyDir,
    /// The configuration, unless the default.
    #[arg(
        long,
        value_name = "FILE",
        env = "ROSEMARY_CONFIG",
        hide_env_values = true,
        help = "Configuration; its tls-dir applies without --dir [default: as for `rosemary up`]"
    )]
    config: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    /// Validity of the certificate in days
    #[arg(long, value_name = "DAYS", default_value_t = DAYS,
          value_parser = clap::value_parser!(u32).range(1..=MOST_DAYS))]
    days: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Args)]
struct SwitchArgs {
    /// Name of the switch: letters, digits, dots, hyphens and underscores
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: String,
    /// Datapath id that the switch may claim, as `ovs-vsctl get bridge BRIDGE datapath_id` shows it; repeat it
    /// for an Open vSwitch with several bridges [default: any]
    #[arg(long, value_name = "DPID")]
    dpid: Vec<Dpid>,
    /// Address of the controller in the printed commands [default: the first of `listen` in the configuration, otherwise
    /// 127.0.0.1:6653]
    #[arg(long, value_name = "ADDR:PORT")]
    controller: Option<SocketAddr>,
    #[command(flatten)]
    common: Common,
}

/// The JSON output of `init` and `controller`; a stable interface.
#[derive(Debug, Serialize)]
struct NewCertificate<'a> {
    dir: &'a Path,
    ca_cert: PathBuf,
    controller_cert: PathBuf,
    controller_key: PathBuf,
}

/// The JSON output of `switch`; a stable interface.
#[derive(Debug, Serialize)]
struct NewSwitch<'a> {
    name: &'a str,
    dpids: Vec<String>,
    key: PathBuf,
    cert: PathBuf,
    ca_cert: PathBuf,
    commands: [String; 2],
}

/// Runs the command.
///
/// # Errors
/// The authority cannot be used, or a file exists or cannot be written.
pub fn run(args: &PkiArgs) -> anyhow::Result<()> {
    // Secret keys pass through this process: keep other processes from reading its memory.
    sys::process::forbid_new_privileges().context("cannot protect the memory of the process")?;
    match &args.command {
        Pki::Init(common) => init(common),
        Pki::Switch(args) => switch(args),
        Pki::Controller(common) => controller(common),
        Pki::Api(args) => api::api(args),
        Pki::User(args) => api::user(args),
        Pki::RevokeUser(args) => revoke::revoke(args),
    }
}

fn init(common: &Common) -> anyhow::Result<()> {
    let dir = &common.resolve()?;
    files::make_dir(dir)?;
    let (authority, own) = Authority::create("Rosemary CA")?;
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
        REPLACED,
    )?;
    say::note(format_args!(
        "created an authority and the controller's certificate in {}",
        dir.display()
    ));
    if dir.join("switches").exists() {
        say::note(
            "switches/ contains certificates of the previous authority, which are now invalid",
        );
    }
    // The next commands must find the same directory.
    let [pki, up] = match (&common.dir.dir, &common.config) {
        (Some(_), _) => ["--dir", "--tls-dir"].map(|option| format!(" {option} {}", quoted(dir))),
        (None, Some(file)) => ["--config"; 2].map(|option| format!(" {option} {}", quoted(file))),
        (None, None) => [String::new(), String::new()],
    };
    say::note(format_args!(
        "next: `rosemary pki switch NAME --dpid DPID{pki}` for each switch, then `rosemary up{up}`"
    ));
    print_controller_files(common, dir)
}

fn controller(common: &Common) -> anyhow::Result<()> {
    let dir = &common.resolve()?;
    let controller = open(dir, KeyPurpose::Switches)?.controller(common.days)?;
    let new = |name, content, secret| New { path: dir.join(name), content, secret };
    files::write(
        &[
            new(CONTROLLER_KEY, &controller.key, true),
            new(CONTROLLER_CERT, &controller.certificate, false),
        ],
        common.force,
        REPLACED,
    )?;
    say::note(
        "created a new certificate for the controller; Rosemary uses it from its next start on",
    );
    print_controller_files(common, dir)
}

fn print_controller_files(common: &Common, dir: &Path) -> anyhow::Result<()> {
    let created = NewCertificate {
        dir,
        ca_cert: dir.join(CA_CERT),
        controller_cert: dir.join(CONTROLLER_CERT),
        controller_key: dir.join(CONTROLLER_KEY),
    };
    if common.json {
        return json(&created);
    }
    for path in [&created.ca_cert, &created.controller_cert, &created.controller_key] {
        say::data(format_args!("{}\n", path.display()))?;
    }
    Ok(())
}

fn switch(args: &SwitchArgs) -> anyhow::Result<()> {
    let SwitchArgs { name, dpid, controller, common } = args;
    let dir = common.resolve()?;
    let configured = || {
        let listen = Config::load(common.config.as_deref()).ok()?.listen;
        listen.into_iter().find(|address| !address.ip().is_unspecified())
    };
    let controller = controller.or_else(configured).unwrap_or(monitor::options::LISTEN);
    let authority = open(&dir, KeyPurpose::Switches)?;
    let issued = authority.switch(name, dpid, common.days)?;
    let ca_cert = read(&dir.join(CA_CERT))?;
    let files = (&issued, ca_cert.as_str());
    let [key, cert, ca_cert] =
        write_client(&dir.join("switches"), name, files, common.force, REPLACED)?;
    let commands = [
        format!("ovs-vsctl set-ssl {} {} {}", quoted(&key), quoted(&cert), quoted(&ca_cert)),
        format!("ovs-vsctl set-controller {name} ssl:{controller}"),
    ];
    let dpids = dpid.iter().map(Dpid::to_string).collect();
    let created = NewSwitch { name, dpids, key, cert, ca_cert, commands };
    if dpid.is_empty() {
        say::note(format_args!(
            "{name} may claim any datapath, also that of another switch; --dpid binds it to one"
        ));
    } else {
        let shown = created.dpids.join(", ");
        say::note(format_args!("{name} may claim only {shown}"));
    }
    say::note(format_args!(
        "copy the files to the switch and type there, with its bridge in place of {name}:"
    ));
    if common.json {
        return json(&created);
    }
    say::data(format_args!("{}\n", created.commands.join("\n")))
}

/// Stores a key and a certificate, with that of the authority, in the directory `name` of `clients`. Returns the paths of key,
/// certificate and authority. `consequence` says what the replacement of a certificate means.
fn write_client(
    clients: &Path,
    name: &str,
    (issued, ca_cert): (&Issued, &str),
    force: bool,
    consequence: &str,
) -> anyhow::Result<[PathBuf; 3]> {
    files::make_dir(clients)?;
    let dir = clients.join(name);
    files::make_dir(&dir)?;
    let paths = ["key.pem", "cert.pem", CA_CERT].map(|file| dir.join(file));
    let contents: [&str; 3] = [&issued.key, &issued.certificate, ca_cert];
    let files = std::iter::zip(&paths, contents).enumerate().map(|(number, (path, content))| New {
        path: path.clone(),
        content,
        secret: number == 0,
    });
    files::write(&files.collect::<Vec<_>>(), force, consequence)?;
    Ok(paths)
}

fn json(output: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string(output).context("cannot write JSON")?;
    say::data(format_args!("{text}\n"))
}

impl Common {
    fn resolve(&self) -> anyhow::Result<PathBuf> {
        self.dir.resolve(self.config.as_deref())
    }
}

impl KeyDir {
    /// The directory, which the configuration `file` names if no option does.
    fn resolve(&self, file: Option<&Path>) -> anyhow::Result<PathBuf> {
        let dir = TlsDir { tls_dir: self.dir.clone() };
        let config = match &self.dir {
            Some(_) => Config::default(),
            None => Config::load(file)?,
        };
        dir.resolve(&config).context(
            "there is no directory for the keys, as neither XDG_CONFIG_HOME nor HOME is set; name one \
             with --dir",
        )
    }
}

/// Whether `dir` has an authority.
///
/// # Errors
/// It has one of its two files alone.
fn has_authority(dir: &Path, purpose: KeyPurpose) -> anyhow::Result<bool> {
    let exists = |name: &str| dir.join(name).symlink_metadata().is_ok();
    let (missing, other) = match (exists(CA_CERT), exists(CA_KEY)) {
        (has, same) if has == same => return Ok(has),
        (true, _) => (CA_KEY, CA_CERT),
        (false, _) => (CA_CERT, CA_KEY),
    };
    let (command, worthless) = match purpose {
        KeyPurpose::Switches => ("rosemary pki init --force", "switches"),
        KeyPurpose::Users => ("rosemary pki api NAME --new-authority", "users"),
    };
    bail!(
        "{} is missing, and {other} is there; put it back, as from a backup. If it is lost, `{command}` makes a new authority, and \
         all certificates of {worthless} become invalid",
        dir.join(missing).display()
    )
}

/// Loads the authority in `dir` and checks that its key belongs to its certificate.
fn open(dir: &Path, purpose: KeyPurpose) -> anyhow::Result<Authority> {
    if !has_authority(dir, purpose)? {
        let command = match purpose {
            KeyPurpose::Switches => "rosemary pki init",
            KeyPurpose::Users => "rosemary pki api NAME",
        };
        bail!("{} has no authority; `{command}` makes one", dir.display());
    }
    let read = |name| read(&dir.join(name));
    let (certificate, key) = (read(CA_CERT)?, read(CA_KEY)?);
    let own = Keys {
        certificate: certificate.as_bytes().to_vec(),
        key: Zeroizing::new(key.as_bytes().to_vec()),
        authorities: certificate.as_bytes().to_vec(),
    };
    let cannot = || format!("the authority in {} cannot issue certificates", dir.display());
    own.server_config(purpose).with_context(cannot)?;
    Authority::open(&certificate, &key).with_context(cannot)
}

/// Reads a key or a certificate.
pub(crate) fn read(path: &Path) -> anyhow::Result<Zeroizing<String>> {
    let text = std::fs::read_to_string(path);
    text.map(Zeroizing::new).with_context(|| format!("cannot read {}", path.display()))
}

fn parse_name(text: &str) -> Result<String, &'static str> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    // RFC 5280 limits a common name to 64 characters. A leading dot would hide the directory, and a leading
    // hyphen would look like an option.
    if datapaths::is_misleading(text) {
        Err(
            "the name must not contain \"rosemary\" followed by \"dpid\", which marks a datapath id; use --dpid for that",
        )
    } else if (1..=64).contains(&text.len())
        && text.chars().all(good)
        && !text.starts_with(['.', '-'])
    {
        Ok(text.to_owned())
    } else {
        Err(
            "expected 1 to 64 letters, digits, dots, hyphens and underscores, with a letter or digit first",
        )
    }
}

/// Quotes the path so that a shell reads it as one word.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(dir: &Path) -> Common {
        let dir = KeyDir { dir: Some(dir.to_owned()) };
        Common { dir, config: None, force: false, days: DAYS, json: true }
    }

    #[test]
    fn tls_dir_is_an_alias_of_dir() {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            pki: PkiArgs,
        }
        for option in ["--dir", "--tls-dir"] {
            let parsed =
                <Command as clap::Parser>::try_parse_from(["pki", "init", option, "/keys"]);
            let Pki::Init(Common { dir, .. }) = parsed.unwrap().pki.command else { panic!("init") };
            assert_eq!(dir.dir, Some("/keys".into()));
        }
    }

    fn switch_args(dir: &Path, name: &str, dpid: Vec<Dpid>) -> SwitchArgs {
        let controller = Some("127.0.0.1:6653".parse().unwrap());
        SwitchArgs { name: name.into(), dpid, controller, common: common(dir) }
    }

    #[test]
    fn created_keys_are_valid_for_the_controller() {
        let parent = tempfile::tempdir().unwrap();
        let dir = &parent.path().join("pki");
        init(&common(dir)).unwrap();
        let bytes = |name: &str| std::fs::read(dir.join(name)).unwrap();
        let keys = Keys {
            certificate: bytes(CONTROLLER_CERT),
            key: bytes(CONTROLLER_KEY).into(),
            authorities: bytes(CA_CERT),
        };
        keys.server_config(KeyPurpose::Switches).unwrap();
        let now = std::time::SystemTime::now();
        assert_eq!(keys.warning(now), None);
        let day = std::time::Duration::from_secs(24 * 3600);
        assert!(keys.warning(now + 800 * day).unwrap().starts_with("it expires in 2"));
        assert_eq!(keys.warning(now + 900 * day).as_deref(), Some("it has expired"));
        assert!(keys.warning(now - day).unwrap().contains("not valid yet"));
    }

    #[test]
    fn existing_keys_stay_without_force() {
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
    fn authority_with_foreign_key_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, other) = (&parent.path().join("pki"), &parent.path().join("other"));
        init(&common(dir)).unwrap();
        init(&common(other)).unwrap();
        std::fs::copy(other.join(CA_KEY), dir.join(CA_KEY)).unwrap();
        let error = format!("{:#}", switch(&switch_args(dir, "s1", Vec::new())).unwrap_err());
        assert!(error.contains("not the key of the certificate"), "{error}");
    }

    #[test]
    fn dir_option_overrides_configuration() {
        let parent = tempfile::tempdir().unwrap();
        let config = parent.path().join("rosemary.toml");
        std::fs::write(&config, "controller = { tls-dir = \"keys\" }").unwrap();
        let dir = KeyDir::default();
        let mut by_config = Common { dir, config: Some(config), ..common(Path::new("")) };
        init(&by_config).unwrap();
        assert!(parent.path().join("keys").join(CONTROLLER_CERT).is_file());
        by_config.dir.dir = Some("/elsewhere".into());
        assert_eq!(by_config.resolve().unwrap(), Path::new("/elsewhere"));
    }

    #[test]
    fn missing_authority_error_names_init() {
        let parent = tempfile::tempdir().unwrap();
        let error = switch(&switch_args(parent.path(), "s1", Vec::new())).unwrap_err();
        assert!(error.to_string().contains("`rosemary pki init` makes one"), "{error}");
    }

    #[test]
    fn half_an_authority_is_an_error_whose_advice_works() {
        for file in [CA_CERT, CA_KEY] {
            let parent = tempfile::tempdir().unwrap();
            let dir = &parent.path().join("pki");
            init(&common(dir)).unwrap();
            std::fs::remove_file(dir.join(file)).unwrap();
            for result in [
                switch(&switch_args(dir, "s1", Vec::new())),
                controller(&Common { force: true, ..common(dir) }),
            ] {
                let error = result.unwrap_err().to_string();
                assert!(error.contains(file) && error.contains("pki init --force"), "{error}");
            }
            init(&Common { force: true, ..common(dir) }).unwrap();
            switch(&switch_args(dir, "s1", Vec::new())).unwrap();
        }
    }

    #[test]
    fn name_like_path_or_option_is_refused() {
        let long = "a".repeat(65);
        let like = "Rosemary_DPID-00.01";
        for name in ["", "..", "a/b", "-f", ".x", "a b", &long, like] {
            assert!(parse_name(name).is_err(), "{name}");
        }
        assert!(parse_name("edge-1.rack_2").is_ok());
    }

    #[test]
    fn path_with_space_or_quote_is_one_word() {
        assert_eq!(quoted(Path::new("/etc/rosemary/pki")), "/etc/rosemary/pki");
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
