//! From a switch to its apps: which app gets what, and when.
//!
//! The plan says who wants a packet and in which stage; what must wait for what an app says is
//! held; links write the records. This file puts the three together.

use std::time::Instant;

use openflow::{PacketIn, PortReason, PortStatus};
use sdk::abi::MAX_BATCH;

use crate::held::{Deliver, Held, Holds, Ticket};
use crate::link::{Link, Verdict};
use crate::plan::{Plan, Set, Wanted};
use crate::record::packet_in_record;
use crate::switch::Switch;

/// Most ports that a switch may have, those that it adds later included.
const MAX_PORTS: usize = 65_536;

/// Everything that a packet passes between its switch and the apps.
#[derive(Debug, Default)]
pub(crate) struct Dispatch {
    pub(crate) links: Vec<Link>,
    plan: Plan,
    holds: Holds,
    /// Switches whose queues may move on.
    moved: Vec<usize>,
}

/// A switch, for what is delivered about it.
struct To<'d> {
    links: &'d mut [Link],
    switch: &'d mut Switch,
}

impl Deliver for To<'_> {
    fn deliver(&mut self, link: usize, held: &Held, ticket: Ticket) -> bool {
        let (link, switch) = (&mut self.links[link], &mut *self.switch);
        match held {
            Held::Packet(record, message) => {
                let taken = link.packet_in(switch, record, message, ticket);
                switch.counters.dropped += u64::from(!taken);
                taken
            }
            Held::Port(reason, port) => {
                link.port(switch, *reason, port);
                true
            }
        }
    }
}

impl Dispatch {
    /// Makes the plan anew: an app was added, or its policy changed.
    pub(crate) fn replan(&mut self) {
        self.plan = Plan::of(self.links.iter().map(|link| &link.policy));
        let writers = self.links.iter().filter(|link| link.rights.writes_flows()).count();
        for link in &mut self.links {
            link.rights.alone = writers <= usize::from(link.rights.writes_flows());
        }
    }

    /// Takes a packet-in through the stages, as far as it goes now. `owner` is where the switch
    /// is; `message` is the whole OpenFlow message that `packet_in` is a view of.
    pub(crate) fn packet_in(
        &mut self,
        owner: usize,
        switch: &mut Switch,
        packet_in: &PacketIn<'_>,
        message: &[u8],
        now: Instant,
    ) {
        switch.counters.packet_ins += 1;
        let Some(record) = packet_in_record(switch, packet_in, message) else {
            switch.counters.dropped += 1;
            return;
        };
        let wanted = self.plan.wanted(switch.dpid.0, packet_in.data);
        for observer in wanted.observers.iter() {
            let taken = self.links[observer].packet_in(switch, &record, message, Ticket::NONE);
            switch.counters.dropped += u64::from(!taken);
        }
        let alone = wanted.guards.is_empty() && wanted.controls.is_at_most_one();
        if alone && switch.queue.is_empty() {
            // Nothing is held, and nothing copied but into the ring.
            for control in wanted.controls.iter() {
                let taken = self.links[control].packet_in(switch, &record, message, Ticket::NONE);
                switch.counters.dropped += u64::from(!taken);
            }
            return;
        }
        let held = Held::Packet(record, message.to_vec());
        let Some(ticket) = self.holds.hold(&mut switch.queue, owner, held, wanted, now) else {
            switch.counters.dropped += 1;
            return;
        };
        for guard in wanted.guards.iter() {
            let link = &mut self.links[guard];
            let asked = link.is_attached();
            let answers_to = if asked { ticket } else { Ticket::NONE };
            let taken = link.packet_in(switch, &record, message, answers_to);
            if !(asked && taken) {
                let stop = !self.plan.goes_on_without(guard);
                switch.counters.guarded += u64::from(stop);
                self.holds.verdict(ticket, guard, stop);
            }
        }
        self.advance(switch, now);
    }

    /// Takes in a change of a port and tells the apps: those for which packets wait, behind the
    /// packets.
    pub(crate) fn port_status(
        &mut self,
        owner: usize,
        switch: &mut Switch,
        status: PortStatus,
        now: Instant,
    ) {
        let PortStatus { reason, desc } = status;
        let number = desc.port_no.0;
        let reason = match reason {
            PortReason::Add => 0,
            PortReason::Delete => 1,
            PortReason::Modify => 2,
        };
        let known = switch.ports.contains_key(&number);
        if reason == 1 {
            if switch.ports.remove(&number).is_none() {
                return;
            }
        } else if known || switch.ports.len() < MAX_PORTS {
            switch.ports.insert(number, desc);
        } else {
            return;
        }
        let mut later = Set::EMPTY;
        if !switch.queue.is_empty() {
            let controls = self.plan.controls();
            let wanted = Wanted { guards: Set::EMPTY, controls, observers: Set::EMPTY };
            let held = Held::Port(reason, desc);
            if self.holds.hold(&mut switch.queue, owner, held, wanted, now).is_some() {
                later = controls;
            }
        }
        for (place, link) in self.links.iter_mut().enumerate() {
            if !later.has(place) {
                link.port(switch, reason, &desc);
            }
        }
        self.advance(switch, now);
    }

    /// A switch is there: the apps are told.
    pub(crate) fn switch_up(&mut self, switch: &mut Switch) {
        for link in &mut self.links {
            link.announce(switch);
        }
    }

    /// A switch is gone: what waits of it is void, and the apps are told.
    pub(crate) fn switch_down(&mut self, switch: &mut Switch) {
        self.holds.forget(&mut switch.queue);
        for link in &mut self.links {
            link.switch_down(switch);
        }
    }

    /// Takes in what an app said about records.
    pub(crate) fn verdicts(&mut self, link: usize, verdicts: &mut Vec<Verdict>) {
        for (ticket, stop) in verdicts.drain(..) {
            self.moved.extend(self.holds.verdict(ticket, link, stop));
        }
    }

    /// Whether a whole batch waits for some app in this process.
    pub(crate) fn a_batch_waits(&self) -> bool {
        self.links.iter().any(|link| link.waiting_here() >= MAX_BATCH)
    }

    /// When somebody will have been silent for too long.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.holds.next_deadline()
    }

    /// Passes over apps that were silent for too long. Returns the switches whose queues may
    /// move on, to be handed to [`advance`](Self::advance).
    pub(crate) fn moved(&mut self, now: Instant) -> Vec<usize> {
        self.holds.expire(now, &self.plan, &mut self.moved);
        self.moved.sort_unstable();
        self.moved.dedup();
        std::mem::take(&mut self.moved)
    }

    /// Moves what waits of a switch on, as far as it goes.
    pub(crate) fn advance(&mut self, switch: &mut Switch, now: Instant) {
        if switch.queue.is_empty() {
            return;
        }
        let mut queue = std::mem::take(&mut switch.queue);
        let mut to = To { links: &mut self.links, switch };
        self.holds.advance(&mut queue, &self.plan, now, &mut to);
        to.switch.queue = queue;
    }
}
