//! Keeps what a switch reports about its controllers: the role of this one, and the state of each.
//!
//! Role status: OpenFlow 1.4.1 §7.4.4; controller status: OpenFlow 1.5.1 §7.4.6.

use openflow::{ControllerRole, ControllerStatus, DecodeError, RoleStatus};

/// Most controllers of a switch whose state is kept.
const MAX_CONTROLLERS: usize = 16;

/// Most bytes of a controller's connection that are kept.
const MAX_URI: usize = 256;

/// The controllers of one switch.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// The role of this controller, once the switch has reported one.
    pub(super) role: Option<ControllerRole>,
    pub(super) controllers: Vec<ControllerStatus>,
}

impl Standing {
    /// Handles a role-status message.
    ///
    /// # Errors
    /// It is malformed.
    pub(super) fn role(&mut self, message: &[u8]) -> Result<RoleStatus, DecodeError> {
        let status = RoleStatus::decode(message)?;
        self.role = Some(status.role);
        Ok(status)
    }

    /// Handles a controller-status message. The states of controllers beyond [`MAX_CONTROLLERS`] are not kept.
    ///
    /// # Errors
    /// It is malformed.
    pub(super) fn controller(&mut self, message: &[u8]) -> Result<ControllerStatus, DecodeError> {
        let mut status = ControllerStatus::decode(message)?;
        status.uri.truncate(MAX_URI);
        let count = self.controllers.len();
        if let Some(known) = self.controllers.iter_mut().find(|it| it.short_id == status.short_id) {
            known.clone_from(&status);
        } else if count < MAX_CONTROLLERS {
            self.controllers.push(status.clone());
        }
        Ok(status)
    }
}

#[cfg(test)]
mod tests {
    use openflow::{RoleReason, Version};

    use super::*;

    #[test]
    fn last_state_of_each_controller_is_kept_within_the_bound() {
        let mut standing = Standing::default();
        let mut message = [0; 1024];
        for (short_id, is_up) in (0..100).map(|id| (id, true)).chain([(3, false)]) {
            let status = ControllerStatus {
                short_id,
                role: ControllerRole::Equal,
                reason: 1,
                is_up,
                uri: vec![b'x'; 500],
            };
            let size = status.encode(Version::V1_5, 0, &mut message).unwrap();
            standing.controller(&message[..size]).unwrap();
        }
        assert_eq!(standing.controllers.len(), MAX_CONTROLLERS);
        let third = &standing.controllers[3];
        assert_eq!((third.short_id, third.is_up, third.uri.len()), (3, false, MAX_URI));
        assert!(standing.controller(&message[..20]).is_err());
    }

    #[test]
    fn reported_role_is_kept() {
        let mut standing = Standing::default();
        let (role, reason) = (ControllerRole::Slave, RoleReason::MasterRequest);
        let status = RoleStatus { role, reason, generation_id: 7 };
        let mut message = [0; 64];
        let size = status.encode(Version::V1_4, 0, &mut message).unwrap();
        assert_eq!(standing.role(&message[..size]), Ok(status));
        assert_eq!(standing.role, Some(ControllerRole::Slave));
    }
}
