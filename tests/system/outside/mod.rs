//! Attacks from outside of the zones, by switches, hosts, clients, files and operators' mistakes. `make hostile` runs them.

mod backups;
mod beside;
mod files;
mod floods;
mod full_storage;
mod group_meter;
mod machine;
mod network;
mod reloads;
mod rogue;
mod services;
mod strangers;
mod switches;
mod tls_clients;
mod web_apps;
