//! Decides which app is to blame for the end of a kernel, from the calls and the crash that the kernel recorded.
//!
//! At most one app is blamed: the one that the thread was calling which crashed or ended the process. Other workers may
//! be inside calls of other apps at that moment, which proves nothing about those apps.

use std::num::NonZeroU16;

use control::app::AppId;
use control::flight::{LoadedModule, OngoingCall, SLOTS};
use control::incident::{Cause, Crash, Frame};
use sys::crash::{CrashRecord, REGISTERS};
use sys::process::{is_fault, signal_name};

/// The apps of a record, and which of them it shows to be at fault.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attribution {
    /// The app that is to blame.
    pub(crate) blamed: Option<AppId>,
    /// The other apps that were being called, in ascending order.
    pub(crate) called: Vec<AppId>,
}

impl Attribution {
    /// Blames `app`, and lists the other apps of `calls`.
    pub(crate) fn of_app(app: Option<AppId>, calls: &[OngoingCall]) -> Self {
        let mut called: Vec<AppId> = calls.iter().map(|call| AppId(call.app.get())).collect();
        called.retain(|it| Some(*it) != app);
        called.sort_unstable();
        called.dedup();
        Self { blamed: app, called }
    }

    /// Decides about a kernel that ended of `cause` without the monitor's doing. `calls` are those of existing apps.
    pub(crate) fn of_end(
        calls: &[OngoingCall],
        crash: Option<&CrashRecord>,
        cause: &Cause,
    ) -> Self {
        let mut apps = calls.iter().map(|call| call.app);
        let app = match crash {
            Some(crash) if crash.is_from_outside() => None,
            Some(crash) => calls.iter().find(|it| Some(it.slot) == crash.slot).map(|it| it.app),
            // The kernel could not record its end: the only app in a call ended it, if its code can end a process so.
            None if can_be_caused_by_app(cause) => {
                let first = apps.next();
                first.filter(|first| apps.all(|other| other == *first))
            }
            None => None,
        };
        Self::of_app(app.map(NonZeroU16::get).map(AppId), calls)
    }
}

/// Whether faulty code ends a process in this way. Otherwise another process or the system has ended it.
fn can_be_caused_by_app(cause: &Cause) -> bool {
    match cause {
        Cause::Exit { .. } => true,
        Cause::Signal { signal } => is_fault(*signal),
        _ => false,
    }
}

/// Describes a crash as a phrase, for people.
pub(crate) fn fact(crash: &CrashRecord) -> String {
    let thread = thread(crash);
    let Some(signal) = crash.signal else { return format!("{thread} exited the process") };
    let signal = name(signal);
    match crash.code {
        1.. => format!("{signal} at address {:#x} on {thread}", crash.address),
        _ if crash.sent_itself => format!("{signal} on {thread}"),
        _ => format!("another process sent {signal}"),
    }
}

/// The crash as incidents have it; `None` for an exit. Its backtrace consists of the crashed instruction.
pub(crate) fn crash(record: &CrashRecord, modules: &[LoadedModule]) -> Option<Crash> {
    let registers = REGISTERS.iter().zip(&record.registers);
    let instruction = record.registers.first();
    Some(Crash {
        signal: name(record.signal?),
        code: record.code,
        address: (record.code > 0).then(|| format!("{:#x}", record.address)),
        thread: thread(record),
        registers: registers.map(|(name, value)| ((*name).into(), format!("{value:#x}"))).collect(),
        backtrace: instruction.map(|it| frame(*it, modules)).into_iter().collect(),
    })
}

/// The address with its module. The names of modules are those that the kernel noted.
fn frame(address: u64, modules: &[LoadedModule]) -> Frame {
    let found = modules.iter().find(|it| it.module.range.contains(&address));
    Frame {
        address: format!("{address:#x}"),
        module: found.map(|it| it.module.name.clone()),
        offset: found.map(|it| format!("{:#x}", address.wrapping_sub(it.module.bias))),
        ..Frame::default()
    }
}

