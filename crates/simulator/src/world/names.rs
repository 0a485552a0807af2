//! The names of events and effects, and the events that are no steps.

use control::kernel::KernelReply;
use control::northbound::NorthboundReply;
use control::service::ServiceReply;
use control::zone::ZoneReply;
use supervisor::Event;
use supervisor::effects::{Effect, ProcessEvent, Reply};

/// The events that a simulation must have.
pub(crate) const EVENTS: [&str; 18] = [
    "start",
    "time",
    "measure",
    "limit",
    "reload",
    "terminate",
    "started",
    "not started",
    "received",
    "closed",
    "broken",
    "counted",
    "backtrace",
    "log silent",
    "ended",
    "pong",
    "not counted",
    "scheduled",
];

pub(super) fn event_name(event: &Event) -> String {
    let name = match event {
        Event::Start => "start",
        Event::Time => "time",
        Event::Measure => "measure",
        Event::Limit(_) => "limit",
        Event::Reload(_) => "reload",
        Event::Terminate => "terminate",
        Event::Process(_, event) => match event {
            ProcessEvent::Started(_) => "started",
            ProcessEvent::Found(_) => "found",
            ProcessEvent::NotStarted(_) => "not started",
            ProcessEvent::Received(..) if is_pong(event) => "pong",
            ProcessEvent::Received(..) => "received",
            ProcessEvent::Closed => "closed",
            ProcessEvent::Broken(_) => "broken",
            ProcessEvent::Counted(_) => "counted",
            ProcessEvent::NotCounted => "not counted",
            ProcessEvent::Scheduled(_) => "scheduled",
            ProcessEvent::Backtrace(..) => "backtrace",
            ProcessEvent::LogSilent(_) => "log silent",
            ProcessEvent::Ended(..) => "ended",
        },
    };
    name.to_owned()
}

fn is_pong(event: &ProcessEvent) -> bool {
    matches!(event, ProcessEvent::Received(reply, _) if matches!(
        **reply,
        Reply::Service(ServiceReply::Pong { .. })
            | Reply::Northbound(NorthboundReply::Pong { .. })
    ))
}

/// Whether a process says how it is confined, which the supervisor only passes on.
fn is_report(event: &ProcessEvent) -> bool {
    matches!(event, ProcessEvent::Received(reply, _) if matches!(
        **reply,
        Reply::Kernel(KernelReply::Confined { .. })
            | Reply::Zone(ZoneReply::Confined { .. })
            | Reply::Service(ServiceReply::Confined { .. })
            | Reply::Northbound(NorthboundReply::Confined { .. })
    ))
}

/// Whether an event returns all the time and changes nothing that matters.
pub(super) fn is_routine(event: &Event) -> bool {
    match event {
        Event::Measure | Event::Process(_, ProcessEvent::Counted(_)) => true,
        Event::Process(_, event) => is_pong(event) || is_report(event),
        _ => false,
    }
}

/// The effects that a simulation must have.
pub(crate) const EFFECTS: [&str; 18] = [
    "spawn",
    "send",
    "confined",
    "audit",
    "audit user",
    "log level",
    "count",
    "schedule",
    "backtrace",
    "forward log",
    "wait for log",
    "flush log",
    "end log",
    "add client",
    "decided",
    "kill",
    "abandon",
    "forget",
];

pub(super) fn effect_name(effect: &Effect) -> &'static str {
    match effect {
        Effect::Spawn(_) => "spawn",
        Effect::Send(..) => "send",
        Effect::Confined(..) => "confined",
        Effect::Audit { app: Some(_), .. } => "audit",
        Effect::Audit { app: None, .. } => "audit user",
        Effect::SetLogLevel(_) => "log level",
        Effect::Count => "count",
        Effect::Schedule(_) => "schedule",
        Effect::Backtrace(_) => "backtrace",
        Effect::ForwardLog(_) => "forward log",
        Effect::WaitForLog => "wait for log",
        Effect::FlushLog => "flush log",
        Effect::EndLog => "end log",
        Effect::AddAppsClient(..) => "add client",
        Effect::Decided(..) => "decided",
        Effect::Kill => "kill",
        Effect::Abandon => "abandon",
        Effect::Forget => "forget",
    }
}
