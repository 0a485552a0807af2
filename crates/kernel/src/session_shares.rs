//! Divides a worker's reading among sessions, and the part of a session among its apps.
//!
//! Deficit round robin (Shreedhar, Varghese, SIGCOMM 1995) with quanta that are computed for each round:
//!
//! ```text
//! round = quantum of each session with waiting packet-ins          (sum: the bytes of a round)
//!       = its reserved percentage of the round                     (packet-ins-percent; best effort: best-effort-percent)
//!       + its part of what the others leave, by the weight `extra` (best effort: 100 for each app)
//! ```
//!
//! If no session with waiting packet-ins has `extra`, all of them share by their percentages what the others leave. So a round is
//! never shorter because a session is idle. An app's quantum is that of its session, divided by the session's apps with
//! waiting packet-ins.
//!
//! A switch waits in the queue of one app, its payer, which is read while the app has a deficit. So bytes of switches whose
//! sessions have used their quanta are not even read. Packet-ins are charged to each app that gets them; the payer is charged for
//! the rest of the read, also beyond a debt of one quantum of another app.
//!
//! An app whose packet-ins begin to wait is first in the next round. So it waits for at most one quantum of each other session.
//!
//! Sizes are arguments: nothing here reads a clock or a socket.

use control::session::{SessionId, SessionShare, SessionShares};

use crate::ids::AppSlot;
use crate::plan::{MAX_APPS, Set};

/// The weight of an app without a session for bytes without a reservation.
const ORDINARY: u64 = 100;

/// The least read, in bytes: a few packet-ins. A smaller quantum is gathered for several rounds after it.
const LEAST: i64 = 1024;

/// The least [portion](Shares::portion) of an app, in records.
const LEAST_PORTION: usize = 64;

/// The bytes of a round.
pub(crate) const ROUND: usize = 256 * 1024;

/// A queue of switches: that of an app, or the one of connections whose packet-ins no app gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Payer(u8);

impl Payer {
    /// The connections that feed no app: they are new, or no app wants their packet-ins. They belong to best effort.
    pub(crate) const NONE: Self = Self(NO_APP);

    /// The number of payers.
    pub(crate) const COUNT: usize = MAX_APPS + 1;

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}

impl Default for Payer {
    fn default() -> Self {
        Self::NONE
    }
}

impl From<AppSlot> for Payer {
    fn from(slot: AppSlot) -> Self {
        Self(slot.0)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "64")]
const NO_APP: u8 = MAX_APPS as u8;

/// The state of a payer.
#[derive(Debug, Clone, Copy)]
struct Account {
    /// The place of its session.
    session: u8,
    /// Bytes that it may use in this round; below 0 it has a debt.
    deficit: i64,
    /// The quantum of its last round, in bytes.
    quantum: i64,
    /// Whether switches waited in its queue when this round began.
    waits: bool,
    /// The number of the round in which it was served last.
    served: u64,
}

/// The shares of the sessions of a worker.
#[derive(Debug)]
pub(crate) struct Shares {
    /// The sessions; the first is best effort.
    sessions: Vec<SessionShare>,
    /// The payers, by [`Payer::index`].
    accounts: [Account; Payer::COUNT],
    /// The payers of this round that were not served yet, the next one last.
    order: Vec<Payer>,
    /// The number of this round.
    round: u64,
}

impl Shares {
    /// The shares of these sessions. All apps are in best effort until [`assign`](Self::assign), and those of sessions that reserve no
    /// packet-ins always. `None` if no session reserves any: then there is nothing to divide.
    pub(crate) fn new(shares: &SessionShares) -> Option<Self> {
        let mut reserving =
            shares.sessions.iter().filter(|it| it.packet_ins_percent > 0).peekable();
        reserving.peek()?;
        let best_effort = SessionShare {
            session: SessionId::BEST_EFFORT,
            packet_ins_percent: shares.best_effort_percent,
            sent_percent: shares.best_effort_percent,
            extra: 0, // each app has a weight
        };
        let mut sessions = vec![best_effort];
        sessions.extend(reserving.take(MOST).copied());
        let account = Account { session: 0, deficit: 0, quantum: 0, waits: false, served: 0 };
        let accounts = [account; Payer::COUNT];
        Some(Self { sessions, accounts, order: Vec::with_capacity(Payer::COUNT), round: 0 })
    }

    /// Makes an app a member of a session; of best effort if the session reserves no packet-ins.
    pub(crate) fn assign(&mut self, slot: AppSlot, session: SessionId) {
        let place = self.sessions.iter().position(|it| it.session == session).unwrap_or(0);
        if let Ok(place) = u8::try_from(place) {
            self.accounts[slot.index()].session = place;
        }
    }

    /// Returns the payer of a switch that feeds these apps: one of the session with the largest reservation.
    pub(crate) fn payer(&self, fed: Set) -> Payer {
        let percent = |slot: &AppSlot| {
            let session = &self.sessions[usize::from(self.accounts[slot.index()].session)];
            (session.packet_ins_percent, session.extra)
        };
        // Of several with the same reservation, the first.
        let payer = fed.iter().reduce(|a, b| if percent(&b) > percent(&a) { b } else { a });
        payer.map_or(Payer::NONE, Payer::from)
    }

