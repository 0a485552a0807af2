//! Bounds what clients can use: connections, time, bytes, requests.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Open descriptors of the process: connections, and some for its own use.
pub(crate) const DESCRIPTORS: u64 = 4_096;

/// The most connections over TCP without TLS, except those for routes of apps.
pub(crate) const CONNECTIONS: usize = 1_750;

/// The most of these connections of one local user, or of one other machine.
pub(crate) const CONNECTIONS_OF_CLIENT: usize = 500;

/// The most connections for routes of apps. They are counted apart, so that clients of apps take no place of the API's.
pub(crate) const APP_CONNECTIONS: usize = 250;

/// The most of these connections of one local user, or of one other machine.
pub(crate) const APP_CONNECTIONS_OF_CLIENT: usize = 125;

/// The most connections for the routes of one app, so that clients of an app leave some to the others.
pub(crate) const CONNECTIONS_OF_APP: usize = 100;

/// The most connections over TLS.
pub(crate) const TLS_CONNECTIONS: usize = 1_500;

/// The most connections over TLS of one [`source`].
pub(crate) const TLS_PER_SOURCE: usize = 750;

/// The most connections over the Unix socket. They are counted apart, so that local operators always get in.
pub(crate) const UNIX_CONNECTIONS: usize = 256;

/// How long a client may take for the TLS handshake, for the head of a request, and for which a connection may be idle.
pub(crate) const HEAD_TIME: Duration = Duration::from_secs(10);

/// The most bytes that a client sends before its TLS handshake is complete: certificates of a few authorities, with long keys.
pub(crate) const HANDSHAKE_SIZE: usize = 32 << 10;

/// How long a request may take, with its body.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(60);

/// How long the upload of a package may take.
pub(crate) const UPLOAD_TIME: Duration = Duration::from_secs(300);

/// How long a client may accept no byte of an answer.
pub(crate) const WRITE_TIME: Duration = Duration::from_secs(20);

/// The most bytes of a request's head.
pub(crate) const HEAD_SIZE: usize = 16 << 10;

/// The most headers of a request.
pub(crate) const HEADERS: usize = 64;

/// The most bytes of a JSON body.
pub(crate) const BODY: usize = 256 << 10;

/// The most bytes of a configuration.
pub(crate) const CONFIG: usize = 1 << 20;

/// The most bytes of a package.
pub(crate) const PACKAGE: usize = 64 << 20;

/// The most uploads at once, as each is in memory.
pub(crate) const UPLOADS: usize = 2;

/// The most requests of one [`Payer`] per second over a longer time, and at once.
const REQUESTS: (f64, f64) = (500.0, 1_000.0);

/// The number of requests as which a failed authentication counts. Secrets have 256 random bits, so this is no defence of theirs: it
/// bounds the work that failures cause, and locks nobody out who shares the address.
const FAILURE: f64 = 10.0;

/// The most payers that are remembered.
const PAYERS: usize = 4_096;

/// The source of a client for limits: an IPv4 address, or an IPv6 network of 64 bits, which one machine commonly has.
pub(crate) fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX)).into()
        }
        address => address,
    }
}

/// A token bucket.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    /// Takes one token if there is one. Returns how long to wait otherwise.
    fn take(&mut self, (rate, most): (f64, f64), now: Instant) -> Result<(), Duration> {
        self.refill((rate, most), now);
        if self.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.left) / rate));
        }
        self.left -= 1.0;
        Ok(())
    }

    fn refill(&mut self, (rate, most): (f64, f64), now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * rate).min(most);
        self.at = now;
    }
}

/// Whose requests are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Payer {
    /// The clients at this [`source`].
    Source(IpAddr),
    /// The clients on this machine of this user; `None` for those whose user is not known.
    User(Option<u32>),
    /// The clients of the Unix socket.
    Unix,
    /// The clients of this app's routes. They come from this machine, as most clients of the API do, so their address must not
    /// pay: a flood for one app would keep others out of the API and of other apps.
    App(String),
    /// Clients of the address of apps' routes that name no app with routes.
    NoApp,
}

/// The rates of all payers.
#[derive(Debug, Default)]
pub(crate) struct Rates(HashMap<Payer, Bucket>);

impl Rates {
    /// Counts a request.
    ///
    /// # Errors
    /// There were too many. The error is the time after which to try again.
    pub(crate) fn admit(&mut self, payer: Payer, now: Instant) -> Result<(), Duration> {
        self.bucket(payer, now).take(REQUESTS, now)
    }

    /// Counts a failed authentication.
    pub(crate) fn failed(&mut self, payer: Payer, now: Instant) {
        let bucket = self.bucket(payer, now);
        bucket.left = (bucket.left - FAILURE).max(0.0);
    }

    fn bucket(&mut self, payer: Payer, now: Instant) -> &mut Bucket {
        if self.0.len() >= PAYERS && !self.0.contains_key(&payer) {
            // A payer whose bucket is full again is as good as unknown.
            let is_full = |it: &Bucket| {
                now.saturating_duration_since(it.at).as_secs_f64() * REQUESTS.0 >= REQUESTS.1
            };
            self.0.retain(|_, bucket| !is_full(bucket));
            if self.0.len() >= PAYERS {
                self.0.clear();
            }
        }
        self.0.entry(payer).or_insert(Bucket { left: REQUESTS.1, at: now })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_is_admitted_and_rate_is_bounded() {
        let (mut rates, now) = (Rates::default(), Instant::now());
        let source = |text: &str| Payer::Source(text.parse().unwrap());
        let one = source("192.0.2.1");
        let admitted = (0..2_000).filter(|_| rates.admit(one.clone(), now).is_ok()).count();
        assert_eq!(admitted, 1_000);
        let later = now + Duration::from_secs(1);
        assert_eq!((0..2_000).filter(|_| rates.admit(one.clone(), later).is_ok()).count(), 500);
        let users = [Payer::User(Some(0)), Payer::User(None)];
        let others = [source("192.0.2.2"), Payer::Unix, Payer::App("web".into()), Payer::NoApp];
        for other in others.into_iter().chain(users) {
            assert!(rates.admit(other.clone(), now).is_ok(), "{other:?}");
        }
    }

    #[test]
    fn failed_authentications_cost_more_and_lock_nobody_out() {
        let (mut rates, now) = (Rates::default(), Instant::now());
        let mut admitted = 0;
        while rates.admit(Payer::Unix, now).is_ok() {
            rates.failed(Payer::Unix, now);
            admitted += 1;
        }
        assert_eq!(admitted, 91);
        let wait = rates.admit(Payer::Unix, now).unwrap_err();
        assert!(wait < Duration::from_millis(100), "{wait:?}");
        assert!(rates.admit(Payer::Unix, now + wait).is_ok());
    }

    #[test]
    fn network_of_ipv6_is_one_source() {
        let source = |text: &str| source(text.parse().unwrap());
        assert_eq!(source("2001:db8::1"), source("2001:db8::2:3:4:5"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
    }

    #[test]
    fn many_addresses_take_bounded_memory() {
        let (mut rates, now) = (Rates::default(), Instant::now());
        for number in 0..20_000_u32 {
            let _ = rates.admit(Payer::Source(IpAddr::from(number.to_be_bytes())), now);
        }
        assert!(rates.0.len() <= PAYERS);
    }
}
