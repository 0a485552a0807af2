//! The faults, and how they are drawn.

use std::fmt;

use rustix::process::Signal;

use crate::developer::Quality;
use crate::random::Random;

/// A program of Rosemary that a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The kernel.
    Kernel,
    /// The service of this name.
    Service(&'static str),
    /// The app of this name, in a zone.
    App(&'static str),
}

/// The app that misbehaves on demand (`tests/apps/moody.c`).
pub(super) const MOODY: Program = Program::App("moody");

const SERVICES: [Program; 3] =
    [Program::Service("log"), Program::Service("storage"), Program::Service("broker")];

/// The guard.
pub(super) const FIREWALL: Program = Program::App("firewall");

/// The name of the app that is upgraded.
pub(super) const UPGRADED: &str = "hub";

/// The app that forwards packets in the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarder {
    /// `learning-switch`.
    LearningSwitch,
    /// `forwarding`, with the services that it uses.
    Forwarding,
}

impl Forwarder {
    /// The names of the app and of its services.
    pub(super) fn names(self) -> &'static [&'static str] {
        match self {
            Self::LearningSwitch => &["learning-switch"],
            Self::Forwarding => &["forwarding", "topology", "hosts"],
        }
    }

    /// The apps that faults strike.
    fn apps(self) -> Vec<Program> {
        let own = self.names().iter().copied().map(Program::App);
        [MOODY].into_iter().chain(own).chain([FIREWALL]).collect()
    }
}

/// What [`MOODY`] does when a packet arrives, as selected by the packet's UDP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Harm {
    /// Writes through a null pointer.
    Crash = 7001,
    /// Calls `abort`.
    Abort = 7002,
    /// Calls `exit`.
    Exit = 7003,
    /// Loops for ever.
    Hang = 7004,
    /// Allocates memory up to its limit.
    Leak = 7005,
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The program receives a signal that ends it.
    Kill(Program, Signal),
    /// The program is stopped (`SIGSTOP`) and not continued.
    Stop(Program),
    /// The misbehaving app is triggered by a packet.
    Misbehave(Harm),
    /// The switch disconnects and connects again.
    Disconnect,
    /// The firewall is stopped, and its flows are deleted from the switch.
    Unguard,
    /// The disk is full while the program is killed.
    FullDisk(Program),
    /// The app [`UPGRADED`] is upgraded to a version of this quality.
    Upgrade(Quality),
    /// The configuration is reloaded with a mistake, then with another app, then without it.
    Reload,
    /// The wall clock of the monitor jumps by this many seconds.
    ClockJump(i32),
}

impl Fault {
    /// Draws a fault of a network with this forwarder.
    pub(super) fn draw(random: &mut Random, forwarder: Forwarder) -> Self {
        let apps = &*forwarder.apps();
        match random.bits() % 100 {
            0..30 => {
                let signal = pick(random, &[Signal::KILL, Signal::SEGV, Signal::ABORT]);
                Self::Kill(any(random, apps), signal)
            }
            30..40 => Self::Stop(any(random, apps)),
            40..46 => {
                Self::Upgrade(pick(random, &[Quality::Good, Quality::Unfit, Quality::Crashing]))
            }
            46..70 => {
                let harms = [Harm::Crash, Harm::Abort, Harm::Exit, Harm::Hang, Harm::Leak];
                Self::Misbehave(pick(random, &harms))
            }
            70..76 => Self::Disconnect,
            76..80 => Self::Reload,
            80..86 => Self::Unguard,
            86..93 => Self::FullDisk(any(random, apps)),
            _ => Self::ClockJump(pick(random, &[-86_400, -60, 60, 3_600, 86_400 * 400])),
        }
    }

    /// Returns the program that is restarted because of this fault.
    pub(super) fn victim(self) -> Option<Program> {
        match self {
            Self::Kill(program, _) | Self::Stop(program) | Self::FullDisk(program) => Some(program),
            Self::Misbehave(_) => Some(MOODY),
            Self::Unguard => Some(FIREWALL),
            Self::Disconnect | Self::Reload | Self::Upgrade(_) | Self::ClockJump(_) => None,
        }
    }

    /// Returns words; the reported exit must contain one of them.
    pub(super) fn evidence(self) -> &'static [&'static str] {
        match self {
            Self::Kill(_, signal) if signal == Signal::SEGV => &["signal 11", "SIGSEGV"],
            Self::Kill(_, signal) if signal == Signal::ABORT => &["signal 6", "SIGABRT"],
            Self::Kill(..) | Self::FullDisk(_) => &["signal 9", "SIGKILL"],
            Self::Stop(_) | Self::Unguard | Self::Misbehave(Harm::Hang) => &["hung"],
            Self::Misbehave(Harm::Crash) => &["signal 11", "SIGSEGV"],
            Self::Misbehave(Harm::Abort) => &["signal 6", "SIGABRT"],
            Self::Misbehave(Harm::Exit) => &["3"],
            Self::Misbehave(Harm::Leak) => &["memory"],
            Self::Disconnect | Self::Reload | Self::Upgrade(_) | Self::ClockJump(_) => &[],
        }
    }
}

fn any(random: &mut Random, apps: &[Program]) -> Program {
    match random.bits() % 3 {
        0 => Program::Kernel,
        1 => pick(random, &SERVICES),
        _ => pick(random, apps),
    }
}

fn pick<T: Copy>(random: &mut Random, among: &[T]) -> T {
    let len = u64::try_from(among.len()).expect("a short list");
    let index = usize::try_from(random.bits() % len).expect("an index of a short list");
    among[index]
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel => f.write_str("kernel"),
            Self::Service(name) => write!(f, "service {name}"),
            Self::App(name) => write!(f, "app {name}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(program, signal) => write!(f, "{program} gets signal {}", signal.as_raw()),
            Self::Stop(program) => write!(f, "{program} is stopped"),
            Self::Misbehave(harm) => write!(f, "{MOODY}: {harm:?}"),
            Self::Disconnect => f.write_str("the switch disconnects"),
            Self::Unguard => f.write_str("the firewall is stopped and its flows are deleted"),
            Self::FullDisk(program) => write!(f, "the disk is full, {program} gets signal 9"),
            Self::Upgrade(quality) => {
                write!(f, "{UPGRADED} is upgraded to a version that is {quality:?}")
            }
            Self::Reload => f.write_str("the configuration is reloaded"),
            Self::ClockJump(seconds) => write!(f, "the clock jumps by {seconds} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_is_stopped_and_killed() {
        for forwarder in [Forwarder::LearningSwitch, Forwarder::Forwarding] {
            let mut random = Random::from(7);
            let drawn: Vec<Fault> =
                (0..5_000).map(|_| Fault::draw(&mut random, forwarder)).collect();
            let programs = [Program::Kernel].into_iter().chain(SERVICES).chain(forwarder.apps());
            for program in programs {
                assert!(drawn.contains(&Fault::Stop(program)), "{program} is never stopped");
                let is_killed = |it: &Fault| matches!(it, Fault::Kill(it, _) if *it == program);
                assert!(drawn.iter().any(is_killed), "{program} is never killed");
            }
        }
    }
}
