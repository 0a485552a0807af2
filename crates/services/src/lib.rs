//! Services: processes that own one kind of state each, for applications that the operator lets use
//! them.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`control`] | what the monitor asks a service and is told |
//! | [`run`](mod@run) | a service's life: confine, open, then turn after turn |
//! | [`clients`] | who is connected, and what waits for them |
//! | [`kind`] | which services there are |
//! | [`disk`] | the file that a service keeps its state in |
//! | [`log`] | what all programs log, for operators |
//! | [`storage`] | values under keys, durable |
//! | [`broker`] | connections to hosts that the operator has named |
//!
//! Each service is a folder here, a program in `bin/` and a list of system calls in
//! `sys/src/sandbox/seccomp/lists/services.rs`. Why they are as they are stands in
//! `docs/decisions/0003-services.md`.
//!
//! What a service will never do: open what it was not given, believe a message about who sent it, or wait
//! for a client.

#![forbid(unsafe_code)]

pub mod broker;
pub mod clients;
pub mod control;
pub mod disk;
pub mod kind;
pub mod log;
pub mod run;
pub mod storage;
