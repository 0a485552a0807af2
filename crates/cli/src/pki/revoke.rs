//! `rosemary pki revoke-user`: makes the certificates of one user of the HTTP interface invalid.
//!
//! ```text
//! api/revoked.json    { "format": 1, "users": [{ "name": "alice", "before": 1795735200 }] }
//! ```
//!
//! The list has names and times instead of certificates: it covers those whose files were replaced or deleted here, and a later
//! certificate of the same user is valid. A running Rosemary reads the list again at once.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use clap::Args;
use config::instance::InstancePaths;
use control::northbound::RevokedUser;
use monitor::keys::{API_DIR, MOST_REVOKED, REVOKED, read_revoked, revoked_text};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use super::api::{USERS, parse_user};
use super::files::{self, New};
use super::{KeyDir, json};
use crate::client::{self, ConnectError};
use crate::say;

pub(super) const HELP: &str = "\
All certificates that the user has until now are revoked, also those that `rosemary pki user NAME --force` has replaced. Open connections \
and streams of events end with them. Then `rosemary pki user NAME --role ROLE --force` makes a valid one.

The list is api/revoked.json in the directory of the keys. Without a running Rosemary it takes effect at the next start.

Exit codes: 0 done; 1 the list cannot be changed, or a running Rosemary has not read it; 2 wrong usage.";

/// Options of `rosemary pki revoke-user`.
#[derive(Debug, Clone, Args)]
pub(super) struct RevokeArgs {
    /// Name of the user, as for `rosemary pki user`
    #[arg(value_name = "NAME", value_parser = parse_user)]
    name: String,
    #[command(flatten)]
    dir: KeyDir,
    #[command(flatten)]
    instance: InstancePaths,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The JSON output; a stable interface.
#[derive(Debug, Serialize)]
struct RevokedNow<'a> {
    name: &'a str,
    /// In seconds since 1970.
    before: u64,
    file: PathBuf,
    in_effect: bool,
}

/// Runs the command.
///
/// # Errors
/// The list cannot be changed, or a running Rosemary has not read it.
pub(super) fn revoke(args: &RevokeArgs) -> anyhow::Result<()> {
    let RevokeArgs { name, dir, instance, json: wants_json } = args;
    let pki = dir.resolve(instance.config.as_deref())?;
    let api = pki.join(API_DIR);
    if !api.is_dir() {
        let api = api.display();
        bail!(
            "{api} is missing, so no user has a certificate; name the directory of the keys with --dir"
        );
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let before = add(&api, name, now)?;
    let file = api.join(REVOKED);
    if !pki.join(USERS).join(name).exists() {
        let users = pki.join(USERS);
        say::note(format_args!("{} has no files of {name}; is the name right?", users.display()));
    }
    let in_effect = inform(instance, &api, name, before).with_context(|| {
        format!("{} names {name} now, and a running Rosemary still accepts the certificates of {name}; type the command again, or start Rosemary again", file.display())
    })?;
    say::note(format_args!(
        "revoked all certificates that {name} has until now, in {}",
        file.display()
    ));
    if *wants_json {
        return json(&RevokedNow { name, before, file, in_effect });
    }
    Ok(())
}

/// Adds a user to the list in `dir`. Returns the time before which the revoked certificates begin, which is later than that of each
/// earlier revocation.
fn add(dir: &Path, name: &str, now: u64) -> anyhow::Result<u64> {
    // Another command at the same time would overwrite this revocation.
    let lock = File::open(dir).with_context(|| format!("cannot open {}", dir.display()))?;
    flock(&lock, FlockOperation::LockExclusive)
        .with_context(|| format!("cannot lock {}", dir.display()))?;
    let mut users = read_revoked(dir)?;
    let earlier = users.iter().find(|it| it.name == name).map_or(0, |it| it.before);
    let before = now.max(earlier.saturating_add(1));
    users.retain(|it| it.name != name);
    let path = dir.join(REVOKED);
    if users.len() >= MOST_REVOKED {
        bail!(
            "{} has {MOST_REVOKED} users; remove those whose certificates have all expired",
            path.display()
        );
    }
    users.push(RevokedUser { name: name.to_owned(), before });
    let content = revoked_text(&users).context("cannot write JSON")?;
    files::write(&[New { path, content: &content, secret: true }], true, "")?;
    Ok(before)
}

/// Has a running Rosemary read the list in `dir` again. Returns whether one has done so.
fn inform(paths: &InstancePaths, dir: &Path, name: &str, before: u64) -> anyhow::Result<bool> {
    let monitor = match client::connect(paths) {
        Ok(monitor) => monitor,
        Err(ConnectError::NotRunning(_)) => {
            say::note("Rosemary does not run here; this takes effect at its next start");
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    };
    match monitor.revoke_user(name)? {
        (_, Some(known)) if known >= before => Ok(true),
        (Some(other), _) => bail!(
            "it uses the keys in {}, and the list is in {}; name its directory with --dir",
            other.parent().unwrap_or(&other).display(),
            dir.display()
        ),
        (None, _) => {
            say::note(
                "the running Rosemary accepts no certificates of users; this takes effect at a start that does",
            );
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The user `name` of the keys in `parent`, where no Rosemary runs.
    fn args(parent: &Path, name: &str) -> RevokeArgs {
        let dir = KeyDir { dir: Some(parent.to_owned()) };
        let instance = InstancePaths { runtime_dir: Some("/nowhere".into()), config: None };
        RevokeArgs { name: name.into(), dir, instance, json: false }
    }

    #[test]
    fn each_revocation_is_later_than_the_one_before() {
        let parent = tempfile::tempdir().unwrap();
        let api = parent.path().join(API_DIR);
        let error = revoke(&args(parent.path(), "alice")).unwrap_err().to_string();
        assert!(error.contains("--dir"), "{error}");
        files::make_dir(&api).unwrap();
        revoke(&args(parent.path(), "alice")).unwrap();
        revoke(&args(parent.path(), "bob")).unwrap();
        let first = read_revoked(&api).unwrap();
        assert_eq!(first.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["alice", "bob"]);
        // In the same second, or with a clock that was set back.
        assert_eq!(add(&api, "alice", 0).unwrap(), first[0].before + 1);
        let second = read_revoked(&api).unwrap();
        assert_eq!(second.len(), 2);
        assert_eq!(second[0], first[1]);
    }

    #[test]
    fn full_list_is_an_error() {
        let parent = tempfile::tempdir().unwrap();
        files::make_dir(&parent.path().join(API_DIR)).unwrap();
        let api = parent.path().join(API_DIR);
        let user = |number| RevokedUser { name: format!("u{number}"), before: 1 };
        let full: Vec<_> = (0..MOST_REVOKED).map(user).collect();
        std::fs::write(api.join(REVOKED), revoked_text(&full).unwrap()).unwrap();
        add(&api, "u7", 2).unwrap();
        let error = add(&api, "another", 2).unwrap_err().to_string();
        assert!(error.contains("remove those"), "{error}");
    }
}
