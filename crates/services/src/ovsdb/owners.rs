//! The apps that own rows of a database: what they want, when it is brought about, and what is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use control::service::OvsdbRight;
use ovsdb::driver::{Connection, DriverError, TransactError};
use ovsdb::ownership::{self, OwnershipError, Plan, reconcile};
use ovsdb::{ErrorKind, Failure, Image, Operation};
use sdk::services::ovsdb::{Answer, Refused, WantedRow};
use sys::rate::Rate;
use tracing::{info, warn};

use super::Ticket;
use super::rights::{missing, scopes};
use super::rows::Names;

/// How long a transaction may take.
const TRANSACTION: Duration = Duration::from_secs(10);

/// How long changes of others are collected before they are repaired.
const SETTLE: Duration = Duration::from_millis(20);

/// The least time between two repairs.
const QUIET: Duration = Duration::from_millis(200);

/// The pause after a transaction that the server refused; it doubles with each refusal.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How much earlier an app's changes may be than the pace below allows.
const BURST: Duration = Duration::from_secs(4);

/// The time that an operation of an app takes of its pace. An app cannot occupy the server of a switch by ever new sets of rows.
const PER_OPERATION: Duration = Duration::from_millis(1);

/// The time that a comparison with the database takes of the pace, at least.
const PER_COMPARISON: Duration = Duration::from_millis(5);

/// Most characters of a reason.
const LONGEST_WHY: usize = 400;

/// The owners of rows in one database.
#[derive(Debug)]
pub(super) struct Owners {
    /// The database's name in the configuration.
    database: String,
    /// The part of an owner's name before the app's: it names this installation.
    prefix: String,
    by_app: BTreeMap<String, Owner>,
    /// The apps that use the service; `None` before the monitor has named them.
    apps: Option<BTreeSet<String>>,
    /// The apps that used it earlier. Such an app may still run for a moment.
    left: BTreeSet<String>,
}

/// An app, or an app that is gone, with rows in the database.
#[derive(Debug, Default)]
struct Owner {
    /// Its wanted rows; `None` if it has stated nothing since the service started: the rows of the database then stay as they are.
    wanted: Option<Vec<WantedRow>>,
    rights: Vec<OvsdbRight>,
    /// The requests that wait for the outcome.
    tickets: Vec<Ticket>,
    /// When its rows are compared with the database.
    due: Option<Instant>,
    /// The pause after the last refusal of the server.
    pause: Option<Duration>,
    /// When the next repair may begin: another program may undo each repair at once.
    quiet_until: Option<Instant>,
    /// The end of the time that its changes have taken, by [`PER_OPERATION`].
    paid_until: Option<Instant>,
    /// Whether all of its rows that are not refused were there.
    is_done: bool,
    refused: Vec<Refused>,
    /// Limits the lines of the log.
    lines: Option<Rate>,
}

/// An answer of an owner's requests, and what an operator has to know.
pub(super) struct Outcome {
    pub(super) tickets: Vec<Ticket>,
    pub(super) answer: Answer,
    /// The rights that were missing.
    pub(super) denied: BTreeSet<String>,
}

impl Owners {
    pub(super) fn new(database: &str, installation: u64) -> Self {
        Self {
            database: database.to_owned(),
            prefix: owner_of(installation, ""),
            by_app: BTreeMap::new(),
            apps: None,
            left: BTreeSet::new(),
        }
    }

    /// Sets the apps that use the service. Others lose their rows.
    pub(super) fn set_apps(&mut self, names: &[String], now: Instant) {
        let names: BTreeSet<String> = names.iter().cloned().collect();
        for (app, owner) in &mut self.by_app {
            if !names.contains(app) {
                owner.wanted = None;
                owner.rights.clear();
            }
            owner.due = Some(now);
        }
        self.left.extend(self.apps.take().into_iter().flatten());
        self.left.retain(|app| !names.contains(app));
        self.apps = Some(names);
    }

    /// Sets what an app wants. Returns whether the app may want something: it may not when it has left the configuration.
    pub(super) fn want(
        &mut self,
        app: &str,
        rights: Vec<OvsdbRight>,
        rows: Vec<WantedRow>,
        ticket: Ticket,
        now: Instant,
    ) -> bool {
        if self.left.contains(app) {
            return false;
        }
        let owner = self.by_app.entry(app.to_owned()).or_default();
        (owner.wanted, owner.rights) = (Some(rows), rights);
        owner.tickets.push(ticket);
        (owner.due, owner.pause, owner.is_done) = (Some(now), None, false);
        true
    }

    /// Takes the requests that wait, because the connection has ended.
    pub(super) fn take_tickets(&mut self) -> Vec<Ticket> {
        self.by_app.values_mut().flat_map(|owner| std::mem::take(&mut owner.tickets)).collect()
    }

