//! Remembers where each host of a network is: [`HostTable`], for learning switches, host trackers and the like.
//!
//! Hosts are kept by scope, such as a datapath, or a VLAN of a datapath. The same address can be in several scopes with a
//! different value in each. Each scope has its own bound, so a flood of invented addresses in one scope takes no room from
//! another.
//!
//! | property | policy |
//! | --- | --- |
//! | hash | keyed with random numbers of this instance, so nobody outside can choose addresses that collide |
//! | full scope | a new host replaces one that has not been learned again recently (CLOCK) |
//! | too many scopes | hosts of a new scope are not learned: [`Learned::NoRoom`] |
//! | age | unlimited, or as [`HostTable::with_max_age`] states |
//! | look-up | one cache line in most cases; [`HostTable::prefetch`] loads the lines of a batch together |
//!
//! ```
//! use rosemary_sdk::hosts::{HostTable, Learned};
//! use rosemary_sdk::{Dpid, MacAddr, PortNo};
//!
//! let mut hosts = HostTable::new();
//! let (switch, alice) = (Dpid(1), MacAddr([2, 0, 0, 0, 0, 0xa]));
//! assert_eq!(hosts.learn(switch, alice, PortNo(3)), Learned::New);
//! assert_eq!(hosts.get(switch, alice), Some(PortNo(3)));
//! assert_eq!(hosts.learn(switch, alice, PortNo(4)), Learned::Moved { from: PortNo(3) });
//! assert_eq!(hosts.get(Dpid(2), alice), None);
//! ```

mod age;
mod key;
mod line;
mod scope;

// There is no unsafe code for Miri to check, and the tests would take many minutes there.
#[cfg(all(test, not(miri)))]
mod tests;

use std::hint::black_box;
use std::time::Duration;

use openflow::{MacAddr, PortNo};

use age::{Clock, Tick};
use key::{HashKey, HostKey};
use scope::Scope;

/// Hosts that a scope of a [`HostTable::new`] holds: they take 2 MiB.
pub const DEFAULT_HOSTS: usize = 229_376;

/// Scopes that a [`HostTable::new`] holds.
pub const DEFAULT_SCOPES: usize = 65_536;

/// Different values that the hosts of one scope can have.
pub const MAX_VALUES: usize = line::MAX_VALUES;

/// What [`HostTable::learn`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learned<V> {
    /// The host was not known.
    New,
    /// The host was known with this value.
    Known,
    /// The host was known with another value, which this call has replaced.
    Moved {
        /// The value before.
        from: V,
    },
    /// The host is not in the table: there are too many scopes, or the scope's hosts have had [`MAX_VALUES`] different
    /// values.
    NoRoom,
}

/// A bounded table from a scope and a host's address to a value, as the port that the host is behind.
///
/// `S` is the scope, such as a [`Dpid`](crate::Dpid) or a pair of it and a VLAN id. See the [module](self) for what
/// happens when it is full.
#[derive(Debug)]
pub struct HostTable<S, V = PortNo> {
    /// In ascending order, so that finding one takes no hash and no other memory.
    scopes: Vec<(S, Scope<V>)>,
    /// Where a scope was found last: packets come in runs of one switch.
    last: usize,
    key: HashKey,
    hosts_per_scope: usize,
    max_scopes: usize,
    clock: Clock,
    /// Whether a scope has had more lines than the near caches hold.
    has_large: bool,
    /// What [`prefetch`](Self::prefetch) works on; kept for its room.
    ahead: Vec<(S, [HostKey; 2])>,
}

impl<S: Copy + Ord, V: Copy + Eq> Default for HostTable<S, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Copy + Ord, V: Copy + Eq> HostTable<S, V> {
    /// Makes an empty table of [`DEFAULT_SCOPES`] scopes with [`DEFAULT_HOSTS`] hosts each, which never grow old.
    ///
    /// It takes memory as hosts come: under 1 KiB for each scope, then about 10 to 20 bytes for each host.
    pub fn new() -> Self {
        Self {
            scopes: Vec::new(),
            last: 0,
            key: HashKey::random(),
            hosts_per_scope: DEFAULT_HOSTS,
            max_scopes: DEFAULT_SCOPES,
            clock: Clock::STOPPED,
            has_large: false,
            ahead: Vec::new(),
        }
    }

    /// Sets how many hosts a scope holds; the table rounds it up to seven times a power of two.
    #[must_use]
    pub fn with_hosts_per_scope(self, hosts_per_scope: usize) -> Self {
        Self { hosts_per_scope, ..self }
    }

    /// Sets how many scopes there can be.
    #[must_use]
    pub fn with_max_scopes(self, max_scopes: usize) -> Self {
        Self { max_scopes, ..self }
    }

    /// Forgets a host that has not been learned again for this long, at the latest after a quarter more. The app states
    /// the time with [`advance_to`](Self::advance_to).
    #[must_use]
    pub fn with_max_age(self, max_age: Duration) -> Self {
        Self { clock: Clock::new(max_age), ..self }
    }

    /// States the time, as [`Network::now`](crate::Network::now) gives it; once per batch is enough. A time before the
    /// last one is ignored.
    pub fn advance_to(&mut self, now: Duration) {
        self.clock.advance_to(now);
    }

