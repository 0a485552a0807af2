//! An app in WebAssembly: an instance of its module in a store of its own, behind the interface of `docs/wasm.md`. The zone and the
//! kernel differ by the host that carries out its calls.
//!
//! A batch is copied into the app's memory, and messages are copied out of it. Nothing else is shared, and the copy of an address is
//! never used twice.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use sdk::abi::host::{Answer, Failed, Host, WholeRecord};
use sdk::abi::{ABI, MAX_BATCH};
use thiserror::Error;
use wasmtime::{
    Engine, Instance, InstancePre, Memory, Module, Store, StoreLimitsBuilder, Trap, TypedFunc,
    WasmBacktrace,
};

use crate::bounds::Bounds;
use crate::budget::{Budget, Ticker};
use crate::imports::{Calls, MODULE, NAMES, linker};
use crate::reason;

/// Bytes in front of the records: the app's answer.
const ANSWER: usize = 16;

/// The least size of the memory for a batch, so that it rarely grows.
const LEAST_INPUT: usize = 64 * 1024;

/// The longest name and version.
const LONGEST_NAME: usize = 64;

/// The most functions that an error names.
const MOST_FRAMES: usize = 4;

/// Why a module does not run.
#[derive(Debug, Error)]
pub enum WasmError {
    /// It cannot be instantiated here, or refuses to start.
    #[error("{0}")]
    Unfit(String),
    /// A call trapped or used too much processor time.
    #[error("{0}")]
    Trapped(String),
    /// The app gave up, or broke the interface.
    #[error(transparent)]
    Failed(#[from] Failed),
    /// The thread that watches the calls could not be started.
    #[error("the thread that watches its calls: {0}")]
    Thread(io::Error),
}

/// A module whose imports are resolved, and from which instances are made.
pub struct LinkedModule<H: Host> {
    pre: InstancePre<Calls<H>>,
    bounds: Bounds,
}

impl<H: Host> fmt::Debug for LinkedModule<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkedModule").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

/// An app with its instance.
pub struct WasmApp<H: Host> {
    instance: Running<H>,
    ticker: Arc<Ticker>,
    bounds: Bounds,
    name: String,
    version: String,
}

impl<H: Host> fmt::Debug for WasmApp<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bounds, name, version, .. } = self;
        let mut out = f.debug_struct("WasmApp");
        out.field("name", name).field("version", version).field("bounds", bounds);
        out.finish_non_exhaustive()
    }
}

/// An instance and its exports.
struct Running<H: Host> {
    store: Store<Calls<H>>,
    memory: Memory,
    input: TypedFunc<u32, u32>,
    on_batch: TypedFunc<(u64, u32, u32, u32), i32>,
    /// The memory for a batch: its address and size.
    address: usize,
    size: usize,
}

impl<H: Host> LinkedModule<H> {
    /// Resolves the imports of `module`, whose instances get these limits.
    ///
    /// # Errors
    /// [`WasmError::Unfit`]: it imports what the host does not have.
    pub fn of(module: &Module, bounds: Bounds) -> Result<Self, WasmError> {
        Ok(Self { pre: link(module.engine(), module)?, bounds })
    }

    /// Makes an instance, which calls `host`, in the thread that will call the instance. `ticker` is that of the module's engine.
    ///
    /// # Errors
    /// [`WasmError`].
    pub fn start(&self, host: H, ticker: Arc<Ticker>) -> Result<WasmApp<H>, WasmError> {
        let bounds = self.bounds;
        let budget = Budget::of_this_thread().map_err(WasmError::Thread)?;
        let call = ticker.begin();
        let (instance, name, version) = Running::start(&self.pre, host, bounds, budget)?;
        drop(call);
        Ok(WasmApp { instance, ticker, bounds, name, version })
    }
}

impl<H: Host> WasmApp<H> {
    /// Returns the name that the module states.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the version that the module states.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns what carries out the app's calls.
    pub fn host(&mut self) -> &mut H {
        &mut self.instance.store.data_mut().host
    }

    /// Calls the app with a batch of records, or with none as a wake-up.
    ///
    /// # Errors
    /// [`WasmError`]: the app must not be called again, and the messages of this call must not be sent.
    ///
    /// # Panics
    /// If there are more than [`MAX_BATCH`] records.
    pub fn on_records<'r>(
        &mut self,
        now_ns: u64,
        records: impl Iterator<Item = WholeRecord<'r>> + Clone,
    ) -> Result<Answer, WasmError> {
        let call = self.ticker.begin();
        self.instance.begin(self.bounds.call);
        let answer = self.instance.call(now_ns, records);
        drop(call);
        answer
    }
}

