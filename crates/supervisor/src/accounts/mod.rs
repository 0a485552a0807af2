//! Adds up the resources that apps and Rosemary's programs use, for each hour.
//!
//! The caller passes totals of processes ([`Usage`]) and of the kernel's messages ([`Traffic`]), which begin at 0 with each process. An
//! account grows by the difference to the last total, so a restart of any process neither loses nor repeats an amount: the last
//! totals of a process are read after its end.
//!
//! Hours and members are bounded. An hour beyond the bound becomes a part of the sum of all earlier ones, and a member beyond it is counted as
//! one of the others of its session, so sums since the beginning stay exact.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use control::account::{Account, Amounts, StoredHour};
use control::app::AppId;
use control::flight::{Messages, Traffic};

use crate::effects::ProgramId;

/// Seconds of an hour.
const HOUR_S: u64 = 3_600;

/// The key of the sum of all hours that are no longer kept apart.
const EARLIER: u64 = 0;

/// Most hours that are kept apart: 31 days.
const MOST_HOURS: usize = 31 * 24;

/// Most members in an hour, or in the sum of earlier hours. Rosemary has at most 64 apps at a time, so only apps that come and go exceed this.
const MOST_MEMBERS: usize = 256;

/// The name of the members beyond that.
const OTHERS: &str = "(others)";

/// Who uses resources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// The session.
    pub session: String,
    /// The app, or the program of Rosemary.
    pub name: String,
}

/// The use of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time since its start.
    pub cpu: Duration,
    /// Bytes of memory, now.
    pub memory: u64,
}

/// The accounts of an hour.
type Hour = BTreeMap<Member, Amounts>;

/// The accounts.
#[derive(Debug, Default)]
pub struct Accounts {
    hours: BTreeMap<u64, Hour>,
    /// The last hour that is a part of the sum of earlier hours; 0 for none.
    through: u64,
    /// The hours that have changed since they were stored.
    changed: BTreeSet<u64>,
    /// The beginning of the present hour.
    now: u64,
    /// The last total of each process, and when it was read.
    processes: BTreeMap<ProgramId, (Duration, Instant)>,
    /// The last totals of the kernel's process.
    traffic: Traffic,
    /// The members of apps that had a number in this kernel.
    apps: BTreeMap<AppId, Member>,
}

impl Accounts {
    /// The accounts that were stored. Hours that are a part of the sum of earlier hours are ignored: a monitor that was killed may
    /// have left them.
    pub fn new(stored: impl IntoIterator<Item = StoredHour>) -> Self {
        let mut all = Self::default();
        for StoredHour { hour, through, accounts } in stored {
            all.through = all.through.max(through);
            let member =
                |it: Account| (Member { session: it.session, name: it.member }, it.amounts);
            all.hours.insert(hour, accounts.into_iter().map(member).collect());
        }
        let through = all.through;
        all.hours.retain(|hour, _| *hour == EARLIER || *hour > through);
        all.shorten();
        all
    }

    /// Sets the time, in seconds since 1970, to whose hour amounts belong from now on.
    pub fn set_time(&mut self, seconds: u64) {
        // The hours before belong to a sum, also if the clock was set back.
        self.now = (seconds / HOUR_S * HOUR_S).max(self.through + HOUR_S);
    }

    /// A process has used this since its start.
    pub fn used(&mut self, program: ProgramId, member: &Member, used: Usage, now: Instant) {
        let last = self.processes.insert(program, (used.cpu, now));
        // Without an earlier total the memory is counted from the next one on.
        let (cpu, at) = last.unwrap_or((Duration::ZERO, now));
        let passed_ms = now.saturating_duration_since(at).as_millis();
        let byte_seconds = u128::from(used.memory) * passed_ms / 1_000;
        self.add(
            member,
            &Amounts {
                cpu_ns: u64::try_from(used.cpu.saturating_sub(cpu).as_nanos()).unwrap_or(u64::MAX),
                memory_byte_seconds: u64::try_from(byte_seconds).unwrap_or(u64::MAX),
                ..Amounts::default()
            },
        );
    }