    /// Remembers a host's value, and that the host is there now.
    ///
    /// Group addresses are hosts to the table like any other: an app asks
    /// [`MacAddr::is_multicast`] before it learns a source.
    #[inline]
    pub fn learn(&mut self, scope: S, host: MacAddr, value: V) -> Learned<V> {
        let Some(at) = self.find_or_insert(scope) else { return Learned::NoRoom };
        let (key, now) = (self.key.of(host), self.clock.now());
        let Some((_, hosts)) = self.scopes.get_mut(at) else { return Learned::NoRoom };
        let learned = hosts.learn(key, value, now, &self.key);
        self.has_large |= hosts.is_large();
        learned
    }

    /// Returns a host's value, or `None` if the host is not known or has grown too old.
    #[inline]
    pub fn get(&self, scope: S, host: MacAddr) -> Option<V> {
        self.scope(scope)?.get(host)
    }

    /// Returns the hosts of one scope, for several look-ups; `None` if it has none.
    #[inline]
    pub fn scope(&self, scope: S) -> Option<ScopeHosts<'_, V>> {
        let (_, hosts) = self.scopes.get(self.find(scope).ok()?)?;
        Some(ScopeHosts { hosts, key: self.key, now: self.clock.now() })
    }

    /// Forgets a host; returns the value that it had.
    pub fn remove(&mut self, scope: S, host: MacAddr) -> Option<V> {
        let (key, now) = (self.key.of(host), self.clock.now());
        let at = self.find(scope).ok()?;
        self.scopes.get_mut(at)?.1.remove(key, now)
    }

    /// Forgets the hosts of a scope that have this value, as those behind a port that is gone.
    pub fn remove_value(&mut self, scope: S, value: V) {
        if let Ok(at) = self.find(scope)
            && let Some((_, hosts)) = self.scopes.get_mut(at)
        {
            hosts.remove_value(value);
        }
    }

    /// Forgets a scope with all its hosts.
    pub fn remove_scope(&mut self, scope: S) {
        if let Ok(at) = self.find(scope) {
            self.scopes.remove(at);
        }
    }

    /// Forgets all hosts of all scopes.
    pub fn clear(&mut self) {
        self.scopes.clear();
        self.has_large = false;
    }

    /// Returns how many hosts there are, which may include some that have just grown too old.
    pub fn len(&self) -> usize {
        self.scopes.iter().map(|(_, hosts)| hosts.len()).sum()
    }

    /// Returns whether there is no host.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fetches what the table knows of these hosts, two of a packet each, into the processor's cache.
    ///
    /// The look-ups of a batch in a large table then wait for memory together and not one after the other. While all
    /// scopes are small, this does nothing. An app calls it from [`App::look_ahead`](crate::App::look_ahead):
    ///
    /// ```
    /// # use rosemary_sdk::{Batch, Dpid, hosts::HostTable};
    /// # fn look_ahead(hosts: &mut HostTable<Dpid>, batch: &Batch<'_>) {
    /// let packets = batch.packet_ins();
    /// hosts.prefetch(packets.filter_map(|it| Some((it.switch.dpid, it.addresses()?))));
    /// # }
    /// ```
    pub fn prefetch(&mut self, packets: impl IntoIterator<Item = (S, (MacAddr, MacAddr))>) {
        if !self.has_large {
            return;
        }
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.clear();
        let key = self.key;
        ahead.extend(packets.into_iter().map(|(scope, (a, b))| (scope, [key.of(a), key.of(b)])));
        // In a loop of its own: the less a core has to do between two loads, the more of them it begins.
        let mut touched = 0;
        for run in ahead.chunk_by(|(a, _), (b, _)| a == b) {
            if let [(scope, _), ..] = run
                && let Ok(at) = self.find(*scope)
                && let Some((_, hosts)) = self.scopes.get(at)
            {
                for (_, [a, b]) in run {
                    touched ^= hosts.touch(*a) ^ hosts.touch(*b);
                }
            }
        }
        black_box(touched);
        self.ahead = ahead;
    }

    /// Where a scope is, or where it would go.
    #[inline]
    fn find(&self, scope: S) -> Result<usize, usize> {
        match self.scopes.get(self.last) {
            Some((last, _)) if *last == scope => Ok(self.last),
            _ => self.scopes.binary_search_by_key(&scope, |(scope, _)| *scope),
        }
    }

    /// Where a scope is, which gets a table if it has none; `None` if there are too many.
    #[inline]
    fn find_or_insert(&mut self, scope: S) -> Option<usize> {
        self.last = match self.find(scope) {
            Ok(at) => at,
            Err(at) => self.insert(at, scope)?,
        };
        Some(self.last)
    }

    #[cold]
    fn insert(&mut self, at: usize, scope: S) -> Option<usize> {
        if self.scopes.len() >= self.max_scopes {
            return None;
        }
        let hosts = Scope::new(self.hosts_per_scope, self.clock.now());
        self.scopes.insert(at, (scope, hosts));
        Some(at)
    }
}

/// The hosts of one scope of a [`HostTable`].
#[derive(Debug, Clone, Copy)]
pub struct ScopeHosts<'t, V> {
    hosts: &'t Scope<V>,
    key: HashKey,
    now: Tick,
}

impl<V: Copy + Eq> ScopeHosts<'_, V> {
    /// Returns a host's value, or `None` if the host is not known or has grown too old.
    #[inline]
    pub fn get(&self, host: MacAddr) -> Option<V> {
        self.hosts.get(self.key.of(host), self.now)
    }

    /// Returns whether [`HostTable::learn`] of this value would change nothing: an app that finds this out first needs
    /// the table mutably for few packets only.
    #[inline]
    pub fn is_fresh(&self, host: MacAddr, value: V) -> bool {
        self.hosts.is_fresh(self.key.of(host), value, self.now)
    }
}