/// Resolves the module's imports.
fn link<H: Host>(engine: &Engine, module: &Module) -> Result<InstancePre<Calls<H>>, WasmError> {
    let linker = linker(engine).map_err(|error| WasmError::Unfit(reason::of(&error)))?;
    for import in module.imports() {
        let (from, name) = (import.module(), import.name());
        if from != MODULE || !NAMES.contains(&name) {
            let (from, name) = (reason::name(from), reason::name(name));
            return Err(WasmError::Unfit(format!(
                "it imports {name:?} of {from:?}, and its host has only the functions of {MODULE:?}; build it without that"
            )));
        }
    }
    linker.instantiate_pre(module).map_err(|error| WasmError::Unfit(reason::of(&error)))
}

impl<H: Host> Running<H> {
    fn start(
        pre: &InstancePre<Calls<H>>,
        host: H,
        bounds: Bounds,
        budget: Budget,
    ) -> Result<(Self, String, String), WasmError> {
        let limits = StoreLimitsBuilder::new()
            .memory_size(bounds.memory)
            .table_elements(bounds.table)
            .instances(1)
            .memories(1)
            .tables(4)
            .build();
        let mut store = Store::new(pre.module().engine(), Calls::new(host, limits, budget));
        store.limiter(|calls| &mut calls.limits);
        store.epoch_deadline_callback(|mut store| Ok(store.data_mut().budget.tick()));
        begin(&mut store, bounds.start);
        let unfit = |error: wasmtime::Error| WasmError::Unfit(explained(&error, bounds.start));
        let instance = pre.instantiate(&mut store).map_err(unfit)?;
        let missing = |what: &str| WasmError::Unfit(format!("it does not export {what}"));
        let memory = instance.get_memory(&mut store, "memory").ok_or_else(|| missing("memory"))?;
        store.data_mut().memory = Some(memory);
        let number = |store: &mut Store<Calls<H>>, name: &str| {
            let function: TypedFunc<(), u32> = export(&instance, store, name)?;
            function.call(&mut *store, ()).map_err(unfit)
        };
        if let Ok(initialize) = instance.get_typed_func::<(), ()>(&mut store, "_initialize") {
            initialize.call(&mut store, ()).map_err(unfit)?; // constructors of a library
        }
        let abi = number(&mut store, "rosemary-abi")?;
        if abi != ABI {
            return Err(WasmError::Unfit(format!(
                "it is built for version {abi} of the app ABI, this host runs version {ABI}; build it again"
            )));
        }
        let name = number(&mut store, "rosemary-name")?;
        let name = text(memory.data(&store), name).ok_or_else(|| missing("a usable name"))?;
        let version = number(&mut store, "rosemary-version")?;
        let version =
            text(memory.data(&store), version).ok_or_else(|| missing("a usable version"))?;
        let mut running = Self {
            memory,
            input: export(&instance, &mut store, "rosemary-input")?,
            on_batch: export(&instance, &mut store, "rosemary-on-batch")?,
            store,
            address: 0,
            size: 0,
        };
        running.create(&instance).map_err(|error| match error {
            WasmError::Trapped(why) => WasmError::Unfit(format!("at its start, it {why}")),
            other => other,
        })?;
        Ok((running, name, version))
    }

    /// Passes numbers and configuration to the app.
    fn create(&mut self, instance: &Instance) -> Result<(), WasmError> {
        let host = &self.store.data().host;
        let (band, groups, meters) = (host.band(), host.groups(), host.meters());
        let numbers = [band.0.into(), band.1.into(), groups.0, groups.1, meters.0, meters.1]
            .map(u32::to_le_bytes);
        let config = host.config().to_vec();
        let numbers = numbers.as_flattened();
        let input = self.room(numbers.len() + config.len())?;
        let (head, tail) = input.split_at_mut(numbers.len());
        head.copy_from_slice(numbers);
        tail[..config.len()].copy_from_slice(&config);
        let address = small(self.address);
        let create: TypedFunc<(u32, u32, u32), i32> =
            export(instance, &mut self.store, "rosemary-create")?;
        let arguments = (address, address + small(numbers.len()), small(config.len()));
        let created =
            create.call(&mut self.store, arguments).map_err(|error| self.trapped(&error))?;
        let calls = self.store.data_mut();
        calls.is_creating = false;
        let complaint = calls.complaint.take();
        if created == 0 {
            let why = complaint.unwrap_or_else(|| "it did not say why".into());
            return Err(WasmError::Unfit(format!("the app could not create its instance: {why}")));
        }
        Ok(())
    }

    /// Returns at least `size` bytes of the app's memory for its input.
    fn room(&mut self, size: usize) -> Result<&mut [u8], WasmError> {
        if size > self.size {
            let wanted = size.next_power_of_two().max(LEAST_INPUT);
            let wanted_u32 = u32::try_from(wanted).unwrap_or(u32::MAX);
            let address = self.input.call(&mut self.store, wanted_u32);
            let address = address.map_err(|error| self.trapped(&error))?;
            if address == 0 || !address.is_multiple_of(8) {
                return Err(WasmError::Trapped(format!(
                    "has no memory for {size} bytes of records; raise its memory"
                )));
            }
            (self.address, self.size) = (address as usize, wanted);
        }
        let range = self.address..self.address + self.size;
        let memory = self.memory.data_mut(&mut self.store);
        memory
            .get_mut(range)
            .ok_or_else(|| WasmError::Trapped("returned memory that it does not have".into()))
    }

