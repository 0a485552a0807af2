//! The system tests: they use the whole system as an operator would.

#![expect(clippy::print_stdout, reason = "measurements are shown with the test's result")]

mod app_killed;
mod attacks;
mod calls;
mod chaos;
mod check;
mod configuration;
mod demo;
mod duplicate_datapath_ids;
mod failed_commands;
mod firewall;
mod forbidden_messages;
mod full_tables;
mod granted_files;
mod guards;
mod hangs;
mod hostile;
mod kernel_app;
mod kernel_killed;
mod lab;
mod life_cycle;
mod limits;
mod link_monitor;
mod lldp;
mod logs;
mod lost_flows;
mod malformed_input;
mod many_switches;
mod mininet;
mod negotiation;
mod operators;
mod packages;
mod pausing;
mod repeated_crashes;
mod replies;
mod scaffold;
mod services;
mod skipped_app;
mod slow_switch;
mod stopping;
mod supervision;
mod switching;
mod tls;
mod wire;
mod workers;
