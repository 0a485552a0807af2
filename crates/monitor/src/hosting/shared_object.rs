//! Prepares apps that are shared objects behind the C ABI, for the kernel or for a zone with `rosemary-zone`.

use control::hosting::Hosting;
use control::zone::GuestSettings;
use supervisor::spec::{AppSpec, Runtime};

use super::{Host, OtherFiles};
use crate::error::StartError;
use crate::installation::Installation;
use crate::object::Object;

/// The hosting of shared objects.
#[derive(Debug)]
pub(super) struct SharedObject;

impl Host for SharedObject {
    fn runtime(&self, _app: &str, installation: &Installation) -> Result<Runtime, StartError> {
        Ok(Runtime::of_program(Hosting::USER, installation.zone.clone()))
    }

    fn check(&self, object: &[u8]) -> Result<(), &'static str> {
        if is_shared_object(object) { Ok(()) } else { Err("it is not a shared object") }
    }

    fn remedy(&self) -> &'static str {
        "build it again, or correct `object`"
    }

    fn settings(&self, spec: &AppSpec, object: &Object) -> GuestSettings {
        GuestSettings::of_file(spec.runtime.host, object.path().display().to_string())
    }

    fn other_files(&self, _spec: &AppSpec, _object: &Object) -> Option<Box<dyn OtherFiles>> {
        None
    }
}

/// Whether a file begins as a shared object: the magic number, and the type `ET_DYN` (elf(5)).
pub(super) fn is_shared_object(bytes: &[u8]) -> bool {
    const TYPE: usize = 16;
    const ET_DYN: u16 = 3;
    bytes.starts_with(b"\x7fELF") && bytes.get(TYPE..TYPE + 2) == Some(&ET_DYN.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_object_is_recognised() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(is_shared_object(&own), "a position-independent program has the same type");
        assert!(!is_shared_object(b"\x7fELF"));
        assert!(!is_shared_object(b"#!/bin/sh\n echo not an object"));
    }
}
