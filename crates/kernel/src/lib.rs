//! The kernel: the process that owns the switch connections and moves messages, as thin as
//! possible.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`control`] | what the monitor asks and is told |
//! | [`policy`] | what the operator lets an app do |
//! | [`query`] | what an operator asks and is told |
//! | [`server`] | the main thread: serves the two |
//! | [`worker`] | the event loop that owns switches; no locks, nothing allocated per message |
//! | [`pool`] | what the workers share |
//! | `connection` | one switch: its socket, its session, its buffers |
//! | [`tls`] | keys, certificates, and what they mean |
//! | [`ids`] | indices as types |
//! | `admission` | who may be in its handshake, and who gives way |
//! | `switch` | what is known of a switch that can be used |
//! | `plan`, `hold_queue`, `dispatch` | which app gets what and when, and what waits for whom |
//! | `buffer_table` | which apps were given the packets that a switch keeps |
//! | `record`, `frame` | the records that apps get; what must be known of packets |
//! | [`app_port`] | an app's rings: snapshot, replay after a death, live |
//! | `check` | what an app may send, and whose it is then |
//! | `transactions`, `rewrite` | whose message an answer is about; what it says to that app |
//! | `flows` | a switch's flows, for an operator |
//! | `occupancy` | how full a switch's tables are, and with whose flows |
//! | `sandbox` | how it confines itself |
//! | `stages` | the packet path without sockets, for the benchmark (feature `bench`) |
//!
//! The way of a packet-in through them is drawn in `docs/packet-in.md`.
//!
//! What it will never do: execute programs, open files or sockets after its start, listen on
//! addresses of its own choice, believe anything that stands in a ring's down memory, or wait for
//! an application.

#![forbid(unsafe_code)]

mod admission;
pub mod app_port;
mod back_pressure;
mod buffer_table;
mod check;
mod connection;
pub mod control;
mod dispatch;
mod fair_queue;
mod flows;
mod frame;
mod hold_queue;
pub mod ids;
mod memory;
mod occupancy;
mod plan;
pub mod policy;
pub mod pool;
pub mod query;
mod record;
mod rewrite;
pub mod server;
#[cfg(feature = "bench")]
pub mod stages;
mod switch;
pub mod tls;
mod transactions;

mod sandbox;
pub mod worker;
