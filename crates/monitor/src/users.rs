//! Assigns system users to the kernel, the services and the apps.
//!
//! The user ids have no names. They come from a range that systemd's documentation ("Users, Groups, UIDs and GIDs on
//! systemd Systems") lists as unused, so no user has to be created, and no file belongs to one of them.

use std::io;

use control::service::ServiceKind;
use tracing::{info, warn};

use crate::error::StartError;

/// The kernel's user and group. App number `n` has this plus `n`.
const BASE: u32 = 0x7000_0000;

/// The first user of services, which follow those of apps.
const SERVICES: u32 = BASE + 0x1_0000;

/// The user of the HTTP interface, behind those of services.
const NORTHBOUND: u32 = SERVICES + 0x80;

/// Lists the user ids that exist in the monitor's user namespace.
const UID_MAP: &str = "/proc/self/uid_map";

/// Whether programs have users of their own on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Users {
    /// The monitor is root: each program has a user of its own.
    Separate,
    /// The monitor is not root: programs share its user.
    NotRoot,
    /// The monitor is root in a user namespace without these user ids: programs share its user.
    NotMapped,
}

impl Users {
    /// Finds out what this machine supports.
    ///
    /// # Errors
    /// [`StartError::Users`] if the map of user ids cannot be read.
    pub(crate) fn find() -> Result<Self, StartError> {
        if !sys::process::is_root() {
            return Ok(Self::NotRoot);
        }
        Self::of_root(std::fs::read_to_string(UID_MAP))
    }

    /// Finds out what root can use, by its map of user ids.
    ///
    /// A map that cannot be read is an error: taken for one without the ids, it would let all programs run as root.
    fn of_root(map: io::Result<String>) -> Result<Self, StartError> {
        let map = map.map_err(|source| StartError::Users { map: UID_MAP, source })?;
        Ok(if maps(&map, BASE, 0x1_0100) { Self::Separate } else { Self::NotMapped })
    }

    /// Logs which users the programs have, unless each has its own.
    pub(crate) fn log(self) {
        match self {
            Self::Separate => {}
            Self::NotRoot => {
                info!("apps run as your user; run Rosemary as root for separate users");
            }
            Self::NotMapped => {
                warn!(
                    "apps run as your user, since this container has no user ids from 0x70000000 on; run \
                     Rosemary as root outside of it for separate users"
                );
            }
        }
    }

    /// The user for the kernel; `None` for the monitor's own.
    pub(crate) fn for_kernel(self) -> Option<u32> {
        (self == Self::Separate).then_some(BASE)
    }

    /// The user for a service; `None` for the monitor's own.
    pub(crate) fn for_service(self, service: ServiceKind) -> Option<u32> {
        self.for_kernel().map(|_| SERVICES + service.number())
    }

    /// The user for the HTTP interface; `None` for the monitor's own.
    pub(crate) fn for_northbound(self) -> Option<u32> {
        self.for_kernel().map(|_| NORTHBOUND)
    }

    /// The user for app number `app`; `None` for the monitor's own.
    pub(crate) fn for_app(self, app: u16) -> Option<u32> {
        self.for_kernel().map(|base| base + u32::from(app))
    }

    /// A user that neither the kernel nor an app has.
    pub(crate) fn for_nobody(self) -> Option<u32> {
        self.for_app(u16::MAX)
    }
}

/// Whether each app has a user of its own on this machine.
///
/// # Errors
/// [`StartError::Users`] if the map of user ids cannot be read.
pub fn are_separate() -> Result<bool, StartError> {
    Ok(Users::find()? == Users::Separate)
}

/// Returns whether one line of a `uid_map` (`user_namespaces(7)`) has all of `len` ids from `first`.
fn maps(map: &str, first: u32, len: u32) -> bool {
    map.lines().any(|line| {
        let mut fields = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(start)), Some(Ok(_)), Some(Ok(count))) =
            (fields.next(), fields.next(), fields.next())
        else {
            return false;
        };
        start <= u64::from(first) && u64::from(first) + u64::from(len) <= start + count
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rootless_container_lacks_user_ids() {
        assert!(maps("         0          0 4294967295\n", BASE, 0xffff));
        assert!(!maps("0 1000 1\n1 100000 65536\n", BASE, 0xffff));
        assert!(!maps("", BASE, 0xffff));
    }

    #[test]
    fn unreadable_map_is_an_error() {
        let error = Users::of_root(Err(io::ErrorKind::NotFound.into())).unwrap_err();
        assert!(error.to_string().contains("/proc/self/uid_map"), "{error}");
        assert_eq!(Users::of_root(Ok("0 1000 1\n".into())).unwrap(), Users::NotMapped);
        assert_eq!(Users::of_root(Ok("0 0 4294967295\n".into())).unwrap(), Users::Separate);
    }

    #[test]
    fn user_ids_of_apps_follow_the_kernel() {
        assert_eq!(Users::Separate.for_kernel(), Some(1_879_048_192));
        assert_eq!(Users::Separate.for_app(1), Some(1_879_048_193));
        assert_eq!(Users::NotRoot.for_app(1), None);
    }
}
