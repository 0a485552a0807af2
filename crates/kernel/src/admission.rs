//! Bounds the connections that are not switches yet, and chooses the one that gives way to another.
//!
//! Any host that reaches the port can open connections and send nothing, or begin handshakes and not
//! complete them. So their number is bounded, for each source and in total. At a bound the kernel does not refuse the new
//! connection, as it may be the one real switch among a thousand. Instead it closes the connection with the least
//! [`Progress`], and among equals the oldest. So a silent peer never displaces one that has sent bytes, and a peer without
//! a certificate never displaces one whose certificate was verified.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};

use crate::ids::ConnId;

/// Most unfinished handshakes of one source: an IPv4 address, or an IPv6 network of 64 bits, which one machine commonly
/// has.
const PER_SOURCE: usize = 256;

/// Most unfinished handshakes from this machine, where Mininet starts a thousand switches at once.
const LOOPBACK: usize = 1024;

/// Most unfinished handshakes in total. Each keeps at most the 32 KiB of a TLS handshake, so unknown peers use at most
/// about 100 MiB.
const IN_ALL: usize = 2048;

/// Progress of a handshake; a connection with less gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// Nothing was received.
    Silent,
    /// Something was received.
    Spoke,
    /// Its certificate was verified.
    Proven,
}

/// Orders the connections: by progress, then by age. The lowest gives way.
type Rank = (Progress, u64);

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
    candidates: HashMap<ConnId, Candidate>,
    sources: HashMap<Source, BTreeSet<(Rank, ConnId)>>,
    all: BTreeSet<(Rank, ConnId)>,
    next: u64,
}

/// A connection that is not a switch yet.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    source: Source,
    rank: Rank,
}

impl Admission {
    /// The admission of one of `workers` workers, which divide the bounds among them.
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers,
            candidates: HashMap::new(),
            sources: HashMap::new(),
            all: BTreeSet::new(),
            next: 0,
        }
    }

    /// Returns the connection that must be closed before another one from `address` is admitted.
    pub(crate) fn connection_to_displace(&self, address: IpAddr) -> Option<ConnId> {
        let source = Source::of(address);
        let of_source =
            self.sources.get(&source).filter(|it| it.len() >= source.limit() / self.workers);
        let of_all = Some(&self.all).filter(|it| it.len() >= IN_ALL / self.workers);
        of_source.or(of_all)?.first().map(|(_, id)| *id)
    }

    /// Admits connection `id` from `address`.
    pub(crate) fn enter(&mut self, address: IpAddr, id: ConnId, progress: Progress) {
        let candidate = Candidate { source: Source::of(address), rank: (progress, self.next) };
        self.next += 1;
        self.insert(id, candidate);
    }

    /// Notes progress of connection `id`. No effect for a switch.
    pub(crate) fn advance(&mut self, id: ConnId, progress: Progress) {
        if self.candidates.get(&id).is_some_and(|candidate| progress > candidate.rank.0)
            && let Some(mut candidate) = self.remove(id)
        {
            candidate.rank.0 = progress;
            self.insert(id, candidate);
        }
    }

    /// Removes connection `id`: it became a switch, was closed, or moved to another worker.
    pub(crate) fn leave(&mut self, id: ConnId) {
        self.remove(id);
    }

    fn insert(&mut self, id: ConnId, candidate: Candidate) {
        self.all.insert((candidate.rank, id));
        self.sources.entry(candidate.source).or_default().insert((candidate.rank, id));
        self.candidates.insert(id, candidate);
    }

    fn remove(&mut self, id: ConnId) -> Option<Candidate> {
        let candidate = self.candidates.remove(&id)?;
        self.all.remove(&(candidate.rank, id));
        if let Some(of_source) = self.sources.get_mut(&candidate.source) {
            of_source.remove(&(candidate.rank, id));
            if of_source.is_empty() {
                self.sources.remove(&candidate.source);
            }
        }
        Some(candidate)
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
            if let Some(gone) = admission.connection_to_displace(home) {
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
        assert_eq!(admission.connection_to_displace(there), Some(ConnId(0)));
        admission.advance(ConnId(0), Progress::Proven);
        assert_eq!(admission.connection_to_displace(there), Some(ConnId(1)));
        assert_eq!(admission.connection_to_displace(address("192.0.2.2")), None, "another source");
        admission.leave(ConnId(1));
        assert_eq!(admission.connection_to_displace(there), None);
    }

    #[test]
    fn ipv6_network_is_one_source() {
        let mut admission = Admission::new(1);
        for id in 0..PER_SOURCE {
            enter(&mut admission, address(&format!("2001:db8::{id:x}")), id);
        }
        assert_eq!(admission.connection_to_displace(address("2001:db8::ffff:1")), Some(ConnId(0)));
        assert_eq!(admission.connection_to_displace(address("2001:db8:0:1::1")), None);
        assert_eq!(Source::of(address("::ffff:192.0.2.1")), Source::of(address("192.0.2.1")));
    }

    #[test]
    fn leaving_frees_all_state() {
        let mut admission = Admission::new(1);
        let id = enter(&mut admission, address("192.0.2.1"), 7);
        admission.advance(id, Progress::Spoke);
        admission.leave(id);
        assert!(admission.all.is_empty() && admission.sources.is_empty());
        assert!(admission.candidates.is_empty());
    }
}
