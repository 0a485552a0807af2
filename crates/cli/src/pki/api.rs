//! `rosemary pki api` and `rosemary pki user`: the keys for TLS between the HTTP interface and its users.
//!
//! Their authority is another one than that of the switches, so that no certificate is good for both.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use config::Config;
use control::northbound::{Role, needs_tls};
use control::security::KeyPurpose;
use keys::users;
use monitor::keys::{API_CERT, API_DIR, API_KEY, CA_CERT, read_revoked};
use serde::Serialize;

use super::files::{self, New};
use super::make::{Authority, Issued, ServerName};
use super::{CA_KEY, Common, has_authority, json, open, quoted, read, write_client};
use crate::{say, token};

/// The directory of users' files.
pub(super) const USERS: &str = "users";

/// The consequence of replacing a certificate.
const REPLACED: &str = "The replaced certificate stays valid until it expires, or until you type `rosemary pki revoke-user NAME` \
                        before you replace it";

pub(super) const API_HELP: &str = "\
NAME is each name or address by which clients call this machine, such as controller.example or 192.0.2.1. Then listen at an address \
that others can reach, with `api` in [northbound] or `rosemary up --api`; `names` in [northbound] has to list the host names.

Without --new-authority, an authority that exists stays, and the certificates of its users stay valid.";

pub(super) const USER_HELP: &str = "\
A viewer reads, an operator also acts on the network and on configured apps, an admin also changes the configuration. The role is in the \
certificate. `rosemary pki revoke-user NAME` makes the certificates of one user invalid at once, and `rosemary pki api NAME \
--new-authority` those of all users from the next start of Rosemary on.

For a browser: openssl pkcs12 -export -inkey key.pem -in cert.pem -out NAME.p12";

/// Options of `rosemary pki api`.
#[derive(Debug, Clone, Args)]
pub(super) struct ApiArgs {
    /// Host name or address by which clients call this machine; repeatable
    #[arg(value_name = "NAME", required = true, value_parser = parse_server_name)]
    names: Vec<ServerName>,
    /// Also replace existing files with those of a new authority, which makes all certificates of users invalid
    #[arg(long)]
    new_authority: bool,
    #[command(flatten)]
    common: Common,
}

/// Options of `rosemary pki user`.
#[derive(Debug, Clone, Args)]
pub(super) struct UserArgs {
    /// Name of the user, for the audit records: letters, digits, dots, hyphens and underscores
    #[arg(value_name = "NAME", value_parser = parse_user)]
    name: String,
    /// The rights of the user
    #[arg(long, value_parser = token::role())]
    role: Role,
    #[command(flatten)]
    common: Common,
}

/// The JSON output of `api`; a stable interface.
#[derive(Debug, Serialize)]
struct NewInterface<'a> {
    dir: &'a Path,
    ca_cert: PathBuf,
    cert: PathBuf,
    key: PathBuf,
    new_authority: bool,
}

/// The JSON output of `user`; a stable interface.
#[derive(Debug, Serialize)]
struct NewUser<'a> {
    name: &'a str,
    role: Role,
    key: PathBuf,
    cert: PathBuf,
    ca_cert: PathBuf,
    command: String,
}

pub(super) fn api(args: &ApiArgs) -> anyhow::Result<()> {
    let ApiArgs { names, new_authority, common } = args;
    let pki = common.resolve()?;
    let dir = &pki.join(API_DIR);
    files::make_dir(&pki)?;
    files::make_dir(dir)?;
    let is_new = *new_authority || !has_authority(dir, KeyPurpose::Users)?;
    let (authority, own): (_, Option<Issued>) = if is_new {
        // Not a name that could be taken for a user's.
        let (authority, own) = Authority::create("Rosemary API CA")?;
        (authority, Some(own))
    } else {
        (open(dir, KeyPurpose::Users)?, None)
    };
    let issued = authority.interface(names, common.days)?;
    let new = |name, content, secret| New { path: dir.join(name), content, secret };
    let mut files =
        vec![new(API_KEY, &issued.key, true), new(API_CERT, &issued.certificate, false)];
    if let Some(own) = &own {
        files.push(new(CA_KEY, &own.key, true));
        files.push(new(CA_CERT, &own.certificate, false));
    }
    files::write(&files, common.force || *new_authority, REPLACED)?;
    let what = if is_new { "an authority and the certificate" } else { "a new certificate" };
    say::note(format_args!("created {what} of the HTTP interface in {}", dir.display()));
    if is_new && pki.join(USERS).exists() {
        say::note("users/ contains certificates of the previous authority, which are now invalid");
    }
    say::note(format_args!("Rosemary uses it from its next start on; {}", next(names)));
    let created = NewInterface {
        dir,
        ca_cert: dir.join(CA_CERT),
        cert: dir.join(API_CERT),
        key: dir.join(API_KEY),
        new_authority: is_new,
    };
    if common.json {
        return json(&created);
    }
    for path in [&created.ca_cert, &created.cert, &created.key] {
        say::data(format_args!("{}\n", path.display()))?;
    }
    Ok(())
}

