//! Runs the zone of an app in WebAssembly: confines the process, maps the app's code, forbids further code, and calls the app.

use std::io;

use control::hosting::Hosting;
use control::zone::ZoneReply;
use sys::channel::Channel;
use sys::sandbox::seccomp::{self, Further, Profile};
use tracing::info;
use zone::host::ZoneHost;
use zone::run::{
    Answer, Code, Confined, Guest, WholeRecord, Zone, ZoneError, ZoneProgram, confine, reported,
};

use crate::bounds::Bounds;
use crate::budget::Ticker;
use crate::engine::engine;
use crate::guest::{LinkedModule, WasmApp, WasmError};
use crate::reason;

/// The program whose apps are modules of WebAssembly.
const OF_MODULES: ZoneProgram = ZoneProgram {
    profile: Profile::Wasm,
    hosts: &[Hosting::WASM],
    has_watched: false,
    maps_sealed: true,
};

/// Runs a zone until the monitor stops it or the app fails. Sends the error to the monitor.
///
/// # Errors
/// [`ZoneError`]: the process must end.
pub fn run(monitor: &Channel) -> Result<(), ZoneError> {
    let result = load(monitor).and_then(|zone| zone.map_or(Ok(()), |mut it| it.serve(monitor)));
    reported(monitor, result)
}

fn load(monitor: &Channel) -> Result<Option<Zone<WasmApp<ZoneHost>>>, ZoneError> {
    let Some(Confined { host, code, sha256, guest }) = confine(monitor, &OF_MODULES)? else {
        return Ok(None);
    };
    let bounds = Bounds::of(&guest.settings.options).map_err(ZoneError::Module)?;
    let Code::Sealed(code) = code else {
        return Err(ZoneError::OutOfOrder("code that is not in sealed memory"));
    };
    let engine = engine().map_err(|error| ZoneError::Module(reason::of(&error)))?;
    let module = sys::wasm::map(&engine, code, &sha256);
    let module = module.map_err(|error| ZoneError::Load(io::Error::other(error)))?;
    seccomp::forbid_new_code(Further::Refused).map_err(ZoneError::Code)?;
    let ticker = Ticker::start(&engine).map_err(ZoneError::Load)?;
    let app = LinkedModule::of(&module, bounds)?.start(host, ticker.into())?;
    let version = app.version().to_owned();
    info!(app = app.name(), version, "app loaded");
    monitor.send(&ZoneReply::Loaded { version }, &[])?;
    Ok(Some(Zone::of(app)))
}

impl From<WasmError> for ZoneError {
    fn from(error: WasmError) -> Self {
        match error {
            WasmError::Unfit(why) => Self::Module(why),
            WasmError::Trapped(why) => Self::Trapped(why),
            WasmError::Failed(failed) => Self::App(failed),
            WasmError::Thread(error) => Self::Load(error),
        }
    }
}

impl Guest for WasmApp<ZoneHost> {
    fn host(&mut self) -> &mut ZoneHost {
        Self::host(self)
    }

    fn on_records(
        &mut self,
        now_ns: u64,
        records: &[WholeRecord<'_>],
    ) -> Result<Answer, ZoneError> {
        Ok(Self::on_records(self, now_ns, records.iter().copied())?)
    }
}
