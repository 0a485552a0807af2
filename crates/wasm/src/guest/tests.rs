//! Modules in WebAssembly's text format, in a host that keeps what they do.

use sdk::abi::Level;
use sys::digest::sealed_with_sha256;

use super::*;
use crate::compile::compile;
use crate::engine::engine;

/// Keeps messages and lines of the log.
#[derive(Debug, Default)]
struct Kept {
    room: Vec<u8>,
    messages: Vec<Vec<u8>>,
    log: Vec<String>,
}

impl Host for Kept {
    fn reserve(&mut self, size: usize) -> Option<&mut [u8]> {
        self.room = vec![0; size];
        Some(&mut self.room)
    }

    fn commit(&mut self, _dpid: u64, _epoch: u32, size: usize, _series: u32) -> bool {
        self.messages.push(self.room[..size].to_vec());
        true
    }

    fn room(&self) -> usize {
        1 << 20
    }

    fn band(&self) -> (u16, u16) {
        (1, 2)
    }

    fn groups(&self) -> (u32, u32) {
        (3, 4)
    }

    fn meters(&self) -> (u32, u32) {
        (5, 6)
    }

    fn config(&self) -> &[u8] {
        b"configuration"
    }

    fn stop(&mut self, _number: usize) {}

    fn log(&mut self, _level: Level, text: &str) {
        self.log.push(text.to_owned());
    }
}

/// Compiles and maps a module as the monitor and the zone do.
fn mapped(text: &str) -> Module {
    mapped_with(&engine().unwrap(), text)
}

fn mapped_with(engine: &Engine, text: &str) -> Module {
    let code = compile(&wat::parse_str(text).unwrap()).unwrap();
    let (fd, sha256) = sealed_with_sha256("code", &code).unwrap();
    sys::wasm::map(engine, fd, &sha256).unwrap()
}

/// A module whose `on_batch` has this body. The configuration is its first line of the log.
fn app(body: &str) -> Result<WasmApp<Kept>, WasmError> {
    start(&whole(body))
}

fn whole(body: &str) -> String {
    format!(
        r#"(module
             (import "rosemary:app@1" "log" (func $log (param i32 i32 i32)))
             (import "rosemary:app@1" "commit" (func $commit (param i64 i32 i32 i32 i32) (result i32)))
             (memory (export "memory") 4)
             (data (i32.const 8) "name\00version\00")
             (func (export "rosemary-abi") (result i32) (i32.const 1))
             (func (export "rosemary-name") (result i32) (i32.const 8))
             (func (export "rosemary-version") (result i32) (i32.const 13))
             (func (export "rosemary-input") (param i32) (result i32) (i32.const 65536))
             (func (export "rosemary-create") (param i32 i32 i32) (result i32)
               (call $log (i32.const 3) (local.get 1) (local.get 2)) (i32.const 1))
             (func $deep (param i32) (result i32) (i32.add (call $deep (local.get 0)) (local.get 0)))
             (func $handle (export "rosemary-on-batch") (param $now i64) (param $count i32) (param $records i32) (param $answer i32) (result i32)
               (i32.store (local.get $answer) (local.get $count))
               (i64.store offset=8 (local.get $answer) (i64.const -1))
               {body}))"#
    )
}

/// Makes an instance of a module.
fn start(text: &str) -> Result<WasmApp<Kept>, WasmError> {
    let module = mapped(text);
    let ticker = Arc::new(Ticker::start(module.engine()).unwrap());
    LinkedModule::of(&module, Bounds::default())?.start(Kept::default(), ticker)
}

/// Two records of 48 bytes.
fn call(app: &mut WasmApp<Kept>) -> Result<Answer, WasmError> {
    let mut gathered = sdk::abi::host::Gathered::default();
    let head: sdk::abi::Words = [0; 6];
    gathered.push(&head, &[]);
    gathered.push(&head, &[]);
    app.on_records(1, gathered.records())
}

#[test]
fn module_sends_what_is_in_its_memory() {
    let body = "(drop (call $commit (i64.const 1) (i32.const 1) (i32.const 8) (i32.const 4) (i32.const 0))) (i32.const 0)";
    let mut app = app(body).unwrap();
    assert_eq!((app.name(), app.version()), ("name", "version"));
    assert_eq!(call(&mut app).unwrap(), Answer { handled: 2, wake_at_ns: None });
    assert_eq!(app.host().messages, [b"name"]);
    assert_eq!(app.host().log, ["configuration"]);
}

