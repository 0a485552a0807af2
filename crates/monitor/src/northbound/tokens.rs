//! Keeps the tokens by which users of the HTTP interface are recognised.
//!
//! ```text
//! /var/lib/rosemary/tokens.json      0600; { "format": 1, "tokens": [ ... ] }: hashes, no secrets
//! ```
//!
//! The command that makes a token sends its hash; the monitor never has the secret. One-time tokens and the key of sessions live
//! in memory only, so a restart of Rosemary ends all sessions.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use control::northbound::{Credentials, TokenRecord};
use serde::{Deserialize, Serialize};
use sys::random::hex_digits;

use crate::error::StartError;
use crate::installation::read_file;

/// The file's name in the state directory.
const FILE: &str = "tokens.json";

/// Bytes of the key of sessions.
const SESSION_KEY: usize = 32;

/// The version of the file's format.
const FORMAT: u32 = 1;

/// The most bytes of the file.
const LONGEST: u64 = 1024 * 1024;

/// The most tokens, so that they fit into one message.
const MOST: usize = 200;

/// The most bytes of a token's name.
const LONGEST_NAME: usize = 64;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    format: u32,
    tokens: Vec<TokenRecord>,
}

/// The valid tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    dir: PathBuf,
    credentials: Credentials,
}

impl Tokens {
    /// Reads the file in the state directory `dir`, and makes a key for sessions.
    ///
    /// # Errors
    /// [`StartError::Path`]: it cannot be read, or is damaged; [`StartError::System`]: there are no random numbers.
    pub(crate) fn load(dir: &Path) -> Result<Self, StartError> {
        let path = dir.join(FILE);
        let tokens = match read_file(&path, LONGEST) {
            Ok(text) => serde_json::from_slice::<Content>(&text).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Content::default()),
            Err(error) => Err(error),
        };
        let hint = "put it back from a backup, or remove it and make new tokens with `rosemary token create`";
        let tokens = tokens.map_err(|source| StartError::Path { what: "read", path, hint, source });
        let session_key = hex_digits(SESSION_KEY);
        let session_key = session_key
            .map_err(|source| StartError::System { what: "read random numbers", source })?;
        let tokens = tokens?.tokens;
        let credentials = Credentials { tokens, session_key, revoked: Vec::new() };
        Ok(Self { dir: dir.to_owned(), credentials })
    }

    /// By what users are recognised now.
    pub(crate) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The tokens that the operator made and that have not expired.
    pub(crate) fn list(&self) -> Vec<TokenRecord> {
        let is_listed = |it: &&TokenRecord| !it.one_time && is_valid(it);
        self.credentials.tokens.iter().filter(is_listed).cloned().collect()
    }

    /// Adds a token.
    ///
    /// # Errors
    /// Why it is not added, as a phrase.
    pub(crate) fn add(&mut self, new: TokenRecord) -> Result<(), String> {
        let is_digits = |text: &str| text.bytes().all(|it| it.is_ascii_hexdigit());
        if new.sha256.len() != 64 || !is_digits(&new.sha256) || !is_digits(&new.id) {
            return Err("the token's record is malformed".into());
        }
        if new.name.len() > LONGEST_NAME {
            return Err(format!("the name of a token has at most {LONGEST_NAME} bytes"));
        }
        if let Some(found) = new.name.chars().find(|it| it.is_control()) {
            return Err(format!(
                "the name of a token has no control characters, and this one has {found:?}"
            ));
        }
        let tokens = &mut self.credentials.tokens;
        tokens.retain(is_valid);
        if tokens.iter().any(|it| it.id == new.id || it.sha256 == new.sha256) {
            return Err("there is such a token already".into());
        }
        if tokens.len() >= MOST {
            return Err(format!(
                "there are {MOST} tokens; revoke some with `rosemary token revoke`"
            ));
        }
        tokens.push(new);
        self.store().inspect_err(|_| {
            self.credentials.tokens.pop();
        })
    }

    /// Removes tokens, by an identifier or a name. Returns them.
    ///
    /// # Errors
    /// Why it is not removed, as a phrase.
    pub(crate) fn revoke(&mut self, which: &str) -> Result<Vec<TokenRecord>, String> {
        let before = self.credentials.tokens.clone();
        let is_it = |it: &TokenRecord| it.id == which || it.name == which;
        self.credentials.tokens.retain(|it| !is_it(it));
        let removed: Vec<_> = before.iter().filter(|it| is_it(it)).cloned().collect();
        if !removed.is_empty()
            && let Err(why) = self.store()
        {
            self.credentials.tokens = before;
            return Err(why);
        }
        Ok(removed)
    }

    /// Forgets a one-time token that was used.
    pub(crate) fn used(&mut self, id: &str) {
        self.credentials.tokens.retain(|it| it.id != id || !it.one_time);
    }

    fn store(&self) -> Result<(), String> {
        self.write().map_err(|error| {
            format!("{FILE} in the state directory cannot be written: {error}; make room there")
        })
    }

    fn write(&self) -> io::Result<()> {
        let tokens = self.credentials.tokens.iter().filter(|it| !it.one_time).cloned().collect();
        let new = self.dir.join(format!("{FILE}.new"));
        let _ = std::fs::remove_file(&new); // a killed instance may have left it
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec_pretty(&Content { format: FORMAT, tokens })?)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        std::fs::rename(&new, self.dir.join(FILE))?;
        File::open(&self.dir)?.sync_all()
    }
}

