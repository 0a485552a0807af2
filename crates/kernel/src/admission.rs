//! Bounds the connections that are not switches yet, and chooses the one that gives way to another.
//!
//! Anybody who reaches the port can open connections and send nothing, or begin handshakes and not
//! complete them. So their number is bounded, for each source and in total. At a bound the kernel does not refuse the
//! newcomer, as it may be the one real switch among a thousand. Instead it closes the connection that has come least
//! far ([`Progress`]), and among those the oldest. So a silent peer never displaces one that spoke, and a peer without
//! a certificate never displaces one that showed one.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};

use crate::ids::ConnId;

/// Unfinished handshakes of one source: an IPv4 address, or an IPv6 network of 64 bits, which is what
/// one machine commonly has.
const PER_SOURCE: usize = 256;

/// Unfinished handshakes from this machine, where Mininet starts a thousand switches at once.
const LOOPBACK: usize = 1024;

/// Unfinished handshakes in total. Each keeps at most the 32 KiB of a TLS handshake, so unknown peers
/// take at most about 100 MiB.
const IN_ALL: usize = 2048;

/// How far a handshake has come; less gives way to more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// Nothing was received.
    Silent,
    /// Something was received.
    Spoke,
    /// Its certificate was verified.
    Proven,
}

/// Orders the connections: by progress, then by age.
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

/// The connections of one worker that are not switches yet.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The number of workers that share the bounds.
    workers: usize,
    tickets: HashMap<ConnId, Ticket>,
    sources: HashMap<Source, BTreeSet<(Place, ConnId)>>,
    all: BTreeSet<(Place, ConnId)>,
    next: u64,
}

/// A connection's place.
#[derive(Debug, Clone, Copy)]
struct Ticket {
    source: Source,
    place: Place,
}

impl Admission {
    /// The admission of one of `workers` workers, whose bounds together are those above.
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers,
            tickets: HashMap::new(),
            sources: HashMap::new(),
            all: BTreeSet::new(),
            next: 0,
        }
    }

    /// The connection that must be closed before another one from `address` is admitted.
    pub(crate) fn who_gives_way(&self, address: IpAddr) -> Option<ConnId> {
        let source = Source::of(address);
        let of_source =
            self.sources.get(&source).filter(|it| it.len() >= source.limit() / self.workers);
        let of_all = Some(&self.all).filter(|it| it.len() >= IN_ALL / self.workers);
        of_source.or(of_all)?.first().map(|(_, id)| *id)
    }

    /// Admits connection `id` from `address`.
    pub(crate) fn enter(&mut self, address: IpAddr, id: ConnId, progress: Progress) {
        let ticket = Ticket { source: Source::of(address), place: (progress, self.next) };
        self.next += 1;
        self.insert(id, ticket);
    }

    /// Notes that connection `id` has come further. No effect for a switch.
    pub(crate) fn advance(&mut self, id: ConnId, progress: Progress) {
        if self.tickets.get(&id).is_some_and(|ticket| progress > ticket.place.0)
            && let Some(mut ticket) = self.remove(id)
        {
            ticket.place.0 = progress;
            self.insert(id, ticket);
        }
    }

    /// Connection `id` is a switch now, or closed, or with another worker.
    pub(crate) fn leave(&mut self, id: ConnId) {
        self.remove(id);
    }

    fn insert(&mut self, id: ConnId, ticket: Ticket) {
        self.all.insert((ticket.place, id));
        self.sources.entry(ticket.source).or_default().insert((ticket.place, id));
        self.tickets.insert(id, ticket);
    }

    fn remove(&mut self, id: ConnId) -> Option<Ticket> {
        let ticket = self.tickets.remove(&id)?;
        self.all.remove(&(ticket.place, id));
        if let Some(of_source) = self.sources.get_mut(&ticket.source) {
            of_source.remove(&(ticket.place, id));
            if of_source.is_empty() {
                self.sources.remove(&ticket.source);
            }
        }
        Some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn enter(admission: &mut Admission, from: IpAddr, id: usize) -> ConnId {
        admission.enter(from, ConnId(id), Progress::Silent);
        ConnId(id)
    }

    #[test]
    fn silent_connections_do_not_displace_a_switch_that_spoke() {
        let mut admission = Admission::new(1);
        let home = address("127.0.0.1");
        let switch = enter(&mut admission, home, 0);
        admission.advance(switch, Progress::Spoke);
        for id in 1..5_000 {
            if let Some(gone) = admission.who_gives_way(home) {
                assert_ne!(gone, switch);
                admission.leave(gone);
            }
            enter(&mut admission, home, id);
            assert!(admission.all.len() <= LOOPBACK);
        }
    }

    #[test]
    fn oldest_of_equal_progress_gives_way() {
        let mut admission = Admission::new(1);
        let there = address("192.0.2.1");
        for id in 0..PER_SOURCE {
            enter(&mut admission, there, id);
        }
        assert_eq!(admission.who_gives_way(there), Some(ConnId(0)));
        admission.advance(ConnId(0), Progress::Proven);
        assert_eq!(admission.who_gives_way(there), Some(ConnId(1)));
        assert_eq!(admission.who_gives_way(address("192.0.2.2")), None, "another source");
        admission.leave(ConnId(1));
        assert_eq!(admission.who_gives_way(there), None);
    }

    #[test]
    fn ipv6_network_is_one_source() {
        let mut admission = Admission::new(1);
        for id in 0..PER_SOURCE {
            enter(&mut admission, address(&format!("2001:db8::{id:x}")), id);
        }
        assert_eq!(admission.who_gives_way(address("2001:db8::ffff:1")), Some(ConnId(0)));
        assert_eq!(admission.who_gives_way(address("2001:db8:0:1::1")), None);
        assert_eq!(Source::of(address("::ffff:192.0.2.1")), Source::of(address("192.0.2.1")));
    }

    #[test]
    fn leaving_frees_all_state() {
        let mut admission = Admission::new(1);
        let id = enter(&mut admission, address("192.0.2.1"), 7);
        admission.advance(id, Progress::Spoke);
        admission.leave(id);
        assert!(admission.all.is_empty() && admission.sources.is_empty());
        assert!(admission.tickets.is_empty());
    }
}
