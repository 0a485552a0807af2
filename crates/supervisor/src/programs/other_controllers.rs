//! Records that another controller commands switches.
//!
//! The kernel repeats a sign while it sees it. All signs are one incident until there was none for [`WINDOW`], and the status
//! shows them that long.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use control::incident::{Cause, Evidence, Program};
use control::kernel::{OtherController, OtherSign};
use tracing::warn;

use super::Programs;

/// How long a sign is kept after its last report: three times the interval in which the kernel repeats it.
const WINDOW: Duration = Duration::from_secs(90);

/// The most switches that are kept.
const MOST: usize = 1024;

/// The remedy against another controller.
const REMEDY: &str = "both overwrite each other's flows and send packets twice; stop one of them, or give each switch a single \
                      controller (Open vSwitch: `ovs-vsctl get-controller BRIDGE` shows them, `set-controller` changes them)";

/// The latest sign of each switch, and when it was reported.
#[derive(Debug, Default)]
pub(super) struct OtherControllers(BTreeMap<String, (OtherSign, Instant)>);

impl OtherControllers {
    /// Keeps a sign, and returns whether it is the first one.
    fn note(&mut self, other: OtherController, now: Instant) -> bool {
        self.0.retain(|_, (_, at)| now.saturating_duration_since(*at) < WINDOW);
        let is_first = self.0.is_empty();
        if self.0.len() < MOST || self.0.contains_key(&other.dpid) {
            self.0.insert(other.dpid, (other.sign, now));
        }
        is_first
    }

    /// The switches with a sign, and what to do.
    fn phrase(&self, now: Instant) -> Option<String> {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < WINDOW;
        let mut recent = self.0.iter().filter(|(_, (_, at))| is_recent(*at));
        let (dpid, (sign, _)) = recent.next()?;
        let more = match recent.count() {
            0 => String::new(),
            1 => " and 1 other".to_owned(),
            more => format!(" and {more} others"),
        };
        Some(format!("another controller commands switch {dpid}{more}: {sign}; {REMEDY}"))
    }
}

impl Programs {
    /// Records a sign of another controller.
    pub(super) fn other_controller_seen(&mut self, other: OtherController, now: Instant) {
        let (dpid, sign) = (other.dpid.clone(), other.sign);
        if self.other_controllers.note(other, now) {
            warn!(dpid, %sign, hint = REMEDY, "another controller commands a switch");
            let cause = Cause::OtherController { switch: dpid };
            let evidence = Evidence::fact(sign.to_string());
            let incident = self.incidents.open(Program::kernel(), cause, evidence);
            self.incidents.reaction(incident, "none by itself; `rosemary status` has the remedy");
            self.incidents.close(incident, None);
        }
    }

    /// The switches that another controller commands, and what to do, as a phrase.
    pub fn other_controller(&self, now: Instant) -> Option<String> {
        self.other_controllers.phrase(now)
    }
}

#[cfg(test)]
mod tests {
    use control::app::Installation;

    use super::*;

    fn other(dpid: &str) -> OtherController {
        OtherController { dpid: dpid.into(), sign: OtherSign::Entry(Installation(0xab)) }
    }

    #[test]
    fn repeated_signs_are_said_once_and_end() {
        let (mut others, start) = (OtherControllers::default(), Instant::now());
        assert_eq!(others.phrase(start), None);
        assert!(others.note(other("1"), start));
        for minute in 1..60 {
            let now = start + Duration::from_secs(60 * minute);
            assert!(!others.note(other("1"), now) && !others.note(other("2"), now));
            let phrase = others.phrase(now).unwrap();
            assert!(
                phrase
                    .starts_with("another controller commands switch 1 and 1 other: the Rosemary"),
                "{phrase}"
            );
            assert!(
                phrase.contains("installation 0xab") && phrase.contains("ovs-vsctl"),
                "{phrase}"
            );
        }
        let end = start + Duration::from_secs(60 * 59) + WINDOW;
        assert_eq!(others.phrase(end), None);
        assert!(others.note(other("1"), end), "it was quiet");
    }

    #[test]
    fn switches_with_signs_are_bounded() {
        let (mut others, start) = (OtherControllers::default(), Instant::now());
        let first = (0..3000).filter(|dpid| others.note(other(&dpid.to_string()), start)).count();
        assert_eq!((first, others.0.len()), (1, MOST));
    }
}
