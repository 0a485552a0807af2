//! The incidents in memory: at most [`MOST`], with at most [`MOST_BYTES`] of JSON.
//!
//! If there are too many, the oldest one of the program and the kind of cause with the most incidents is dropped. A program
//! that crashes again and again thus displaces its own incidents, and not those of others. Refused switches displace
//! refused switches, and not crashes of the kernel.

use std::collections::{HashMap, VecDeque};
use std::mem::{Discriminant, discriminant};

use control::incident::{Cause, Evidence, FORMAT, Frame, Incident, IncidentId, Program};

use crate::text::harmless;

/// The most incidents.
pub const MOST: usize = 512;

/// The most bytes of all incidents together, as JSON.
pub const MOST_BYTES: usize = 2 << 20;

/// The most bytes of one incident, as JSON. It is half of what one message to an operator holds.
const LONGEST: usize = 48 * 1024;

/// The most bytes of the incidents in one message to an operator.
const PAGE: usize = LONGEST;

/// The most facts, apps and reactions of an incident, each.
const MOST_PHRASES: usize = 32;

/// The most characters of a phrase.
const LONGEST_PHRASE: usize = 500;

/// A change to be stored: the new state of a record, as a line of JSON.
#[derive(Debug, PartialEq, Eq)]
pub struct Change(pub Vec<u8>);

/// The incidents, in ascending order of their numbers.
#[derive(Debug, Default)]
pub struct Records {
    entries: VecDeque<Entry>,
    bytes: usize,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    incident: Incident,
    /// Its size as JSON.
    size: usize,
}

impl Entry {
    /// The incidents of a program with one kind of cause.
    fn group(&self) -> (&Program, Discriminant<Cause>) {
        (&self.incident.program, discriminant(&self.incident.cause))
    }
}

impl Records {
    /// Adds the stored state of an incident, which replaces an earlier state.
    pub fn restore(&mut self, mut incident: Incident) {
        let json = encode(&mut incident);
        self.next = self.next.max(incident.id.0.saturating_add(1));
        self.remove(incident.id);
        let at = self.entries.partition_point(|entry| entry.incident.id < incident.id);
        self.bytes += json.len();
        self.entries.insert(at, Entry { incident, size: json.len() });
        self.drop_excess();
    }

    /// Adds an incident that begins at `time`, in nanoseconds since the Unix epoch.
    pub fn open(
        &mut self,
        time: u64,
        program: Program,
        cause: Cause,
        evidence: Evidence,
    ) -> (IncidentId, Vec<Change>) {
        self.next = self.next.max(1);
        let id = IncidentId(self.next);
        self.next = self.next.saturating_add(1);
        let mut incident = Incident {
            version: FORMAT,
            id,
            time,
            program,
            cause,
            count: 1,
            evidence,
            reaction: Vec::new(),
            open: true,
            duration_ms: None,
        };
        let json = encode(&mut incident);
        self.bytes += json.len();
        self.entries.push_back(Entry { incident, size: json.len() });
        self.drop_excess();
        (id, vec![Change(json)])
    }

    /// Changes an incident, unless it was dropped.
    pub fn update(&mut self, id: IncidentId, update: impl FnOnce(&mut Incident)) -> Vec<Change> {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.incident.id == id) else {
            return Vec::new();
        };
        update(&mut entry.incident);
        let json = encode(&mut entry.incident);
        self.bytes = self.bytes - entry.size + json.len();
        entry.size = json.len();
        self.drop_excess();
        vec![Change(json)]
    }

    /// Closes the incidents of an earlier instance, which has ended.
    pub fn close_lost(&mut self) -> Vec<Change> {
        let open: Vec<IncidentId> =
            self.entries.iter().filter(|it| it.incident.open).map(|it| it.incident.id).collect();
        let close = |incident: &mut Incident| {
            incident.open = false;
            incident.reaction.push("Rosemary ended before the program ran again".into());
        };
        open.into_iter().flat_map(|id| self.update(id, close)).collect()
    }

    /// The incidents from number `from` on that fit into one message, at least one, and whether there are more.
    pub fn page(&self, from: IncidentId) -> (Vec<Incident>, bool) {
        let start = self.entries.partition_point(|entry| entry.incident.id < from);
        let (mut page, mut size) = (Vec::new(), 0);
        for entry in self.entries.range(start..) {
            size += entry.size;
            if size > PAGE && !page.is_empty() {
                return (page, true);
            }
            page.push(entry.incident.clone());
        }
        (page, false)
    }

    /// All incidents as JSON, one per item.
    pub fn lines(&self) -> impl Iterator<Item = Vec<u8>> {
        self.entries.iter().map(|entry| encode(&mut entry.incident.clone()))
    }

    /// The bytes of all incidents, as JSON.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn remove(&mut self, id: IncidentId) {
        if let Some(at) = self.entries.iter().position(|entry| entry.incident.id == id)
            && let Some(entry) = self.entries.remove(at)
        {
            self.bytes -= entry.size;
        }
    }

    fn drop_excess(&mut self) {
        while self.entries.len() > MOST || self.bytes > MOST_BYTES {
            let mut counts: HashMap<(&Program, Discriminant<Cause>), usize> = HashMap::new();
            for entry in &self.entries {
                *counts.entry(entry.group()).or_default() += 1;
            }
            // Of several groups with the same number, the one with the oldest incident loses it.
            let most = counts.values().copied().max().unwrap_or_default();
            let oldest = self.entries.iter().find(|it| counts[&it.group()] == most);
            let Some(id) = oldest.map(|entry| entry.incident.id) else { return };
            self.remove(id);
        }
    }
}