#[test]
fn calls_end_with_their_reason_and_function() {
    for (body, expected) in [
        ("unreachable", "trapped: wasm trap: wasm `unreachable` instruction executed, in handle"),
        (
            "(loop (br 0)) (i32.const 0)",
            "used more than 10 ms of processor time in one call, in handle",
        ),
        (
            "(call $deep (i32.const 1))",
            "trapped: wasm trap: call stack exhausted, in deep, called by deep",
        ),
        ("(i32.load (i32.const -4))", "trapped: wasm trap: out of bounds memory access, in handle"),
        (
            "(call $log (i32.const 1) (i32.const -8) (i32.const 100)) (i32.const 0)",
            "made a call that its host refuses: an address outside of its memory",
        ),
        ("(i32.const -1)", "the app panicked or gave up"),
        (
            "(i32.store (local.get $answer) (i32.const 9)) (i32.const 0)",
            "claims to have handled 9 of 2",
        ),
    ] {
        let error = call(&mut app(body).unwrap()).unwrap_err().to_string();
        assert!(error.contains(expected), "{body}: {error}");
    }
}

#[test]
fn instances_of_one_engine_have_budgets_of_their_own() {
    let body = "(local.set $now (i64.const 1000))
                (loop (br_if 0 (i64.ne (local.tee $now (i64.sub (local.get $now) (i64.const 1))) (i64.const 0))))
                (i32.const 0)";
    let module = mapped(&whole(body));
    let looping = mapped_with(module.engine(), &whole("(loop (br 0)) (i32.const 0)"));
    let ticker = Arc::new(Ticker::start(module.engine()).unwrap());
    let [brief, looping] =
        [module, looping].map(|it| LinkedModule::of(&it, Bounds::default()).unwrap());
    let theirs = Arc::clone(&ticker);
    let other = std::thread::spawn(move || {
        let mut app = looping.start(Kept::default(), theirs).unwrap();
        call(&mut app).unwrap_err().to_string()
    });
    let mut app = brief.start(Kept::default(), ticker).unwrap();
    while !other.is_finished() {
        call(&mut app).unwrap(); // many ticks, each in a call of microseconds
    }
    assert!(other.join().unwrap().contains("used more than 10 ms"));
}

#[test]
fn memory_has_a_bound() {
    let mut app = app("(memory.grow (i32.const 2000))").unwrap();
    let error = call(&mut app).unwrap_err().to_string();
    assert!(error.contains("gave up"), "memory.grow returns -1: {error}");
}

#[test]
fn import_that_the_host_lacks_is_named() {
    let text = r#"(module (import "wasi_snapshot_preview1" "fd_write" (func (param i32))))"#;
    let error = start(text).unwrap_err().to_string();
    assert!(error.contains("\"fd_write\" of \"wasi_snapshot_preview1\""), "{error}");
}

#[test]
fn long_names_of_a_module_are_cut() {
    let long = "x".repeat(90_000);
    let text = format!(r#"(module (import "{long}" "{long}" (func)))"#);
    assert!(start(&text).unwrap_err().to_string().len() < 500);
    let named = format!("(call ${long}) (i32.const 0))) (func ${long} unreachable");
    let error = call(&mut app(&named.replace(")))", "))")).unwrap()).unwrap_err().to_string();
    assert!(error.len() < 500 && error.contains("xxx..., called by handle"), "{error}");
}

#[test]
fn other_code_than_that_of_the_digest_is_not_mapped() {
    let engine = engine().unwrap();
    let code = compile(&wat::parse_str("(module)").unwrap()).unwrap();
    let (_, of_another) = sealed_with_sha256("code", b"another").unwrap();
    let (fd, sha256) = sealed_with_sha256("code", &code).unwrap();
    let error = sys::wasm::map(&engine, fd, &of_another).unwrap_err();
    assert!(matches!(error, sys::wasm::CodeError::Other { .. }), "{error}");
    let loose = sys::shm::sealable_memory("code", 8).unwrap();
    let error = sys::wasm::map(&engine, loose, &sha256).unwrap_err();
    assert!(matches!(error, sys::wasm::CodeError::NotSealed), "{error}");
    let (fd, sha256) = sealed_with_sha256("code", b"\x7fELF, and no module").unwrap();
    let error = sys::wasm::map(&engine, fd, &sha256).unwrap_err();
    assert!(matches!(error, sys::wasm::CodeError::Unfit(_)), "{error}");
}

#[test]
fn component_and_threads_are_not_compiled() {
    assert!(compile(&wat::parse_str("(component)").unwrap()).is_err());
    let shared = wat::parse_str("(module (memory 1 1 shared))").unwrap();
    assert!(compile(&shared).is_err());
    assert!(compile(b"\0asm").is_err());
}