    fn trapped(&self, error: &wasmtime::Error) -> WasmError {
        WasmError::Trapped(explained(error, self.store.data().budget.limit()))
    }

    /// Gives the next call this much processor time.
    fn begin(&mut self, budget: Duration) {
        begin(&mut self.store, budget);
    }

    fn call<'r>(
        &mut self,
        now_ns: u64,
        records: impl Iterator<Item = WholeRecord<'r>> + Clone,
    ) -> Result<Answer, WasmError> {
        let (mut count, mut size) = (0, 0);
        for record in records.clone() {
            count += 1;
            size += record.bytes().len().next_multiple_of(8);
        }
        assert!(count <= MAX_BATCH, "a batch has at most {MAX_BATCH} records");
        let count = small(count);
        let mut input = &mut self.room(ANSWER + size)?[ANSWER..];
        for record in records {
            let bytes = record.bytes();
            let (this, rest) = input.split_at_mut(bytes.len().next_multiple_of(8));
            this[..bytes.len()].copy_from_slice(bytes);
            input = rest;
        }
        let address = small(self.address);
        let calls = self.store.data_mut();
        (calls.count, calls.stopped) = (count, 0);
        let arguments = (now_ns, count, address + small(ANSWER), address);
        let result = self.on_batch.call(&mut self.store, arguments);
        let calls = self.store.data_mut();
        calls.count = 0;
        let stopped = std::mem::take(&mut calls.stopped);
        if result.map_err(|error| self.trapped(&error))? != 0 {
            return Err(Failed::GaveUp.into());
        }
        let answer = self
            .memory
            .data(&self.store)
            .get(self.address..)
            .and_then(<[u8]>::first_chunk::<ANSWER>);
        let [h0, h1, h2, h3, _, _, _, _, wake @ ..] = *answer
            .ok_or_else(|| WasmError::Trapped("returned memory that it does not have".into()))?;
        let (handled, wake_at_ns) =
            (u32::from_le_bytes([h0, h1, h2, h3]), u64::from_le_bytes(wake));
        if handled > count {
            return Err(Failed::Handled { handled, count: count as usize }.into());
        }
        let mut left = stopped;
        while left.trailing_zeros() < handled {
            self.store.data_mut().host.stop(left.trailing_zeros() as usize);
            left &= left - 1;
        }
        let wake_at_ns = (wake_at_ns != u64::MAX).then_some(wake_at_ns);
        Ok(Answer { handled: handled as usize, wake_at_ns })
    }
}

/// Gives the next call this much processor time.
fn begin<H>(store: &mut Store<Calls<H>>, budget: Duration) {
    store.data_mut().budget.begin(budget);
    store.set_epoch_deadline(1);
}

/// A size or an address in a memory of at most 4 GiB.
fn small(number: usize) -> u32 {
    u32::try_from(number).expect("a memory has at most 4 GiB, and the input was inside")
}

/// Returns an exported function.
fn export<H, P, R>(
    instance: &Instance,
    store: &mut Store<Calls<H>>,
    name: &str,
) -> Result<TypedFunc<P, R>, WasmError>
where
    P: wasmtime::WasmParams,
    R: wasmtime::WasmResults,
{
    let function = instance.get_typed_func(&mut *store, name);
    function
        .map_err(|error| WasmError::Unfit(format!("its export {name:?}: {}", reason::of(&error))))
}

/// A constant text of the module, which ends with a zero byte.
fn text(memory: &[u8], address: u32) -> Option<String> {
    let bytes = memory.get(address as usize..)?;
    let end = bytes.iter().take(LONGEST_NAME + 1).position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(bytes.get(..end)?).ok()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// What ended a call, and in which function.
fn explained(error: &wasmtime::Error, budget: Duration) -> String {
    let cause = match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => {
            format!("used more than {} ms of processor time in one call", budget.as_millis())
        }
        Some(trap) => format!("trapped: {trap}"),
        None => format!("made a call that its host refuses: {}", error.root_cause()),
    };
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return cause };
    let functions = backtrace.frames().iter().take(MOST_FRAMES);
    let functions = functions.map(|frame| match frame.func_name() {
        Some(name) => reason::name(name),
        None => format!("function {}", frame.func_index()),
    });
    let functions: Vec<String> = functions.collect();
    if functions.is_empty() {
        cause
    } else {
        format!("{cause}, in {}", functions.join(", called by "))
    }
}

#[cfg(test)]
#[cfg(feature = "compiler")]
mod tests;
