//! Recognises bearer tokens by their hashes.

use control::northbound::{Credentials, TokenRecord};
use sha2::{Digest as _, Sha256};
use sys::text::hex;

/// The longest token in bytes.
const LONGEST: usize = 512;

/// Finds the record of a token that is valid at `now_s`, in seconds since 1970. All records are compared, in constant time.
pub(crate) fn find<'a>(
    credentials: &'a Credentials,
    token: &str,
    now_s: u64,
    one_time: bool,
) -> Option<&'a TokenRecord> {
    if token.len() > LONGEST {
        return None;
    }
    let digest = hex(&Sha256::digest(token.as_bytes()));
    let mut found = None;
    for record in &credentials.tokens {
        let is_valid = record.expires.is_none_or(|at| now_s < at) && record.one_time == one_time;
        if same(digest.as_bytes(), record.sha256.as_bytes()) && is_valid {
            found = Some(record);
        }
    }
    found
}

/// Compares without a branch on the content.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use control::northbound::Role;

    use super::*;

    fn credentials() -> Credentials {
        let record = |id: &str, token: &str, expires, one_time| TokenRecord {
            id: id.into(),
            name: id.into(),
            role: Role::Viewer,
            sha256: hex(&Sha256::digest(token.as_bytes())),
            created: 0,
            expires,
            one_time,
        };
        let tokens = vec![
            record("a", "first", None, false),
            record("b", "second", Some(100), false),
            record("c", "third", Some(100), true),
        ];
        Credentials { tokens, ..Credentials::default() }
    }

    #[test]
    fn valid_tokens_are_found_until_they_expire() {
        let all = credentials();
        let find = |token: &str, now| find(&all, token, now, false).map(|it| it.id.as_str());
        assert_eq!(find("first", 1_000), Some("a"));
        assert_eq!(find("second", 99), Some("b"));
        assert_eq!(find("second", 100), None);
        for wrong in ["", "firs", "first ", "FIRST", &"x".repeat(100_000)] {
            assert_eq!(find(wrong, 0), None);
        }
    }

    #[test]
    fn one_time_tokens_are_no_bearer_tokens() {
        let all = credentials();
        assert!(find(&all, "third", 0, false).is_none());
        assert!(find(&all, "third", 0, true).is_some());
        assert!(find(&all, "first", 0, true).is_none());
    }
}
