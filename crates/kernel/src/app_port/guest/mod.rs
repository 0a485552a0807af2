//! Loads and calls apps that run in this process, a module for each hosting that the kernel carries out.
//!
//! An [`Artifact`] is the loaded code of an app, a [`Guest`] one instance of it. `hosted.rs` queues the records of a guest, whatever
//! its hosting. Apps outside of this process are reached by rings, so their hostings need nothing here.

#[cfg(test)]
pub(in crate::app_port) mod bytes;
mod host;
mod shared_object;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use control::hosting::Hosting;
use control::kernel::HostedCode;
use sdk::abi::host::{Answer, Gathered};

pub use self::host::KernelHost;

/// An instance of an app in this process. It belongs to one worker.
pub trait Guest: fmt::Debug {
    /// The version that the app states.
    fn version(&self) -> &str;

    /// What carries out the app's calls.
    fn host(&mut self) -> &mut KernelHost;

    /// Calls the app with the oldest `count` records, or with none as a wake-up.
    ///
    /// # Errors
    /// Why the app must not be called again, as a phrase. The messages of this call must not be sent.
    fn on_batch(&mut self, now_ns: u64, records: &Gathered, count: usize)
    -> Result<Answer, String>;

    /// Ends an app that has failed: none of its code runs again, not even its destructor.
    fn abandon(self: Box<Self>);
}

/// The code of an app, as each worker makes an instance of it.
pub trait Artifact: fmt::Debug + Send + Sync {
    /// Makes an instance that calls `host`.
    ///
    /// # Errors
    /// Why the code makes none, as a phrase.
    fn instance(&self, host: KernelHost) -> Result<Box<dyn Guest>, String>;

    /// Whether an instance that has failed leaves the rest of this process whole. Then another instance takes its place. Otherwise the
    /// app leaves this process.
    fn is_contained(&self) -> bool {
        false
    }
}

/// The content of an app's object.
#[derive(Debug)]
pub enum Code<'a> {
    /// A read-only file in the kernel's private root directory.
    Copy(&'a Path),
    /// Sealed memory.
    Sealed(OwnedFd),
}

/// Loads the code of an app.
pub type Load = fn(Code<'_>, &HostedCode) -> io::Result<Box<dyn Artifact>>;

/// The hostings in this process.
#[derive(Debug, Clone, Copy)]
pub struct Hostings {
    /// Those of another crate, which the program adds to the kernel's own.
    pub further: &'static [(Hosting, Load)],
}

/// The kernel's own hostings.
const OWN: &[(Hosting, Load)] = &[
    (Hosting::KERNEL, shared_object::load),
    #[cfg(test)]
    (bytes::BYTES, bytes::load),
];

impl Hostings {
    /// Loads the code of an app with this hosting.
    ///
    /// # Errors
    /// It is no code of the hosting, or needs something that is missing; or this process does not carry out the hosting.
    pub(crate) fn load(
        self,
        hosting: Hosting,
        code: Code<'_>,
        settings: &HostedCode,
    ) -> io::Result<Box<dyn Artifact>> {
        let row = OWN.iter().chain(self.further).find(|(it, _)| *it == hosting);
        let (_, load) = row.ok_or_else(|| {
            let name = hosting.name;
            io::Error::other(format!("this kernel runs no app with host = {name:?}"))
        })?;
        load(code, settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hosting_in_the_kernel_loads_code() {
        for hosting in Hosting::ALL {
            let loads = OWN.iter().any(|(it, _)| *it == hosting);
            let needs_more = hosting.outside == Some(Hosting::WASM);
            assert_eq!(loads || needs_more, hosting.is_in_kernel(), "{hosting:?}");
        }
        let nothing = || Code::Sealed(sys::shm::sealed_copy("object", b"").unwrap());
        let load = |further| {
            let hostings = Hostings { further };
            hostings.load(Hosting::WASM_IN_KERNEL, nothing(), &HostedCode::default())
        };
        let error = load(&[]).unwrap_err().to_string();
        assert_eq!(error, "this kernel runs no app with host = \"kernel-wasm\"");
        load(&[(Hosting::WASM_IN_KERNEL, bytes::load)]).unwrap();
    }
}
