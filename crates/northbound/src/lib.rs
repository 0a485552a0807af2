//! `rosemary-northbound`: the HTTP interface for operators and their programs.
//!
//! The process holds what the monitor gave it: listening sockets, a control socket, an admin channel for operators' requests,
//! a socket that names the users of local connections, and keys for TLS. It opens nothing and may end at any time; the monitor starts it again.
//!
//! ```text
//! connection -- accept.rs --> guard.rs (Host, Origin, who, role) --> route.rs (which handler) --> api/
//!                                                                                 |
//!                      monitor, kernel, providers <-- state.rs (blocking threads) +
//! ```
//!
//! | files | contents |
//! | --- | --- |
//! | `process.rs`, `sandbox.rs` | the start, the control socket, the end; what the process keeps |
//! | `accept.rs`, `tls.rs`, `limits.rs` | connections, over TLS for other machines, and the limits on them |
//! | `guard.rs`, `auth/` | who sends a request, and whether it is admitted |
//! | `route.rs`, `call.rs`, `openapi.rs`, `schema.rs` | the table of all routes; one request; their description |
//! | `problem.rs`, `reply.rs` | errors and answers |
//! | `state.rs` | shared state: connections to the monitor, the kernel and the services |
//! | `api/`, `events/` | the handlers of `/api/v1` |
//! | `owner.rs` | requests to the apps that own flows for people |
//! | `metrics.rs` | the metrics, also at an address of their own |
//! | `ofctl/` | Ryu's REST interface, at an address of its own |
//! | `app_routes/` | the routes of apps, at an address of their own |
//! | `ui.rs` | the page |

#![forbid(unsafe_code)]

mod accept;
mod api;
mod app_routes;
mod auth;
mod call;
mod events;
mod guard;
mod limits;
mod metrics;
mod network;
mod ofctl;
mod openapi;
mod owner;
mod problem;
mod process;
mod reply;
mod route;
mod sandbox;
mod schema;
mod state;
mod tls;
mod ui;

pub use process::{NorthboundError, run};
