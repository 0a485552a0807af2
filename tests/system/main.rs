//! The system tests: they use the whole system as an operator would.

#![expect(clippy::print_stdout, reason = "measurements are shown with the test's result")]

mod answers;
mod app_killed;
mod attacks;
mod calls;
mod claims;
mod configuration;
mod deaths;
mod demo;
mod filling;
mod firewall;
mod garbage;
mod granted;
mod guards;
mod hangs;
mod hostile;
mod kernel_app;
mod kernel_killed;
mod lab;
mod limits;
mod link_monitor;
mod lldp;
mod logs;
mod many;
mod mininet;
mod negotiation;
mod offences;
mod operators;
mod packages;
mod pausing;
mod refusals;
mod scaffold;
mod services;
mod skipped;
mod slow_switch;
mod stopping;
mod switching;
mod tls;
mod wire;
mod workers;
