//! Attacks from outside of the zones, by switches, hosts, clients, files and operators' mistakes. `make hostile` runs them.
