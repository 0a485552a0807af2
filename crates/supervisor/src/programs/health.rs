//! How the programs are, in the few words that systemd is interested in.

use std::net::SocketAddr;

use control::northbound::needs_tls;
use control::operator::ProgramState;

use super::Programs;
use crate::app::App;

impl Programs {
    /// Whether the start is over: each program that is to run is ready or has failed. In safe mode only the kernel and the
    /// services count.
    pub fn has_started(&self) -> bool {
        let service = |state, last_exit: &Option<String>| match state {
            ProgramState::Running | ProgramState::Held => true,
            _ => last_exit.is_some(),
        };
        let kernel = self.kernel_state();
        kernel == ProgramState::Running
            && self.services.status().iter().all(|it| service(it.state, &it.last_exit))
            && (self.is_in_safe_mode() || self.serving().all(|app| app.has_started(kernel)))
    }

    /// The line that ends the start, once each program that is to run is ready or has failed: where switches connect, and where
    /// the page is.
    pub fn ready_line(&self) -> Option<String> {
        if !self.has_started() {
            return None;
        }
        let page = match self.northbound.as_ref().map(|it| (it, it.status())) {
            Some((northbound, _)) if northbound.is_ready() => {
                northbound.api().map(|at| format!("page at {}", page(at)))
            }
            Some((_, status))
                if status.state != ProgramState::Held && status.last_exit.is_none() =>
            {
                return None;
            }
            _ => None,
        };
        let switches = self.kernel.status().listen.join(" and ");
        Some(ready(&switches, page.as_deref(), &self.not_running()))
    }

    /// The apps that are to run and do not.
    fn not_running(&self) -> Vec<&str> {
        let kernel = self.kernel_state();
        let apps = self.serving().filter(|app| !app.is_stopped_by_operator());
        apps.filter(|app| app.state(kernel) != ProgramState::Running)
            .map(|app| &*app.name)
            .collect()
    }

    /// Whether the kernel serves switches or the monitor is about to start it.
    pub fn is_alive(&self) -> bool {
        self.kernel.is_alive()
    }

    /// Data that the disk does not take, with the reasons and remedies, as phrases.
    pub fn not_stored(&self) -> impl Iterator<Item = String> {
        self.services.not_stored()
    }

    /// The programs in one line.
    pub fn summary(&self) -> String {
        let kernel = self.kernel_state();
        let (mut all, mut running) = (0, 0);
        for app in self.serving().filter(|app| !app.is_stopped_by_operator()) {
            all += 1;
            running += usize::from(app.state(kernel) == ProgramState::Running);
        }
        let safe_mode = if self.is_in_safe_mode() { "safe mode; " } else { "" };
        format!("{safe_mode}kernel {kernel}; {running} of {all} apps running")
    }

    /// If every app that the operator chose is held: which ones, and why. `None` if there is no app.
    pub fn all_held(&self) -> Option<String> {
        let kernel = self.kernel_state();
        let mut held = Vec::new();
        for app in self.serving().filter(|app| app.provides().is_none()) {
            if app.state(kernel) != ProgramState::Held {
                return None;
            }
            held.push(format!("{}: {}", app.name, app.failure().unwrap_or("it cannot run")));
        }
        (!held.is_empty()).then(|| held.join("; "))
    }

    fn serving(&self) -> impl Iterator<Item = &App> {
        self.apps.iter().filter(|app| app.role().serves())
    }
}

/// The address of the page in a browser.
fn page(at: SocketAddr) -> String {
    let scheme = if needs_tls(at) { "https" } else { "http" };
    format!("{scheme}://{at}/")
}

fn ready(switches: &str, page: Option<&str>, not_running: &[&str]) -> String {
    let page = page.unwrap_or("no page");
    let missing = if not_running.is_empty() {
        String::new()
    } else {
        format!("; not running: {}, see rosemary status", not_running.join(", "))
    };
    format!("ready: switches at {switches}, {page}{missing}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_line_says_where_everything_is() {
        let local = page("127.0.0.1:8181".parse().unwrap());
        assert_eq!(
            ready("127.0.0.1:6653", Some(&format!("page at {local}")), &[]),
            "ready: switches at 127.0.0.1:6653, page at http://127.0.0.1:8181/"
        );
        assert_eq!(page("192.0.2.1:443".parse().unwrap()), "https://192.0.2.1:443/");
        assert_eq!(
            ready("[::1]:6653", None, &["hub"]),
            "ready: switches at [::1]:6653, no page; not running: hub, see rosemary status"
        );
    }
}