    /// A process has ended. Its last processor time is known if the system has stated it.
    pub fn ended(
        &mut self,
        program: ProgramId,
        member: &Member,
        cpu: Option<Duration>,
        now: Instant,
    ) {
        if let Some(cpu) = cpu {
            self.used(program, member, Usage { cpu, memory: 0 }, now);
        }
        self.processes.remove(&program);
    }

    /// Forgets processes whose end is not reported, as of an upgrade that was given up.
    pub fn forget_others(&mut self, lives: impl Fn(ProgramId) -> bool) {
        self.processes.retain(|program, _| lives(*program));
    }

    /// The kernel's messages since its start. `members` has the present apps.
    pub fn counted(
        &mut self,
        traffic: Traffic,
        members: impl IntoIterator<Item = (AppId, Member)>,
    ) {
        self.apps.extend(members);
        let since: Vec<(AppId, Messages)> = traffic.since(&self.traffic).apps().collect();
        self.traffic = traffic;
        for (app, messages) in since {
            let Some(member) = self.apps.get(&app).cloned() else { continue };
            let Messages { received, received_bytes, sent, sent_bytes } = messages;
            self.add(
                &member,
                &Amounts {
                    received_messages: received,
                    received_bytes,
                    sent_messages: sent,
                    sent_bytes,
                    ..Amounts::default()
                },
            );
        }
    }

    /// The kernel has ended. The next one counts from 0.
    pub fn kernel_ended(&mut self) {
        self.traffic = Traffic::default();
        self.apps.clear();
    }

    fn add(&mut self, member: &Member, amounts: &Amounts) {
        if *amounts == Amounts::default() {
            return;
        }
        add(self.hours.entry(self.now).or_default(), member, amounts);
        self.changed.insert(self.now);
        self.shorten();
    }

    /// Adds the earliest hours to the sum of earlier ones while there are too many.
    fn shorten(&mut self) {
        while self.hours.len() > 1 + MOST_HOURS {
            let Some(first) = self.first_hour() else { return };
            let accounts = self.hours.remove(&first).unwrap_or_default();
            let sum = self.hours.entry(EARLIER).or_default();
            for (member, amounts) in &accounts {
                add(sum, member, amounts);
            }
            self.through = first;
            self.changed.remove(&first);
            self.changed.insert(EARLIER);
        }
    }

    /// The first hour that is kept apart.
    fn first_hour(&self) -> Option<u64> {
        self.hours.keys().copied().find(|hour| *hour != EARLIER)
    }

    /// The accounts since the hour of this time, in seconds since 1970, in the order of sessions and members. Returns the beginning of
    /// the hour with them; `None` if they include everything that was ever used.
    pub fn since(&self, seconds: u64) -> (Option<u64>, Vec<Account>) {
        let from = seconds / HOUR_S * HOUR_S;
        let from = if from > self.through { from } else { EARLIER };
        let mut sums = Hour::new();
        for (member, amounts) in self.hours.range(from..).flat_map(|(_, hour)| hour) {
            sums.entry(member.clone()).or_default().add(amounts);
        }
        (Some(from).filter(|it| *it != EARLIER), accounts(&sums))
    }

    /// Takes the hours that must be stored, the sum of earlier hours first. The hours up to its `through` are not to be kept any more.
    pub fn take_unstored(&mut self) -> Vec<StoredHour> {
        let changed = std::mem::take(&mut self.changed);
        let stored = |hour: u64| StoredHour {
            hour,
            through: self.through,
            accounts: self.hours.get(&hour).map(accounts).unwrap_or_default(),
        };
        changed.into_iter().map(stored).collect()
    }
}

fn add(hour: &mut Hour, member: &Member, amounts: &Amounts) {
    let is_known = hour.len() < MOST_MEMBERS || hour.contains_key(member);
    let name = if is_known { member.name.as_str() } else { OTHERS };
    let member = Member { session: member.session.clone(), name: name.to_owned() };
    hour.entry(member).or_default().add(amounts);
}

fn accounts(hour: &Hour) -> Vec<Account> {
    let account = |(member, amounts): (&Member, &Amounts)| Account {
        session: member.session.clone(),
        member: member.name.clone(),
        amounts: *amounts,
    };
    hour.iter().map(account).collect()
}

#[cfg(test)]
mod tests;
