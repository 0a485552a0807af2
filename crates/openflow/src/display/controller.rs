//! Formats controllers: their roles, the messages that they get, bundles and forwarded requests.

use super::{Bits, Hex, Seconds};
use crate::{
    AsyncConfig, BundleAdd, BundleCommand, BundleControl, BundleFlags, ControllerRole,
    ControllerStatus, Message, RequestForward, Role, RoleReason, RoleStatus,
};
use core::fmt;

impl fmt::Display for ControllerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NoChange => "nochange",
            Self::Equal => "equal",
            Self::Master => "master",
            Self::Slave => "slave",
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "role={} generation_id={}", self.role, self.generation_id)?;
        match self.short_id {
            Some(id) => write!(f, " short_id={id}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for RoleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MasterRequest => f.pad("master_request"),
            Self::Config => f.pad("configuration_changed"),
            Self::Experimenter => f.pad("experimenter_data_changed"),
            Self::Other(other) => write!(f, "{other}"),
        }
    }
}

impl fmt::Display for RoleStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role, reason, generation_id } = self;
        write!(f, "role={role} generation_id={generation_id} reason={reason}")
    }
}

impl fmt::Display for AsyncConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        type Names = &'static [(u32, &'static str)];
        let packet_in: Names = &[
            (1, "no_match"),
            (2, "action"),
            (4, "invalid_ttl"),
            (8, "action_set"),
            (16, "group"),
            (32, "packet_out"),
        ];
        let removed: Names = &[
            (1, "idle"),
            (2, "hard"),
            (4, "delete"),
            (8, "group_delete"),
            (16, "meter_delete"),
            (32, "eviction"),
        ];
        let kinds: [(&str, _, Names); 8] = [
            ("packet_in", self.packet_in, packet_in),
            ("port_status", self.port_status, &[(1, "add"), (2, "delete"), (4, "modify")]),
            ("flow_removed", self.flow_removed, removed),
            ("role_status", self.role_status, &[(1, "master_request"), (2, "config")]),
            ("table_status", self.table_status, &[(8, "vacancy_down"), (16, "vacancy_up")]),
            ("requestforward", self.request_forward, &[(1, "group_mod"), (2, "meter_mod")]),
            ("flow_stats", self.flow_stats, &[(1, "request"), (2, "stat_trigger")]),
            ("controller_status", self.controller_status, &[]),
        ];
        let whose = |f: &mut fmt::Formatter<'_>, place: usize| {
            kinds.iter().try_for_each(|(kind, masks, names)| match masks.get(place) {
                Some(&Some(bits)) => write!(f, " {kind}({})", Bits { bits, names }),
                _ => Ok(()),
            })
        };
        f.write_str("master:")?;
        whose(f, 0)?;
        f.write_str("; slave:")?;
        whose(f, 1)
    }
}

impl fmt::Display for BundleCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::OpenRequest => "OPEN_REQUEST",
            Self::OpenReply => "OPEN_REPLY",
            Self::CloseRequest => "CLOSE_REQUEST",
            Self::CloseReply => "CLOSE_REPLY",
            Self::CommitRequest => "COMMIT_REQUEST",
            Self::CommitReply => "COMMIT_REPLY",
            Self::DiscardRequest => "DISCARD_REQUEST",
            Self::DiscardReply => "DISCARD_REPLY",
        })
    }
}

impl fmt::Display for BundleFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = &[(1, "atomic"), (2, "ordered"), (4, "time")];
        Bits { bits: self.0.into(), names }.fmt(f)
    }
}

impl fmt::Display for BundleControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bundle_id, command, flags, time } = self;
        write!(f, "bundle_id={bundle_id:#x} type={command} flags={flags}")?;
        match time {
            Some(time) => write!(f, " time={}", Seconds(*time)),
            None => Ok(()),
        }
    }
}

/// A message inside of another one, or its bytes if it is invalid. Only one level is decoded, as hostile messages may have more.
struct Inner<'a>(&'a [u8]);

impl fmt::Display for Inner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Message::decode(self.0) {
            Ok(message) if !holds_message(&message) => message.fmt(f),
            _ => Hex(self.0).fmt(f),
        }
    }
}

/// Whether a message has another one inside.
fn holds_message(message: &Message<'_>) -> bool {
    use crate::Kind;
    matches!(message.kind(), Some(Kind::BundleAdd | Kind::RequestForward))
}

impl fmt::Display for BundleAdd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bundle_id, flags, message, time } = self;
        write!(f, "bundle_id={bundle_id:#x} flags={flags}")?;
        if let Some(time) = time {
            write!(f, " time={}", Seconds(*time))?;
        }
        write!(f, " {}", Inner(message))
    }
}

impl fmt::Display for RequestForward<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Inner(self.request).fmt(f)
    }
}

impl fmt::Display for ControllerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { short_id, role, reason, is_up, uri } = self;
        let state = if *is_up { "up" } else { "down" };
        write!(f, "short_id={short_id} role={role} reason={reason} channel={state}")?;
        if uri.is_empty() { Ok(()) } else { write!(f, " uri={}", uri.escape_ascii()) }
    }
}
