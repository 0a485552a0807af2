//! The settings of the engine. Compiled code is valid only for an engine with the same settings, so both programs take them from here.

use wasmtime::{Config, Engine};

/// The most bytes of an app's call stack.
const MAX_STACK: usize = 256 * 1024;

/// Address space that a memory gets at once. A memory that grows beyond it moves. It is small, so that a zone whose address space is
/// limited has room; code therefore checks each access against the size of the memory.
const RESERVATION: u64 = 16 << 20;

/// Inaccessible bytes behind a memory, for accesses at constant offsets from a checked address.
const GUARD: u64 = 64 * 1024;

/// Returns an engine for apps.
///
/// # Errors
/// This processor is none that wasmtime supports.
pub fn engine() -> Result<Engine, wasmtime::Error> {
    Engine::new(&config())
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .max_wasm_stack(MAX_STACK)
        .memory_reservation(RESERVATION)
        .memory_reservation_for_growth(1 << 20)
        .memory_guard_size(GUARD)
        .guard_before_linear_memory(false)
        .memory_may_move(true)
        .wasm_multi_memory(false)
        .wasm_memory64(false)
        .wasm_relaxed_simd(false)
        .wasm_tail_call(false);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_has_the_version_in_the_name_of_its_code() {
        let code = engine().unwrap();
        drop(code);
        let lock = include_str!("../../../Cargo.lock");
        let version = control::wasm::ENGINE.strip_prefix("wasmtime-").unwrap();
        let version = version.rsplit_once('-').unwrap().0;
        assert!(
            lock.contains(&format!("name = \"wasmtime\"\nversion = \"{version}\"")),
            "{version}"
        );
    }
}
