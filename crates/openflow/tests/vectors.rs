//! Public test vectors, which are not part of this repository: the folder that the environment
//! variable `OPENFLOW_VECTORS` names, with `valid-of13.tsv` and the like. A line is
//! source, kind, detail and the message in hexadecimal, with tabs between them.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test that says what it skips")]

use rosemary_openflow::{
    DecodeError, Echo, ErrorMessage, Features, FlowMod, Header, Hello, Kind, PacketIn, PacketOut,
    PortStatus, SwitchConfig, Version,
};
use std::path::PathBuf;

struct Vector {
    line: String,
    bytes: Vec<u8>,
}

/// The vectors of a file; `None`, loudly, if there are none on this machine.
fn vectors(file: &str) -> Option<Vec<Vector>> {
    let Some(folder) = std::env::var_os("OPENFLOW_VECTORS") else {
        println!("SKIPPED: OPENFLOW_VECTORS is not set, {file} was not tried");
        return None;
    };
    let path = PathBuf::from(folder).join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let vectors = text.lines().map(|line| {
        let hex = line.rsplit('\t').next().unwrap();
        let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16));
        Vector {
            line: line.chars().take(300).collect(),
            bytes: bytes.map(Result::unwrap).collect(),
        }
    });
    Some(vectors.collect())
}

/// Decodes a message of the version-independent kinds; `None` for others.
fn decode(bytes: &[u8]) -> Option<Result<(), DecodeError>> {
    let kind = Header::decode(bytes)
        .and_then(|header| Kind::from_wire(Version::from_wire(header.version)?, header.kind));
    let result = match kind {
        Err(error) => Err(error),
        Ok(Kind::Hello) => Hello::decode(bytes).map(drop),
        Ok(Kind::Error) => ErrorMessage::decode(bytes).map(drop),
        Ok(Kind::EchoRequest | Kind::EchoReply) => Echo::decode(bytes).map(drop),
        Ok(Kind::FeaturesReply) => Features::decode(bytes).map(drop),
        Ok(Kind::GetConfigReply) => SwitchConfig::decode(bytes).map(drop),
        Ok(Kind::SetConfig) => SwitchConfig::decode_set(bytes).map(drop),
        Ok(Kind::PacketIn) => PacketIn::decode(bytes).map(drop),
        Ok(Kind::PacketOut) => PacketOut::decode(bytes).map(drop),
        Ok(Kind::PortStatus) => PortStatus::decode(bytes).map(drop),
        Ok(Kind::FlowMod) => FlowMod::decode(bytes).map(drop),
        Ok(_) => return None,
    };
    Some(result)
}

#[test]
fn valid_vectors_decode() {
    for file in ["valid-of10.tsv", "valid-of13.tsv"] {
        let mut wrong = 0;
        for vector in vectors(file).unwrap_or_default() {
            // Numbers that no specification defines are sound on the wire and refused here.
            let refused = |error| {
                matches!(error, DecodeError::BadValue { .. } | DecodeError::UnknownKind { .. })
            };
            if let Some(Err(error)) = decode(&vector.bytes)
                && !refused(error)
            {
                println!("{error}: {}", vector.line);
                wrong += 1;
            }
        }
        assert_eq!(wrong, 0, "{file}");
    }
}

#[test]
fn malformed_vectors_are_errors() {
    for file in ["malformed-of10.tsv", "malformed-of13.tsv"] {
        let mut wrong = 0;
        for vector in vectors(file).unwrap_or_default() {
            if let Some(Ok(())) = decode(&vector.bytes) {
                println!("decoded: {}", vector.line);
                wrong += 1;
            }
        }
        assert_eq!(wrong, 0, "{file}");
    }
}
