//! OpenFlow 1.0 as it stands on the wire: no panic, no hang, and what decodes comes back.
//!
//! Input: the message type, then the body. Version and length are put right, so that the fuzzer
//! need not learn to.
#![no_main]

#[allow(dead_code, reason = "shared with other targets and the tests")]
#[path = "../../crates/openflow/tests/checks/mod.rs"]
mod checks;
mod whole;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some(message) = whole::message(1, data) {
        let _ = checks::raw_comes_back(&message);
    }
});
