//! Lists the applications that ship with Rosemary. Each is one file beside this one and one shared
//! object, written like any other app.
//!
//! | app | purpose |
//! | --- | --- |
//! | `learning_switch.rs` | remembers which port each host is behind, floods when it does not know |
//! | `firewall.rs` | a guard: denies packets by its rules, in the switches and on the way to other apps |
//! | `forwarding.rs` | forwards over the shortest paths of any network; uses `topology` and `hosts` |
//! | `link_monitor.rs` | logs which switches, ports and links come and go; an example of a client of `topology` |
//! | `hosts.rs` | provides the service `hosts`: where each host is, and its addresses |
//! | `ofctl.rs` | owns the flows that clients of Ryu's REST interface write |
//! | `operator.rs` | owns the flows that operators write by hand |
//! | `protection.rs` | drains a switch, or throttles an app, when the app's flow-mods harm the switch |
//! | `stats.rs` | provides the service `stats`: counters and rates of switches |
//! | `topology.rs` | a service: finds switches, ports and links, and publishes them for other apps |
//!
//! A new app is a file here and an `[[example]]` entry in `Cargo.toml`. This library itself is
//! empty. An app here uses only what the SDK offers to every app.
