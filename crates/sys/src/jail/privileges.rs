//! Capabilities, `capabilities(7)`: all given up, in every set they can be in.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_capabilities_secure_bits,
};

/// Gives up every capability, and every way by which executing a file or changing the user could
/// bring one back.
pub(super) fn drop_capabilities() -> io::Result<()> {
    // Both take a capability themselves; who does not have it has none to gain either, as no new
    // privileges come by executing.
    if capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        shrink_bounding_set()?;
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

/// Takes every capability out of the set of those that could be gained by executing.
pub(super) fn shrink_bounding_set() -> io::Result<()> {
    for number in 0..64_u32 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
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
