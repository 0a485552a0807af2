//! The applications that ship with Rosemary: each is one file beside this one, and one shared
//! object, written as anybody's app would be.
//!
//! | app | what it does |
//! | --- | --- |
//! | `learning_switch.rs` | remembers which port each host is behind, floods when it does not know |
//! | `firewall.rs` | a guard: denies what its rules name, in the switches and on the way to the others |
//! | `link_monitor.rs` | tells which switches, ports and links come and go |
//!
//! A new one is a file here and an `[[example]]` entry in `Cargo.toml`; this library itself is
//! empty. What an app here will never do: use anything that the SDK does not offer to everybody.
