//! The file with the users whose certificates were revoked: its format, and what reads it.
//!
//! A revocation outlives the loss of the file as long as somebody knows it: who replaces a list keeps those that the new one
//! lacks ([`keep_revoked`]).

use std::path::Path;

use control::northbound::RevokedUser;
use control::security::KeyPurpose;
use serde::{Deserialize, Serialize};

use super::{fault, is_missing, read_file};
use crate::error::StartError;

/// The file with the users whose certificates were revoked, beside the keys of the HTTP interface.
pub const REVOKED: &str = "revoked.json";

/// The version of that file's format.
const REVOKED_FORMAT: u32 = 1;

/// The most revoked users, so that they fit into one message together with the tokens.
pub const MOST_REVOKED: usize = 400;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RevokedFile {
    format: u32,
    users: Vec<RevokedUser>,
}

/// Reads the list of revoked users in `dir`, the directory of the keys of the HTTP interface. Without a file it is empty.
///
/// # Errors
/// [`StartError::Keys`]: the file cannot be read, is damaged, or others may change it.
pub fn read_revoked(dir: &Path) -> Result<Vec<RevokedUser>, StartError> {
    let path = dir.join(REVOKED);
    if is_missing(&path) {
        return Ok(Vec::new());
    }
    let text = read_file(&path, KeyPurpose::Users, false)?;
    let damaged = |why: String| {
        let hint = "put it back from a backup, or remove it and type `rosemary pki revoke-user NAME` for each revoked user";
        fault(&path, format!("it is damaged: {why}; {hint}"))
    };
    let file: RevokedFile =
        serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    if file.format != REVOKED_FORMAT {
        return Err(damaged(format!("its format is {}, not {REVOKED_FORMAT}", file.format)));
    }
    if file.users.len() > MOST_REVOKED {
        return Err(damaged(format!("it has more than {MOST_REVOKED} users")));
    }
    Ok(file.users)
}

/// Adds to `users` the revocations of `earlier` that it lacks, or has with an earlier time. Returns their names.
pub fn keep_revoked(users: &mut Vec<RevokedUser>, earlier: &[RevokedUser]) -> Vec<String> {
    let mut kept = Vec::new();
    for old in earlier {
        match users.iter_mut().find(|it| it.name == old.name) {
            Some(user) if user.before >= old.before => continue,
            Some(user) => user.before = old.before,
            None => users.push(old.clone()),
        }
        kept.push(old.name.clone());
    }
    kept
}

/// Writes a list of revoked users as [`read_revoked`] reads it.
///
/// # Errors
/// JSON cannot express it, which does not happen.
pub fn revoked_text(users: &[RevokedUser]) -> serde_json::Result<String> {
    let file = RevokedFile { format: REVOKED_FORMAT, users: users.to_vec() };
    Ok(serde_json::to_string_pretty(&file)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{keys, write};
    use super::*;

    #[test]
    fn lost_revocations_are_kept() {
        let revoked = |name: &str, before| RevokedUser { name: name.into(), before };
        let mut users = vec![revoked("alice", 3), revoked("carol", 9)];
        let earlier = [revoked("alice", 5), revoked("bob", 4), revoked("carol", 8)];
        assert_eq!(keep_revoked(&mut users, &earlier), ["alice", "bob"]);
        assert_eq!(users, [revoked("alice", 5), revoked("carol", 9), revoked("bob", 4)]);
        assert!(keep_revoked(&mut users, &earlier).is_empty());
    }

    #[test]
    fn revoked_users_are_read_and_a_damaged_list_is_refused() {
        let dir = keys();
        assert_eq!(read_revoked(dir.path()).unwrap(), []);
        let users = [RevokedUser { name: "alice".into(), before: 7 }];
        let path = dir.path().join(REVOKED);
        write(&path, revoked_text(&users).unwrap().as_bytes(), 0o600);
        assert_eq!(read_revoked(dir.path()).unwrap(), users);
        let user = RevokedUser { name: "a".repeat(64), before: u64::MAX };
        let too_many = revoked_text(&vec![user; MOST_REVOKED + 1]).unwrap();
        for damaged in ["", "{}", r#"{"format":2,"users":[]}"#, &too_many] {
            write(&path, damaged.as_bytes(), 0o600);
            let error = read_revoked(dir.path()).unwrap_err().to_string();
            assert!(error.contains("revoked.json") && error.contains("revoke-user"), "{error}");
        }
        write(&path, revoked_text(&users).unwrap().as_bytes(), 0o666);
        assert!(read_revoked(dir.path()).unwrap_err().to_string().contains("chmod go-w"));
    }
}
