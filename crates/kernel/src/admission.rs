//! Who is being let in: the connections that are not switches yet, and when one gives way.
//!
//! Anybody who reaches the port can open connections and say nothing, or begin handshakes and not
//! end them. So their number is bounded, for each source and in all. Where a bound is reached the
//! newcomer is not turned away, as it may be the one real switch among a thousand: instead that
//! connection gives way which has come least far ([`Progress`]), and among those the oldest. Silence
//! therefore never keeps out who speaks, and nobody without a certificate keeps out who showed
//! one.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};

/// Unfinished handshakes of one source: an IPv4 address, or an IPv6 network of 64 bits, which is what
/// one machine commonly has.
const PER_SOURCE: usize = 256;

/// Unfinished handshakes from this machine, where Mininet starts a thousand switches at once.
const LOOPBACK: usize = 1024;

/// Unfinished handshakes in all. With what each may make us keep (a TLS handshake of 32 KiB) this
/// bounds the memory of strangers to about 100 MiB.
const IN_ALL: usize = 2048;

/// How far a handshake has come; less gives way to more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// Nothing was received.
    Silent,
    /// It has said something.
    Spoke,
    /// Its certificate was verified.
    Proven,
}

/// Among the handshakes of the same progress the earlier comes first.
type Place = (Progress, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Source(IpAddr);

impl Source {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                let network = u128::from(address) & !u128::from(u64::MAX);
                Self(Ipv6Addr::from(network).into())
            }
            address => Self(address),
        }
    }

    fn limit(self) -> usize {
        if self.0.is_loopback() { LOOPBACK } else { PER_SOURCE }
    }
}

/// The connections of one worker that are not switches yet, by their keys.
#[derive(Debug)]
pub(crate) struct Admission {
    /// How many workers share the bounds.
    workers: usize,
    sources: HashMap<Source, BTreeSet<(Place, usize)>>,
    all: BTreeSet<(Place, usize)>,
    next: u64,
}

/// A connection's place at admission, to be given back.
#[derive(Debug)]
pub(crate) struct AdmissionTicket {
    source: Source,
    place: Place,
    key: usize,
}

impl Admission {
    /// One of so many workers, whose bounds together are those above.
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers, sources: HashMap::new(), all: BTreeSet::new(), next: 0 }
    }

    /// Which connection must give way before another one from `address` comes in, if any.
    pub(crate) fn who_gives_way(&self, address: IpAddr) -> Option<usize> {
        let source = Source::of(address);
        let of_source =
            self.sources.get(&source).filter(|it| it.len() >= source.limit() / self.workers);
        let of_all = Some(&self.all).filter(|it| it.len() >= IN_ALL / self.workers);
        of_source.or(of_all)?.first().map(|(_, key)| *key)
    }

    /// Lets connection `key` from `address` in.
    pub(crate) fn enter(&mut self, address: IpAddr, key: usize) -> AdmissionTicket {
        let ticket = AdmissionTicket {
            source: Source::of(address),
            place: (Progress::Silent, self.next),
            key,
        };
        self.next += 1;
        self.insert(&ticket);
        ticket
    }

    /// The connection of `ticket` has come further.
    pub(crate) fn advance(&mut self, ticket: &mut AdmissionTicket, progress: Progress) {
        if progress > ticket.place.0 {
            self.remove(ticket);
            ticket.place.0 = progress;
            self.insert(ticket);
        }
    }

    /// The connection of `ticket` is a switch, or closed.
    pub(crate) fn leave(&mut self, ticket: &AdmissionTicket) {
        self.remove(ticket);
    }

    fn insert(&mut self, AdmissionTicket { source, place, key }: &AdmissionTicket) {
        self.all.insert((*place, *key));
        self.sources.entry(*source).or_default().insert((*place, *key));
    }

    fn remove(&mut self, AdmissionTicket { source, place, key }: &AdmissionTicket) {
        self.all.remove(&(*place, *key));
        if let Some(of_source) = self.sources.get_mut(source) {
            of_source.remove(&(*place, *key));
            if of_source.is_empty() {
                self.sources.remove(source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn switch_that_spoke_outlasts_any_number_of_silent_connections() {
        let mut admission = Admission::new(1);
        let home = address("127.0.0.1");
        let mut switch = admission.enter(home, 0);
        admission.advance(&mut switch, Progress::Spoke);
        let mut inside = Vec::new();
        for key in 1..5_000 {
            if let Some(gone) = admission.who_gives_way(home) {
                assert_ne!(gone, 0);
                let place = inside.iter().position(|it: &AdmissionTicket| it.key == gone).unwrap();
                admission.leave(&inside.remove(place));
            }
            inside.push(admission.enter(home, key));
            assert!(admission.all.len() <= LOOPBACK);
        }
    }

    #[test]
    fn oldest_gives_way_among_those_that_have_come_equally_far() {
        let mut admission = Admission::new(1);
        let there = address("192.0.2.1");
        let mut tickets: Vec<_> = (0..PER_SOURCE).map(|key| admission.enter(there, key)).collect();
        assert_eq!(admission.who_gives_way(there), Some(0));
        admission.advance(&mut tickets[0], Progress::Proven);
        assert_eq!(admission.who_gives_way(there), Some(1));
        assert_eq!(admission.who_gives_way(address("192.0.2.2")), None, "others are not concerned");
        admission.leave(&tickets[1]);
        assert_eq!(admission.who_gives_way(there), None);
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_source() {
        let mut admission = Admission::new(1);
        for key in 0..PER_SOURCE {
            admission.enter(address(&format!("2001:db8::{key:x}")), key);
        }
        assert_eq!(admission.who_gives_way(address("2001:db8::ffff:1")), Some(0));
        assert_eq!(admission.who_gives_way(address("2001:db8:0:1::1")), None);
        assert_eq!(Source::of(address("::ffff:192.0.2.1")), Source::of(address("192.0.2.1")));
    }

    #[test]
    fn nothing_is_kept_of_who_has_left() {
        let mut admission = Admission::new(1);
        let mut ticket = admission.enter(address("192.0.2.1"), 7);
        admission.advance(&mut ticket, Progress::Spoke);
        admission.leave(&ticket);
        assert!(admission.all.is_empty() && admission.sources.is_empty());
    }
}
