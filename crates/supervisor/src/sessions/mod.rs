//! Decides what sessions may reserve, and how the processor time of a session is held by the threads of its members.
//!
//! | file | contents |
//! | --- | --- |
//! | `admission.rs` | the amounts of the machine, and whether reservations fit into them |
//! | `schedule.rs` | the reservation of each thread, and the weights that stand in for reservations |
//! | `tests.rs` | attempts to over-commit, all refused |
//!
//! The invariant: for each resource, the reservations of all sessions and the part that stays for best effort never exceed the amount of
//! the machine. A refused change changes nothing.

pub mod admission;
pub mod schedule;

#[cfg(test)]
mod tests;

use config::Sessions as SessionKeys;
use control::session::{
    BEST_EFFORT, CpuReservation, Reservation, Resource, ResourceReport, SYSTEM, SessionId,
    SessionShare, SessionShares,
};

use self::admission::{Machine, Refusal, Row, admit, capacity, free, kept, of_system};

/// The sessions that were admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sessions {
    machine: Machine,
    keys: SessionKeys,
    /// All rows: `system`, `best-effort`, and the configured ones in their order.
    rows: Vec<Row>,
}

impl Sessions {
    /// Admits the sessions of a configuration.
    ///
    /// # Errors
    /// [`Refusal`]: the first reservation that does not fit, with the figures.
    pub fn new(machine: Machine, keys: SessionKeys) -> Result<Self, Refusal> {
        let mut rows = vec![
            of_system(&machine, keys.system.clone().unwrap_or_default(), false),
            Row::new(BEST_EFFORT, Reservation::default()),
        ];
        let configured = keys.rows.iter();
        rows.extend(configured.map(|row| Row::new(&row.name, row.reservation.clone())));
        admit(&machine, &keys, &rows)?;
        Ok(Self { machine, keys, rows })
    }

    /// Returns the sessions that a new configuration changes, each with a phrase.
    ///
    /// # Errors
    /// [`Refusal`]: the new reservations do not fit.
    pub fn changes(&self, keys: &SessionKeys) -> Result<Vec<(String, &'static str)>, Refusal> {
        let new = Self::new(self.machine, keys.clone())?;
        let mut changes = Vec::new();
        for row in &new.rows {
            match self.rows.iter().find(|old| old.name == row.name) {
                None => changes.push((row.name.clone(), "it is new")),
                Some(old) if old.reservation != row.reservation => {
                    changes.push((row.name.clone(), "its reservation changes"));
                }
                Some(_) => {}
            }
        }
        let is_gone = |old: &&Row| !new.rows.iter().any(|row| row.name == old.name);
        let gone = self.rows.iter().filter(is_gone);
        changes.extend(gone.map(|row| (row.name.clone(), "it is not configured any more")));
        Ok(changes)
    }

    /// Replaces all sessions by those of a new configuration; adjustments are forgotten.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed then.
    pub fn replace(&mut self, keys: SessionKeys) -> Result<(), Refusal> {
        *self = Self::new(self.machine, keys)?;
        Ok(())
    }

    /// Sets keys of a session until the configuration is applied again.
    ///
    /// # Errors
    /// Why nothing has changed, as a phrase.
    pub fn adjust(&mut self, name: &str, values: &[(String, u64)]) -> Result<(), String> {
        if name == BEST_EFFORT {
            return Err(
                "best-effort reserves nothing; best-effort-percent in [sessions] sets what \
                        always stays for it"
                    .into(),
            );
        }
        let place = self.rows.iter().position(|row| row.name == name);
        let place = place.ok_or_else(|| self.no_session(name))?;
        if name == SYSTEM && values.iter().any(|(key, _)| key == "processors") {
            return Err("the virtual processors of system are the workers and the monitor".into());
        }
        let values = values.iter().map(|(key, value)| (key.as_str(), *value));
        let mut rows = self.rows.clone();
        let row = &mut rows[place];
        let before = Reservation {
            cpu: row.reservation.cpu.filter(|_| !row.is_kept_free),
            ..row.reservation.clone()
        };
        let reservation = before.with(values)?;
        *row = match name {
            SYSTEM => of_system(&self.machine, reservation, true),
            _ => Row { adjusted: true, ..Row::new(name, reservation) },
        };
        admit(&self.machine, &self.keys, &rows).map_err(|refusal| refusal.to_string())?;
        self.rows = rows;
        Ok(())
    }

    fn no_session(&self, name: &str) -> String {
        let names: Vec<&str> = self.rows.iter().map(|row| row.name.as_str()).collect();
        format!("there is no session {name:?}; the sessions are: {}", names.join(", "))
    }

    /// The session with this number; best effort if none has it.
    pub fn row(&self, id: SessionId) -> &Row {
        self.rows.iter().find(|row| row.id() == id).unwrap_or(&self.rows[1])
    }

    /// All sessions.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The sessions besides the two that always exist.
    pub fn configured(&self) -> &[Row] {
        &self.rows[2..]
    }

    /// The sum of all configured reservations of processor time, in billionths of a processor.
    pub fn reserved_cpu(&self) -> u64 {
        admission::sum(self.configured(), Resource::Cpu)
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether threads hold reservations of processor time, so that they must be scheduled.
    pub fn schedules(&self) -> bool {
        let holds = |row: &Row| row.reservation.cpu.is_some() && !row.is_kept_free;
        self.rows.iter().any(holds)
    }

    /// The reservation of processor time for each worker and the monitor, if an operator has set one.
    pub fn system_cpu(&self) -> Option<CpuReservation> {
        let system = &self.rows[0];
        system.reservation.cpu.filter(|_| !system.is_kept_free)
    }

    /// The shares of the sessions that reserve a part of the kernel's work; none if no session does.
    pub fn shares(&self) -> SessionShares {
        let share = |row: &Row| SessionShare {
            session: row.id(),
            packet_ins_percent: self.percent_of(row, Resource::PacketIns),
            sent_percent: self.percent_of(row, Resource::Sent),
            extra: row.reservation.extra,
        };
        let mut sessions: Vec<SessionShare> = self.configured().iter().map(share).collect();
        sessions.retain(|it| it.packet_ins_percent > 0 || it.sent_percent > 0);
        if sessions.is_empty() {
            return SessionShares::default();
        }
        let best_effort_percent = u8::try_from(self.keys.best_effort_percent).unwrap_or(100);
        SessionShares { best_effort_percent, sessions }
    }

    /// The reserved part of a resource in percent, rounded up.
    fn percent_of(&self, row: &Row, resource: Resource) -> u8 {
        let all = capacity(&self.machine, &self.keys, resource).max(1);
        let reserved = u128::from(row.reservation.of(resource)) * 100;
        u8::try_from(reserved.div_ceil(all.into())).unwrap_or(100)
    }

    /// Each resource of a session.
    pub fn resources(&self, row: &Row) -> Vec<ResourceReport> {
        let report = |resource| ResourceReport {
            resource,
            reserved: match row.name.as_str() {
                BEST_EFFORT => kept(&self.machine, &self.keys, resource),
                _ => row.reservation.of(resource),
            },
            free: free(&self.machine, &self.keys, &self.rows, resource),
            capacity: capacity(&self.machine, &self.keys, resource),
        };
        Resource::ALL.into_iter().map(report).collect()
    }
}
