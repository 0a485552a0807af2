//! One episode: the real supervisor among invented processes, operators, disks and clocks.
//!
//! An episode alternates between storms, in which faults happen and operators request changes at the worst moment, and calm, at whose
//! end everything that is to run must run. Rosemary is stopped and started again in between, with the same disk.

mod confirmation;
mod names;
mod provoke;

use std::cell::Cell;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use supervisor::change::Basis;
use supervisor::change::deployment::Deployment as _;
use supervisor::contract::Contract;
use supervisor::effects::{Effects, Fd};
use supervisor::incidents::Incidents;
use supervisor::interface::NorthboundParts;
use supervisor::kernel::KernelParts;
use supervisor::programs::Parts;
use supervisor::sessions::Sessions;
use supervisor::sessions::admission;
use supervisor::supervisor::End;
use supervisor::usage::MEASUREMENT_PERIOD;
use supervisor::usage::meter::Meter;
use supervisor::{Event, Supervisor};
use sys::process::PidNamespace;

pub(crate) use self::confirmation::CONFIRMATIONS;
use self::confirmation::Waiting;
pub(crate) use self::names::{EFFECTS, EVENTS};
use self::names::{effect_name, event_name, is_routine};
pub(crate) use self::provoke::REQUESTS;
use crate::checks::Checks;
use crate::coverage::Coverage;
use crate::disk::{DemotionFile, Disk, service_parts};
use crate::machine::Machine;
use crate::sabotage::Sabotage;
use crate::tape::Tape;

/// How long calm lasts, so that every fault before it is found and repaired: a process that sleeps is found after two minutes.
const CALM: Duration = Duration::from_secs(400);

/// Events without a step of time between them, after which the supervisor turns in circles.
const MOST_AT_ONCE: u32 = 20_000;

/// A promise that was broken.
#[derive(Debug, Clone)]
pub(crate) struct Broken {
    /// The step.
    pub step: u64,
    /// The broken promise, as a phrase.
    pub what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weather {
    Storm,
    Calm,
}

/// One episode.
pub(crate) struct World {
    clock: Rc<Cell<Instant>>,
    start: Instant,
    disk: Disk,
    machine: Machine,
    effects: Effects,
    incidents: Incidents,
    fd: Fd,
    supervisor: Supervisor,
    contract: Contract,
    checks: Checks,
    /// The configuration that waits for a confirmation.
    waiting: Option<Waiting>,
    /// Whether an operator has just confirmed it.
    is_confirmed: bool,
    tape: Tape,
    weather: Weather,
    weather_until: Instant,
    measure_at: Instant,
    provoke_at: Instant,
    /// Events at the present time.
    at_once: u32,
    at: Instant,
    sabotage: Option<Sabotage>,
    kept: Vec<Fd>,
    /// The counts of events, effects and faults.
    pub coverage: Coverage,
    /// Identifies all events and effects, in their order.
    pub digest: u64,
    trace: bool,
}

impl World {
    /// Begins an episode with these choices.
    ///
    /// # Errors
    /// The system has no descriptors, as a phrase.
    pub(crate) fn new(
        mut tape: Tape,
        sabotage: Option<Sabotage>,
        trace: bool,
    ) -> Result<Self, String> {
        let start = Instant::now();
        let clock = Rc::new(Cell::new(start));
        let fd = File::open("/dev/null").map_err(|error| error.to_string())?;
        let fd: Fd = Arc::new(OwnedFd::from(fd));
        let (effects, incidents) = (Effects::default(), Incidents::default());
        let outbox = (effects.clone(), incidents.clone());
        let disk = Disk::new(clock.clone(), outbox, fd.clone(), &mut tape)?;
        if sabotage == Some(Sabotage::ForgetConfirmation) {
            disk.forget_confirmations();
        }
        let supervisor = boot(&disk, &effects, &incidents)?;
        let mut machine = Machine::new(clock.clone(), disk.clone(), fd.clone());
        machine.forges_records = sabotage == Some(Sabotage::WrongBlame);
        Ok(Self {
            clock,
            start,
            disk,
            machine,
            effects,
            incidents,
            fd,
            supervisor,
            contract: Contract::default(),
            checks: Checks::default(),
            waiting: None,
            is_confirmed: false,
            tape,
            weather: Weather::Storm,
            weather_until: start + Duration::from_secs(20),
            measure_at: start + MEASUREMENT_PERIOD,
            provoke_at: start + Duration::from_secs(2),
            at_once: 0,
            at: start,
            sabotage,
            kept: Vec::new(),
            coverage: Coverage::default(),
            digest: 0,
            trace,
        })
    }

    /// The choices that were made, if the tape keeps them.
    pub(crate) fn into_tape(self) -> Vec<u64> {
        self.tape.recorded()
    }

