//! A thread that drives its share of the switches by epoll.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData};

use super::failure::{Failure, Trouble};
use super::lane::{Lane, Stage, Times};
use super::phase::{Phase, Shared};
use super::result::{Part, Told, times};
use super::{Pace, Plan};
use crate::connection::{BUFFER, Connection};
use crate::hosts::Hosts;
use crate::pin::pin;
use crate::question::Template;

/// Events taken from epoll at once.
const EVENTS: usize = 256;

/// How often the phase is looked at where nothing happens.
const TICK: Duration = Duration::from_millis(20);

/// How long it is looked for more without sleeping, where as much as the controller takes is asked: who wakes a
/// sleeper pays for it, and no switch at the other end of a wire has its controller pay for that.
const AWAKE: Duration = Duration::from_millis(5);

/// How often it is looked whether something is to be given up.
const CHECK: Duration = Duration::from_millis(100);

/// How long after the first interval has begun all switches have asked, and it is first looked how equally they are
/// served.
const BEGIN: Duration = Duration::from_millis(200);

/// How long a round over the switches may take for the answers to be looked at behind it.
const SHARP: Duration = Duration::from_millis(10);

/// Questions of a switch that may be due without having been sent.
const MOST_BEHIND: usize = 1 << 20;

/// How many switches of a worker connect at once: listeners have short queues.
const CONNECTING: usize = 64;

/// See the module's description.
#[derive(Debug)]
pub(super) struct Worker<'p> {
    number: usize,
    plan: &'p Plan,
    shared: Arc<Shared>,
    epoll: OwnedFd,
    template: Template,
    hosts: Hosts,
    /// The numbers of the switches that are still to be connected, the next last.
    to_connect: Vec<usize>,
    /// How many switches are under way to being settled.
    connecting: usize,
    lanes: Vec<Lane>,
    phase: Phase,
    interval_began: Instant,
    /// When the first interval began.
    begun: Option<Instant>,
    /// By the clock: when the first question was due, and how many have been since.
    clock: (Instant, u64),
    /// Questions a second, by the clock.
    rate: f64,
    next_check: Instant,
    /// When epoll was last left, and when it last told of something.
    woke: Instant,
    last_told: Instant,
    drained: bool,
    times: Times,
    told: Told,
}

