//! The system users that the kernel and the apps run as.
//!
//! Numbers without names, from a range that systemd's documentation ("Users, Groups, UIDs and GIDs
//! on systemd Systems") lists as unused: nobody has to create users, and no file belongs to them.

use std::io;

use services::kind::Kind;
use tracing::{info, warn};

use crate::error::StartError;

/// The kernel's user and group; app `n` gets this plus `n`.
const BASE: u32 = 0x7000_0000;

/// Where the services' begin, behind those of apps.
const SERVICES: u32 = BASE + 0x1_0000;

/// Which users there are in our user namespace.
const UID_MAP: &str = "/proc/self/uid_map";

/// Whether there are separate users on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Users {
    /// We are root: everybody gets a user of their own.
    Separate,
    /// We are not root.
    NotRoot,
    /// We are root in a user namespace that does not have the numbers.
    NotMapped,
}

impl Users {
    /// Finds out.
    ///
    /// # Errors
    /// [`StartError::Users`] if the system does not say which numbers there are.
    pub(crate) fn find() -> Result<Self, StartError> {
        if !sys::process::is_root() {
            return Ok(Self::NotRoot);
        }
        Self::of_root(std::fs::read_to_string(UID_MAP))
    }

    /// What root has, by its map of users. One that cannot be read is not taken for one without the
    /// numbers: everybody would run as root then.
    fn of_root(map: io::Result<String>) -> Result<Self, StartError> {
        let map = map.map_err(|source| StartError::Users { map: UID_MAP, source })?;
        Ok(if maps(&map, BASE, 0x1_0100) { Self::Separate } else { Self::NotMapped })
    }

    /// Says in the log whose user the others will have.
    pub(crate) fn tell(self) {
        match self {
            Self::Separate => {}
            Self::NotRoot => {
                info!("apps share your user, seen from outside; run as root for separate users");
            }
            Self::NotMapped => {
                warn!(
                    "apps share your user: this container has no users from 0x70000000 on; run as \
                     root outside of it for separate users"
                );
            }
        }
    }

    /// The user for the kernel; `None` if it is to stay ours.
    pub(crate) fn for_kernel(self) -> Option<u32> {
        (self == Self::Separate).then_some(BASE)
    }

    /// The user for a service; `None` if it is to stay ours.
    pub(crate) fn for_service(self, service: Kind) -> Option<u32> {
        self.for_kernel().map(|_| SERVICES + service.number())
    }

    /// The user for app number `app`; `None` if it is to stay ours.
    pub(crate) fn for_app(self, app: u16) -> Option<u32> {
        self.for_kernel().map(|base| base + u32::from(app))
    }

    /// A user that neither the kernel nor an app has.
    pub(crate) fn for_nobody(self) -> Option<u32> {
        self.for_app(u16::MAX)
    }
}

/// Whether all of `len` numbers from `first` are in one line of a `uid_map`, `user_namespaces(7)`.
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
    fn real_root_has_all_numbers_and_rootless_containers_do_not() {
        assert!(maps("         0          0 4294967295\n", BASE, 0xffff));
        assert!(!maps("0 1000 1\n1 100000 65536\n", BASE, 0xffff));
        assert!(!maps("", BASE, 0xffff));
    }

    #[test]
    fn map_that_cannot_be_read_is_no_reason_to_run_everything_as_root() {
        let error = Users::of_root(Err(io::ErrorKind::NotFound.into())).unwrap_err();
        assert!(error.to_string().contains("/proc/self/uid_map"), "{error}");
        assert_eq!(Users::of_root(Ok("0 1000 1\n".into())).unwrap(), Users::NotMapped);
        assert_eq!(Users::of_root(Ok("0 0 4294967295\n".into())).unwrap(), Users::Separate);
    }

    #[test]
    fn apps_get_numbers_behind_the_kernels() {
        assert_eq!(Users::Separate.for_kernel(), Some(1_879_048_192));
        assert_eq!(Users::Separate.for_app(1), Some(1_879_048_193));
        assert_eq!(Users::NotRoot.for_app(1), None);
    }
}