    /// Makes this number of steps.
    ///
    /// # Errors
    /// A promise was broken.
    pub(crate) fn run(&mut self, steps: u64) -> Result<(), Broken> {
        self.try_run(steps).map_err(|what| Broken { step: self.coverage.steps, what })
    }

    fn try_run(&mut self, steps: u64) -> Result<(), String> {
        self.decide(Event::Start)?;
        while self.coverage.steps < steps {
            self.turn()?;
        }
        Ok(())
    }

    fn now(&self) -> Instant {
        self.clock.get()
    }

    /// Lets the next thing happen.
    fn turn(&mut self) -> Result<(), String> {
        let now = self.now();
        let due = self.supervisor.next_due(now);
        let machine = self.machine.next_due();
        let provoke = (self.weather == Weather::Storm).then_some(self.provoke_at);
        let next = [Some(self.measure_at), Some(self.weather_until), provoke];
        let next = next.into_iter().chain([due, machine, self.disk.next_due()]).flatten().min();
        let next = next.unwrap_or(now).max(now);
        self.clock.set(next);
        let now = next;
        if self.at == now {
            self.at_once += 1;
            if self.at_once > MOST_AT_ONCE {
                return Err(format!(
                    "no time passes any more; due {:?}",
                    due.map(|at| at - self.start)
                ));
            }
        } else {
            (self.at, self.at_once) = (now, 0);
        }
        let wall = u64::try_from(now.saturating_duration_since(self.start).as_nanos());
        self.incidents.set_time(wall.unwrap_or(u64::MAX));
        if self.machine.next_due().is_some_and(|at| at <= now) {
            if let Some((program, event)) = self.machine.next() {
                self.decide(Event::Process(program, event))?;
            }
        } else if self.measure_at <= now {
            self.measure_at = now + MEASUREMENT_PERIOD;
            self.decide(Event::Measure)?;
        } else if self.weather_until <= now {
            self.change_weather()?;
        } else if provoke.is_some_and(|at| at <= now) {
            self.provoke_at = now + Duration::from_millis(10 + self.tape.below(60));
            self.provoke()?;
        }
        self.decide(Event::Time)?;
        self.end_if_due()
    }

    fn change_weather(&mut self) -> Result<(), String> {
        let now = self.now();
        match self.weather {
            Weather::Storm if self.tape.happens(150) => {
                self.weather = Weather::Calm;
                self.weather_until = now + CALM;
                self.disk.repair();
                self.machine.armed.clear();
                self.machine.release_survivors();
            }
            Weather::Storm => {
                self.weather_until = now + Duration::from_secs(10 + self.tape.below(60));
            }
            Weather::Calm => {
                Checks::calm(&self.supervisor, &self.machine)?;
                self.check_confirmation_in_calm()?;
                if self.disk.is_waited_for() {
                    return Err("apps of a change that is over are kept in calm".into());
                }
                self.coverage.count("weather", "calm");
                self.weather = Weather::Storm;
                self.weather_until = now + Duration::from_secs(10 + self.tape.below(60));
                self.provoke_at = now;
            }
        }
        Ok(())
    }

    /// Ends the monitor if that is due, and starts it again with the same disk.
    fn end_if_due(&mut self) -> Result<(), String> {
        let now = self.now();
        let Some(end) = self.supervisor.end(now) else { return Ok(()) };
        self.settle()?;
        Checks::ended(&end, &self.machine)?;
        self.coverage.count("end", if end == End::AllEnded { "all ended" } else { "left behind" });
        self.boot_again()
    }

    /// Starts the monitor again with the same disk. The system ends the processes of the earlier one, and its plan and trial
    /// end with it.
    fn boot_again(&mut self) -> Result<(), String> {
        self.disk.end();
        if self.waiting.is_some() && self.tape.happens(500) {
            // The machine is off for a while.
            self.clock.set(self.now() + Duration::from_secs(1 + self.tape.below(40)));
            self.weather_until = self.weather_until.max(self.now() + Duration::from_secs(5));
        }
        self.machine = Machine::new(self.clock.clone(), self.disk.clone(), self.fd.clone());
        self.machine.forges_records = self.sabotage == Some(Sabotage::WrongBlame);
        (self.contract, self.checks) = (Contract::default(), Checks::default());
        self.effects.take();
        let next = boot(&self.disk, &self.effects, &self.incidents)?;
        drop(std::mem::replace(&mut self.supervisor, next));
        for (_, effect) in self.effects.take() {
            self.coverage.count("effect", effect_name(&effect));
        }
        self.check_confirmation(true)?;
        self.disk.set_full(false);
        self.clock.set(self.now() + Duration::from_millis(100));
        self.measure_at = self.now() + MEASUREMENT_PERIOD;
        self.decide(Event::Start)
    }