impl<'p> Worker<'p> {
    pub(super) fn new(
        number: usize,
        workers: usize,
        plan: &'p Plan,
        hosts: &Hosts,
        template: Template,
        shared: &Arc<Shared>,
    ) -> Result<Self, Failure> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|why| {
            let what = "cannot watch sockets";
            Failure::new(Trouble::System { what, why: why.into() })
        })?;
        let own: Vec<usize> = (0..plan.switches).rev().filter(|n| n % workers == number).collect();
        let now = Instant::now();
        let rate = match plan.pace {
            Pace::Window(_) => 0.0,
            #[expect(clippy::cast_precision_loss, reason = "there are few switches")]
            Pace::Rate(rate) => rate * own.len() as f64 / plan.switches as f64,
        };
        Ok(Self {
            number,
            plan,
            shared: shared.clone(),
            epoll,
            template,
            hosts: hosts.clone(),
            to_connect: own,
            connecting: 0,
            lanes: Vec::new(),
            phase: Phase::Connect,
            interval_began: now,
            begun: None,
            clock: (now, 0),
            rate,
            next_check: now,
            woke: now,
            last_told: now,
            drained: false,
            times: Times { latency: times(), barrier: times() },
            told: Told::default(),
        })
    }

    /// Works until told to stop, or something fails.
    pub(super) fn run(mut self) -> Told {
        if self.plan.pin
            && let Err(why) = pin(self.number)
        {
            let what = "cannot pin the thread to a core";
            self.shared.fail(Failure::new(Trouble::System { what, why }));
            return self.told;
        }
        if let Err(failure) = self.work() {
            self.shared.fail(failure);
        }
        for lane in &mut self.lanes {
            lane.ledger.give_up();
            self.told.total.add(&lane.ledger.counts());
            self.told.flows += lane.flows() as u64;
            self.told.unasked += lane.due.len() as u64;
            self.told.errors.0 += lane.errors.0;
            self.told.errors.1 = self.told.errors.1.take().or(lane.errors.1.take());
        }
        self.told
    }

    fn work(&mut self) -> Result<(), Failure> {
        let mut buffer = vec![0; BUFFER].into_boxed_slice();
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
        loop {
            if self.phase == Phase::Connect {
                self.connect()?;
            }
            let timeout = self.timeout();
            let ready = match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(why) => {
                    let what = "cannot wait for sockets";
                    return Err(Failure::new(Trouble::System { what, why: why.into() }));
                }
                Ok((ready, _)) => ready,
            };
            self.woke = Instant::now();
            if !ready.is_empty() {
                self.last_told = self.woke;
            }
            let phase = self.shared.phase();
            if phase != self.phase {
                self.enter(phase)?;
                if phase == Phase::Stop {
                    return Ok(());
                }
            }
            for event in ready {
                let which = usize::try_from(event.data.u64()).expect("it is an index of ours");
                self.serve(which, &mut buffer)?;
            }
            if self.plan.pace.is_rate() {
                self.keep_time()?;
            }
            self.note();
        }
    }

    /// How long epoll may wait.
    fn timeout(&self) -> Timespec {
        let mut wait = TICK;
        let Plan { pace, timed, keep_flows, .. } = self.plan;
        let asks_most = !pace.is_rate() && !timed && !keep_flows;
        if asks_most && self.phase >= Phase::Warm && self.last_told.elapsed() < AWAKE {
            wait = Duration::ZERO;
        }
        if self.plan.pace.is_rate() && matches!(self.phase, Phase::Measure(_)) {
            let next = self.clock.0 + time_of(self.clock.1, self.rate);
            wait = next.saturating_duration_since(Instant::now()).min(TICK);
            // Epoll counts in milliseconds, so the last one is waited for awake.
            if wait < Duration::from_millis(2) {
                wait = Duration::ZERO;
            }
        }
        wait.try_into().expect("a tick is short")
    }

    /// Begins to connect the switches that are next.
    fn connect(&mut self) -> Result<(), Failure> {
        while self.connecting < CONNECTING
            && let Some(number) = self.to_connect.pop()
        {
            let (to, tls) = (self.plan.controller, self.plan.tls.as_ref());
            let opened = Connection::open(to, tls);
            let connection = opened.map_err(|why| Failure::new(Trouble::NotThere { to, why }))?;
            let hosts = self.hosts.of_switch(number as u64);
            let mut lane = Lane::new(number, self.plan, &self.template, hosts, connection);
            lane.watched = lane.wanted();
            let data = EventData::new_u64(self.lanes.len() as u64);
            let watched = epoll::add(&self.epoll, lane.connection.socket(), data, lane.watched);
            watched.map_err(|why| {
                lane.fail(Trouble::System { what: "cannot watch a socket", why: why.into() })
            })?;
            self.lanes.push(lane);
            self.connecting += 1;
        }
        Ok(())
    }

    fn serve(&mut self, which: usize, buffer: &mut [u8]) -> Result<(), Failure> {
        let lane = &mut self.lanes[which];
        if lane.stage == Stage::Connecting
            && let Err(why) = lane.connection.connected()
        {
            let to = self.plan.controller;
            return Err(Failure::new(Trouble::NotThere { to, why }));
        }
        lane.serve(buffer, &mut self.times)?;
        if lane.stage == Stage::Handshaking && lane.has_settled() {
            self.told.setup.push(lane.began.elapsed());
            self.shared.settled.fetch_add(1, Ordering::Relaxed);
            self.connecting -= 1;
        }
        self.ask(which)
    }

    /// Asks a switch's questions, as the phase has it.
    fn ask(&mut self, which: usize) -> Result<(), Failure> {
        let lane = &mut self.lanes[which];
        match self.phase {
            Phase::Warm => {
                let cold = lane.cold(self.plan.macs);
                lane.ask(&mut self.template, cold)?;
                if !lane.warm && cold == 0 && lane.ledger.open().count() == 0 {
                    lane.warm = true;
                    self.shared.warm.fetch_add(1, Ordering::Relaxed);
                }
            }
            Phase::Measure(_) if self.plan.pace.is_rate() => lane.ask_due(&mut self.template)?,
            Phase::Measure(_) => lane.ask(&mut self.template, u64::MAX)?,
            _ => {}
        }
        let wanted = lane.wanted();
        if wanted != lane.watched {
            let data = EventData::new_u64(which as u64);
            let changed = epoll::modify(&self.epoll, lane.connection.socket(), data, wanted);
            changed.map_err(|why| {
                lane.fail(Trouble::System { what: "cannot watch a socket", why: why.into() })
            })?;
            lane.watched = wanted;
        }
        Ok(())
    }

    /// Asks what is due by the clock: the questions go round the switches.
    fn keep_time(&mut self) -> Result<(), Failure> {
        if !matches!(self.phase, Phase::Measure(_)) || self.lanes.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        let lanes = self.lanes.len() as u64;
        loop {
            let due = self.clock.0 + time_of(self.clock.1, self.rate);
            if due > now {
                break;
            }
            let which = usize::try_from(self.clock.1 % lanes).unwrap_or(0);
            let lane = &mut self.lanes[which];
            lane.due.push_back(due);
            self.clock.1 += 1;
            if lane.due.len() > MOST_BEHIND {
                return Err(lane.fail(Trouble::Behind(lane.due.len())));
            }
        }
        for which in 0..self.lanes.len() {
            if !self.lanes[which].due.is_empty() {
                self.ask(which)?;
            }
        }
        Ok(())
    }

    /// Another phase has begun.
    fn enter(&mut self, phase: Phase) -> Result<(), Failure> {
        let now = Instant::now();
        if let Phase::Measure(_) = self.phase {
            self.look(now, true);
            self.told.parts.push(Part {
                length: now - self.interval_began,
                counts: self.lanes.iter().map(|l| l.ledger.counts().since(&l.marked)).collect(),
                latency: std::mem::replace(&mut self.times.latency, times()),
                barrier: std::mem::replace(&mut self.times.barrier, times()),
            });
        }
        if let Phase::Measure(interval) = phase {
            if interval == 0 {
                self.clock = (now, 0);
                self.begun = Some(now);
            }
            self.interval_began = now;
            self.times = Times { latency: times(), barrier: times() };
            for lane in &mut self.lanes {
                lane.marked = lane.ledger.counts();
            }
        }
        if self.phase < Phase::Measure(0) {
            for lane in &mut self.lanes {
                lane.last_answer = now;
            }
        }
        self.phase = phase;
        for which in 0..self.lanes.len() {
            self.ask(which)?;
        }
        Ok(())
    }

    /// Looks how equally switches are served.
    fn look(&mut self, now: Instant, is_end: bool) {
        // Switches begin to ask one after the other, which takes its time.
        let have_begun = self.begun.is_some_and(|begun| now >= begun + BEGIN);
        // Where a round over the switches took longer, the first of them were looked at much earlier than the last.
        let is_sharp = now.saturating_duration_since(self.woke) <= SHARP;
        if self.plan.fairness && have_begun && is_sharp {
            let answered = self.lanes.iter().map(|lane| lane.ledger.answered());
            self.told.looks.look(now, is_end, answered);
        }
    }

    /// Tells how things stand, and gives up what waits too long.
    fn note(&mut self) {
        if self.phase < Phase::Warm {
            return;
        }
        let answered = self.lanes.iter().map(|lane| lane.ledger.answered()).sum();
        self.shared.note_answered(self.number, answered);
        if self.phase == Phase::Drain
            && !self.drained
            && self.lanes.iter().all(|lane| lane.ledger.open().count() == 0)
        {
            self.drained = true;
            self.shared.drained.fetch_add(1, Ordering::Relaxed);
        }
        let now = Instant::now();
        if matches!(self.phase, Phase::Measure(_)) {
            self.look(now, false);
        }
        if now >= self.next_check {
            self.next_check = now + CHECK;
            for which in 0..self.lanes.len() {
                self.lanes[which].give_up(now, self.plan.give_up);
                // A failure shows again when the socket is served.
                let _ = self.ask(which);
            }
        }
    }
}

/// When the question with this number is due, from the first on.
#[expect(clippy::cast_precision_loss, reason = "numbers are far below 2^52")]
fn time_of(number: u64, rate: f64) -> Duration {
    Duration::try_from_secs_f64(number as f64 / rate.max(f64::MIN_POSITIVE))
        .unwrap_or(Duration::MAX)
}