    /// The database has changed. Finds owners of rows of this installation that are not known.
    pub(super) fn changed(&mut self, image: &Image, now: Instant) {
        for (_, row) in image.tables().flat_map(|table| image.rows(table)) {
            let owner = row.entry(ownership::IDS, ownership::OWNER);
            if let Some(app) = owner.and_then(|it| it.strip_prefix(&self.prefix))
                && !self.by_app.contains_key(app)
            {
                self.by_app.insert(app.to_owned(), Owner::default());
            }
        }
        for owner in self.by_app.values_mut() {
            let at = now + owner.pause.unwrap_or(SETTLE);
            let at = owner.quiet_until.map_or(at, |quiet| quiet.max(at));
            owner.due = Some(owner.due.map_or(at, |due| due.min(at)));
        }
    }

    /// When [`bring_about`](Self::bring_about) has something to do.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.apps.as_ref()?;
        self.by_app.values().filter_map(|owner| owner.due).min()
    }

    /// Brings about the rows of the owners that are due.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn bring_about(
        &mut self,
        connection: &mut Connection,
        now: Instant,
    ) -> Result<Vec<Outcome>, DriverError> {
        let Some(apps) = &self.apps else { return Ok(Vec::new()) };
        let is_due = |owner: &Owner| owner.due.is_some_and(|due| due <= now);
        let due = self.by_app.iter().filter(|(_, owner)| is_due(owner));
        let due: Vec<String> = due.map(|(app, _)| app.clone()).collect();
        let mut outcomes = Vec::new();
        for app in due {
            let Some(owner) = self.by_app.get_mut(&app) else { continue };
            owner.due = None;
            // A new app may connect before the monitor has named it.
            let is_gone = !apps.contains(&app) && owner.wanted.is_none();
            if !is_gone && (owner.wanted.is_none() || !apps.contains(&app)) {
                continue;
            }
            if let Some(at) = owner.is_too_early(now).filter(|_| !is_gone) {
                owner.due = Some(at);
                continue;
            }
            let name = self.prefix.clone() + &app;
            let context = (self.database.as_str(), app.as_str(), name.as_str());
            let outcome = owner.bring_about(context, is_gone, connection, now)?;
            outcomes.extend(outcome);
            if is_gone && owner.is_done && owner.due.is_none() {
                self.by_app.remove(&app);
            }
        }
        Ok(outcomes)
    }
}

impl Owner {
    /// Returns when the pace of its changes allows the next one, if not now.
    fn is_too_early(&self, now: Instant) -> Option<Instant> {
        let at = self.paid_until?.checked_sub(BURST)?;
        (at > now).then_some(at)
    }

    /// Counts operations that were sent to the server, refused ones too.
    fn pay(&mut self, operations: usize, now: Instant) {
        let operations = u32::try_from(operations).unwrap_or(u32::MAX);
        let cost = PER_OPERATION.saturating_mul(operations).max(PER_COMPARISON);
        self.paid_until = self.paid_until.unwrap_or(now).max(now).checked_add(cost);
    }

    /// Compares the wanted rows with the database, and sends what is to be done.
    fn bring_about(
        &mut self,
        (database, app, name): (&str, &str, &str),
        is_gone: bool,
        connection: &mut Connection,
        now: Instant,
    ) -> Result<Option<Outcome>, DriverError> {
        let Some(schema) = connection.schema() else { return Ok(None) };
        let none = Vec::new();
        let wanted = self.wanted.as_ref().filter(|_| !is_gone).unwrap_or(&none);
        let (mut refused, mut rows) = (Vec::new(), Vec::new());
        let mut names = Names::of(connection.image());
        for row in wanted {
            match names.wanted(row) {
                Ok(row) => rows.push(row),
                Err(why) => refused.push(Refused { key: shortened(&row.key), why }),
            }
        }
        let scopes = scopes(&self.rights, database);
        let plan = reconcile(connection.image(), schema, name, &scopes, &rows);
        let mut denied = BTreeSet::new();
        for one in &plan.refused {
            let row = wanted.iter().find(|row| row.key == one.key);
            let mut lacks = Vec::new();
            if let (OwnershipError::NotGranted { .. }, Some(row)) = (&one.error, row) {
                lacks = missing(&self.rights, database, row, wanted, connection.image());
            }
            refused.push(Refused { key: shortened(&one.key), why: reason(&one.error, &lacks) });
            denied.extend(lacks.iter().map(ToString::to_string));
        }
        let (was_done, before) = (self.is_done, std::mem::take(&mut self.refused));
        let sent = send(&plan, connection)?;
        self.pay(sent.tried, now);
        self.is_done = !sent.is_refused && !sent.is_stale;
        let is_late = self.pause.is_some_and(|pause| pause >= Duration::from_secs(1));
        if self.is_done {
            self.pause = None;
        } else {
            let pause = self.pause.map_or(FIRST_PAUSE, |it| (it * 2).min(LONGEST_PAUSE));
            (self.pause, self.due) = (Some(pause), Some(now + pause));
        }
        refused.extend(sent.failed);
        self.refused = refused;
        let is_repair = was_done && sent.count > 0;
        self.quiet_until = is_repair.then(|| now + QUIET);
        self.log(database, app, (is_repair, is_gone), &before, now);
        // A row had changed since the image was current. The next attempt decides.
        if sent.is_stale && !is_late {
            return Ok(None);
        }
        let answer = Answer::Wanted { is_done: !sent.is_stale, refused: self.refused.clone() };
        Ok(Some(Outcome { tickets: std::mem::take(&mut self.tickets), answer, denied }))
    }

