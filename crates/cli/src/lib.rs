//! `rosemary`, the operator's command, and the lab that its demo and the system tests run in.
//!
//! | module | content |
//! | --- | --- |
//! | [`up`] | `rosemary up`: executes the resource monitor, or checks the configuration |
//! | [`status`] | `rosemary status`: shows programs and switches |
//! | [`pki`] | `rosemary pki`: creates keys and certificates for TLS |
//! | [`switches`], [`ports`], [`apps`] | `rosemary switches`, `rosemary ports`, `rosemary apps`: show one kind in full |
//! | [`switch`] | `rosemary switch`: adopts a switch by its database, shows the database, drains a switch |
//! | [`switch_name`] | a switch on the command line: its datapath id or its name |
//! | [`top`] | `rosemary top`: shows the resource use of each program, live |
//! | [`token`] | `rosemary token`, `rosemary ui`: tokens of the HTTP interface |
//! | [`logs`] | `rosemary logs`, `rosemary app logs`: show log lines |
//! | [`events`] | `rosemary events`: shows what happens, as it happens |
//! | [`incidents`] | `rosemary incidents`: shows what went wrong |
//! | [`doctor`] | `rosemary doctor`: checks which sandbox mechanisms and limits this machine supports |
//! | [`flows`] | `rosemary flows`: shows the flows of a switch |
//! | [`hosts`] | `rosemary hosts`: shows the hosts of the network |
//! | [`stats`] | `rosemary stats`: shows counters and rates of ports, tables, groups and meters |
//! | [`trace`] | `rosemary trace`: shows the entries that a packet takes across the network |
//! | [`app`], [`scaffold`] | `rosemary app`; `rosemary app new`: creates an app |
//! | [`packages`] | `rosemary app build`, `sign`, `install`, ...; `rosemary key`: package apps |
//! | [`backup`] | `rosemary backup`, `rosemary restore`: one encrypted file with keys, trust, packages and storage |
//! | [`config_changes`] | `rosemary changes`, `undo`, `confirm`: the history of the configuration |
//! | [`demo`] | `rosemary demo`: demonstrates fault isolation on this machine |
//! | [`ofp`] | `rosemary ofp`: shows and checks OpenFlow messages |
//! | [`lab`] | a miniature network, for the demo and the tests |
//! | [`client`] | clients of the admin socket, the kernel and the log |
//! | [`complete`] | completion scripts, and the names for them |
//! | [`manual`] | the manual pages |
//! | [`exit`] | the exit code of a failed command |
//! | [`say`] | writes to standard output and standard error; no other module does |
//!
//! Data goes to standard output, everything else to standard error. The exit code is 0 for success,
//! 1 for a rejection or failure, 2 for an invalid command line, 78 for a mistake in the configuration.
//!
//! The command holds no state, serves no clients, and only queries a running Rosemary.

#![forbid(unsafe_code)]

pub mod accounts;
pub mod app;
pub mod apps;
pub mod backup;
pub mod change;
pub mod client;
pub mod complete;
pub mod config_changes;
pub mod demo;
pub mod doctor;
pub mod events;
pub mod exit;
pub mod faucet;
pub mod flows;
pub mod hosts;
pub mod incidents;
pub mod lab;
pub mod logs;
pub mod manual;
pub mod ofp;
pub mod packages;
pub mod pki;
pub mod ports;
mod readable;
pub mod ryu;
pub mod safe_mode;
pub mod say;
pub mod scaffold;
pub mod sessions;
pub mod stats;
pub mod status;
pub mod switch;
pub mod switch_name;
pub mod switches;
mod table;
pub mod token;
pub mod top;
pub mod topology;
pub mod trace;
pub mod up;
