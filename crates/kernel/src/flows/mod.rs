//! Decides when the kernel reads the flows of a switch, and what the flows mean. It does no I/O.
//!
//! An operator, another controller or a timeout can change the flows of a switch at any time. A switch with a flow monitor reports
//! each change, and the [`image`] of its flows says who owns how many. The kernel asks any other switch, for five purposes. Each
//! part here holds the state of one purpose; a worker sends the requests and handles the replies.
//!
//! | part | purpose | the worker's side |
//! | --- | --- | --- |
//! | [`reader`] | orphans of absent apps, flows that apps still have, flows of others, flows of earlier bands | `worker/flows/reading.rs`, `moved_bands.rs` |
//! | [`healing`] | notices that flows of the kernel or of guards are lost, and orders their restoration | `worker/flows/heal.rs` |
//! | [`occupancy`] | fill level of tables, number of flows of each app | `worker/flows/table_usage.rs` |
//! | [`listing`] | all flows, as text for an operator | `worker/questions.rs` |
//! | [`entries`] | flows, groups and meters as the switch reports them, for `rosemary trace` | `worker/questions.rs` |
//!
//! [`watch`] decides which of both means serves a switch, and [`requests`] counts the requests. `worker/flows/news.rs` handles the
//! reports of a flow monitor.
//!
//! The check of the kernel's own entry in [`healing`] also shows signs of another controller (`worker/flows/other_controllers.rs`).

pub(crate) mod entries;
pub(crate) mod healing;
pub(crate) mod image;
pub(crate) mod listing;
pub(crate) mod occupancy;
mod own_writes;
pub(crate) mod reader;
pub(crate) mod requests;
pub(crate) mod watch;
