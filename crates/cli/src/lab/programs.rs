//! The programs that a lab requires, and their Debian packages.

use std::env;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::LabError;

/// Every program with its package on Debian and Ubuntu. `make` installs the same ones with
/// `.ci/need`.
const PACKAGES: [(&str, &str); 9] = [
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("ping", "iputils-ping"),
    ("tcpdump", "tcpdump"),
    ("ovsdb-tool", "openvswitch-switch"),
    ("ovsdb-server", "openvswitch-switch"),
    ("ovs-vswitchd", "openvswitch-switch"),
    ("ovs-vsctl", "openvswitch-switch"),
    ("ovs-ofctl", "openvswitch-switch"),
];

/// Checks that all programs exist, so that a lab fails immediately and lists every missing one.
pub(super) fn check() -> Result<(), LabError> {
    let missing: Vec<_> =
        PACKAGES.into_iter().filter(|(program, _)| find(program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let programs = missing.iter().map(|(program, _)| *program).collect();
    let mut packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    let in_sbin = missing.iter().all(|(program, _)| Path::new("/usr/sbin").join(program).is_file());
    Err(LabError::Missing { programs, packages, in_sbin })
}

/// Finds `program` in `PATH`.
fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(program)).find(|file| {
        file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}
