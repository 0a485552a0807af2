//! Finds the flows that carry the traffic of others at a switch that is to be drained.
//!
//! Two lists of the switch's flows are compared. A flow for packets from a host of the switch (`in_port` is no link's port), or for
//! packets to one (no output is a link's port), carries no traffic of others.

use std::collections::HashMap;
use std::time::Duration;

use control::query::FlowStatus;

/// Time between the two lists: switches update the counters of flows seldom, Open vSwitch about once a second.
pub const CARRIED: Duration = Duration::from_secs(2);

/// Flows that are named.
const MOST: usize = 5;

/// A flow that carries packets.
#[derive(Debug, Clone, PartialEq)]
pub struct Carrier {
    /// The app that owns the flow, as [`FlowStatus::owner`].
    pub owner: String,
    /// Packets per second.
    pub per_second: f64,
    /// Its priority, match and actions.
    flow: String,
}

impl Carrier {
    /// Returns what carries the packets, as a phrase that names the app and the flow.
    pub fn phrase(&self) -> String {
        format!(
            "{:.0} packets per second by a flow of {}: {}",
            self.per_second, self.owner, self.flow
        )
    }
}

/// Returns the flows that carried most packets of others between two lists, taken `seconds` apart. `links` are the ports of links,
/// as [`link_ports`](crate::drain::link_ports) returns them.
pub fn carriers(
    before: &[FlowStatus],
    after: &[FlowStatus],
    seconds: f64,
    links: &[String],
) -> Vec<Carrier> {
    let earlier: HashMap<Name<'_>, &FlowStatus> =
        before.iter().map(|flow| (name(flow), flow)).collect();
    let carrier = |flow: &FlowStatus| {
        let then = earlier.get(&name(flow)).map_or(Some(0), |it| it.packets)?;
        let packets = flow.packets?.saturating_sub(then);
        if packets == 0 || is_of_own_hosts(flow, links) {
            return None;
        }
        let match_ = if flow.match_.is_empty() { "any packet" } else { &flow.match_ };
        Some(Carrier {
            owner: flow.owner.clone(),
            #[expect(clippy::cast_precision_loss, reason = "a rate that is shown")]
            per_second: packets as f64 / seconds,
            flow: format!("priority {}, {match_}, {}", flow.priority, flow.actions),
        })
    };
    let mut found: Vec<Carrier> = after.iter().filter_map(carrier).collect();
    found.sort_by(|one, other| other.per_second.total_cmp(&one.per_second));
    found.truncate(MOST);
    found
}

/// What two lists have in common for one flow: table, priority, cookie and match.
type Name<'a> = (u8, u16, &'a str, &'a str);

fn name(flow: &FlowStatus) -> Name<'_> {
    (flow.table, flow.priority, &flow.cookie, &flow.match_)
}

/// Whether a flow is for packets from hosts of the switch or to them.
fn is_of_own_hosts(flow: &FlowStatus, links: &[String]) -> bool {
    let is_link = |port: &str| links.iter().any(|link| link == port);
    let in_port = flow.match_.split(',').find_map(|field| field.strip_prefix("in_port="));
    if in_port.is_some_and(|port| !is_link(port)) {
        return true;
    }
    let is_output = |action: &str| action.starts_with("output:");
    let mut actions = flow.actions.split(',').peekable();
    actions.peek().is_some_and(|action| is_output(action))
        && actions.all(|it| it.strip_prefix("output:").is_some_and(|port| !is_link(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(owner: &str, match_: &str, actions: &str, packets: u64) -> FlowStatus {
        FlowStatus {
            table: 0,
            priority: 7,
            owner: owner.into(),
            cookie: "0x0".into(),
            match_: match_.into(),
            actions: actions.into(),
            packets: Some(packets),
            bytes: None,
            duration_ms: 0,
            idle_timeout: 0,
            hard_timeout: 0,
        }
    }

    #[test]
    fn flows_between_links_are_named_by_their_rate() {
        let links = ["2", "3"].map(ToOwned::to_owned);
        let flows = |packets: u64| {
            vec![
                flow("forwarding", "in_port=2,eth_dst=02:00:00:00:00:02", "output:3", packets),
                flow("operator", "", "NORMAL", 4 * packets),
                flow("forwarding", "in_port=1,eth_dst=02:00:00:00:00:03", "output:3", packets),
                flow("forwarding", "in_port=2,eth_dst=02:00:00:00:00:01", "output:1", packets),
                flow("forwarding", "in_port=3,eth_dst=02:00:00:00:00:04", "output:2", 9),
                flow("forwarding", "in_port=3,eth_dst=02:00:00:00:00:05", "group:1", 10 + packets),
            ]
        };
        let found = carriers(&flows(0), &flows(200), 2.0, &links);
        let phrases: Vec<String> = found.iter().map(Carrier::phrase).collect();
        let expected = [
            "400 packets per second by a flow of operator: priority 7, any packet, NORMAL",
            "100 packets per second by a flow of forwarding: priority 7, in_port=2,eth_dst=02:00:00:00:00:02, output:3",
            "100 packets per second by a flow of forwarding: priority 7, in_port=3,eth_dst=02:00:00:00:00:05, group:1",
        ];
        assert_eq!(phrases, expected);
    }

    #[test]
    fn new_and_uncounted_flows_and_their_number_are_judged() {
        let links = ["2".to_owned()];
        let uncounted = [FlowStatus { packets: None, ..flow("a", "in_port=2", "output:2", 0) }];
        let new = flow("a", "in_port=2", "output:2", 8);
        assert_eq!(carriers(&uncounted, &uncounted, 1.0, &links), []);
        assert!((carriers(&[], &[new], 2.0, &links)[0].per_second - 4.0).abs() < 0.1);
        let many: Vec<FlowStatus> =
            (0..99).map(|it| flow("a", &format!("in_port=2,vlan={it}"), "output:2", it)).collect();
        let found = carriers(&[], &many, 1.0, &links);
        assert_eq!((found.len(), found[0].per_second.round()), (MOST, 98.0));
    }
}
