//! The kernel: the process that owns the switch connections and moves messages between switches and apps.
//!
//! | module | content |
//! | --- | --- |
//! | [`server`] | the main thread, which serves the monitor and operators |
//! | [`worker`] | the event loop that owns switches |
//! | [`pool`] | the state that workers share |
//! | `connection` | one connection: socket, session, phase, buffers |
//! | [`tls`] | TLS with switches |
//! | [`ids`] | indices as types |
//! | `admission` | bounds unfinished handshakes |
//! | `back_pressure` | decides how long a switch is paused, which means left unread |
//! | `memory` | bounds the memory that the kernel keeps for switches |
//! | `switch` | the state of a usable switch |
//! | `plan`, `hold_queue`, `dispatch` | deliver packet-ins to apps, one stage after the other |
//! | `session_shares` | divides a worker's reading among sessions |
//! | `buffer_table` | the apps that may use a switch's buffered packets |
//! | `record`, `frame` | the records that apps receive; packets that a network cannot do without |
//! | [`app_port`] | the kernel's side of one app: rings, quota, snapshot |
//! | `check` | rights and ownership of an app's messages |
//! | `transactions`, `rewrite` | route a switch's replies to the senders of the requests |
//! | `flows` | reads the flows of switches: for operators, for apps, and to restore lost ones |
//! | `details` | other details of a switch, for an operator |
//! | `changes` | applies change sets: bundles, and make before break |
//! | `outcomes` | watches the kernel's own messages, and repeats failed ones |
//! | `sandbox` | confines the process |
//! | `stages` | the packet path without sockets, for the benchmark (feature `bench`) |
//!
//! `docs/packet-in.md` shows the path of a packet-in through them. `tests/modules.rs` keeps them free of cycles.
//!
//! The kernel never executes programs, opens files or sockets after its start, listens on addresses of its own choice,
//! trusts the down memory of a ring, or waits for an app.

#![forbid(unsafe_code)]

mod admission;
mod answer_part;
pub mod app_port;
mod app_queues;
mod back_pressure;
mod buffer_table;
mod changes;
mod check;
mod connection;
mod details;
mod dispatch;
mod flows;
mod frame;
mod hold_queue;
pub mod ids;
mod memory;
mod outcomes;
mod pacing;
mod plan;
pub mod pool;
mod record;
mod rewrite;
pub mod server;
mod session_shares;
#[cfg(feature = "bench")]
pub mod stages;
mod switch;
pub mod tls;
mod transactions;

mod sandbox;
pub mod worker;
