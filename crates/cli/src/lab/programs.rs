//! The programs that a lab and the experiments in it require, and their Debian packages.

use std::env;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::LabError;

/// The programs that every lab requires.
const OF_A_LAB: [&str; 9] = [
    "ip",
    "ethtool",
    "ping",
    "tcpdump",
    "ovsdb-tool",
    "ovsdb-server",
    "ovs-vswitchd",
    "ovs-vsctl",
    "ovs-ofctl",
];

/// The package of each program on Debian and Ubuntu, unless it has the program's name. `make` installs the same ones
/// with `.ci/need`.
const PACKAGES: [(&str, &str); 10] = [
    ("cc", "build-essential"),
    ("ip", "iproute2"),
    ("ovs-testcontroller", "openvswitch-testcontroller"),
    ("ping", "iputils-ping"),
    ("python3", "python3-venv"),
    ("ovsdb-tool", "openvswitch-switch"),
    ("ovsdb-server", "openvswitch-switch"),
    ("ovs-vswitchd", "openvswitch-switch"),
    ("ovs-vsctl", "openvswitch-switch"),
    ("ovs-ofctl", "openvswitch-switch"),
];

/// Checks that the programs of every lab exist.
pub(super) fn check() -> Result<(), LabError> {
    require(&OF_A_LAB)
}

/// Checks that these programs exist, so that an experiment fails immediately.
///
/// # Errors
/// [`LabError::Missing`], which lists every missing program and the packages to install.
pub fn require(programs: &[&'static str]) -> Result<(), LabError> {
    let missing: Vec<_> =
        programs.iter().copied().filter(|program| find(program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<_> = missing.iter().copied().map(package_of).collect();
    packages.dedup();
    let in_sbin = missing.iter().all(|program| Path::new("/usr/sbin").join(program).is_file());
    Err(LabError::Missing { programs: missing, packages, in_sbin })
}

fn package_of(program: &'static str) -> &'static str {
    let known = PACKAGES.into_iter().find(|(its, _)| *its == program);
    known.map_or(program, |(_, package)| package)
}

/// Finds `program` in `PATH`.
fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(program)).find(|file| {
        file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_named_with_its_package() {
        assert!(require(&["sh"]).is_ok());
        let error = require(&["sh", "no-such-program"]).expect_err("it is missing").to_string();
        assert!(error.starts_with("not found in PATH: no-such-program; type: "), "{error}");
        assert!(error.ends_with("apt-get install no-such-program"), "{error}");
        assert_eq!(package_of("ovs-testcontroller"), "openvswitch-testcontroller");
        assert_eq!(package_of("tcpdump"), "tcpdump");
    }
}
