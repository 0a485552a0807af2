//! Fuzzes the version-independent types: no panic, no hang; a decoded message decodes equally after
//! encoding, and no message is accepted that is invalid on the wire.
//!
//! Input: a byte that chooses the version, the message type, the body.
#![no_main]

#[allow(dead_code, reason = "shared with other targets and the tests")]
#[path = "../../crates/openflow/tests/checks/mod.rs"]
mod checks;
mod whole;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else { return };
    let version = 1 + choice % 6;
    if let Some(message) = whole::message(version, rest) {
        let _ = checks::raw_comes_back(&message);
        let _ = checks::meaning_comes_back(&message);
    }
    // And unchanged: usually truncated or of no known version.
    let _ = checks::raw_comes_back(data);
    let _ = checks::meaning_comes_back(data);
});