/// Bounds the texts of an incident, and returns it as JSON.
fn encode(incident: &mut Incident) -> Vec<u8> {
    let Incident { evidence, reaction, program, .. } = incident;
    for phrases in [&mut evidence.facts, &mut evidence.called, &mut *reaction] {
        // The first phrases say what happened, and the last ones how it went on.
        if phrases.len() > MOST_PHRASES {
            phrases.drain(MOST_PHRASES / 2..phrases.len() - MOST_PHRASES / 2);
        }
        phrases.iter_mut().for_each(bound);
    }
    evidence.blamed.iter_mut().for_each(bound);
    if let Some(crash) = &mut evidence.crash {
        crash.backtrace.truncate(MOST_PHRASES);
        for frame in &mut crash.backtrace {
            let Frame { module, function, source, .. } = frame;
            [module, function, source].into_iter().flatten().for_each(bound);
        }
    }
    bound(&mut program.name);
    let json = |incident: &Incident| {
        serde_json::to_vec(incident).expect("an incident has only names as keys")
    };
    let line = json(incident);
    if line.len() <= LONGEST {
        return line;
    }
    incident.evidence = Evidence {
        blamed: incident.evidence.blamed.take(),
        ..Evidence::fact("the evidence was too long to be stored")
    };
    json(incident)
}

/// Cuts a text that may come from an app, and escapes control characters. A bounded text stays as it is.
fn bound(text: &mut String) {
    if text.chars().count() > LONGEST_PHRASE || text.chars().any(char::is_control) {
        *text = harmless(text, LONGEST_PHRASE - 3).chars().take(LONGEST_PHRASE).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(records: &mut Records, program: Program) -> IncidentId {
        records.open(1, program, Cause::Hang, Evidence::default()).0
    }

    #[test]
    fn crash_loop_keeps_incidents_of_others() {
        let mut records = Records::default();
        let first = add(&mut records, Program::kernel());
        for _ in 0..3 * MOST {
            add(&mut records, Program::app("bad"));
        }
        let ids: Vec<u64> = records.entries.iter().map(|entry| entry.incident.id.0).collect();
        assert_eq!((ids.len(), ids[0]), (MOST, first.0));
        assert_eq!(ids.last(), Some(&(3 * MOST as u64 + 1)));
    }

    #[test]
    fn refused_switches_keep_crashes_of_the_kernel() {
        let mut records = Records::default();
        let crash = add(&mut records, Program::kernel());
        for host in 0..2 * MOST {
            let cause =
                Cause::RefusedSwitch { switch: host.to_string(), address: [10, 0, 0, 9].into() };
            records.open(1, Program::kernel(), cause, Evidence::default());
        }
        let first = records.entries.front().map(|entry| entry.incident.id);
        assert_eq!((records.entries.len(), first), (MOST, Some(crash)));
    }

    #[test]
    fn bytes_are_bounded() {
        let mut records = Records::default();
        for _ in 0..200 {
            let evidence =
                Evidence { facts: vec!["\u{1b}x".repeat(10_000); 1_000], ..Evidence::default() };
            records.open(1, Program::app("long"), Cause::Panic, evidence);
            assert!(records.bytes <= MOST_BYTES);
            let last = records.entries.back().unwrap();
            assert!(last.size <= LONGEST && last.incident.evidence.facts.len() <= MOST_PHRASES);
        }
        let sizes: usize = records.lines().map(|line| line.len()).sum();
        assert_eq!(sizes, records.bytes);
    }

    #[test]
    fn pages_return_every_incident_once() {
        let mut records = Records::default();
        for _ in 0..300 {
            let facts = vec!["f".repeat(400); 8];
            let evidence = Evidence { facts, ..Evidence::default() };
            records.open(1, Program::kernel(), Cause::Hang, evidence);
        }
        let (mut seen, mut from) = (0, IncidentId(0));
        loop {
            let (page, more) = records.page(from);
            assert!(serde_json::to_vec(&page).unwrap().len() < sys::channel::MAX_MESSAGE);
            seen += page.len();
            if !more {
                break;
            }
            from = IncidentId(page.last().unwrap().id.0 + 1);
        }
        assert_eq!(seen, 300);
    }

    #[test]
    fn open_incidents_of_earlier_instance_are_closed() {
        let mut records = Records::default();
        let id = add(&mut records, Program::kernel());
        assert_eq!(records.close_lost().len(), 1);
        assert_eq!(records.close_lost(), []);
        let (page, _) = records.page(id);
        assert!(!page[0].open && page[0].reaction[0].contains("ended before"));
    }
}
