//! Runs apps that are shared objects behind the C ABI in this process.

use std::io;

use control::kernel::HostedCode;
use sdk::abi::host::{Answer, Gathered, HostedApp};
use sys::object::Object;

use super::{Artifact, Code, Guest, KernelHost};

/// Loads a shared object. Its constructors run.
pub(super) fn load(code: Code<'_>, _: &HostedCode) -> io::Result<Box<dyn Artifact>> {
    let object = match code {
        Code::Copy(path) => Object::load_copy(path),
        Code::Sealed(fd) => Object::load(fd),
    };
    Ok(Box::new(object?))
}

impl Artifact for Object {
    fn instance(&self, host: KernelHost) -> Result<Box<dyn Guest>, String> {
        let app = HostedApp::create(self, host).map_err(|error| error.to_string())?;
        Ok(Box::new(app))
    }
}

impl Guest for HostedApp<KernelHost> {
    fn version(&self) -> &str {
        Self::version(self)
    }

    fn host(&mut self) -> &mut KernelHost {
        Self::host(self)
    }

    fn on_batch(
        &mut self,
        now_ns: u64,
        records: &Gathered,
        count: usize,
    ) -> Result<Answer, String> {
        let answer = Self::on_batch(self, now_ns, records.records().take(count));
        answer.map_err(|failed| failed.to_string())
    }

    fn abandon(self: Box<Self>) {
        std::mem::forget(self);
    }
}