    /// The part of `all` records that an app may have handled in a turn of the worker, so that the messages of one session do not
    /// delay others. `members` are the apps that exist.
    pub(crate) fn portion(&self, slot: AppSlot, members: usize, all: usize) -> usize {
        let session = self.accounts[slot.index()].session;
        let of_session = self.accounts[..members].iter().filter(|it| it.session == session);
        let percent = |it: &SessionShare| usize::from(it.packet_ins_percent);
        let percent = match session {
            0 => 100 - self.sessions[1..].iter().map(percent).sum::<usize>().min(95),
            place => percent(&self.sessions[usize::from(place)]),
        };
        (all * percent / 100 / of_session.count().max(1)).max(LEAST_PORTION)
    }

    /// Begins a round in which these payers have waiting switches.
    pub(crate) fn begin_round(&mut self, waits: impl Fn(Payer) -> bool) {
        self.round += 1;
        self.order.clear();
        let mut apps = [0_u64; 1 + MOST];
        for index in 0..=NO_APP {
            let payer = Payer(index);
            let account = &mut self.accounts[payer.index()];
            let begins = !account.waits;
            account.waits = waits(payer);
            if !account.waits {
                account.deficit = account.deficit.min(0);
                continue;
            }
            if begins {
                account.served = 0;
            }
            apps[usize::from(account.session)] += 1;
            self.order.push(payer);
        }
        let quanta = quanta(&self.sessions, &apps);
        let (accounts, mut is_usable) = (&mut self.accounts, self.order.is_empty());
        for payer in &self.order {
            let account = &mut accounts[payer.index()];
            let session = usize::from(account.session);
            let apps = i64::try_from(apps[session].max(1)).unwrap_or(i64::MAX);
            account.quantum = (quanta[session] / apps).max(1);
            // An app keeps for one round what it could not use, because its switches were left unread.
            account.deficit = account.deficit.min(account.quantum);
        }
        // More than once only if all of them have debts.
        while !is_usable {
            for payer in &self.order {
                let account = &mut accounts[payer.index()];
                account.deficit += account.quantum;
                is_usable |= account.deficit > 0;
            }
        }
        // Those that were served longest ago come first, and before all those whose packet-ins began to wait.
        self.order.sort_by_key(|payer| std::cmp::Reverse((accounts[payer.index()].served, *payer)));
    }

    /// Returns the payer to be served now; `None` at the end of the round. `waits` says whether it still has waiting switches.
    pub(crate) fn next(&mut self, waits: impl Fn(Payer) -> bool) -> Option<Payer> {
        while let Some(payer) = self.order.last().copied() {
            if self.accounts[payer.index()].deficit > 0 && waits(payer) {
                self.accounts[payer.index()].served = self.round;
                return Some(payer);
            }
            self.order.pop();
        }
        None
    }

    /// Bytes that may be read now from a switch of this payer.
    pub(crate) fn allowance(&self, payer: Payer) -> usize {
        usize::try_from(self.accounts[payer.index()].deficit.max(LEAST)).unwrap_or(usize::MAX)
    }

    /// Charges the read of `size` bytes from a switch of this payer. `taken` has the bytes that each app got of them.
    pub(crate) fn charge(
        &mut self,
        payer: Payer,
        size: usize,
        taken: impl IntoIterator<Item = (AppSlot, u64)>,
    ) {
        let (mut own, mut by_others) = (0, 0);
        for (slot, bytes) in taken {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            if Payer::from(slot) == payer {
                own = bytes;
                continue;
            }
            let account = &mut self.accounts[slot.index()];
            let paid = bytes.min(account.deficit + account.quantum.max(LEAST)).max(0);
            account.deficit -= paid;
            by_others += paid;
        }
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        let account = &mut self.accounts[payer.index()];
        account.deficit -= own.max(size - by_others);
        account.deficit = account.deficit.max(-2 * account.quantum.max(LEAST));
    }
}

/// The highest number of configured sessions.
const MOST: usize = control::session::MOST_SESSIONS;

/// The quantum of each session in bytes. `apps` has the number of its apps with waiting packet-ins.
fn quanta(sessions: &[SessionShare], apps: &[u64; 1 + MOST]) -> [i64; 1 + MOST] {
    let busy = || sessions.iter().zip(apps).enumerate().filter(|(_, (_, apps))| **apps > 0);
    let reserved = |it: &SessionShare| ROUND as u64 * u64::from(it.packet_ins_percent) / 100;
    let left = (ROUND as u64).saturating_sub(busy().map(|(_, (it, _))| reserved(it)).sum());
    let extra = |place: usize, it: &SessionShare, apps: u64| match place {
        0 => ORDINARY * apps,
        _ => u64::from(it.extra),
    };
    let all_extra: u64 = busy().map(|(place, (it, apps))| extra(place, it, *apps)).sum();
    let percent = |it: &SessionShare| u64::from(it.packet_ins_percent.max(1));
    let all_percent: u64 = busy().map(|(_, (it, _))| percent(it)).sum();
    let mut quanta = [0; 1 + MOST];
    for (place, (it, apps)) in busy() {
        let more = match all_extra {
            0 => left * percent(it) / all_percent,
            all => left * extra(place, it, *apps) / all,
        };
        quanta[place] = i64::try_from(reserved(it) + more).unwrap_or(i64::MAX);
    }
    quanta
}

#[cfg(test)]
#[path = "session_shares/tests.rs"]
mod tests;
