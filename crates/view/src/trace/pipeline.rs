//! Simulates the flow tables of one switch for one packet (OpenFlow 1.3.5 §5.1 to §5.10, OpenFlow 1.0.2 §3.4).
//!
//! It reads neither a network nor a clock: entries and a packet in, the entries that the packet takes and its outputs out.
//!
//! * OpenFlow 1.0 has one table. A packet without an entry goes to the controller.
//! * OpenFlow 1.3 begins in table 0 and follows `goto`. A packet without an entry is dropped (§5.4); in a later table, Open
//!   vSwitch executes the action set, and so does the simulation.
//! * A `select` group takes a bucket that the switch chooses; the simulation takes the first live one and says so.

use std::cell::Cell;
use std::collections::BTreeMap;

use openflow::{Action, Bucket, FlowStats, GroupDesc, GroupKind, PortNo, Version};

use super::packet::Packet;

/// Most groups inside each other.
const DEEPEST: usize = 16;

/// Most outputs of a packet in one switch.
const MOST_OUTPUTS: usize = 1024;

/// Most actions and buckets that one packet takes in one switch. Groups that lead to each other multiply them.
const MOST_STEPS: usize = 10_000;

/// Most notes about a packet in one switch.
const MOST_NOTES: usize = 100;

/// An entry of a flow table.
#[derive(Debug)]
pub(super) struct FlowEntry<'m> {
    pub(super) flow: FlowStats<'m>,
    /// The name of the app that wrote it, `kernel` or `other`.
    pub(super) owner: String,
    /// The owner's bits of the cookie, or all of another's.
    pub(super) cookie: u64,
}

/// A port of the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Port {
    pub(super) number: u32,
    pub(super) is_up: bool,
}

/// The tables of one switch.
#[derive(Debug)]
pub(super) struct Tables<'m> {
    version: Version,
    /// By table, highest priority first.
    entries: BTreeMap<u8, Vec<FlowEntry<'m>>>,
    groups: BTreeMap<u32, GroupDesc>,
    ports: Vec<Port>,
}

/// One look-up in a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lookup<'t> {
    pub(super) table: u8,
    /// `None` if no entry matched.
    pub(super) entry: Option<&'t FlowEntry<'t>>,
}

/// A packet that leaves the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) to: To,
    pub(super) packet: Packet,
}

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    Port(u32),
    Controller,
    /// The switch itself.
    Local,
    /// The switch's own forwarding, which no entry describes.
    Normal,
}

/// The way of a packet through one switch.
#[derive(Debug, Default)]
pub(super) struct Trace<'t> {
    pub(super) lookups: Vec<Lookup<'t>>,
    pub(super) outputs: Vec<Output>,
    /// Effects that the simulation does not know.
    pub(super) notes: Vec<String>,
}

impl<'m> Tables<'m> {
    /// Takes what a switch reports.
    pub(super) fn new(
        version: Version,
        entries: Vec<FlowEntry<'m>>,
        groups: Vec<GroupDesc>,
        ports: Vec<Port>,
    ) -> Self {
        let mut tables: BTreeMap<u8, Vec<FlowEntry<'m>>> = BTreeMap::new();
        for entry in entries {
            // OpenFlow 1.0 has one table for all packets, whatever a switch reports.
            let table = if version.features().multiple_tables { entry.flow.table_id } else { 0 };
            tables.entry(table).or_default().push(entry);
        }
        for entries in tables.values_mut() {
            entries.sort_by_key(|entry| std::cmp::Reverse(entry.flow.priority));
        }
        let groups = groups.into_iter().map(|group| (group.group_id, group)).collect();
        Self { version, entries: tables, groups, ports }
    }

    /// Sends a packet through the tables.
    pub(super) fn trace<'t>(&'t self, packet: &Packet) -> Trace<'t>
    where
        'm: 't,
    {
        let mut run = Run {
            tables: self,
            in_port: packet.in_port(),
            packet: packet.clone(),
            action_set: Vec::new(),
            table: 0,
            lookups: 0,
            stack: Vec::new(),
            has_ended: false,
            steps: Cell::new(0),
            trace: Trace::default(),
        };
        run.tables();
        if run.steps.get() > MOST_STEPS {
            run.trace.notes.push(format!("incomplete: more than {MOST_STEPS} actions and buckets"));
        }
        run.trace
    }

    pub(super) fn find(&self, table: u8, packet: &Packet) -> Option<&FlowEntry<'m>> {
        self.entries.get(&table)?.iter().find(|entry| packet.is_matched_by(&entry.flow.match_))
    }

    fn is_port_up(&self, port: u32) -> bool {
        self.ports.iter().any(|it| it.number == port && it.is_up)
    }
}

/// A packet on its way.
pub(super) struct Run<'t, 'm> {
    pub(super) tables: &'t Tables<'m>,
    in_port: u32,
    pub(super) packet: Packet,
    action_set: Vec<Action>,
    /// The table of the entry that is executed.
    pub(super) table: u8,
    /// Resubmits inside of each other.
    pub(super) lookups: usize,
    /// Values that Open vSwitch's `push` put there.
    pub(super) stack: Vec<u128>,
    /// An action has ended the processing of the packet.
    pub(super) has_ended: bool,
    /// Actions and buckets so far.
    steps: Cell<usize>,
    pub(super) trace: Trace<'t>,
}

