//! The installation, users and limits for all programs, and the parts of programs that follow from them.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use config::{Limits, Require};
use control::app::AbsentApp;
use control::service::{OvsdbStart, ServiceKind, ServiceQuotas, ServiceSandbox};
use rustix::process::geteuid;
use supervisor::effects::Effects;
use supervisor::incidents::Incidents;
use supervisor::interface::{Interface, NorthboundParts};
use supervisor::kernel::KernelParts;
use supervisor::services::ServiceParts;
use sys::process::PidNamespace;

use crate::error::StartError;
use crate::installation::Installation;
use crate::kernel_settings::KernelSettings;
use crate::keys::SealedKeys;
use crate::usage::Enforcement;
use crate::users::Users;

/// The installation, users and limits for all programs.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) installation: Installation,
    pub(crate) users: Users,
    /// How complete the sandbox must be; `None` to run without a sandbox.
    pub(crate) require: Option<Require>,
    pub(crate) enforcement: Arc<Enforcement>,
    /// Collects the effects for processes.
    pub(crate) effects: Effects,
    pub(crate) incidents: Incidents,
    /// The directory of the services' state files.
    pub(crate) state_dir: PathBuf,
    /// How much state services keep.
    pub(crate) quotas: ServiceQuotas,
    /// The databases of switches.
    pub(crate) databases: OvsdbStart,
    /// The keys for TLS to switches, if there are some.
    pub(crate) keys: Option<Rc<SealedKeys>>,
}

impl Environment {
    /// The parts of the kernel, whose process stays below `limits`.
    pub(crate) fn kernel(
        &self,
        start: KernelSettings,
        absent: Vec<AbsentApp>,
        limits: Limits,
    ) -> KernelParts {
        KernelParts {
            executable: self.installation.kernel.clone().into(),
            apart: PidNamespace::find(),
            start: Box::new(start),
            run_as: self.users.for_kernel(),
            own_uid: geteuid().as_raw(),
            absent,
            meter: self.enforcement.meter(limits),
        }
    }

    /// The parts of these services.
    ///
    /// # Errors
    /// The program of a service is missing.
    pub(crate) fn services(&self, kinds: &[ServiceKind]) -> Result<Vec<ServiceParts>, StartError> {
        let parts = |kind: &ServiceKind| {
            let kind = *kind;
            Ok(ServiceParts {
                kind,
                executable: self.installation.service(kind)?.into(),
                apart: self.apart(),
                sandbox: self.sandbox(self.users.for_service(kind)),
                own_uid: geteuid().as_raw(),
                state: kind.file().map(|name| self.state_dir.join(name)),
                quotas: self.quotas,
                ovsdb: (kind == ServiceKind::Ovsdb).then(|| self.databases.clone()),
            })
        };
        kinds.iter().map(parts).collect()
    }

    /// The parts of the HTTP interface.
    ///
    /// # Errors
    /// Its program is missing.
    pub(crate) fn northbound(
        &self,
        interface: Box<dyn Interface>,
    ) -> Result<NorthboundParts, StartError> {
        Ok(NorthboundParts {
            executable: self.installation.northbound()?.into(),
            apart: self.apart(),
            sandbox: self.sandbox(self.users.for_northbound()),
            own_uid: geteuid().as_raw(),
            interface,
        })
    }

    fn apart(&self) -> PidNamespace {
        if self.require.is_some() { PidNamespace::find() } else { PidNamespace::No }
    }

    fn sandbox(&self, run_as: Option<u32>) -> Option<ServiceSandbox> {
        self.require.map(|require| ServiceSandbox { run_as, full: require == Require::Full })
    }
}
