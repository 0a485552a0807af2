//! Handles the kernel's messages and its end, and what they mean for the apps.

use std::os::fd::OwnedFd;
use std::time::Instant;

use control::app::AppId;
use control::kernel::{KernelReply, KernelRequest, MAX_WORKERS};
use tracing::{error, info};

use super::{AppSlot, Programs};
use crate::app::App;
use crate::effects::{Fd, Record};
use crate::kernel::EndOfKernel;
use crate::program::ProgramExit;
use crate::system::System;
use crate::text::shortened;

impl Programs {
    /// Handles a message of the kernel. The error says how the message breaks the protocol.
    pub(super) fn handle_kernel_reply(
        &mut self,
        reply: KernelReply,
        fds: Vec<OwnedFd>,
        system: &dyn System,
        now: Instant,
    ) -> Result<(), &'static str> {
        match reply {
            KernelReply::Confined { report } => self.kernel.program.confined(report, fds),
            KernelReply::Ready => self.kernel_ready(now),
            KernelReply::Attached { app, capacity, batch } => {
                // An app in the kernel has no zone, and so no rings.
                let zone = self.app_by_id(app).and_then(App::zone_mut);
                let fds: Vec<Fd> = fds.into_iter().map(Fd::new).collect();
                let requested = zone.is_some_and(|zone| {
                    if fds.is_empty() {
                        zone.rings_failed("the monitor can open no more descriptors", now)
                    } else {
                        zone.rings_made((capacity, batch), fds)
                    }
                });
                return requested.then_some(()).ok_or("it sent rings without a request");
            }
            KernelReply::NotAttached { app, why } => {
                let zone = self.app_by_id(app).and_then(App::zone_mut);
                let requested = zone.is_some_and(|zone| zone.rings_failed(&why, now));
                return requested.then_some(()).ok_or("it refused rings without a request");
            }
            KernelReply::Hosted { app, version, instances } => {
                return self.hosted((app, &version, instances), system);
            }
            KernelReply::Demoted { app, why } => {
                // During a stop no zone is started, so the app stays where it is.
                let announced = self.is_stopping()
                    || self.app_by_id(app).is_some_and(|app| app.failed_in_kernel(&why, now));
                return announced
                    .then_some(())
                    .ok_or("it demoted an app that is not in the kernel");
            }
            KernelReply::InstanceEnded { app: id, why } => {
                let ended = self.app_by_id(id).map(|app| app.instance_ended(&why, now));
                let is_held = ended.flatten().ok_or("it ended an app that is not in the kernel")?;
                if is_held {
                    self.kernel.program.send(KernelRequest::Disable { app: id }, Vec::new());
                }
            }
            KernelReply::Fault { app, why } => {
                if let Some(zone) = self.app_by_id(app).and_then(App::zone_mut) {
                    zone.fault(&why);
                }
            }
            KernelReply::FlowsMissing(missing) => self.flows_were_missing(missing),
            KernelReply::MessageFailed(failed) => self.message_failed(failed, now),
            KernelReply::MessageRecovered { dpid, message } => {
                self.message_recovered(&dpid, &message, now);
            }
            KernelReply::SwitchRefused(refused) => self.switch_was_refused(refused, now),
            KernelReply::OtherController(other) => self.other_controller_seen(other, now),
            KernelReply::SetAside { app, record } => {
                let name = self.app_by_id(app).map(|app| app.name.clone());
                let size = record.len() / 2;
                let record = shortened(&record, 256);
                error!(app = name, size, record, "set a record aside that ended the app twice");
            }
        }
        Ok(())
    }

    /// The kernel reports that it hosts a number of instances of an app, which are connected with the app's services. The error
    /// says how the message breaks the protocol.
    fn hosted(
        &mut self,
        (app, version, instances): (AppId, &str, u16),
        system: &dyn System,
    ) -> Result<(), &'static str> {
        if !(1..=MAX_WORKERS).contains(&instances) {
            return Err("it loaded an impossible number of instances of an app");
        }
        let pid = self.kernel.program.pid();
        let place = self.apps.iter().position(|it| it.id == app && it.role().serves());
        let hosted = place.and_then(|place| Some((AppSlot(place), self.apps.get_mut(place)?)));
        let Some((slot, app)) = hosted else {
            return Err("it loaded an app that does not exist");
        };
        if !app.loaded_in_kernel(version, instances, pid) {
            return Err("it loaded an app that is not in the kernel");
        }
        if app.is_in_kernel() {
            self.services.connect_app(app, &self.kernel.program, system);
            self.connect_provided(slot, system);
            self.connect_apps_service(slot, system);
        }
        Ok(())
    }

    /// The kernel reports that it is ready: zones start, and those that run are connected to it.
    fn kernel_ready(&mut self, now: Instant) {
        if self.kernel.program.mark_ready(now) {
            info!(pid = self.kernel.program.pid(), "kernel was ready");
            for slot in self.app_slots() {
                if let Some(app) = self.app_mut(slot) {
                    app.request_start(now);
                }
                self.attach(slot);
            }
            self.forget_stopped_apps();
        }
    }

    /// The kernel has ended: the app that is to blame gets a zone.
    pub(super) fn kernel_ended(
        &mut self,
        exit: &ProgramExit,
        record: Option<Box<Record>>,
        now: Instant,
    ) {
        self.forget_failed_messages(now);
        let end = self.kernel.ended(exit, record, &self.apps);
        let EndOfKernel { blamed, from_outside, .. } = end;
        let incident = self.kernel.program.incidents_mut().last();
        self.note_end_of_kernel(&exit.how, from_outside, now);
        let is_stopping = self.is_stopping();
        for app in &mut self.apps {
            app.kernel_ended();
            if blamed == Some(app.id) && app.is_in_kernel() && !is_stopping {
                app.demote(&format!("the kernel ended in it: {}", exit.how), now);
                self.demotions.record(&app.name, app.demoted().unwrap_or_default());
                if let Some(id) = incident {
                    let reaction = format!("app {} moved from the kernel to a zone", app.name);
                    self.incidents.reaction(id, reaction);
                }
            }
        }
        self.note_unexplained_end(end, (&exit.how, exit.ran), incident, now);
    }
}
