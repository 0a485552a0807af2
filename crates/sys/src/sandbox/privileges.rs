//! Capabilities, `capabilities(7)`: all given up, in every set they can be in.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_capabilities_secure_bits,
};

/// What the monitor needs, and what needs it.
const OF_MONITOR: [CapabilitySet; 13] = [
    CapabilitySet::CHOWN,            // the admin socket's group
    CapabilitySet::DAC_OVERRIDE,     // objects and configurations in directories of others
    CapabilitySet::DAC_READ_SEARCH,  // the same
    CapabilitySet::FOWNER,           // the same
    CapabilitySet::KILL,             // ending children, which have other users
    CapabilitySet::NET_BIND_SERVICE, // listening on ports below 1024
    CapabilitySet::SETFCAP,          // user namespaces of children who are root in ours
    CapabilitySet::SETGID,           // users of children
    CapabilitySet::SETPCAP,          // children take capabilities from what they could gain
    CapabilitySet::SETUID,           // users of children
    CapabilitySet::SYS_ADMIN,        // namespaces, roots and host names of children
    CapabilitySet::SYS_PTRACE,       // the paths of calls that were refused
    CapabilitySet::SYS_RESOURCE,     // limits of children
];

/// Gives up what the monitor does not need, if it is root.
pub(super) fn keep_those_of_monitor() -> io::Result<()> {
    let kept = OF_MONITOR.iter().fold(CapabilitySet::empty(), |all, one| all | *one);
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

/// Gives up every capability, and every way by which executing a file or changing the user could
/// bring one back.
pub(super) fn drop_capabilities() -> io::Result<()> {
    // Both take a capability themselves; who does not have it has none to gain either, as no new
    // privileges come by executing.
    if capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        shrink_bounding_set(CapabilitySet::empty())?;
        set_capabilities_secure_bits(SECURE)?;
    }
    let _ = clear_ambient_capability_set(); // before Linux 4.3 there is none
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, none)?;
    if capabilities(None)? != none {
        return Err(io::Error::other("the system kept a capability"));
    }
    Ok(())
}

/// Takes every capability but `kept` out of the set of those that could be gained by executing.
pub(super) fn shrink_bounding_set(kept: CapabilitySet) -> io::Result<()> {
    for number in 0..64_u32 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if kept.contains(capability) {
            continue;
        }
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            Err(Errno::INVAL) => break, // beyond the last that the system knows
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Root is a user as any other, for good.
const SECURE: CapabilitiesSecureBits = CapabilitiesSecureBits::NO_ROOT
    .union(CapabilitiesSecureBits::NO_ROOT_LOCKED)
    .union(CapabilitiesSecureBits::NO_SETUID_FIXUP)
    .union(CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED)
    .union(CapabilitiesSecureBits::KEEP_CAPS_LOCKED)
    .union(CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE)
    .union(CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED);