/// The lines of the configuration that make use of a certificate for `names`.
fn next(names: &[ServerName]) -> String {
    let hosts = names.iter().filter_map(|name| match name {
        ServerName::Host(name) => Some(format!("{name:?}")),
        ServerName::Address(_) => None,
    });
    let hosts = hosts.collect::<Vec<_>>().join(", ");
    let hosts = if hosts.is_empty() { String::new() } else { format!(" and `names = [{hosts}]`") };
    format!(
        "[northbound] needs an address that others can reach, such as `api = [\"127.0.0.1:8181\", \"0.0.0.0:8443\"]`{hosts}"
    )
}

pub(super) fn user(args: &UserArgs) -> anyhow::Result<()> {
    let UserArgs { name, role, common } = args;
    let pki = common.resolve()?;
    let dir = pki.join(API_DIR);
    let authority = open(&dir, KeyPurpose::Users)?;
    let revoked = read_revoked(&dir)?.into_iter().find(|it| it.name == *name).map(|it| it.before);
    let issued = authority.user(name, *role, common.days, revoked)?;
    let ca_cert = read(&dir.join(CA_CERT))?;
    let files = (&issued, ca_cert.as_str());
    let [key, cert, ca_cert] = write_client(&pki.join(USERS), name, files, common.force, REPLACED)?;
    let command = format!(
        "curl --cacert {} --cert {} --key {} https://{}/api/v1/session",
        quoted(&ca_cert),
        quoted(&cert),
        quoted(&key),
        address(common)
    );
    say::note(format_args!("{name} has the role {role} for {} days", common.days));
    say::note("copy the files to the user, who types there:");
    let created = NewUser { name, role: *role, key, cert, ca_cert, command };
    if common.json {
        return json(&created);
    }
    say::data(format_args!("{}\n", created.command))
}

/// The address of the interface in the printed command: the first one in the configuration that has TLS and is no wildcard.
fn address(common: &Common) -> String {
    let configured = Config::load(common.config.as_deref()).map(|config| config.northbound.api);
    let has_tls = |it: &SocketAddr| needs_tls(*it) && !it.ip().is_unspecified();
    let address = configured.ok().and_then(|all| all.into_iter().find(has_tls));
    address.map_or_else(|| "NAME:PORT".to_owned(), |it| it.to_string())
}

fn parse_server_name(text: &str) -> Result<ServerName, &'static str> {
    if let Ok(address) = text.parse() {
        return Ok(ServerName::Address(address));
    }
    if config::is_host_name(text) {
        return Ok(ServerName::Host(text.to_ascii_lowercase()));
    }
    Err(
        "expected a host name or an address, without a port, such as controller.example or 192.0.2.1",
    )
}

pub(super) fn parse_user(text: &str) -> Result<String, &'static str> {
    if users::is_name(text) {
        return Ok(text.to_owned());
    }
    Err(
        "expected 1 to 64 letters, digits, dots, hyphens and underscores, with a letter or digit first, and without \"rosemary\" \
         followed by \"user\" or \"dpid\"",
    )
}

#[cfg(test)]
mod tests {
    use control::northbound::RevokedUser;
    use keys::Keys;
    use keys::datapaths::CertifiedDatapaths;
    use keys::users::CertifiedUser;
    use monitor::keys::revoked_text;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    use super::super::{DAYS, KeyDir};
    use super::*;

    fn common(dir: &Path) -> Common {
        let dir = KeyDir { dir: Some(dir.to_owned()) };
        Common { dir, config: None, force: false, days: DAYS, json: true }
    }

    fn api_args(dir: &Path) -> ApiArgs {
        let names = ["controller.example", "192.0.2.1"].map(|it| parse_server_name(it).unwrap());
        ApiArgs { names: names.into(), new_authority: false, common: common(dir) }
    }