fn is_valid(token: &TokenRecord) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    token.expires.is_none_or(|at| now < at)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use control::northbound::{RevokedUser, Role};

    use super::*;

    fn token(id: &str, name: &str) -> TokenRecord {
        TokenRecord {
            id: id.into(),
            name: name.into(),
            role: Role::Viewer,
            sha256: format!("{id:0>64}"),
            created: 1,
            expires: None,
            one_time: false,
        }
    }

    #[test]
    fn tokens_outlive_the_monitor_and_one_time_tokens_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut tokens = Tokens::load(dir.path()).unwrap();
        tokens.add(token("a1", "ci")).unwrap();
        tokens.add(TokenRecord { one_time: true, ..token("b2", "page") }).unwrap();
        assert_eq!(tokens.credentials().tokens.len(), 2);
        assert_eq!(tokens.list(), [token("a1", "ci")]);
        let mode = std::fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let later = Tokens::load(dir.path()).unwrap();
        assert_eq!(later.credentials().tokens, [token("a1", "ci")]);
        assert_ne!(later.credentials().session_key, tokens.credentials().session_key);
    }

    #[test]
    fn all_credentials_fit_into_one_message() {
        let token = |number: usize| TokenRecord {
            expires: Some(u64::MAX),
            ..token(&format!("{number:08x}"), &"\"".repeat(LONGEST_NAME))
        };
        let user = RevokedUser { name: "a".repeat(64), before: u64::MAX };
        let credentials = Credentials {
            tokens: (0..MOST).map(token).collect(),
            session_key: "0".repeat(64),
            revoked: vec![user; crate::keys::MOST_REVOKED],
        };
        let size = serde_json::to_vec(&credentials).unwrap().len();
        assert!(size < sys::channel::MAX_MESSAGE * 9 / 10, "{size} bytes");
    }

    #[test]
    fn tokens_are_revoked_by_name_or_identifier() {
        let dir = tempfile::tempdir().unwrap();
        let mut tokens = Tokens::load(dir.path()).unwrap();
        for id in ["a1", "b2", "c3"] {
            tokens.add(token(id, if id == "a1" { "one" } else { "two" })).unwrap();
        }
        assert_eq!(tokens.revoke("a1"), Ok(vec![token("a1", "one")]));
        assert_eq!(tokens.revoke("two"), Ok(vec![token("b2", "two"), token("c3", "two")]));
        assert_eq!(tokens.revoke("two"), Ok(Vec::new()));
        assert!(Tokens::load(dir.path()).unwrap().list().is_empty());
    }

    #[test]
    fn malformed_doubled_and_expired_tokens_are_no_tokens() {
        let dir = tempfile::tempdir().unwrap();
        let mut tokens = Tokens::load(dir.path()).unwrap();
        assert!(tokens.add(TokenRecord { sha256: "x".repeat(64), ..token("a1", "n") }).is_err());
        assert!(tokens.add(token("a1", &"n".repeat(65))).is_err());
        assert!(tokens.add(token("a1", "a\nb")).is_err());
        tokens.add(token("a1", "n")).unwrap();
        assert!(tokens.add(token("a1", "n")).is_err());
        tokens.add(TokenRecord { expires: Some(1), ..token("b2", "old") }).unwrap();
        assert_eq!(tokens.list().len(), 1);
        std::fs::write(dir.path().join(FILE), "damaged").unwrap();
        assert!(
            Tokens::load(dir.path()).unwrap_err().to_string().contains("rosemary token create")
        );
    }
}
