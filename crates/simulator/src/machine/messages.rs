//! The answers of invented processes to messages: they confine themselves, become ready, attach apps, and end.

use std::time::Duration;

use control::app::AppId;
use control::hosting::Hosting;
use control::incident::Cause;
use control::kernel::{AnnouncedApp, HostedCode, KernelReply, KernelRequest};
use control::log::LogLevel;
use control::northbound::{NorthboundReply, NorthboundRequest};
use control::policy::Policy;
use control::service::{ServiceReply, ServiceRequest};
use control::zone::{ZoneReply, ZoneRequest};
use supervisor::effects::{Message, ProgramId, Reply};
use sys::sandbox::Report;

use super::{Machine, Process, Truth, kind_name};
use crate::disk::Quality;
use crate::faults::Armed;
use crate::tape::Tape;

impl Machine {
    /// A process takes up a message.
    pub(super) fn received(&mut self, program: ProgramId, message: Message, tape: &mut Tape) {
        match message {
            Message::Kernel(request) => self.kernel_received(program, request, tape),
            Message::Zone(request) => self.zone_received(program, request, tape),
            Message::Service(ServiceRequest::Start { .. }) => {
                let ready = Reply::Service(ServiceReply::Ready);
                let confined = ServiceReply::Confined { report: Report::default() };
                self.begin(program, Reply::Service(confined), ready, tape);
            }
            Message::Service(ServiceRequest::Ping { number }) => {
                self.answer(program, Reply::Service(ServiceReply::Pong { number }), tape);
            }
            Message::Northbound(NorthboundRequest::Start { .. }) => {
                let ready = Reply::Northbound(NorthboundReply::Ready);
                let confined = NorthboundReply::Confined { report: Report::default() };
                self.begin(program, Reply::Northbound(confined), ready, tape);
            }
            Message::Northbound(NorthboundRequest::Ping { number }) => {
                self.answer(program, Reply::Northbound(NorthboundReply::Pong { number }), tape);
            }
            Message::Service(ServiceRequest::Stop)
            | Message::Northbound(NorthboundRequest::Stop) => {
                self.stop(program, tape);
            }
            Message::Service(ServiceRequest::Client(_) | ServiceRequest::Apps { .. })
            | Message::Northbound(_) => {}
        }
    }

    /// A process begins: it confines itself and becomes ready, unless a fault is armed.
    fn begin(&mut self, program: ProgramId, confined: Reply, ready: Reply, tape: &mut Tape) {
        let Some(process) = self.processes.get(&program) else { return };
        let kind = kind_name(&process.kind);
        let first = Duration::from_millis(1 + tape.below(20));
        self.send(program, first, confined, usize::from(kind == "zone"));
        let ready_at = first + Duration::from_millis(tape.below(200));
        match self.take_armed(kind, &[Armed::DiesStarting, Armed::NeverReady]) {
            Some(Armed::DiesStarting) => {
                self.end(program, ready_at, Cause::Signal { signal: 11 }, Truth::Own);
            }
            Some(_) => {}
            None => self.send(program, ready_at, ready, 0),
        }
    }

    fn answer(&mut self, program: ProgramId, reply: Reply, tape: &mut Tape) {
        let Some(process) = self.processes.get(&program) else { return };
        if process.hang.is_none() && !process.is_deaf {
            self.send(program, Duration::from_millis(1 + tape.below(50)), reply, 0);
        }
    }

    fn stop(&mut self, program: ProgramId, tape: &mut Tape) {
        let Some(process) = self.processes.get(&program) else { return };
        if process.hang.is_none() && !process.is_deaf && !process.ignores_stop {
            let after = Duration::from_millis(1 + tape.below(60));
            self.end(program, after, Cause::Exit { code: 0 }, Truth::Requested);
        }
    }

    fn kernel_received(&mut self, program: ProgramId, request: KernelRequest, tape: &mut Tape) {
        let Some(process) = self.processes.get_mut(&program) else { return };
        match request {
            KernelRequest::Start { apps, .. } => {
                let hosted: Vec<AppId> =
                    apps.iter().filter(|app| app.host.is_in_kernel()).map(|app| app.app).collect();
                process.apps = apps;
                let confined = KernelReply::Confined { report: Report::default() };
                let ready = Reply::Kernel(KernelReply::Ready);
                self.begin(program, Reply::Kernel(confined), ready, tape);
                for app in hosted {
                    let after = Duration::from_millis(230 + tape.below(100));
                    let reply = KernelReply::Hosted { app, version: "1".into(), instances: 2 };
                    self.send(program, after, Reply::Kernel(reply), 0);
                }
            }
            KernelRequest::Know { app, name, policy } => know(process, app, name, policy),
            KernelRequest::Attach { app, name, policy } => {
                know(process, app, name, policy);
                if process.hang.is_some() || process.is_deaf {
                    return;
                }
                let is_full = self.take_armed("kernel", &[Armed::NoRings]).is_some();
                let lost = self.take_armed("kernel", &[Armed::LosesDescriptors]).is_some();
                let reply = if is_full {
                    KernelReply::NotAttached { app, why: "there are no descriptors".into() }
                } else {
                    KernelReply::Attached { app, capacity: 1 << 20, batch: 64 }
                };
                let fds = if is_full || lost { 0 } else { 2 };
                let after = Duration::from_millis(1 + tape.below(10));
                self.send(program, after, Reply::Kernel(reply), fds);
            }
            KernelRequest::Stop => self.stop(program, tape),
            KernelRequest::Forget { app } => process.apps.retain(|it| it.app != app),
            _ => {}
        }
    }

    fn zone_received(&mut self, program: ProgramId, request: ZoneRequest, tape: &mut Tape) {
        let Some(process) = self.processes.get_mut(&program) else { return };
        match request {
            ZoneRequest::Load { sha256, .. } => {
                process.sha256.clone_from(&sha256);
                let confined = ZoneReply::Confined { report: Report::default() };
                let quality = self.disk.quality(&sha256);
                let reply = match quality {
                    Quality::Good | Quality::Short(_) => ZoneReply::Loaded { version: "1".into() },
                    Quality::Unfit => ZoneReply::Unfit { why: "it has a wrong value".into() },
                    Quality::NotLoaded => ZoneReply::NotLoaded { why: "it is no object".into() },
                };
                self.begin(program, Reply::Zone(confined), Reply::Zone(reply), tape);
                match quality {
                    Quality::Good => {}
                    Quality::Short(after) => {
                        let after = Duration::from_millis(250) + after;
                        self.end(program, after, Cause::Signal { signal: 6 }, Truth::Own);
                    }
                    Quality::Unfit | Quality::NotLoaded => {
                        let after = Duration::from_millis(260);
                        self.end(program, after, Cause::Exit { code: 1 }, Truth::Own);
                    }
                }
            }
            ZoneRequest::Stop => self.stop(program, tape),
            _ => {}
        }
    }
}

/// The kernel knows an app from now on.
fn know(kernel: &mut Process, app: AppId, name: String, policy: Policy) {
    if let Some(known) = kernel.apps.iter_mut().find(|it| it.app == app) {
        known.policy = policy;
        return;
    }
    let (host, log_level) = (Hosting::USER, LogLevel::Info);
    let (config_size, services, code) = (0, Vec::new(), HostedCode::default());
    let announced =
        AnnouncedApp { app, name, policy, host, log_level, config_size, services, code };
    kernel.apps.push(announced);
}