    fn certificate(pem: &[u8]) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem).unwrap()
    }

    #[test]
    fn created_keys_are_valid_for_the_interface_and_its_users() {
        let parent = tempfile::tempdir().unwrap();
        let dir = &parent.path().join("pki");
        api(&api_args(dir)).unwrap();
        let bytes = |name: &str| std::fs::read(dir.join(name)).unwrap();
        let keys = Keys {
            certificate: bytes("api/cert.pem"),
            key: bytes("api/key.pem").into(),
            authorities: bytes("api/ca-cert.pem"),
        };
        keys.server_config(KeyPurpose::Users).unwrap();
        assert_eq!(keys.warning(std::time::SystemTime::now()), None);
        let args = UserArgs { name: "alice".into(), role: Role::Operator, common: common(dir) };
        user(&args).unwrap();
        let alice = certificate(&bytes("users/alice/cert.pem"));
        let found = CertifiedUser::of(&alice).unwrap();
        assert_eq!((found.name.as_str(), found.role), ("alice", Role::Operator));
        CertifiedDatapaths::of(&alice).unwrap_err();
        assert_eq!(bytes("users/alice/ca-cert.pem"), bytes("api/ca-cert.pem"));
    }

    #[test]
    fn authority_stays_unless_a_new_one_is_wanted() {
        let parent = tempfile::tempdir().unwrap();
        let dir = &parent.path().join("pki");
        api(&api_args(dir)).unwrap();
        let read = |name: &str| std::fs::read(dir.join("api").join(name)).unwrap();
        let before = (read("ca-key.pem"), read("cert.pem"));
        let error = api(&api_args(dir)).unwrap_err().to_string();
        assert!(error.contains("--force"), "{error}");
        let force = Common { force: true, ..common(dir) };
        api(&ApiArgs { common: force, ..api_args(dir) }).unwrap();
        assert_eq!(read("ca-key.pem"), before.0);
        assert_ne!(read("cert.pem"), before.1);
        api(&ApiArgs { new_authority: true, ..api_args(dir) }).unwrap();
        assert_ne!(read("ca-key.pem"), before.0);
    }

    #[test]
    fn certificate_after_a_revocation_begins_with_it() {
        let parent = tempfile::tempdir().unwrap();
        let dir = &parent.path().join("pki");
        api(&api_args(dir)).unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let revoked = RevokedUser { name: "alice".into(), before: now.as_secs() };
        let list = revoked_text(std::slice::from_ref(&revoked)).unwrap();
        std::fs::write(dir.join("api/revoked.json"), list).unwrap();
        for (name, is_later) in [("alice", true), ("bob", false)] {
            let args = UserArgs { name: name.into(), role: Role::Viewer, common: common(dir) };
            user(&args).unwrap();
            let pem = std::fs::read(dir.join("users").join(name).join("cert.pem")).unwrap();
            let found = CertifiedUser::of(&certificate(&pem)).unwrap();
            let begin = found.not_before.duration_since(std::time::UNIX_EPOCH).unwrap();
            assert_eq!(begin.as_secs() == revoked.before, is_later, "{name}: {begin:?}");
            assert!(!found.is_revoked_by(&revoked));
        }
    }

    #[test]
    fn no_certificate_begins_after_a_revocation_in_the_future() {
        let parent = tempfile::tempdir().unwrap();
        let dir = &parent.path().join("pki");
        api(&api_args(dir)).unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let make = |name: &str, before| {
            let revoked = RevokedUser { name: "alice".into(), before };
            let list = revoked_text(&[revoked]).unwrap();
            std::fs::write(dir.join("api/revoked.json"), list).unwrap();
            let common = Common { force: true, ..common(dir) };
            user(&UserArgs { name: name.into(), role: Role::Viewer, common })
        };
        make("alice", now.as_secs() + 3).unwrap();
        let year = 365 * 24 * 3600;
        for before in [now.as_secs() + year, u64::MAX] {
            let error = make("alice", before).unwrap_err().to_string();
            assert!(error.contains("set it") && error.contains("another name"), "{error}");
            make("alice-2", before).unwrap();
        }
    }

    #[test]
    fn missing_authority_error_names_the_command() {
        let parent = tempfile::tempdir().unwrap();
        let args =
            UserArgs { name: "alice".into(), role: Role::Admin, common: common(parent.path()) };
        let error = user(&args).unwrap_err().to_string();
        assert!(error.contains("`rosemary pki api NAME` makes one"), "{error}");
    }

    #[test]
    fn half_an_authority_is_an_error_whose_advice_works() {
        for file in [CA_CERT, CA_KEY] {
            let parent = tempfile::tempdir().unwrap();
            let dir = &parent.path().join("pki");
            api(&api_args(dir)).unwrap();
            let other = if file == CA_KEY { CA_CERT } else { CA_KEY };
            let kept = std::fs::read(dir.join("api").join(other)).unwrap();
            std::fs::remove_file(dir.join("api").join(file)).unwrap();
            let name = "alice".to_owned();
            let args = UserArgs { name, role: Role::Viewer, common: common(dir) };
            let force = Common { force: true, ..common(dir) };
            for result in
                [user(&args), api(&api_args(dir)), api(&ApiArgs { common: force, ..api_args(dir) })]
            {
                let error = result.unwrap_err().to_string();
                assert!(error.contains(file) && error.contains("--new-authority"), "{error}");
            }
            assert_eq!(std::fs::read(dir.join("api").join(other)).unwrap(), kept);
            api(&ApiArgs { new_authority: true, ..api_args(dir) }).unwrap();
            user(&args).unwrap();
        }
    }

    #[test]
    fn misleading_names_are_refused() {
        for name in ["", "a b", "-a", "a:b", "rosemary-user", "Rosemary.DPID", "é"] {
            assert!(parse_user(name).is_err(), "{name}");
        }
        for name in ["", "a_b", "192.0.2.1:80", "*.example", "https://a", "[::1]"] {
            assert!(parse_server_name(name).is_err(), "{name}");
        }
        assert_eq!(parse_server_name("::1").unwrap(), ServerName::Address("::1".parse().unwrap()));
    }
}