impl<'t, 'm: 't> Run<'t, 'm> {
    fn tables(&mut self) {
        let entry = self.look_up(0);
        if let Some(entry) = entry {
            self.execute(entry, 0);
            self.execute_set();
        }
    }

    /// Looks the packet up in a table; without an entry there, does what the version says.
    fn look_up(&mut self, table: u8) -> Option<&'t FlowEntry<'m>> {
        let entry = self.tables.find(table, &self.packet);
        self.trace.lookups.push(Lookup { table, entry });
        self.table = table;
        if entry.is_none() {
            if self.tables.version.features().miss_to_controller {
                self.output(To::Controller);
            } else if !self.action_set.is_empty() {
                self.note(format!(
                    "no entry in table {table}: Open vSwitch executes the action set, other switches drop the packet"
                ));
                self.execute_set();
            }
        }
        entry
    }

    /// Executes the instructions of an entry, and of those in the tables to which they lead.
    pub(super) fn execute(&mut self, entry: &'t FlowEntry<'m>, depth: usize) {
        let mut next = Some(entry);
        while let Some(entry) = next.take() {
            let table = self.table;
            let instructions = &entry.flow.instructions;
            if let Some(meter) = instructions.meter {
                self.note(format!("passes meter {meter}, which may drop it"));
            }
            if instructions.others.iter().next().is_some() {
                self.note(format!("table {table}: an instruction that is not simulated"));
            }
            let apply: Vec<Action> = instructions.apply.iter().collect();
            self.apply(&apply, depth);
            if self.has_ended {
                return;
            }
            if instructions.clear {
                self.action_set.clear();
            }
            for action in instructions.write.iter() {
                self.write(action);
            }
            if let Some((value, mask)) = instructions.metadata {
                self.packet.write_metadata(value, mask);
            }
            // A table leads only to later ones (OpenFlow 1.3.5 §5.1.1), so this ends.
            let table = instructions.goto_table.filter(|next| *next > table);
            next = table.and_then(|table| self.look_up(table));
        }
    }

    pub(super) fn note(&mut self, note: String) {
        let notes = &mut self.trace.notes;
        match notes.len() {
            0..MOST_NOTES if !notes.contains(&note) => notes.push(note),
            MOST_NOTES => notes.push("further notes are left out".into()),
            _ => {}
        }
    }

    /// Counts an action or a bucket. Returns `false` if the packet has taken too many.
    fn step(&self) -> bool {
        self.steps.set(self.steps.get().saturating_add(1));
        self.steps.get() <= MOST_STEPS
    }

    /// Merges an action into the set, which has one of each kind, and one for each field that is set.
    fn write(&mut self, action: Action) {
        let is_same = |other: &Action| match (&action, other) {
            (Action::SetField(one), Action::SetField(other)) => one.name() == other.name(),
            _ => rank(other) == rank(&action),
        };
        match self.action_set.iter_mut().find(|other| is_same(other)) {
            Some(other) => *other = action,
            None => self.action_set.push(action),
        }
    }

    /// Executes the action set in the order of OpenFlow 1.3.5 §5.10. A group takes the place of the output.
    fn execute_set(&mut self) {
        // `exit` leaves the action set to be executed.
        self.has_ended = false;
        let mut set = std::mem::take(&mut self.action_set);
        set.sort_by_key(rank);
        if set.iter().any(|action| matches!(action, Action::Group(_))) {
            set.retain(|action| !matches!(action, Action::Output { .. }));
        }
        self.apply(&set, 0);
    }

    pub(super) fn apply(&mut self, actions: &[Action], depth: usize) {
        for action in actions {
            if self.has_ended || !self.step() {
                return;
            }
            self.act(action, depth);
        }
    }

    pub(super) fn act(&mut self, action: &Action, depth: usize) {
        match action {
            Action::Output { port, .. } => self.output_to(*port),
            Action::Enqueue { port, queue_id } => {
                self.note(format!("waits in queue {queue_id} of port {port}"));
                self.output_to(*port);
            }
            Action::Group(group) => self.group(*group, depth),
            Action::SetField(field) => {
                let pushes = self.tables.version.features().set_vlan_pushes;
                let is_vlan =
                    matches!(field, openflow::Field::VlanVid(_) | openflow::Field::VlanPcp(_));
                if pushes && is_vlan {
                    self.packet.have_vlan();
                }
                self.packet.set(field);
            }
            Action::SetTpSrc(port) | Action::SetTpDst(port) => {
                let second = u8::from(matches!(action, Action::SetTpDst(_)));
                if let Some(first) = self.packet.transport() {
                    self.packet.set_number(first + second, (*port).into());
                }
            }
            Action::PushVlan(_) => self.packet.push_vlan(),
            Action::PopVlan => self.packet.pop_vlan(),
            Action::SetQueue(queue) => self.note(format!("waits in queue {queue}")),
            Action::SetNwTtl(_)
            | Action::DecNwTtl
            | Action::SetMplsTtl(_)
            | Action::DecMplsTtl
            | Action::CopyTtlOut
            | Action::CopyTtlIn => {} // no match is about it
            Action::Nicira(action) => self.nicira(action, depth),
            other => self.note(format!("the action {other} is not simulated")),
        }
    }

    pub(super) fn output_to(&mut self, port: PortNo) {
        match port {
            PortNo::CONTROLLER => self.output(To::Controller),
            PortNo::NORMAL => self.output(To::Normal),
            PortNo::IN_PORT if self.in_port == PortNo::LOCAL.0 => self.output(To::Local),
            PortNo::IN_PORT => self.output(To::Port(self.in_port)),
            PortNo::FLOOD | PortNo::ALL => {
                let in_port = self.in_port;
                let all = self.tables.ports.iter().filter(|it| it.is_up && it.number != in_port);
                // The first output beyond the limit is noted.
                let room = MOST_OUTPUTS.saturating_sub(self.trace.outputs.len()) + 1;
                let all: Vec<u32> = all.map(|port| port.number).take(room).collect();
                for port in all {
                    self.output(To::Port(port));
                }
            }
            PortNo(port) if port == self.in_port => {
                self.note("not sent back through the port that it came in through".into());
            }
            PortNo::LOCAL => self.output(To::Local),
            PortNo(port) => {
                if !self.tables.is_port_up(port) {
                    self.note(format!("port {port} does not exist or is down"));
                }
                self.output(To::Port(port));
            }
        }
    }

    pub(super) fn output(&mut self, to: To) {
        if self.trace.outputs.len() < MOST_OUTPUTS {
            self.trace.outputs.push(Output { to, packet: self.packet.clone() });
        } else {
            self.note(format!("more than {MOST_OUTPUTS} outputs"));
        }
    }

    fn group(&mut self, group_id: u32, depth: usize) {
        let Some(group) = self.tables.groups.get(&group_id) else {
            return self.note(format!("group {group_id} does not exist"));
        };
        if depth >= DEEPEST {
            return self.note(format!("group {group_id} is more than {DEEPEST} groups deep"));
        }
        let live = group.buckets.iter().filter(|bucket| self.is_live(bucket, 0));
        let buckets: Vec<&Bucket> = match group.kind {
            GroupKind::All => group.buckets.iter().collect(),
            GroupKind::Indirect => group.buckets.iter().take(1).collect(),
            GroupKind::Select => {
                let live: Vec<&Bucket> = live.filter(|bucket| bucket.weight > 0).collect();
                if live.len() > 1 {
                    let count = live.len();
                    self.note(format!(
                        "group {group_id} takes one of {count} buckets by the switch's choice; shown is the first"
                    ));
                }
                live.into_iter().take(1).collect()
            }
            GroupKind::FastFailover => live.take(1).collect(),
            GroupKind::Other(kind) => {
                return self.note(format!("group {group_id} is of the unknown type {kind}"));
            }
        };
        if buckets.is_empty() {
            self.note(format!("group {group_id} has no live bucket"));
        }
        for bucket in buckets {
            if !self.step() {
                return;
            }
            // Each bucket has the packet as it was, and a set of actions (OpenFlow 1.3.5 §5.6.1).
            let before = self.packet.clone();
            let mut actions = bucket.actions.clone();
            actions.sort_by_key(rank);
            self.apply(&actions, depth + 1);
            self.packet = before;
        }
    }

    fn is_live(&self, bucket: &Bucket, depth: usize) -> bool {
        if !self.step() {
            return false;
        }
        if bucket.watch_port != PortNo::ANY {
            return self.tables.is_port_up(bucket.watch_port.0);
        }
        if bucket.watch_group != Bucket::ANY_GROUP {
            let group = self.tables.groups.get(&bucket.watch_group).filter(|_| depth < DEEPEST);
            return group.is_some_and(|group| {
                group.buckets.iter().any(|bucket| self.is_live(bucket, depth + 1))
            });
        }
        true
    }
}

/// The place of an action in an action set (OpenFlow 1.3.5 §5.10).
fn rank(action: &Action) -> u8 {
    match action {
        Action::CopyTtlIn => 0,
        Action::PopVlan | Action::PopMpls(_) | Action::PopPbb => 1,
        Action::PushMpls(_) => 2,
        Action::PushPbb(_) => 3,
        Action::PushVlan(_) => 4,
        Action::CopyTtlOut => 5,
        Action::DecNwTtl | Action::DecMplsTtl => 6,
        Action::SetField(_) | Action::SetTpSrc(_) | Action::SetTpDst(_) => 7,
        Action::SetNwTtl(_) | Action::SetMplsTtl(_) => 8,
        Action::SetQueue(_) => 9,
        Action::Group(_) => 10,
        Action::Output { .. } | Action::Enqueue { .. } => 11,
        _ => 12,
    }
}

#[cfg(test)]
#[path = "pipeline/tests.rs"]
mod tests;
