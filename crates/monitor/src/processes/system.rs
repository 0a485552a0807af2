//! Answers the questions about processes that decisions need, and makes sockets and memory for programs.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use control::flight::{Charges, FlightReader, OngoingCall, OngoingTurn, Traffic};
use control::kernel::worker_name;
use control::service::ServiceKind;
use supervisor::effects::{Fd, ProgramId};
use supervisor::hang::events::Activity;
use supervisor::system::{Sockets, System};
use supervisor::usage::meter::Sample;
use sys::cgroup::Controller;
use sys::packets::Packets;
use sys::process::{Memory, Thread, Usage, main_thread, named_thread, processor_time};
use tracing::warn;

use super::{Processes, duplicates, state_file};

impl System for Processes {
    fn sample(&self, program: ProgramId) -> Option<Sample> {
        self.running.get(&program)?.process.sample(&self.enforcement)
    }

    fn processor_time(&self, program: ProgramId) -> Option<Duration> {
        Usage::of(self.pid(program)?).ok().map(|used| used.cpu)
    }

    fn own_memory(&self, program: ProgramId) -> Option<Result<u64, String>> {
        let process = &self.running.get(&program)?.process;
        let memory = (!process.is_killed).then(|| Memory::of(process.child.pid()))?;
        let memory = memory.map(|memory| memory.without_rings(self.enforcement.rings()));
        Some(memory.map_err(|error| error.to_string()))
    }

    fn is_memory_uncounted(&self) -> bool {
        !self.enforcement.tree().has(Controller::Memory)
    }

    fn main_thread(&self, program: ProgramId) -> Option<Thread> {
        main_thread(self.pid(program)?).ok()
    }

    fn worker(&self, program: ProgramId, number: usize) -> Option<Thread> {
        named_thread(self.pid(program)?, &worker_name(number)).ok()
    }

    fn activity(&self, program: ProgramId, events_wait: bool) -> Activity {
        let pid = self.pid(program).filter(|_| events_wait);
        let process = pid.and_then(|pid| processor_time(pid).ok());
        Activity { thread: self.main_thread(program), process }
    }

    fn calls(&self, program: ProgramId) -> Vec<OngoingCall> {
        self.recorder(program).map(|it| it.calls().collect()).unwrap_or_default()
    }

    fn turns(&self, program: ProgramId) -> Vec<OngoingTurn> {
        self.recorder(program).map(|it| it.turns().collect()).unwrap_or_default()
    }

    fn charges(&self, program: ProgramId) -> Charges {
        self.recorder(program).map(FlightReader::charges).unwrap_or_default()
    }

    fn traffic(&self, program: ProgramId) -> Traffic {
        self.recorder(program).map(FlightReader::traffic).unwrap_or_default()
    }

    fn table(&self, slots: u32) -> Result<Fd, String> {
        sys::table::memory(slots).map(Fd::new).map_err(|error| error.to_string())
    }

    fn is_table_sealed(&self, table: &Fd) -> bool {
        sys::table::is_sealed(table)
    }

    fn sealed(&self, name: &str, content: &[u8]) -> Result<Fd, String> {
        let sealed: io::Result<OwnedFd> = sys::shm::sealed_copy(name, content);
        sealed.map(Fd::new).map_err(|error| error.to_string())
    }

    fn sockets(&self, kind: Sockets) -> Result<[Fd; 2], String> {
        let pair = match kind {
            Sockets::Plain => Packets::pair(),
            Sockets::PassingToFirst => Packets::passing_pair(),
        };
        let (first, second) = pair.map_err(|error| error.to_string())?;
        if kind == Sockets::PassingToFirst
            && let Err(error) = second.send_little_ahead()
        {
            warn!(%error, "could not bound the data that waits for an app");
        }
        Ok([first.into_fd().into(), second.into_fd().into()])
    }

    fn files_of(&self, service: ServiceKind, owner: Option<u32>) -> Result<Vec<Fd>, String> {
        if service == ServiceKind::Ovsdb {
            let keys = self.keys.iter().flat_map(|keys| keys.fds());
            return duplicates(keys).map_err(|error| error.to_string());
        }
        let Some(name) = service.file() else { return Ok(Vec::new()) };
        let path = self.state_dir.join(name);
        let file = state_file::open(&path, owner);
        let file = file.map_err(|error| format!("could not open {}: {error}", path.display()))?;
        Ok(vec![Fd::new(file.into())])
    }

    fn set_aside(&self, service: ServiceKind) -> Result<PathBuf, String> {
        let name = service.file().ok_or("the service has no state file")?;
        let path = self.state_dir.join(name);
        let aside = self.state_dir.join(format!("{name}.damaged"));
        let failed = |error| format!("could not rename {}: {error}", path.display());
        std::fs::rename(&path, &aside).map_err(failed)?;
        Ok(aside)
    }

    fn is_log_stored(&self) -> bool {
        self.log.is_done()
    }
}
