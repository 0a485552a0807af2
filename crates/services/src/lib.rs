//! Services: confined processes that own one kind of state each and serve the apps that the
//! operator permits.
//!
//! | module | content |
//! | --- | --- |
//! | [`run`](mod@run) | runs a service: confine, open, serve in turns |
//! | [`disk`] | the database file of a service |
//! | [`log`] | the log lines of all programs, for operators |
//! | [`storage`] | durable key-value pairs |
//! | [`history`] | figures of the network and the programs over time, for operators |
//! | [`broker`] | connections to hosts that the operator has granted |
//! | [`ovsdb`] | the databases of switches |
//!
//! Each service is a folder here, a program in `bin/` and a list of system calls in
//! `sys/src/sandbox/seccomp/lists/services.rs`. `docs/decisions/0003-services.md` gives the reasons.
//!
//! A service never opens what it was not given, never trusts a message about its sender, and never
//! waits for a client.

#![forbid(unsafe_code)]

pub mod broker;
pub mod disk;

pub mod history;
pub mod log;
pub mod ovsdb;
pub mod run;
pub mod storage;
