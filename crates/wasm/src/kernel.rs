//! Hosts apps in WebAssembly in the kernel's process, each in a store of its own.
//!
//! The first such app makes the engine, before the kernel forbids itself memory that becomes executable. A call that traps or exceeds a
//! limit ends one instance. The worker then makes another one from the same code.
//!
//! wasmtime handles the signals of faults, and passes those outside of compiled code on to the kernel's own handler, which was there
//! before (`sys::crash`). So such a fault is recorded and blamed as in a kernel without these apps.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use control::hosting::Hosting;
use control::kernel::HostedCode;
use kernel::app_port::{Artifact, Code, Guest, Hostings, KernelHost, LoadCode};
use sdk::abi::host::{Answer, Gathered};
use wasmtime::Engine;

use crate::bounds::Bounds;
use crate::budget::Ticker;
use crate::engine::engine;
use crate::guest::{LinkedModule, WasmApp, WasmError};
use crate::reason;

/// The hosting that this crate adds to the kernel.
const FURTHER: &[(Hosting, LoadCode)] = &[(Hosting::WASM_IN_KERNEL, load)];

/// The hostings of a kernel with apps in WebAssembly.
pub const HOSTINGS: Hostings = Hostings { further: FURTHER };

/// The engine of all modules in this process.
static ENGINE: OnceLock<Engine> = OnceLock::new();

/// The thread that limits the calls of all workers, once there is an instance. Threads start after the process is confined.
static TICKER: Mutex<Option<Arc<Ticker>>> = Mutex::new(None);

/// The code of an app.
#[derive(Debug)]
struct Module(LinkedModule<KernelHost>);

/// Maps the code of an app.
fn load(code: Code<'_>, settings: &HostedCode) -> io::Result<Box<dyn Artifact>> {
    let Code::Sealed(code) = code else {
        return Err(io::Error::other("the code is not in sealed memory"));
    };
    let bounds = Bounds::of(&settings.options).map_err(io::Error::other)?;
    let engine = shared_engine()?;
    let module = sys::wasm::map(engine, code, &settings.sha256).map_err(io::Error::other)?;
    let module = LinkedModule::of(&module, bounds).map_err(io::Error::other)?;
    Ok(Box::new(Module(module)))
}

fn shared_engine() -> io::Result<&'static Engine> {
    if let Some(engine) = ENGINE.get() {
        return Ok(engine);
    }
    let engine = engine().map_err(|error| io::Error::other(reason::of(&error)))?;
    Ok(ENGINE.get_or_init(|| engine))
}

fn shared_ticker() -> io::Result<Arc<Ticker>> {
    let mut ticker = TICKER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(ticker) = &*ticker {
        return Ok(Arc::clone(ticker));
    }
    let started = Arc::new(Ticker::start(shared_engine()?)?);
    Ok(Arc::clone(ticker.insert(started)))
}

impl Artifact for Module {
    fn instance(&self, host: KernelHost) -> Result<Box<dyn Guest>, String> {
        let ticker = shared_ticker();
        let ticker =
            ticker.map_err(|error| format!("the thread that limits its calls: {error}"))?;
        let app = self.0.start(host, ticker).map_err(|error| error.to_string())?;
        Ok(Box::new(app))
    }

    fn is_contained(&self) -> bool {
        true
    }
}

impl Guest for WasmApp<KernelHost> {
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
        let answer = self.on_records(now_ns, records.records().take(count));
        answer.map_err(|error| match error {
            WasmError::Trapped(why) => format!("the app {why}"),
            other => other.to_string(),
        })
    }

    fn abandon(self: Box<Self>) {} // the store frees its memory; no code of the app runs
}