    /// Has the supervisor decide about an event, and carries out what follows.
    fn decide(&mut self, event: Event) -> Result<(), String> {
        let now = self.now();
        if let Event::Process(program, event) = &event {
            self.contract.event(*program, event)?;
        }
        let name = event_name(&event);
        self.note("event", &name);
        self.coverage.count("event", &name);
        self.checks.before(&event, &self.supervisor, &self.machine);
        let is_routine = is_routine(&event);
        if self.trace {
            println!("{:>12.6} {event:?}", (now - self.start).as_secs_f64());
        }
        let is_time = matches!(event, Event::Time);
        self.supervisor.handle(event, &self.machine, now);
        let changed = self.settle()?;
        if !is_routine && (changed || !is_time) {
            self.coverage.steps += 1;
        }
        self.check_confirmation(false)?;
        self.checks.after(&self.supervisor, &self.machine, &self.contract, now)
    }

    /// Carries out what was decided, and handles what follows. Returns whether anything was decided.
    fn settle(&mut self) -> Result<bool, String> {
        let now = self.now();
        let mut changed = false;
        for _ in 0..1000 {
            let mut effects = self.effects.take();
            if effects.is_empty() {
                self.incidents.take_changes();
                return Ok(changed);
            }
            if let Some(sabotage) = self.sabotage {
                sabotage.apply(&mut effects, &self.supervisor, &mut self.kept);
            }
            changed = true;
            for (program, effect) in &effects {
                let name = effect_name(effect);
                if self.trace {
                    println!(
                        "{:>12.6}   -> {program:?} {effect:?}",
                        (now - self.start).as_secs_f64()
                    );
                }
                self.note("effect", name);
                self.coverage.count("effect", name);
                self.contract.effect(*program, effect)?;
                self.checks.effect(*program, effect, &self.supervisor, now)?;
            }
            let events = self.machine.carry_out(effects, &mut self.tape);
            for (kind, fault) in std::mem::take(&mut self.machine.happened) {
                self.provoked("fault", &format!("{kind} {fault}"));
            }
            for (program, event) in events {
                self.contract.event(program, &event)?;
                let event = Event::Process(program, event);
                let name = event_name(&event);
                self.note("event", &name);
                self.coverage.count("event", &name);
                self.checks.before(&event, &self.supervisor, &self.machine);
                if self.trace {
                    println!("{:>12.6}   <- {event:?}", (now - self.start).as_secs_f64());
                }
                self.supervisor.handle(event, &self.machine, now);
                self.coverage.steps += 1;
            }
        }
        Err("effects follow from effects without an end".into())
    }

    fn provoked(&mut self, group: &'static str, name: &str) {
        self.coverage.count(group, name);
        self.coverage.provoked += 1;
    }

    fn note(&mut self, group: &str, name: &str) {
        let mut hasher = DefaultHasher::new();
        let time = self.now().saturating_duration_since(self.start).as_nanos();
        (self.digest, time, group, name).hash(&mut hasher);
        self.digest = hasher.finish();
    }
}

/// The sessions on a machine with two processors.
fn sessions(config: &config::Config) -> Result<Sessions, String> {
    let machine = admission::Machine {
        processors: 2,
        workers: 2,
        memory: 8 << 30,
        storage: 8 << 30,
        descriptors: 1 << 20,
        rings: 64 << 20,
        tick: None,
    };
    Sessions::new(machine, config.sessions.clone()).map_err(|refusal| refusal.to_string())
}

/// Starts a monitor.
fn boot(disk: &Disk, effects: &Effects, incidents: &Incidents) -> Result<Supervisor, String> {
    let (config, history, unconfirmed) = disk.start();
    let no_limits = config::Limits::none();
    let kernel = KernelParts {
        executable: std::path::PathBuf::from("/kernel").into(),
        apart: PidNamespace::No,
        start: Box::new(disk.clone()),
        run_as: None,
        own_uid: 1000,
        absent: Vec::new(),
        meter: Meter::new(no_limits, Vec::new()),
    };
    let parts = Parts {
        kernel,
        apps: disk.first_apps()?,
        services: service_parts(&disk.needed_services()),
        northbound: Some(NorthboundParts {
            executable: std::path::PathBuf::from("/northbound").into(),
            apart: PidNamespace::No,
            sandbox: None,
            own_uid: 1000,
            interface: Box::new(disk.clone()),
        }),
        rules: config.supervision,
        safe_mode: config.safe_mode.clone(),
        sessions: sessions(&config)?,
        without_partition: None,
        accounts: supervisor::accounts::Accounts::default(),
        demotions: Box::new(DemotionFile::read(disk)),
        effects: effects.clone(),
        incidents: incidents.clone(),
    };
    let deployment = Box::new(disk.clone());
    let (inactive, warnings) = (Vec::new(), Vec::new());
    let basis = Basis { deployment, config, inactive, warnings, history, unconfirmed };
    Ok(Supervisor::new(parts, basis, false))
}
