//! Reads what a switch has: from the kernel's listing, or with requests of the library.

use openflow::{FlowStatsRequest, Match, MeterMod, MultipartReply, MultipartRequest, ReplyBody};

use super::super::Owns;
use super::super::difference::Listing;
use super::super::entry::MARK;
use super::super::notice::Notice;
use super::{CHECK_SOON, MOST_LISTED, Phase, READ_PAUSE, RING_PAUSE, Reading, Site, Step, Turn};
use crate::FlowsKept;
use crate::network::{SendError, Xid};

impl Site {
    /// Handles a part of the kernel's listing.
    pub(in crate::wanted) fn kept(&mut self, kept: &FlowsKept<'_>, turn: &mut Turn<'_, '_, '_>) {
        let (parts, size) = &mut self.kept;
        let Ok(MultipartReply { more, body: ReplyBody::Flow(flows) }) = kept.decode() else {
            return self.check_by(turn.now() + CHECK_SOON);
        };
        *size += kept.message.len();
        if !flows.is_empty() && *size <= MOST_LISTED {
            parts.push(kept.message.into());
        }
        if more {
            return;
        }
        let is_whole = kept.is_complete && *size <= MOST_LISTED;
        let (flows, _) = std::mem::take(&mut self.kept);
        self.has_kept = true;
        let is_quiet = match self.phase {
            Phase::Waiting(_) => true,
            Phase::Idle => self.has_sent_all(),
            Phase::Reading(_) => return,
        };
        if !is_whole || !is_quiet {
            if matches!(self.phase, Phase::Waiting(_)) {
                self.phase = Phase::Idle;
            }
            return self.check_by(turn.now() + CHECK_SOON);
        }
        let listing = Listing { flows, ..Listing::default() };
        let (xid, since) = (Xid(0), turn.now());
        let reading = Reading { xid, step: Step::Flows, listing, size: 0, since, is_own: false };
        self.next_step(reading, turn);
    }

    /// Begins to read the switch.
    pub(super) fn read(&mut self, turn: &mut Turn<'_, '_, '_>) {
        self.read_as(true, turn);
    }

    /// As [`read`](Self::read). Without `is_own`, the switch lists flows that another instance has sent.
    pub(super) fn read_as(&mut self, is_own: bool, turn: &mut Turn<'_, '_, '_>) {
        let mut flows = FlowStatsRequest::new(Match::new());
        if turn.settings.owns == Owns::Declared && self.switch.version.features().cookie_masks {
            (flows.cookie, flows.cookie_mask) = (MARK, MARK);
        }
        let (request, listing) = (MultipartRequest::Flow(flows), Listing::default());
        self.request(&request, listing, Step::Flows, is_own, turn);
    }

    pub(super) fn request(
        &mut self,
        request: &MultipartRequest<'_>,
        listing: Listing,
        step: Step,
        is_own: bool,
        turn: &mut Turn<'_, '_, '_>,
    ) {
        let since = turn.now();
        match turn.network.request(self.switch, request) {
            Ok(xid) => {
                if step == Step::Flows {
                    self.known.unlisted.clear();
                }
                let reading = Reading { xid, step, listing, size: 0, since, is_own };
                self.phase = Phase::Reading(Box::new(reading));
                self.check_at = None;
            }
            Err(SendError::Full) => {
                self.phase = Phase::Idle;
                self.check_at = Some(since + RING_PAUSE);
            }
            Err(error) => self.cannot_read(error.to_string(), turn),
        }
    }

    /// Continues a reading after a step whose reply is whole, or compares.
    pub(super) fn next_step(&mut self, mut reading: Reading, turn: &mut Turn<'_, '_, '_>) {
        let features = self.switch.version.features();
        let has_groups = features.groups
            && (turn.settings.owns == Owns::All && turn.settings.groups_and_meters
                || turn.set.has_groups_or_meters(self.switch.dpid));
        let listing = std::mem::take(&mut reading.listing);
        let next = match reading.step {
            Step::Flows if has_groups => Some((Step::Groups, MultipartRequest::GroupDesc)),
            Step::Groups if features.meters => {
                Some((Step::Meters, MultipartRequest::MeterConfig(MeterMod::ALL_METERS)))
            }
            Step::Flows | Step::Groups | Step::Meters => None,
        };
        if let Some((step, request)) = next {
            return self.request(&request, listing, step, reading.is_own, turn);
        }
        self.phase = Phase::Idle;
        self.next_regular_check(turn);
        match listing.compare(self.switch, turn.set, turn.network.host().own(), turn.settings) {
            Ok(plan) => self.adopt(plan, reading.is_own, turn),
            Err(error) => {
                self.cannot_read(format!("the switch's reply is malformed: {error}"), turn);
            }
        }
    }

    pub(super) fn next_regular_check(&mut self, turn: &Turn<'_, '_, '_>) {
        if let Some(every) = turn.settings.check_every {
            self.check_by(turn.now() + every);
        }
    }

    pub(super) fn is_reading(&self, xid: Xid) -> bool {
        matches!(&self.phase, Phase::Reading(reading) if reading.xid == xid)
    }

    /// Continues without the reply to a request that the switch has refused: it has no groups or no meters.
    pub(super) fn reading_failed(&mut self, why: &str, turn: &mut Turn<'_, '_, '_>) -> bool {
        if let Phase::Reading(reading) = std::mem::replace(&mut self.phase, Phase::Idle) {
            if reading.step == Step::Flows {
                self.cannot_read(format!("the switch answered {why}"), turn);
            } else {
                self.next_step(*reading, turn);
            }
        }
        true
    }

    /// Handles a switch that cannot be read: sends what is wanted once, and removes nothing.
    pub(super) fn cannot_read(&mut self, why: String, turn: &mut Turn<'_, '_, '_>) {
        self.phase = Phase::Idle;
        let is_first = self.first_look.take().is_some();
        self.check_at =
            Some(turn.now() + turn.settings.check_every.unwrap_or(READ_PAUSE).max(READ_PAUSE));
        if !std::mem::replace(&mut self.is_blind, true) {
            turn.notices.push(Notice::Blind { switch: self.switch, why });
            if (is_first || !turn.settings.at_once) && !turn.settings.dry_run {
                self.put_all(turn);
            }
        }
    }
}
