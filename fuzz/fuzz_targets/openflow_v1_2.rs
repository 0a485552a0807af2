//! Fuzzes the types of OpenFlow 1.2: no panic, no hang, and a decoded message encodes to the same
//! bytes.
//!
//! Input: the message type, then the body. The target sets version and length, so that the fuzzer
//! need not find them.
#![no_main]

#[allow(dead_code, reason = "shared with other targets and the tests")]
#[path = "../../crates/openflow/tests/checks/mod.rs"]
mod checks;
mod whole;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some(message) = whole::message(3, data) {
        let _ = checks::raw_comes_back(&message);
    }
});
