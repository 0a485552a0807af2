//! The answers to questions about invented processes.

use std::path::PathBuf;
use std::time::Duration;

use control::flight::{Charges, OngoingCall, OngoingTurn, Traffic};
use control::service::ServiceKind;
use supervisor::effects::{Fd, ProgramId};
use supervisor::hang::events::Activity;
use supervisor::system::{Sockets, System};
use supervisor::usage::meter::Sample;
use sys::process::Thread;

use super::Machine;

impl System for Machine {
    fn sample(&self, program: ProgramId) -> Option<Sample> {
        let process = self.processes.get(&program)?;
        let memory = self.memory(process);
        let cpu = self.thread(process).used;
        Some(Sample {
            cpu,
            memory,
            own_memory: memory,
            threads: 2,
            descriptors: Some(10),
            ..Sample::default()
        })
    }

    fn processor_time(&self, program: ProgramId) -> Option<Duration> {
        let process = self.processes.get(&program)?;
        Some(self.now().saturating_duration_since(process.since))
    }

    fn own_memory(&self, program: ProgramId) -> Option<Result<u64, String>> {
        let process = self.processes.get(&program).filter(|it| !it.is_killed)?;
        Some(Ok(self.memory(process)))
    }

    fn is_memory_uncounted(&self) -> bool {
        true
    }

    fn main_thread(&self, program: ProgramId) -> Option<Thread> {
        self.processes.get(&program).map(|process| self.thread(process))
    }

    fn worker(&self, program: ProgramId, _: usize) -> Option<Thread> {
        self.main_thread(program)
    }

    fn activity(&self, program: ProgramId, _: bool) -> Activity {
        let thread = self.main_thread(program);
        Activity { thread, process: thread.map(|thread| thread.used) }
    }

    fn calls(&self, program: ProgramId) -> Vec<OngoingCall> {
        self.processes.get(&program).and_then(|process| process.call).into_iter().collect()
    }

    fn turns(&self, program: ProgramId) -> Vec<OngoingTurn> {
        let Some(process) = self.processes.get(&program) else { return Vec::new() };
        let now = self.now().saturating_duration_since(process.since).as_millis() / 100;
        let number = match (process.hang, process.sick_since) {
            (Some(_), Some(since)) => {
                since.saturating_duration_since(process.since).as_millis() / 100
            }
            _ => now,
        };
        vec![OngoingTurn { slot: 0, number: u64::try_from(number).unwrap_or(u64::MAX) }]
    }

    fn traffic(&self, _: ProgramId) -> Traffic {
        Traffic::default()
    }

    fn charges(&self, program: ProgramId) -> Charges {
        let Some(process) = self.processes.get(&program) else { return Charges::default() };
        let grown = self.memory(process).saturating_sub(20 << 20);
        Charges::of(process.leaking_app.map(|app| (app, grown)))
    }

    fn table(&self, _: u32) -> Result<Fd, String> {
        if self.disk.take_out_of_descriptors() {
            return Err("there is no memory".into());
        }
        Ok(self.fd.clone())
    }

    fn is_table_sealed(&self, _: &Fd) -> bool {
        true
    }

    fn sealed(&self, _: &str, _: &[u8]) -> Result<Fd, String> {
        if self.disk.take_out_of_descriptors() {
            return Err("there is no memory".into());
        }
        Ok(self.fd.clone())
    }

    fn sockets(&self, _: Sockets) -> Result<[Fd; 2], String> {
        if self.disk.take_out_of_descriptors() {
            return Err("too many files are open".into());
        }
        Ok([self.fd.clone(), self.fd.clone()])
    }

    fn files_of(&self, service: ServiceKind, _: Option<u32>) -> Result<Vec<Fd>, String> {
        if service.file().is_none() {
            return Ok(Vec::new());
        }
        if self.disk.is_full() && self.disk.take_out_of_descriptors() {
            return Err("could not open its state: no space is left".into());
        }
        Ok(vec![self.fd.clone()])
    }

    fn set_aside(&self, service: ServiceKind) -> Result<PathBuf, String> {
        let name = service.file().ok_or("it has no state")?;
        Ok(PathBuf::from(format!("{name}.damaged")))
    }

    fn is_log_stored(&self) -> bool {
        true
    }
}
