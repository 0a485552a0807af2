//! Names the user for whom the HTTP interface sends a request to a service, for audit records.
//!
//! ```text
//! request of the HTTP interface    254 u8 | size u8 | the user, UTF-8 | the request
//! ```
//!
//! The monitor names the clients of a provider: `northbound` is the HTTP interface, which has authenticated its users. A request of
//! any other client is taken as it is.

/// The name of the HTTP interface as a client that is no app.
pub const HTTP_INTERFACE: &str = "northbound";

/// The first byte of a request that names a user. No service has a request of this number.
const MARK: u8 = 254;

/// Puts the user before a request of the HTTP interface. At most 255 bytes of the name are kept.
pub fn for_user(user: &str, request: &[u8]) -> Vec<u8> {
    let most = user.len().min(u8::MAX.into());
    let user = &user[..(0..=most).rev().find(|at| user.is_char_boundary(*at)).unwrap_or(0)];
    let size = u8::try_from(user.len()).unwrap_or(u8::MAX);
    [&[MARK, size][..], user.as_bytes(), request].concat()
}

/// Returns who requests something, and the request. `client` is the name of a client that is no app.
pub fn requester<'n, 'b: 'n>(client: &'n str, body: &'b [u8]) -> (&'n str, &'b [u8]) {
    let named = || {
        let [MARK, size, rest @ ..] = body else { return None };
        let (user, request) = rest.split_at_checked(usize::from(*size))?;
        Some((std::str::from_utf8(user).ok()?, request))
    };
    let named = if client == HTTP_INTERFACE { named() } else { None };
    named.unwrap_or((client, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_http_interface_names_users() {
        let body = for_user("token ci", &[3]);
        assert_eq!(requester(HTTP_INTERFACE, &body), ("token ci", &[3][..]));
        assert_eq!(requester("user 1000", &body), ("user 1000", &body[..]));
        assert_eq!(requester(HTTP_INTERFACE, &[3]), (HTTP_INTERFACE, &[3][..]));
    }

    #[test]
    fn long_names_are_cut_and_malformed_ones_ignored() {
        let body = for_user(&"ä".repeat(200), &[3]);
        assert_eq!(requester(HTTP_INTERFACE, &body), ("ä".repeat(127).as_str(), &[3][..]));
        for body in [&[MARK][..], &[MARK, 9, 1], &[MARK, 1, 0xff, 3]] {
            assert_eq!(requester(HTTP_INTERFACE, body), (HTTP_INTERFACE, body));
        }
    }
}
