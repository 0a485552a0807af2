//! What operators ask, and are told.

use std::os::fd::AsFd as _;
use std::time::Instant;

use kernel::control::Request;
use sys::channel::{Channel, ChannelError};
use tracing::debug;

use super::House;
use crate::admin::{Ask, KernelStatus, MonitorStatus, Status, Tell};
use crate::reception::OperatorId;
use crate::service::Service;
use crate::supervise::State;

impl House {
    pub(super) fn answer(&mut self, id: OperatorId, ask: Ask, now: Instant) {
        match ask {
            Ask::Status => {
                let status = self.status(now);
                self.reception.answer(id, &Tell::Status(status), &[]);
            }
            Ask::Usage => {
                let usage = self.usage();
                self.reception.answer(id, &Tell::Usage(usage), &[]);
            }
            Ask::Kernel => match self.connect_to_kernel() {
                Ok(operators_end) => {
                    self.reception.answer(id, &Tell::Kernel, &[operators_end.as_fd()]);
                }
                Err(why) => {
                    debug!(why, "could not connect an operator to the kernel");
                    self.reception.answer(id, &Tell::Unavailable { why }, &[]);
                }
            },
            Ask::Log => match self.connect_operator_to_log(id) {
                Ok(operators_end) => {
                    self.reception.answer(id, &Tell::Log, &[operators_end.as_fd()]);
                }
                Err(why) => self.reception.answer(id, &Tell::Unavailable { why }, &[]),
            },
        }
    }

    /// Gives the kernel one end of a new connection and returns the other.
    pub(super) fn connect_to_kernel(&self) -> Result<Channel, String> {
        let state = self.kernel.supervision().state();
        if state != State::Running {
            return Err(format!("the kernel is {state}"));
        }
        let (operators_end, kernels_end) = Channel::pair().map_err(|error| error.to_string())?;
        kernels_end.refuse_descriptors();
        match self.kernel.send_for_operator(&Request::Operator, &[kernels_end.as_fd()]) {
            Ok(()) => Ok(operators_end),
            Err(ChannelError::WouldBlock) => Err("the kernel has too many questions".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn status(&self, now: Instant) -> Status {
        let supervision = self.kernel.supervision();
        let kernel = KernelStatus {
            pid: self.kernel.pid(),
            state: supervision.state(),
            restarts: supervision.restarts(),
            last_exit: supervision.last_exit().map(Into::into),
            listen: self.entrance.listeners.iter().map(|it| it.address().to_string()).collect(),
        };
        let uptime = now.saturating_duration_since(self.started).as_millis();
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            monitor: MonitorStatus {
                pid: std::process::id(),
                uptime_seconds: f64::from(u32::try_from(uptime / 100).unwrap_or(u32::MAX)) / 10.0,
            },
            services: self.services.iter().map(Service::status).collect(),
            apps: self.zones.iter().map(|zone| zone.status(&kernel)).collect(),
            kernel,
        }
    }
}
