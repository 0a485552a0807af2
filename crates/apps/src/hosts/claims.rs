//! Keeps claims that wait for a decision: a host seen at a second live port, or an address stated by a second host.
//!
//! The first owner is probed at once and twice more. A packet of it ends the claim. If it is silent for [`HOLD`], the
//! claim stands, provided that the owner could be probed or that the claimant has gone on sending. One packet with a
//! forged source therefore moves nobody.

use std::net::IpAddr;
use std::time::Duration;

use rosemary_sdk::MacAddr;
use rosemary_sdk::services::topology::Endpoint;

use super::directory::HostId;

/// Time that the first owner has to answer.
pub(super) const HOLD: Duration = Duration::from_secs(1);

/// Times of the probes after the beginning of a claim.
const PROBES: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(300), Duration::from_millis(600)];

/// Time for which the claimant of an owner that cannot be probed must have sent packets.
const INSISTS: Duration = Duration::from_millis(250);

/// Most claims at a time. While there are as many, hosts and addresses stay where they are.
const MOST_CLAIMS: usize = 1024;

/// The subject of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// The host is at another port.
    Place,
    /// The host's address is another host's.
    Address(IpAddr),
}

/// A claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    pub(super) subject: Subject,
    /// The first owner.
    pub(super) owner: HostId,
    /// Who claims it, and where.
    pub(super) by: MacAddr,
    pub(super) at: Endpoint,
    pub(super) is_probed: bool,
    packets: u32,
    began: Duration,
    last: Duration,
    probes: usize,
}

impl Claim {
    /// Returns whether the claim stands after a silent owner.
    pub(super) fn stands(&self) -> bool {
        self.is_probed || self.packets > 1 && self.last.saturating_sub(self.began) >= INSISTS
    }

    fn next_step(&self) -> Duration {
        let next = PROBES.get(self.probes).copied().unwrap_or(HOLD);
        self.began + next
    }
}

/// The next step of a claim.
#[derive(Debug, Clone, Copy)]
pub(super) enum Due {
    /// The owner is to be probed.
    Probe(Claim),
    /// The owner was silent.
    Silent(Claim),
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Claims(Vec<Claim>);

impl Claims {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Begins a claim, or counts a packet of one that there is. Returns whether it began.
    pub(super) fn note(
        &mut self,
        (owner, subject): (HostId, Subject),
        (by, at): (MacAddr, Endpoint),
        now: Duration,
    ) -> bool {
        if let Some(claim) = self.0.iter_mut().find(|it| (it.owner, it.subject) == (owner, subject))
        {
            if (claim.by, claim.at) == (by, at) {
                claim.packets = claim.packets.saturating_add(1);
                claim.last = now;
            }
            return false;
        }
        if self.0.len() >= MOST_CLAIMS {
            return false;
        }
        let (packets, probes, is_probed) = (1, 0, false);
        self.0.push(Claim {
            subject,
            owner,
            by,
            at,
            is_probed,
            packets,
            began: now,
            last: now,
            probes,
        });
        true
    }

    /// Ends a claim.
    pub(super) fn end(&mut self, owner: HostId, subject: Subject) -> Option<Claim> {
        let at = self.0.iter().position(|it| (it.owner, it.subject) == (owner, subject))?;
        Some(self.0.swap_remove(at))
    }

    /// Ends the claims about a host that is gone.
    pub(super) fn end_all(&mut self, owner: HostId) {
        self.0.retain(|claim| claim.owner != owner);
    }

    /// Notes that a probe was sent to the owner.
    pub(super) fn probed(&mut self, owner: HostId, subject: Subject) {
        if let Some(claim) = self.0.iter_mut().find(|it| (it.owner, it.subject) == (owner, subject))
        {
            claim.is_probed = true;
        }
    }

    /// Returns the next thing that is due.
    pub(super) fn due(&mut self, now: Duration) -> Option<Due> {
        let at = self.0.iter().position(|claim| claim.next_step() <= now)?;
        let claim = self.0.get_mut(at)?;
        if claim.probes < PROBES.len() {
            claim.probes += 1;
            return Some(Due::Probe(*claim));
        }
        Some(Due::Silent(self.0.swap_remove(at)))
    }

    /// Returns when something is due next.
    pub(super) fn next(&self) -> Option<Duration> {
        self.0.iter().map(Claim::next_step).min()
    }
}