fn thread(crash: &CrashRecord) -> String {
    match crash.slot {
        Some(slot) if slot == SLOTS - 1 => "the main thread".into(),
        Some(worker) => format!("worker {worker}"),
        None => "a thread that is no worker".into(),
    }
}

fn name(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), Into::into)
}

#[cfg(test)]
mod tests {
    use sys::process::Exit;

    use super::*;

    const SEGV: i32 = 11;
    const KILL: i32 = 9;

    fn call(slot: usize, app: u16) -> OngoingCall {
        OngoingCall { slot, app: NonZeroU16::new(app).unwrap(), number: 1 }
    }

    fn record(signal: Option<i32>, slot: Option<usize>) -> CrashRecord {
        CrashRecord {
            signal,
            code: 1,
            address: 8,
            sent_itself: false,
            slot,
            registers: vec![0x1234; REGISTERS.len()],
            stack: Vec::new(),
        }
    }

    fn decided(crash: Option<&CrashRecord>, exit: Exit) -> (Option<u16>, Vec<u16>) {
        let calls = [call(0, 7), call(2, 5), call(3, 7)];
        let Attribution { blamed, called } =
            Attribution::of_end(&calls, crash, &Cause::of_exit(exit));
        (blamed.map(|it| it.0), called.into_iter().map(|it| it.0).collect())
    }

    #[test]
    fn app_on_the_crashed_thread_is_blamed() {
        let segv = Exit::Signal(SEGV);
        assert_eq!(decided(Some(&record(Some(SEGV), Some(2))), segv), (Some(5), vec![7]));
        assert_eq!(decided(Some(&record(Some(SEGV), Some(3))), segv), (Some(7), vec![5]));
        assert_eq!(decided(Some(&record(None, Some(2))), Exit::Code(7)), (Some(5), vec![7]));
        for other in [Some(1), None, Some(99)] {
            assert_eq!(decided(Some(&record(Some(SEGV), other)), segv), (None, vec![5, 7]));
        }
    }

    #[test]
    fn signal_from_outside_blames_nobody() {
        let from_outside = CrashRecord { code: 0, ..record(Some(SEGV), Some(2)) };
        assert_eq!(decided(Some(&from_outside), Exit::Signal(SEGV)), (None, vec![5, 7]));
        assert_eq!(decided(None, Exit::Signal(KILL)), (None, vec![5, 7]));
        let only = Attribution::of_end(&[call(1, 7)], None, &Cause::Signal { signal: KILL });
        assert_eq!(only, Attribution { blamed: None, called: vec![AppId(7)] });
        let itself = CrashRecord { code: -6, sent_itself: true, ..record(Some(6), Some(2)) };
        assert_eq!(decided(Some(&itself), Exit::Signal(6)), (Some(5), vec![7]));
    }

    #[test]
    fn without_record_only_a_single_app_is_blamed() {
        assert_eq!(decided(None, Exit::Code(0)), (None, vec![5, 7]));
        let cause = Cause::Exit { code: 0 };
        let same = Attribution::of_end(&[call(1, 7), call(2, 7)], None, &cause);
        assert_eq!(same, Attribution { blamed: Some(AppId(7)), called: Vec::new() });
        assert_eq!(Attribution::of_end(&[], None, &cause), Attribution::default());
    }

    #[test]
    fn crash_is_described() {
        let segv = record(Some(SEGV), Some(2));
        assert_eq!(fact(&segv), "SIGSEGV at address 0x8 on worker 2");
        assert_eq!(fact(&record(None, Some(SLOTS - 1))), "the main thread exited the process");
        let module = sys::object::Module { name: "it".into(), range: 0x1000..0x2000, bias: 0x1000 };
        let crash = crash(&segv, &[LoadedModule { module, app: None }]).unwrap();
        assert_eq!((&*crash.signal, crash.address.as_deref()), ("SIGSEGV", Some("0x8")));
        assert_eq!(crash.registers.get(REGISTERS[0]).unwrap(), "0x1234");
        assert_eq!(crash.backtrace[0].module.as_deref(), Some("it"));
        assert_eq!(crash.backtrace[0].offset.as_deref(), Some("0x234"));
    }
}
