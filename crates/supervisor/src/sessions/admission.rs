//! Grants reservations, or refuses them with the figure that stands against them.

use std::fmt;
use std::time::Duration;

use config::Sessions as SessionKeys;
use control::session::{CpuReservation, PROCESSOR, Reservation, Resource, SYSTEM, SessionId};

/// The percentage of each processor that is kept free for Rosemary's own programs, unless the operator sets another amount.
const SYSTEM_PERCENT: u64 = 10;

/// The resources of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Processors on which reserved threads may run.
    pub processors: u16,
    /// Threads of the kernel that serve switches.
    pub workers: u16,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of the file system of the state directory.
    pub storage: u64,
    /// Descriptors that the system allows.
    pub descriptors: u64,
    /// Bytes of the rings of all apps.
    pub rings: u64,
    /// The interval of the scheduler's tick, at which the system can end a runtime; `None` if it is unknown.
    pub tick: Option<Duration>,
}

impl Machine {
    /// The threads of the session `system`: the workers and the monitor.
    pub fn system_threads(&self) -> u16 {
        self.workers.saturating_add(1)
    }
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its reservation.
    pub reservation: Reservation,
    /// Whether an operator has changed it since the configuration was applied.
    pub adjusted: bool,
    /// Whether its processor time is an amount that no other session can reserve, and limits no thread. Only `system` can have that.
    pub is_kept_free: bool,
}

impl Row {
    /// Its number.
    pub fn id(&self) -> SessionId {
        SessionId::of(&self.name)
    }

    /// A session as it is configured.
    pub(super) fn new(name: &str, reservation: Reservation) -> Self {
        Self { name: name.to_owned(), reservation, adjusted: false, is_kept_free: false }
    }
}

/// Why a reservation was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The session whose reservation does not fit.
    pub session: String,
    /// The resource.
    pub resource: Resource,
    /// The amount that the session wants.
    pub wanted: u64,
    /// The amount that is free for it.
    pub free: u64,
    /// The amount of the machine.
    pub capacity: u64,
    /// The part of it that stays for best effort.
    pub best_effort: u64,
    /// The part of it that other sessions have.
    pub others: u64,
    /// Whether one virtual processor alone is too large.
    pub is_single: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, resource, .. } = self;
        let shown = |amount| resource.shown(amount);
        let (wanted, free) = (shown(self.wanted), shown(self.free));
        if self.is_single {
            return write!(
                f,
                "the session {session} wants a virtual processor of {wanted}; at most {free} of each processor can be \
                 reserved; reserve less runtime-us, or more processors"
            );
        }
        write!(
            f,
            "the session {session} wants {wanted} of {resource}, and {free} are free: of {} other sessions have {}, and {} \
             stay for best effort; reserve less",
            shown(self.capacity),
            shown(self.others),
            shown(self.best_effort)
        )
    }
}

/// The row of `system` with this reservation. Without processor time, a part of each processor is kept free for it.
pub(super) fn of_system(machine: &Machine, mut reservation: Reservation, adjusted: bool) -> Row {
    let is_kept_free = reservation.cpu.is_none();
    let (cpu, processors) = match reservation.cpu {
        Some(cpu) => (cpu, machine.system_threads()),
        None => (CpuReservation::new(SYSTEM_PERCENT * 100, 10_000), machine.processors),
    };
    reservation.cpu = Some(CpuReservation { processors, ..cpu });
    Row { name: SYSTEM.to_owned(), reservation, adjusted, is_kept_free }
}

/// The amount of the machine.
pub(super) fn capacity(machine: &Machine, keys: &SessionKeys, resource: Resource) -> u64 {
    match resource {
        Resource::Cpu => u64::from(machine.processors) * PROCESSOR,
        Resource::PacketIns => 100,
        Resource::Received | Resource::Sent => keys.control_bytes,
        Resource::PacketOuts => keys.packet_outs,
        Resource::Rings => machine.rings,
        Resource::Memory => machine.memory,
        Resource::Storage => machine.storage,
        Resource::Descriptors => machine.descriptors,
    }
}

/// The part that stays for best effort, rounded up.
pub(super) fn kept(machine: &Machine, keys: &SessionKeys, resource: Resource) -> u64 {
    percent(capacity(machine, keys, resource), keys.best_effort_percent)
}

/// A percentage of an amount, rounded up.
fn percent(amount: u64, percent: u64) -> u64 {
    let part = (u128::from(amount) * u128::from(percent)).div_ceil(100);
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// The amount of a resource that further reservations can have.
pub(super) fn free(machine: &Machine, keys: &SessionKeys, rows: &[Row], resource: Resource) -> u64 {
    let all = capacity(machine, keys, resource);
    let reserved = sum(rows.iter(), resource);
    all.saturating_sub(kept(machine, keys, resource)).saturating_sub(reserved)
}

fn sum<'r>(rows: impl Iterator<Item = &'r Row>, resource: Resource) -> u64 {
    rows.fold(0, |sum: u64, row| sum.saturating_add(row.reservation.of(resource)))
}

/// The largest virtual processor: what is left of a processor beside best effort and `system`.
fn largest_processor(keys: &SessionKeys) -> u64 {
    PROCESSOR - percent(PROCESSOR, (keys.best_effort_percent + SYSTEM_PERCENT).min(100))
}

/// Checks that the reservations of all rows fit into the machine.
///
/// # Errors
/// [`Refusal`]: the first row that does not fit beside those before it.
pub(super) fn admit(machine: &Machine, keys: &SessionKeys, rows: &[Row]) -> Result<(), Refusal> {
    for (place, row) in rows.iter().enumerate() {
        let largest = largest_processor(keys);
        let share = row.reservation.cpu.map_or(0, |cpu| cpu.share());
        if share > largest {
            return Err(Refusal {
                session: row.name.clone(),
                resource: Resource::Cpu,
                wanted: share,
                free: largest,
                capacity: PROCESSOR,
                best_effort: percent(PROCESSOR, keys.best_effort_percent),
                others: 0,
                is_single: true,
            });
        }
        for resource in Resource::ALL {
            let wanted = row.reservation.of(resource);
            let free = free(machine, keys, &rows[..place], resource);
            if wanted > free {
                return Err(Refusal {
                    session: row.name.clone(),
                    resource,
                    wanted,
                    free,
                    capacity: capacity(machine, keys, resource),
                    best_effort: kept(machine, keys, resource),
                    others: sum(rows[..place].iter(), resource),
                    is_single: false,
                });
            }
        }
    }
    Ok(())
}
