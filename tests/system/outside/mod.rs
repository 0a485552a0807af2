//! Attacks from outside of the zones, by switches, hosts, clients, files and operators' mistakes. `make hostile` runs them.

mod beside;
mod floods;
mod machine;
mod network;
mod rogue;
mod services;
mod switches;
