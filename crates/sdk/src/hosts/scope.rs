//! The hosts of one scope: lines that double until there are as many as the bound allows.
//!
//! A host is in the line that its hash names, or, if there was no room, in one of the next few.

use super::Learned;
use super::age::Tick;
use super::key::{HashKey, HostKey};
use super::line::{HostEntry, Line, MAX_VALUES, WAYS};

/// Lines of a table at first.
const LEAST_LINES: usize = 8;

/// Lines above which a table is large: more than 64 KiB, which the near caches do not hold.
const LARGE: usize = 1024;

/// Lines in which a host may be: its own and those behind it. With 100,000 hosts in 16,384 lines one line in thirty is
/// full.
const NEAR: usize = 8;

#[derive(Debug)]
pub(super) struct Scope<V> {
    /// A power of two of them, and [`NEAR`] less one more behind the last.
    lines: Vec<Line>,
    max_lines: usize,
    /// The values that hosts have had; an entry has the number of one.
    values: Vec<V>,
    len: usize,
    /// When hosts that had grown too old were last removed.
    swept: Tick,
}

impl<V: Copy + Eq> Scope<V> {
    pub(super) fn new(hosts: usize, now: Tick) -> Self {
        let max_lines = hosts.div_ceil(WAYS).next_power_of_two().max(LEAST_LINES);
        let lines = vec![Line::default(); LEAST_LINES + NEAR - 1];
        Self { lines, max_lines, values: Vec::new(), len: 0, swept: now }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether a look-up is likely to wait for memory.
    #[inline]
    pub(super) fn is_large(&self) -> bool {
        self.lines.len() > LARGE + NEAR - 1
    }

    #[inline]
    pub(super) fn learn(
        &mut self,
        host: HostKey,
        value: V,
        now: Tick,
        hash_key: &HashKey,
    ) -> Learned<V> {
        if self.swept != now {
            self.sweep(now);
        }
        let Some((line, way)) = self.find(host) else {
            return self.learn_new(host, value, hash_key);
        };
        let known = self.lines[line].entry(way);
        let number = known.value();
        let before = self.values[number];
        if before != value {
            return self.learn_moved((line, way), host, value);
        }
        #[expect(clippy::cast_possible_truncation, reason = "below MAX_VALUES")]
        let entry = HostEntry::new(host, now.age_bits(), number as u16);
        if known != entry {
            self.lines[line].replace(way, entry); // and if not, the line stays clean
        }
        Learned::Known
    }

    #[inline(never)]
    fn learn_new(&mut self, host: HostKey, value: V, hash_key: &HashKey) -> Learned<V> {
        let Some(number) = self.number_of(value) else { return Learned::NoRoom };
        self.insert(host, HostEntry::new(host, self.swept.age_bits(), number), hash_key);
        Learned::New
    }

    #[inline(never)]
    fn learn_moved(&mut self, (line, way): (usize, usize), host: HostKey, value: V) -> Learned<V> {
        let from = self.values[self.lines[line].entry(way).value()];
        let Some(number) = self.number_of(value) else {
            // The host is not where the table has it.
            self.remove_at(line, way);
            return Learned::NoRoom;
        };
        let entry = HostEntry::new(host, self.swept.age_bits(), number);
        self.lines[line].replace(way, entry);
        Learned::Moved { from }
    }

    #[inline]
    pub(super) fn get(&self, host: HostKey, now: Tick) -> Option<V> {
        let entry = self.entry(host)?;
        // The sweep has removed all that this tick does not know.
        let is_known = now == self.swept || now.knows(entry.age_bits(), self.swept);
        is_known.then(|| self.values[entry.value()])
    }

    /// Whether [`learn`](Self::learn) would change nothing.
    #[inline]
    pub(super) fn is_fresh(&self, host: HostKey, value: V, now: Tick) -> bool {
        self.entry(host).is_some_and(|entry| {
            entry.is_recent_in(now.age_bits())
                && self.swept == now
                && self.values[entry.value()] == value
        })
    }

    /// Loads the line that a look-up of this host begins with; the result only keeps the load.
    #[inline]
    pub(super) fn touch(&self, host: HostKey) -> u64 {
        self.lines[self.line_of(host)].tags()
    }

    pub(super) fn remove(&mut self, host: HostKey, now: Tick) -> Option<V> {
        let value = self.get(host, now);
        if let Some((line, way)) = self.find(host) {
            self.remove_at(line, way);
        }
        value
    }

    pub(super) fn remove_value(&mut self, value: V) {
        let number = self.values.iter().position(|known| *known == value);
        self.remove_if(|entry| Some(entry.value()) == number);
    }

    /// Removes hosts that have grown too old. After that each age stands for one tick again.
    #[cold]
    fn sweep(&mut self, now: Tick) {
        let swept = self.swept;
        self.remove_if(|entry| !now.knows(entry.age_bits(), swept));
        self.swept = now;
    }

    fn remove_if(&mut self, mut is_over: impl FnMut(HostEntry) -> bool) {
        for line in &mut self.lines {
            for (way, entry) in line.entries() {
                if is_over(entry) {
                    line.remove(way);
                    self.len -= 1;
                }
            }
        }
    }

    fn remove_at(&mut self, line: usize, way: usize) {
        self.lines[line].remove(way);
        self.len -= 1;
    }

    #[inline]
    fn entry(&self, host: HostKey) -> Option<HostEntry> {
        let line = &self.lines[self.line_of(host)];
        // Nearly all hosts are in their own line.
        line.find(host).map_or_else(|| self.entry_near(host), |way| Some(line.entry(way)))
    }

    #[inline(never)]
    fn entry_near(&self, host: HostKey) -> Option<HostEntry> {
        self.find(host).map(|(line, way)| self.lines[line].entry(way))
    }

    /// In which line a host is, and where in it.
    #[inline]
    fn find(&self, host: HostKey) -> Option<(usize, usize)> {
        let first = self.line_of(host);
        (first..first + NEAR).find_map(|line| Some((line, self.lines[line].find(host)?)))
    }

    fn insert(&mut self, host: HostKey, entry: HostEntry, hash_key: &HashKey) {
        loop {
            let first = self.line_of(host);
            for line in &mut self.lines[first..first + NEAR] {
                if let Some(empty) = line.empty() {
                    line.put(empty, host, entry);
                    self.len += 1;
                    return;
                }
            }
            if self.lines.len() >= self.max_lines {
                let line = &mut self.lines[first];
                let victim = line.victim();
                line.put(victim, host, entry);
                return;
            }
            self.double(hash_key);
        }
    }

    fn double(&mut self, hash_key: &HashKey) {
        let lines = 2 * (self.lines.len() - (NEAR - 1)) + NEAR - 1;
        let before = std::mem::replace(&mut self.lines, vec![Line::default(); lines]);
        self.len = 0;
        for (_, entry) in before.iter().flat_map(Line::entries) {
            self.insert(hash_key.of_address(entry.address()), entry, hash_key);
        }
    }

    #[inline]
    fn line_of(&self, host: HostKey) -> usize {
        host.hash as usize & (self.lines.len() - NEAR)
    }

    /// The number of a value, which gets one; `None` if too many have one.
    fn number_of(&mut self, value: V) -> Option<u16> {
        let known = self.values.iter().position(|known| *known == value);
        let number = known.unwrap_or(self.values.len());
        if number >= MAX_VALUES {
            return None;
        }
        if known.is_none() {
            self.values.push(value);
        }
        u16::try_from(number).ok()
    }
}
