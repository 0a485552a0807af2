//! Reports the programs to operators: their status and their usage.

use control::app_report::AppReport;
use control::operator::{AppStatus, KernelStatus, ProgramUsage, ServiceStatus};

use super::Programs;
use crate::app::App;
use crate::interface::Northbound;

impl Programs {
    /// The status of all programs for operators.
    pub fn status(&self) -> (KernelStatus, Vec<ServiceStatus>, Vec<AppStatus>) {
        let kernel = self.kernel.status();
        let apps = self.apps.iter().filter(|app| app.role().serves());
        let status =
            |app: &App| AppStatus { limited: self.limits.phrase(&app.name), ..app.status(&kernel) };
        let apps = apps.map(status).collect();
        let mut services = self.services.status();
        services.extend(self.northbound.iter().map(Northbound::status));
        (kernel, services, apps)
    }

    /// The report about the app with this name for operators.
    ///
    /// # Errors
    /// There is none; the phrase lists the apps.
    pub fn app_report(&self, name: &str) -> Result<AppReport, String> {
        let mut report = self.app_named(name)?.report(&self.kernel.status());
        report.status.limited = self.limits.phrase(name);
        report.routes = self.address_of_routes(name);
        Ok(report)
    }

    /// The usage of all programs for operators: the kernel, the services, the apps.
    pub fn usage(&self) -> impl Iterator<Item = ProgramUsage> {
        let program = &self.kernel.program;
        let kernel = (program.pid(), program.lifecycle().state());
        let apps = self.apps.iter().filter(|app| app.role().serves());
        let apps = apps.map(move |app| app.usage(kernel));
        let services = self.services.usage().chain(self.northbound.iter().map(Northbound::usage));
        [self.kernel.usage()].into_iter().chain(services).chain(apps)
    }
}
