//! What the kernel says, and what follows from it.

use std::os::fd::OwnedFd;
use std::time::Instant;

use kernel::control::Answer;
use tracing::{error, info};

use super::{House, MESSAGES_PER_TURN};
use crate::program::shortened;

impl House {
    pub(super) fn hear_kernel(&mut self, now: Instant) {
        for _ in 0..MESSAGES_PER_TURN {
            let Some((answer, fds)) = self.kernel.hear(now) else { return };
            self.on_kernel(answer, fds, now);
        }
    }

    fn on_kernel(&mut self, answer: Answer, fds: Vec<OwnedFd>, now: Instant) {
        match answer {
            Answer::Confined { report } if !self.kernel_refusals.is_confined() => {
                self.kernel_refusals.confined(&report, fds);
            }
            Answer::Confined { .. } => self.kernel.kill("it said twice that it is confined"),
            Answer::Ready => {
                if self.kernel.ready() {
                    info!(pid = self.kernel.pid(), "kernel was ready");
                    for i in 0..self.zones.len() {
                        if let Some(zone) = self.zones.get_mut(i) {
                            zone.want(now);
                        }
                        self.attach(i);
                    }
                }
            }
            Answer::Attached { app, capacity, batch } => {
                let zone = self.zones.iter_mut().find(|zone| zone.app == app);
                let lost = "the monitor may open no more descriptors";
                let asked = zone.is_some_and(|zone| match fds.as_slice() {
                    [] => zone.rings_not_made(lost, now),
                    fds => zone.rings_made((capacity, batch), fds),
                });
                if !asked {
                    self.kernel.kill("it answered with rings that nobody asked for");
                }
            }
            Answer::NotAttached { app, why } => {
                let zone = self.zones.iter_mut().find(|zone| zone.app == app);
                if !zone.is_some_and(|zone| zone.rings_not_made(&why, now)) {
                    self.kernel.kill("it refused rings that nobody asked for");
                }
            }
            Answer::Hosted { app, version } => {
                let kernel = self.kernel.pid();
                let zone = self.zones.iter_mut().find(|zone| zone.app == app);
                if !zone.is_some_and(|zone| zone.hosted(&version, kernel)) {
                    self.kernel.kill("it hosts an app that it was not given");
                }
            }
            Answer::Demoted { app, why } => {
                let zone = self.zones.iter_mut().find(|zone| zone.app == app);
                let ours =
                    self.over_at.is_some() || zone.is_some_and(|zone| zone.demote(&why, now));
                if !ours {
                    self.kernel.kill("it took out an app that it was not given");
                }
            }
            Answer::Fault { app, why } => {
                if let Some(zone) = self.zones.iter_mut().find(|zone| zone.app == app) {
                    zone.fault(&why);
                }
            }
            Answer::SetAside { app, record } => {
                let name = self.zones.iter().find(|zone| zone.app == app).map(|zone| &zone.name);
                let size = record.len() / 2;
                let record = shortened(&record, 256);
                error!(app = name, size, record, "set a record aside that ended the app twice");
            }
        }
    }
}
