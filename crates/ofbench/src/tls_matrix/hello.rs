//! Makes and reads the hello messages of TLS without a TLS library, so that old versions and suites can be probed as well.
//!
//! ```text
//! record:       type 22 | version (2) | length (2) | handshake
//! handshake:    type 1 or 2 | length (3) | version (2) | random (32) | session id (1 + n) | ...
//! client hello: ... | suites (2 + n) | compressions (1 + n) | extensions (2 + n)
//! server hello: ... | suite (2) | compression (1) | extensions (2 + n)
//! ```
//!
//! RFC 8446 §4.1 and RFC 5246 §7.4.1. A key share of random bytes is a valid point of X25519, so a server of TLS 1.3 can
//! answer; the handshake is not continued.

/// A version of TLS by its number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WireVersion(pub(super) u16);

impl WireVersion {
    /// The versions that are probed.
    pub(super) const ALL: [Self; 4] = [Self(0x0301), Self(0x0302), Self(0x0303), Self(0x0304)];
    const TLS_1_3: Self = Self(0x0304);

    /// Returns its name.
    pub(super) fn name(self) -> &'static str {
        match self.0 {
            0x0301 => "TLS 1.0",
            0x0302 => "TLS 1.1",
            0x0303 => "TLS 1.2",
            0x0304 => "TLS 1.3",
            _ => "another version",
        }
    }
}

/// A cipher suite: its number and its name in the registry of the IANA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Suite(pub(super) u16, pub(super) &'static str);

/// The suites of TLS 1.3.
pub(super) const SUITES_1_3: [Suite; 3] = [
    Suite(0x1301, "TLS_AES_128_GCM_SHA256"),
    Suite(0x1302, "TLS_AES_256_GCM_SHA384"),
    Suite(0x1303, "TLS_CHACHA20_POLY1305_SHA256"),
];

