//! What hosts an app: a zone of its own, or the kernel as long as the app lets the kernel live.
//!
//! An app that panicked in the kernel, or ended it, is demoted: it runs in a zone, and later kernels
//! are started without it, until the operator starts Rosemary anew (design §11).

use kernel::control::Host;

use crate::supervise::State;

/// What hosts one app, and how it came to that.
#[derive(Debug)]
pub(crate) struct Hosting {
    host: Host,
    /// How often a kernel was started with it.
    starts: u64,
    /// Whether the kernel has said that it runs.
    runs: bool,
    /// Why the kernel does not host it any more.
    demoted: Option<String>,
}

impl Hosting {
    /// As the operator wants it.
    pub(crate) fn new(host: Host) -> Self {
        Self { host, starts: 0, runs: false, demoted: None }
    }

    /// What hosts it, or will when there is a kernel.
    pub(crate) fn host(&self) -> Host {
        self.host
    }

    /// How often a kernel was started with it.
    pub(crate) fn starts(&self) -> u64 {
        self.starts
    }

    /// Why the kernel does not host it any more, if it did.
    pub(crate) fn demoted(&self) -> Option<&str> {
        self.demoted.as_deref()
    }

    /// A kernel was started with it.
    pub(crate) fn started(&mut self) {
        self.starts += 1;
        self.runs = false;
    }

    /// The kernel says that it runs. Says whether that was still to be said.
    pub(crate) fn runs(&mut self) -> bool {
        self.host == Host::Kernel && !std::mem::replace(&mut self.runs, true)
    }

    /// The kernel has ended.
    pub(crate) fn ended(&mut self) {
        self.runs = false;
    }

    /// The kernel hosts it no more. Says whether it did until now.
    pub(crate) fn demote(&mut self, why: String) -> bool {
        let hosted = self.host == Host::Kernel;
        if hosted {
            (self.host, self.runs, self.demoted) = (Host::User, false, Some(why));
        }
        hosted
    }

    /// What an app in a kernel that does `kernel` does.
    pub(crate) fn state(&self, kernel: State) -> State {
        match kernel {
            State::Running if !self.runs => State::Starting,
            kernel => kernel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn app_in_the_kernel_does_what_the_kernel_does_once_the_kernel_says_that_it_runs() {
        let mut hosting = Hosting::new(Host::Kernel);
        assert_eq!(hosting.state(State::Waiting), State::Waiting);
        hosting.started();
        assert_eq!(hosting.state(State::Starting), State::Starting);
        assert_eq!(hosting.state(State::Running), State::Starting);
        assert!(hosting.runs() && !hosting.runs());
        assert_eq!(hosting.state(State::Running), State::Running);
        assert_eq!(hosting.state(State::Stopping), State::Stopping);
        hosting.ended();
        hosting.started();
        assert_eq!(
            hosting.state(State::Running),
            State::Starting,
            "the new kernel has not said so"
        );
        assert_eq!(hosting.starts(), 2);
    }

    #[test]
    fn demoted_app_stays_out_of_the_kernel_for_the_first_reason() {
        let mut hosting = Hosting::new(Host::Kernel);
        hosting.started();
        assert!(hosting.demote("it panicked".into()));
        assert!(!hosting.demote("another worker's instance panicked too".into()));
        assert!(!hosting.runs(), "what the kernel said before is late");
        assert_eq!((hosting.host(), hosting.demoted()), (Host::User, Some("it panicked")));
    }

    #[test]
    fn user_app_cannot_be_demoted() {
        let mut hosting = Hosting::new(Host::User);
        assert!(!hosting.demote("it panicked".into()));
        assert_eq!(hosting.demoted(), None);
    }
}
