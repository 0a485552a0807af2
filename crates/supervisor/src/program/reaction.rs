//! Says what follows the end of a program, for the log, incidents and operators.

use crate::lifecycle::Next;
use crate::restart_policy::TooManyRestarts;

use super::ProgramKind;

/// What follows, for the log.
pub(super) fn next(next: Next) -> String {
    match next {
        Next::StartAtOnce => "start again at once".into(),
        Next::StartAfter(time) => format!("start again in {} ms", time.as_millis()),
        Next::Held => "held until one of its files changes".into(),
        Next::HeldForRestarts(why) => format!("held: {why}"),
        Next::Stay => "none".into(),
    }
}

/// What follows, for an incident.
pub(super) fn reaction(next: Next) -> String {
    match next {
        Next::StartAtOnce => "restart at once".into(),
        Next::StartAfter(time) => format!("restart after {} ms", time.as_millis()),
        Next::Held => "held until one of its files changes".into(),
        Next::HeldForRestarts(why) => format!("held: {why}"),
        Next::Stay => "not restarted".into(),
    }
}

/// When a program that is held for its many restarts is started again, and what the operator can do.
pub fn end_of_hold(kind: &ProgramKind, why: TooManyRestarts) -> String {
    match kind {
        ProgramKind::Zone(app) => format!(
            "correct its cause; it is started again when its files change, or with `rosemary app start {app}`"
        ),
        ProgramKind::Kernel | ProgramKind::Service(_) | ProgramKind::Northbound => {
            format!("correct its cause; it is started again after {} s", why.window.as_secs())
        }
    }
}
