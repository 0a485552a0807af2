//! Restricts files, TCP, signals and abstract sockets by Landlock rules, `landlock(7)`.
//!
//! Landlock is the second layer behind a private root directory and a private network, and the first layer where
//! the system refuses those. The crate `landlock` leaves out what the running system does not support; this module
//! decides which rights exist and reports which of them are in force.

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd,
    PathFdError, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, Scope, make_bitflags,
};

use super::grants::Grant;
use super::{Mechanism, OBJECTS, Report, Sandbox};

/// The newest version of Landlock that this module uses. A right of a later version would be denied untested.
const VERSION: ABI = ABI::V6;

const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});
const WRITE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | RemoveDir | RemoveFile | MakeDir | MakeReg | Truncate
});

/// The paths that the dynamic loader reads.
const LIBRARIES: [&str; 9] = [
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libx32",
    "/etc/ld.so.cache",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
];

/// Why Landlock is not in force.
#[derive(Debug, thiserror::Error)]
enum LandlockError {
    #[error("Landlock: {0}")]
    Ruleset(#[from] landlock::RulesetError),
    #[error("Landlock: {0}")]
    Path(#[from] PathFdError),
    #[error("this Linux does not have Landlock (since 5.13)")]
    NotImplemented,
    #[error("Landlock is switched off (boot with lsm=landlock,...)")]
    NotEnabled,
}

/// Restricts the calling thread and everything it starts. `own_root`: the process has a private root directory, so
/// `/app` and `/tmp` are its own.
pub(super) fn restrict(
    sandbox: &Sandbox<'_>,
    grants: &[Grant<'_>],
    own_root: bool,
    report: &mut Report,
) {
    let enforced = enforce(sandbox, grants, own_root);
    let reason = |mechanism| match &enforced {
        Err(error) => Some(error.to_string()),
        Ok(version) => {
            let (since, linux) = match mechanism {
                Mechanism::LandlockTcp => (ABI::V4, "6.7"),
                Mechanism::LandlockScopes => (ABI::V6, "6.12"),
                _ => (ABI::V1, "5.13"),
            };
            (*version < since).then(|| format!("this Linux does not have it (since {linux})"))
        }
    };
    for mechanism in [Mechanism::LandlockFiles, Mechanism::LandlockTcp, Mechanism::LandlockScopes] {
        match (mechanism, reason(mechanism)) {
            // A process that keeps the network is meant to use TCP. It needs no scopes: its list of system calls has
            // no socket with an abstract name, and it can send signals only to processes of its own.
            (Mechanism::LandlockTcp, _) | (Mechanism::LandlockScopes, Some(_))
                if sandbox.network =>
            {
                report.granted(mechanism);
            }
            (_, Some(reason)) => report.missing(mechanism, reason),
            (_, None) => report.on(mechanism),
        }
    }
}

/// Applies the rules; returns the version of Landlock that is in force.
fn enforce(
    sandbox: &Sandbox<'_>,
    grants: &[Grant<'_>],
    own_root: bool,
) -> Result<ABI, LandlockError> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(VERSION))?
        .scope(Scope::from_all(VERSION))?;
    if !sandbox.network {
        ruleset = ruleset.handle_access(AccessNet::from_all(VERSION))?;
    }
    let mut rules = ruleset.create()?;
    let private = own_root.then_some((OBJECTS, READ)).into_iter();
    let tmp = (own_root && sandbox.tmp.is_some()).then_some(("/tmp", WRITE));
    for (path, access) in LIBRARIES.map(|path| (path, READ)).into_iter().chain(private).chain(tmp) {
        match PathFd::new(path) {
            Ok(opened) => rules = rules.add_rule(PathBeneath::new(opened, access))?,
            // A path that does not exist needs no rule.
            Err(PathFdError::OpenCall { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    for grant in grants {
        // By descriptor: the process has another user by now and may not be able to reach the path.
        rules = rules.add_rule(PathBeneath::new(&grant.opened, READ))?;
    }
    match rules.restrict_self()?.landlock {
        LandlockStatus::Available { effective_abi, .. } => Ok(effective_abi),
        LandlockStatus::NotEnabled => Err(LandlockError::NotEnabled),
        LandlockStatus::NotImplemented => Err(LandlockError::NotImplemented),
    }
}
