//! Attacks from outside of the zones, by switches, hosts, clients, files and operators' mistakes. `make hostile` runs them.

mod backups;
mod beside;
mod files;
mod floods;
mod group_meter;
mod machine;
mod network;
mod reloads;
mod rogue;
mod ryu;
mod services;
mod switches;
mod tls_clients;