    fn log(
        &mut self,
        database: &str,
        app: &str,
        (is_repair, is_gone): (bool, bool),
        before: &[Refused],
        now: Instant,
    ) {
        let lines = self.lines.get_or_insert_with(|| Rate::new(now));
        if is_gone && self.is_done {
            info!(database, app, "removed the rows of an app that is gone");
        } else if is_repair && let Some(suppressed) = lines.admit(now) {
            info!(database, app, suppressed, "repaired rows that others had changed");
        }
        let Some(first) = self.refused.first().filter(|_| self.refused != before) else { return };
        if let Some(suppressed) = lines.admit(now) {
            let (key, why, rows) = (first.key.escape_debug(), &first.why, self.refused.len());
            warn!(database, app, %key, why, rows, suppressed, "refused rows of an app");
        }
    }
}

/// Returns the value of `rosemary-owner` in the rows of an app.
pub(super) fn owner_of(installation: u64, app: &str) -> String {
    format!("{installation:012x}/{app}")
}

/// What became of a plan.
#[derive(Default)]
struct Sent {
    /// The number of operations that were carried out.
    count: usize,
    /// The number of operations that were sent, refused ones too.
    tried: usize,
    /// The rows that the server refused.
    failed: Vec<Refused>,
    /// Whether the server refused something, also a removal, which no row of `failed` names.
    is_refused: bool,
    /// Whether a row had changed since the image was current.
    is_stale: bool,
}

impl Sent {
    /// Sends operations that bring about the rows with these keys. Returns whether they were carried out.
    fn send<'k>(
        &mut self,
        operations: &[Operation],
        keys: impl IntoIterator<Item = &'k String>,
        connection: &mut Connection,
    ) -> Result<bool, DriverError> {
        self.tried += operations.len();
        let why = match connection.transact(operations, TRANSACTION) {
            Ok(_) => {
                self.count += operations.len();
                return Ok(true);
            }
            Err(TransactError::Connection(error)) => return Err(error),
            Err(TransactError::Failed(failure)) if is_stale(&failure) => {
                self.is_stale = true;
                return Ok(false);
            }
            Err(error) => error.to_string(),
        };
        self.is_refused = true;
        let refused = |key: &String| Refused { key: key.clone(), why: shortened(&why) };
        self.failed.extend(keys.into_iter().map(refused));
        Ok(false)
    }
}

/// Sends a plan: at once, or if the server refuses it each part alone, so that only the part with the mistake fails.
fn send(plan: &Plan, connection: &mut Connection) -> Result<Sent, DriverError> {
    let mut sent = Sent::default();
    if plan.is_done() {
        return Ok(sent);
    }
    let groups: Vec<_> = plan.groups.iter().filter(|it| !it.operations.is_empty()).collect();
    let keys = groups.iter().flat_map(|group| &group.keys);
    let has_parts = groups.len() + usize::from(!plan.removal.is_empty()) > 1;
    if sent.send(&plan.operations(), keys, connection)? || sent.is_stale || !has_parts {
        return Ok(sent);
    }
    sent = Sent { tried: sent.tried, ..Sent::default() };
    if !plan.removal.is_empty() {
        sent.send(&plan.removal, [], connection)?;
    }
    for group in groups {
        sent.send(&group.operations, &group.keys, connection)?;
    }
    Ok(sent)
}

/// Whether a guard has found another value than the image.
fn is_stale(failure: &Failure) -> bool {
    failure.server_error().is_some_and(|error| error.kind() == ErrorKind::TimedOut)
}

/// Returns the reason of a refusal, with the lines that the operator has to add.
fn reason(error: &OwnershipError, lacks: &[OvsdbRight]) -> String {
    let why = error.to_string();
    if lacks.is_empty() {
        return shortened(&why);
    }
    let lines: Vec<String> = lacks.iter().map(|right| format!("\"{right}\"")).collect();
    format!("{}; add {} to capabilities", shortened(&why), lines.join(", "))
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_WHY).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_bounds_operations_and_comparisons() {
        let (start, mut now) = (Instant::now(), Instant::now());
        let mut owner = Owner::default();
        let mut operations = 0;
        while now < start + Duration::from_secs(20) {
            match owner.is_too_early(now) {
                Some(at) => now = at,
                None => {
                    owner.pay(2000, now);
                    operations += 2000;
                }
            }
        }
        // A thousand per second, and the burst.
        assert!((20_000..=28_000).contains(&operations), "{operations}");
        let mut owner = Owner::default();
        for _ in 0..800 {
            assert_eq!(owner.is_too_early(now), None);
            owner.pay(0, now);
        }
        owner.pay(0, now);
        assert!(owner.is_too_early(now).is_some());
        assert_eq!(owner.is_too_early(now + Duration::from_secs(1)), None);
    }
}
