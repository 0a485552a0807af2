//! Gives up capabilities in every set that can hold them, `capabilities(7)`.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_capabilities_secure_bits,
};

/// The capabilities that the monitor keeps, with their uses.
const KEPT_BY_MONITOR: [CapabilitySet; 14] = [
    CapabilitySet::CHOWN,            // the admin socket's group
    CapabilitySet::DAC_OVERRIDE,     // objects and configurations in directories of others
    CapabilitySet::DAC_READ_SEARCH,  // the same
    CapabilitySet::FOWNER,           // the same
    CapabilitySet::KILL,             // ending children, which have other users
    CapabilitySet::NET_BIND_SERVICE, // listening on ports below 1024
    CapabilitySet::SETFCAP,          // user namespaces of children who are root in ours
    CapabilitySet::SETGID,           // users of children
    CapabilitySet::SETPCAP,          // children shrink their bounding sets
    CapabilitySet::SETUID,           // users of children
    CapabilitySet::SYS_ADMIN,        // namespaces, roots and host names of children
    CapabilitySet::SYS_NICE,         // reserved processor time of zones and workers
    CapabilitySet::SYS_PTRACE,       // the paths in refused calls
    CapabilitySet::SYS_RESOURCE,     // limits of children
];

/// Gives up the capabilities that the monitor does not need.
pub(super) fn keep_those_of_monitor() -> io::Result<()> {
    let kept = KEPT_BY_MONITOR.iter().fold(CapabilitySet::empty(), |all, one| all | *one);
    let held = capabilities(None)?;
    if held.effective.contains(CapabilitySet::SETPCAP) {
        shrink_bounding_set(kept)?;
    }
    let left = CapabilitySets {
        effective: held.effective & kept,
        permitted: held.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, left)?)
}

/// Gives up every capability, so that neither execve(2) nor a change of the user can bring one back.
pub(super) fn drop_capabilities() -> io::Result<()> {
    // Both steps need a capability. A process without it cannot gain one either, because `no_new_privs` is set.
    if capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        shrink_bounding_set(CapabilitySet::empty())?;
        set_capabilities_secure_bits(SECURE)?;
    }
    let _ = clear_ambient_capability_set(); // fails before Linux 4.3, which has no such set
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, none)?;
    if capabilities(None)? != none {
        return Err(io::Error::other("the system kept a capability"));
    }
    Ok(())
}

/// Removes every capability except `kept` from the bounding set, which limits what execve(2) can add.
pub(super) fn shrink_bounding_set(kept: CapabilitySet) -> io::Result<()> {
    for number in 0..64_u32 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if kept.contains(capability) {
            continue;
        }
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            Err(Errno::INVAL) => break, // the number after the last capability of this system
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Makes user number 0 an ordinary user, irrevocably.
const SECURE: CapabilitiesSecureBits = CapabilitiesSecureBits::NO_ROOT
    .union(CapabilitiesSecureBits::NO_ROOT_LOCKED)
    .union(CapabilitiesSecureBits::NO_SETUID_FIXUP)
    .union(CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED)
    .union(CapabilitiesSecureBits::KEEP_CAPS_LOCKED)
    .union(CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE)
    .union(CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED);
