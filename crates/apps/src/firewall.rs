//! Denies packets by rules, in the switches and on the way to other apps.
//!
//! It is a guard. Each rule becomes flows that drop packets; their priorities are in its band, above those of the control
//! apps. A packet may still reach the controller before its flow is installed: the firewall checks it against the rules
//! and stops it.
//!
//! The rules are its configuration (`firewall/rules.rs` has their form):
//!
//! ```toml
//! [[app]]
//! name = "firewall"
//! stage = "guard"
//! config = "firewall.toml"
//! capabilities = ["packet-in", "flow.write", "stats.read"]
//! ```
//!
//! The library for wanted flows ([`rosemary_sdk::wanted`]) puts the flows into the switches: all at once into a switch that
//! connects or has lost its flows, before any packet can pass. It reads each switch every few seconds, adds missing flows
//! and deletes those that no rule needs. When the firewall starts with other rules, a connected switch keeps the former ones until
//! one change set replaces them, so no packet meets a part of each (up to 2048 flows, OpenFlow 1.3 and later). A flow that the
//! switch has already keeps its counters. A rule that a switch refuses, or has no room for, is a problem that `rosemary status` shows until the switch has it (`firewall/problems.rs`).

#![forbid(unsafe_code)]

#[path = "firewall/packet.rs"]
mod packet;
#[path = "firewall/problems.rs"]
mod problems;
#[path = "firewall/rules.rs"]
mod rules;

use std::time::Duration;

use rosemary_sdk::wanted::{At, Notice, Owns, Settings, Wanted};
use rosemary_sdk::{App, Event, FlowMod, Network, PacketIn, export_app};

use self::packet::Packet;
use self::problems::Problems;
use self::rules::Rules;

/// The time from one reading of the switches' flows to the next.
const EVERY: Duration = Duration::from_secs(5);

/// Priority of all its flows: they may overlap, because they do the same.
const PRIORITY: u16 = 0;

/// See the module's description.
#[derive(Debug)]
struct Firewall {
    rules: Rules,
    wanted: Wanted,
    problems: Problems,
    /// Whether the log already says that the firewall cannot read the switches' flows.
    said_blind: bool,
}

impl App for Firewall {
    fn create() -> Self {
        let settings = Settings {
            owns: Owns::All,
            keep: false, // the rules are in its configuration
            check_every: Some(EVERY),
            at_once: true,
            ..Settings::default()
        };
        Self {
            rules: Rules::default(),
            wanted: Wanted::new(settings),
            problems: Problems::default(),
            said_blind: false,
        }
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        self.rules = Rules::read(text)?;
        for entry in &self.rules.entries {
            let at = entry.switch.map_or(At::All, At::One);
            let drop = FlowMod::add(entry.match_.clone()).priority(PRIORITY).cookie(entry.rule);
            let wanted = self.wanted.flow(at, &drop);
            wanted.map_err(|error| format!("rule {} cannot be a flow: {error}", entry.rule))?;
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        match &event {
            Event::SnapshotEnd => {
                let (rules, flows) = (self.rules.len(), self.rules.entries.len());
                network.info(&format!("rules in force: {rules}, flows at each switch: {flows}"));
                if rules == 0 {
                    network.warn(
                        "the firewall has no rules and denies nothing: name a file with [[deny]] entries as `config` of \
                         its [[app]]",
                    );
                }
            }
            // The library sends all entries again; what a switch still refuses is reported again.
            Event::SwitchUp(switch) | Event::FlowsMissing(switch) | Event::SwitchDown(switch) => {
                self.problems.forget(switch.dpid);
            }
            Event::SnapshotBegin => self.problems.clear(),
            Event::PacketIn(packet_in) => self.on_packet(packet_in, network),
            _ => {}
        }
        let notices = self.wanted.on_event(&event, network);
        self.on_notices(&notices, network);
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        let notices = self.wanted.on_wake(network);
        self.on_notices(&notices, network);
    }
}

impl Firewall {
    fn on_packet(&mut self, packet_in: &PacketIn<'_>, network: &mut Network<'_>) {
        // No rule matches a packet that is too short for a frame.
        let Some(packet) = Packet::of(packet_in.data) else { return };
        if self.rules.deny(packet_in.switch.dpid, packet_in.in_port, &packet) {
            network.stop();
        }
    }

    fn on_notices(&mut self, notices: &[Notice], network: &mut Network<'_>) {
        for notice in notices {
            self.on_notice(notice, network);
        }
        if let Some(problem) = self.problems.news() {
            network.set_problem(Some(&*problem).filter(|it| !it.is_empty()));
        }
    }

    fn on_notice(&mut self, notice: &Notice, network: &mut Network<'_>) {
        match notice {
            Notice::Reconciled { switch, restored, changed, removed, .. } => {
                self.problems.reconciled(switch.dpid);
                let added = restored + changed;
                if added > 0 || *removed > 0 {
                    network.info(&format!(
                        "put {added} flows into {} that were missing, and deleted {removed} that no rule wants",
                        switch.dpid
                    ));
                }
            }
            // Once for each switch: what one rule cannot, a similar one cannot either.
            Notice::Failed { switch, cookie, why, .. } => {
                if self.problems.refused(switch.dpid, *cookie, why) {
                    network.error(&format!(
                        "rule {cookie} cannot be put into {}, which speaks OpenFlow {}: {why}; it holds only for \
                         packets that reach the controller, as may others",
                        switch.dpid, switch.version
                    ));
                }
            }
            Notice::Blind { why, .. } => {
                if !std::mem::replace(&mut self.said_blind, true) {
                    network.warn(&format!(
                        "cannot see what is in the switches: {why}; flows of rules that are gone stay, and flows that \
                         go are not put back"
                    ));
                }
            }
            Notice::Full { switch, missing, why, .. } => {
                self.problems.full(switch.dpid, *missing, why);
                network.error(&notice.to_string());
            }
            other => network.error(&other.to_string()),
        }
    }
}

export_app!(Firewall, name = "firewall");

#[cfg(test)]
#[path = "firewall/tests.rs"]
mod tests;
