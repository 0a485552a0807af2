//! Decides which app is to blame for the end of a kernel, from the calls and the crash that the kernel recorded.
//!
//! At most one app is blamed: the app that was called by the thread that crashed or ended the process, or whose object the
//! thread was running. The latter finds threads that apps have started. Other workers may be inside calls of other apps at
//! that moment, which proves nothing about those apps.

use std::num::NonZeroU16;

use control::app::AppId;
use control::flight::{EVENTS, EventKind, LoadedModule, OngoingCall, RecentEvent, SLOTS};
use control::incident::{
    Cause, Crash, Frame, MessageHeader, WorkerEvent, WorkerEventKind, WorkerEvents,
};
use sys::crash::{CrashRecord, REGISTERS};
use sys::process::{is_fault, signal_name};

/// The last events of a worker that did not crash, so that an incident stays short.
const EVENTS_OF_OTHERS: usize = 8;

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

    /// Decides about a kernel that ended of `cause` without the monitor's doing. `calls` and `modules` are those of existing
    /// apps.
    pub(crate) fn of_end(
        calls: &[OngoingCall],
        modules: &[LoadedModule],
        crash: Option<&CrashRecord>,
        cause: &Cause,
    ) -> Self {
        let mut apps = calls.iter().map(|call| call.app);
        let app = match crash {
            Some(crash) if crash.is_from_outside() => None,
            Some(crash) => {
                let call = calls.iter().find(|it| Some(it.slot) == crash.slot).map(|it| it.app);
                call.or_else(|| app_of_code(crash, modules))
            }
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

/// The app whose object the thread was running: at the crashed instruction, or in all frames of apps on the stack of a thread
/// that is not the kernel's. Words left on the stack of a worker may be of earlier calls of any app.
fn app_of_code(crash: &CrashRecord, modules: &[LoadedModule]) -> Option<NonZeroU16> {
    let app_at = |address: &u64| {
        modules.iter().find(|it| it.module.range.contains(address)).and_then(|it| it.app)
    };
    let innermost = crash.registers.first().and_then(app_at);
    innermost.or_else(|| {
        let stack = if crash.slot.is_none() { crash.stack.as_slice() } else { &[] };
        let mut apps = stack.iter().filter_map(app_at);
        let first = apps.next()?;
        apps.all(|other| other == first).then_some(first)
    })
}

/// Whether code of the process ended it in this way. Otherwise another process or the system has ended it.
pub(crate) fn is_by_code(cause: &Cause) -> bool {
    matches!(cause, Cause::Limit { .. }) || can_be_caused_by_app(cause)
}

/// Whether faulty code ends a process in this way by itself, without a limit that it exceeds.
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

/// The last events of the workers as incidents have them. `now_ns` is the time of the kernel's end on the monotonic
/// clock; `name_of` returns the name of the app with a number.
pub(crate) fn recent(
    workers: Vec<(usize, Vec<RecentEvent>)>,
    crash: Option<&CrashRecord>,
    now_ns: u64,
    name_of: impl Fn(u16) -> Option<String>,
) -> Vec<WorkerEvents> {
    let event = |it: RecentEvent| WorkerEvent {
        age_us: now_ns.saturating_sub(it.time_ns) / 1_000,
        kind: match it.kind {
            EventKind::Received => WorkerEventKind::Received,
            EventKind::Sent => WorkerEventKind::Sent,
            EventKind::Called => WorkerEventKind::Called,
        },
        count: it.count,
        app: it.app.and_then(|app| name_of(app.get())),
        switch: (it.dpid != 0).then(|| datapath_id(it.dpid)),
        message: (it.kind != EventKind::Called).then_some(MessageHeader {
            version: it.version,
            message_type: it.message_type,
            size: it.size,
            xid: it.xid,
        }),
    };
    let events = |(worker, mut events): (usize, Vec<RecentEvent>)| {
        let is_crashed = crash.is_some_and(|it| it.slot == Some(worker));
        let most = if is_crashed { EVENTS } else { EVENTS_OF_OTHERS };
        let events = events.split_off(events.len().saturating_sub(most));
        WorkerEvents { worker, events: events.into_iter().map(event).collect() }
    };
    workers.into_iter().map(events).collect()
}

/// A datapath id as operators know it.
fn datapath_id(dpid: u64) -> String {
    dpid.to_be_bytes().map(|byte| format!("{byte:02x}")).join(":")
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
            Attribution::of_end(&calls, &[], crash, &Cause::of_exit(exit));
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
        let only = Attribution::of_end(&[call(1, 7)], &[], None, &Cause::Signal { signal: KILL });
        assert_eq!(only, Attribution { blamed: None, called: vec![AppId(7)] });
        let itself = CrashRecord { code: -6, sent_itself: true, ..record(Some(6), Some(2)) };
        assert_eq!(decided(Some(&itself), Exit::Signal(6)), (Some(5), vec![7]));
    }

    #[test]
    fn without_record_only_a_single_app_is_blamed() {
        assert_eq!(decided(None, Exit::Code(0)), (None, vec![5, 7]));
        let cause = Cause::Exit { code: 0 };
        let same = Attribution::of_end(&[call(1, 7), call(2, 7)], &[], None, &cause);
        assert_eq!(same, Attribution { blamed: Some(AppId(7)), called: Vec::new() });
        assert_eq!(Attribution::of_end(&[], &[], None, &cause), Attribution::default());
    }

    #[test]
    fn thread_of_an_app_is_attributed_by_its_object() {
        let module = |start: u64, app| LoadedModule {
            module: sys::object::Module { name: "it".into(), range: start..start + 9, bias: 0 },
            app: NonZeroU16::new(app),
        };
        let modules = [module(0x100, 0), module(0x200, 7), module(0x300, 5)];
        let blamed = |slot, instruction, stack: &[u64]| {
            let registers = vec![instruction; REGISTERS.len()];
            let crash = CrashRecord { registers, stack: stack.into(), ..record(Some(6), slot) };
            let calls = [call(2, 5)];
            let cause = Cause::Signal { signal: 6 };
            Attribution::of_end(&calls, &modules, Some(&crash), &cause).blamed.map(|it| it.0)
        };
        assert_eq!(blamed(None, 0x203, &[]), Some(7), "the innermost frame is in its object");
        assert_eq!(
            blamed(None, 0x101, &[3, 0x102, 0x201, 9, 0x202]),
            Some(7),
            "abort in a library"
        );
        assert_eq!(blamed(None, 0x101, &[0x201, 0x301]), None, "two apps");
        assert_eq!(blamed(None, 0x101, &[0x102, 7]), None);
        assert_eq!(blamed(Some(2), 0x203, &[]), Some(5), "the worker was calling another app");
        assert_eq!(blamed(Some(3), 0x203, &[]), Some(7), "a worker outside of calls");
        assert_eq!(blamed(Some(3), 0x101, &[0x201]), None, "an old word on the worker's stack");
    }

    #[test]
    fn events_of_the_crashed_worker_are_complete() {
        let event = |number: usize| RecentEvent {
            time_ns: 1_000 * number as u64,
            kind: if number.is_multiple_of(2) { EventKind::Sent } else { EventKind::Called },
            count: 2,
            version: 4,
            message_type: 14,
            size: 80,
            xid: 1,
            dpid: 0xab,
            app: NonZeroU16::new(7),
        };
        let workers = (0..16).map(|worker| (worker, (0..EVENTS).map(event).collect())).collect();
        let crash = record(Some(SEGV), Some(2));
        let name_of = |app| (app == 7).then(|| "misfit".to_owned());
        let recent = recent(workers, Some(&crash), 40_000, name_of);
        let counts: Vec<usize> = recent.iter().map(|it| it.events.len()).collect();
        assert_eq!((counts[2], counts[3]), (EVENTS, EVENTS_OF_OTHERS));
        let last: Vec<&WorkerEvent> = recent[3].events.iter().rev().take(2).collect();
        assert_eq!(
            (last[0].age_us, last[0].app.as_deref(), last[0].message),
            (9, Some("misfit"), None)
        );
        assert_eq!(last[1].count, 2);
        assert_eq!(last[1].switch.as_deref(), Some("00:00:00:00:00:00:00:ab"));
        assert!(last[1].message.is_some_and(|it| (it.version, it.size) == (4, 80)));
        assert!(serde_json::to_vec(&recent).unwrap().len() < 32_000);
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
