//! Sessions: short-lived tokens for the page, signed with a key that the monitor keeps.
//!
//! ```text
//! rss1.ROLE.EXPIRES.ID.SIGNATURE      the signature (HMAC-SHA-256, hexadecimal digits) is of all before it
//! ```
//!
//! No list of sessions exists, so sessions outlive a restart of this process. The list of ended ones does not: a session that a user
//! ended is valid again after such a restart, until it expires.

use std::collections::BTreeMap;
use std::sync::Mutex;

use control::northbound::Role;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use sys::text::hex;

use crate::state::lock;

/// How long a session lasts, in seconds.
pub(crate) const LIFETIME_S: u64 = 12 * 3600;

/// The most ended sessions that are remembered.
const MOST_ENDED: usize = 4_096;

/// The prefix of sessions.
const PREFIX: &str = "rss1";

/// The sessions that users have ended, with the times at which they would have expired.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<BTreeMap<String, u64>>);

/// A valid session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) role: Role,
    /// In seconds since 1970.
    pub(crate) expires: u64,
}

impl Session {
    /// Makes the token of this session.
    pub(crate) fn token(&self, key: &str) -> Option<String> {
        let Self { id, role, expires } = self;
        let head = format!("{PREFIX}.{role}.{expires}.{id}");
        let signature = hex(&mac(key, &head)?.finalize().into_bytes());
        Some(format!("{head}.{signature}"))
    }
}

impl Sessions {
    /// Returns the session of a token, if it is valid at `now_s`.
    pub(crate) fn find(&self, token: &str, key: &str, now_s: u64) -> Option<Session> {
        let (head, signature) = token.rsplit_once('.')?;
        mac(key, head)?.verify_slice(&bytes(signature)?).ok()?;
        let mut parts = head.split('.');
        let (prefix, role) = (parts.next()?, parts.next()?.parse().ok()?);
        let (expires, id) = (parts.next()?.parse().ok()?, parts.next()?.to_owned());
        let is_valid = prefix == PREFIX && parts.next().is_none() && now_s < expires;
        (is_valid && !lock(&self.0).contains_key(&id)).then_some(Session { id, role, expires })
    }

    /// Whether a token has the form of a session's.
    pub(crate) fn is_one(token: &str) -> bool {
        token.starts_with(PREFIX)
    }

    /// Ends a session.
    pub(crate) fn end(&self, id: &str, now_s: u64) {
        let mut ended = lock(&self.0);
        ended.retain(|_, expires| now_s < *expires);
        if ended.len() >= MOST_ENDED {
            ended.pop_first();
        }
        ended.insert(id.to_owned(), now_s + LIFETIME_S);
    }
}

/// Starts a signature. `None` without a key, with which no session is valid.
fn mac(key: &str, text: &str) -> Option<Hmac<Sha256>> {
    if key.len() < 64 {
        return None;
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).ok()?;
    mac.update(text.as_bytes());
    Some(mac)
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    if !digits.is_ascii() {
        return None;
    }
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn session_is_valid_until_it_expires_or_is_ended() {
        let sessions = Sessions::default();
        let session = Session { id: "7".into(), role: Role::Admin, expires: 100 };
        let token = session.token(KEY).unwrap();
        assert_eq!(sessions.find(&token, KEY, 99), Some(session));
        assert_eq!(sessions.find(&token, KEY, 100), None);
        sessions.end("7", 1);
        assert_eq!(sessions.find(&token, KEY, 99), None);
    }

    #[test]
    fn forged_sessions_are_refused() {
        let sessions = Sessions::default();
        let session = Session { id: "7".into(), role: Role::Viewer, expires: 100 };
        let token = session.token(KEY).unwrap();
        for forged in [
            token.replace("viewer", "admin"),
            token.replace(".100.", ".999."),
            token.replace(".7.", ".8."),
            format!("{token}0"),
            token[..token.len() - 2].to_owned(),
            token.replace("rss1", "rss2"),
            String::new(),
            "rss1.admin.999.7.".into(),
            "rss1.admin.999.7.é".into(),
        ] {
            assert_eq!(sessions.find(&forged, KEY, 0), None, "{forged}");
        }
        assert_eq!(sessions.find(&token, &KEY.replace('0', "1"), 0), None);
        assert_eq!(session.token(""), None);
        assert_eq!(sessions.find(&token, "", 0), None);
    }
}