/// Suites of TLS 1.2 and before, from the usual ones to those that no one should accept.
pub(super) const SUITES_1_2: [Suite; 12] = [
    Suite(0xc02b, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    Suite(0xc02c, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    Suite(0xcca9, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    Suite(0xc02f, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    Suite(0xc030, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    Suite(0xcca8, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    Suite(0xc009, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
    Suite(0xc013, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    Suite(0x009c, "TLS_RSA_WITH_AES_128_GCM_SHA256"),
    Suite(0x002f, "TLS_RSA_WITH_AES_128_CBC_SHA"),
    Suite(0x000a, "TLS_RSA_WITH_3DES_EDE_CBC_SHA"),
    Suite(0x0005, "TLS_RSA_WITH_RC4_128_SHA"),
];

/// Returns the suites that exist in a version. CBC and RC4 are the only ones before TLS 1.2.
pub(super) fn suites_of(version: WireVersion) -> Vec<Suite> {
    match version.0 {
        0x0304 => SUITES_1_3.to_vec(),
        0x0303 => SUITES_1_2.to_vec(),
        _ => SUITES_1_2.into_iter().filter(|suite| suite.1.ends_with("_SHA")).collect(),
    }
}

/// Returns the name of a suite, or its number.
pub(super) fn suite_name(number: u16) -> String {
    let known = SUITES_1_3.iter().chain(&SUITES_1_2).find(|suite| suite.0 == number);
    known.map_or_else(|| format!("{number:#06x}"), |suite| suite.1.to_owned())
}

/// Makes the record of a client hello that offers one version and one suite.
pub(super) fn client_hello(version: WireVersion, suite: Suite, random: [u8; 32]) -> Vec<u8> {
    let is_1_3 = version == WireVersion::TLS_1_3;
    let legacy = if is_1_3 { 0x0303 } else { version.0 };
    let mut extensions = Vec::new();
    // Groups: X25519, P-256, P-384. Schemes: ECDSA, Ed25519, RSA-PSS, RSA and the old ones with SHA-1.
    extension(&mut extensions, 10, &list(&[0x001d, 0x0017, 0x0018]));
    extension(&mut extensions, 11, &[1, 0]);
    if version.0 >= 0x0303 {
        let schemes = [
            0x0403, 0x0503, 0x0603, 0x0807, 0x0804, 0x0805, 0x0806, 0x0401, 0x0501, 0x0203, 0x0201,
        ];
        extension(&mut extensions, 13, &list(&schemes));
    }
    if is_1_3 {
        extension(&mut extensions, 43, &[2, 0x03, 0x04]);
        let mut share = vec![0, 36, 0, 0x1d, 0, 32];
        share.extend(random);
        extension(&mut extensions, 51, &share);
    }
    let mut body = legacy.to_be_bytes().to_vec();
    body.extend(random);
    body.push(32);
    body.extend(random);
    body.extend(list(&[suite.0]));
    body.extend([1, 0]);
    body.extend(size(&extensions));
    body.extend(extensions);
    let mut handshake = vec![1, 0];
    handshake.extend(size(&body));
    handshake.extend(body);
    let mut record = vec![22, 3, 1];
    record.extend(size(&handshake));
    record.extend(handshake);
    record
}

fn size(bytes: &[u8]) -> [u8; 2] {
    u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes()
}

/// Returns a list of numbers behind its size in bytes.
fn list(numbers: &[u16]) -> Vec<u8> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    [&size(&bytes)[..], &bytes].concat()
}

fn extension(to: &mut Vec<u8>, kind: u16, data: &[u8]) {
    to.extend(kind.to_be_bytes());
    to.extend(size(data));
    to.extend(data);
}

/// A server's answer to a client hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerAnswer {
    /// It chose this version and suite.
    Hello(WireVersion, u16),
    /// It refused with this alert.
    Alert(u8),
    /// It sent something else.
    Other,
}

/// Reads the first record of a server; `None` if it is incomplete.
pub(super) fn server_answer(bytes: &[u8]) -> Option<ServerAnswer> {
    let (kind, body) = record(bytes)?;
    if kind == 21 {
        return Some(body.get(1).map_or(ServerAnswer::Other, |alert| ServerAnswer::Alert(*alert)));
    }
    if kind != 22 || body.first() != Some(&2) {
        return Some(ServerAnswer::Other);
    }
    Some(
        server_hello(body)
            .map_or(ServerAnswer::Other, |(version, suite)| ServerAnswer::Hello(version, suite)),
    )
}

fn server_hello(handshake: &[u8]) -> Option<(WireVersion, u16)> {
    let mut rest = Reader(handshake);
    rest.take(4)?;
    let legacy = rest.number()?;
    rest.take(32)?;
    rest.short_vector()?;
    let suite = rest.number()?;
    rest.take(1)?;
    let mut version = legacy;
    if let Some(all) = rest.vector() {
        for (kind, data) in extensions(all) {
            if kind == 43
                && let Some(chosen) = data.first_chunk()
            {
                version = u16::from_be_bytes(*chosen);
            }
        }
    }
    Some((WireVersion(version), suite))
}

/// The contents of a client hello.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Offer {
    pub(super) versions: Vec<u16>,
    pub(super) suites: Vec<u16>,
    pub(super) groups: Vec<u16>,
    pub(super) schemes: Vec<u16>,
    /// Whether it has a session to resume (TLS 1.3), or asks for a ticket.
    pub(super) resumes: bool,
}

/// Reads a client hello; `None` if it is incomplete or something else.
pub(super) fn offer(bytes: &[u8]) -> Option<Offer> {
    let (22, handshake) = record(bytes)? else { return None };
    if handshake.first() != Some(&1) {
        return None;
    }
    let mut rest = Reader(handshake);
    rest.take(4)?;
    let legacy = rest.number()?;
    rest.take(32)?;
    rest.short_vector()?;
    let mut offer = Offer { suites: numbers(rest.vector()?), ..Offer::default() };
    rest.short_vector()?;
    for (kind, data) in extensions(rest.vector().unwrap_or_default()) {
        match kind {
            10 => offer.groups = numbers(data.get(2..).unwrap_or_default()),
            13 => offer.schemes = numbers(data.get(2..).unwrap_or_default()),
            35 | 41 => offer.resumes = true,
            43 => offer.versions = numbers(data.get(1..).unwrap_or_default()),
            _ => {}
        }
    }
    if offer.versions.is_empty() {
        // Before TLS 1.3 a client names the highest version alone.
        offer.versions.push(legacy);
    }
    Some(offer)
}

fn record(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<5>()?;
    let size = usize::from(u16::from_be_bytes([head[3], head[4]]));
    // The hello is at the start of the record; a certificate may follow it.
    let body = rest.get(..size).or((rest.len() > 512).then_some(rest))?;
    Some((head[0], body))
}

fn numbers(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect()
}

fn extensions(all: &[u8]) -> Vec<(u16, &[u8])> {
    let (mut rest, mut found) = (Reader(all), Vec::new());
    while let Some((kind, data)) = rest.number().and_then(|kind| Some((kind, rest.vector()?))) {
        found.push((kind, data));
    }
    found
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        self.take(2)?.first_chunk().copied().map(u16::from_be_bytes)
    }

    fn vector(&mut self) -> Option<&'a [u8]> {
        let size = self.number()?;
        self.take(size.into())
    }

    fn short_vector(&mut self) -> Option<&'a [u8]> {
        let size = *self.take(1)?.first()?;
        self.take(size.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_hello_is_read_back() {
        for version in WireVersion::ALL {
            for suite in suites_of(version) {
                let offer = offer(&client_hello(version, suite, [9; 32])).unwrap();
                assert_eq!((offer.versions, offer.suites), (vec![version.0], vec![suite.0]));
                assert_eq!(offer.groups, [0x1d, 0x17, 0x18]);
            }
        }
    }

    #[test]
    fn server_answers_are_read() {
        let mut hello = vec![22, 3, 3, 0, 50, 2, 0, 0, 46, 3, 3];
        hello.extend([7; 32]);
        hello.extend([0, 0x13, 0x01, 0, 0, 6, 0, 43, 0, 2, 3, 4]);
        assert_eq!(hello.len(), 55);
        assert_eq!(server_answer(&hello), Some(ServerAnswer::Hello(WireVersion(0x0304), 0x1301)));
        assert_eq!(server_answer(&[21, 3, 3, 0, 2, 2, 70]), Some(ServerAnswer::Alert(70)));
        assert_eq!(server_answer(b"HTTP/1.1 400 Bad"), None);
        assert_eq!(server_answer(&[4, 0, 0, 0, 0]), Some(ServerAnswer::Other));
    }

    #[test]
    fn every_beginning_is_read_without_a_panic() {
        let hello = client_hello(WireVersion(0x0304), SUITES_1_3[0], [1; 32]);
        for size in 0..hello.len() {
            let _ = (offer(&hello[..size]), server_answer(&hello[..size]));
            let mut broken = hello.clone();
            broken[size] ^= 0xff;
            let _ = (offer(&broken), server_answer(&broken));
        }
    }
}
