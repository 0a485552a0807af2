//! Handles the first messages of a session: recognises a hello of any version, and refuses one without a version in
//! common. OpenFlow 1.3.5 §6.3.1; [`Hello::negotiate`] chooses the version.

use openflow::{ErrorMessage, Header, Hello, Kind, OfferedVersions, Version};

use super::session::send;
use crate::closed::Closed;

/// Version byte of OpenFlow 1.5, the newest version.
const NEWEST: u8 = 6;

/// Bytes of a switch's text that are logged.
const MOST_TEXT: usize = 200;

/// The code of an error that refuses all versions (`OFPHFC_INCOMPATIBLE`, OpenFlow 1.3.5 §7.4.4.1).
const INCOMPATIBLE: u16 = 0;

/// Checks that the first bytes begin a hello; the error names the protocol that they seem to belong to. A hello has
/// type 0 and may have any version (OpenFlow 1.3.5 §6.3.1, §7.1.1).
///
/// # Errors
/// [`Closed::NotOpenFlow`].
pub(super) fn recognise(bytes: &[u8]) -> Result<(), Closed> {
    let what = match bytes {
        [] | [_] | [0x01..=0x06, ..] | [_, 0] | [_, 0, _] => return Ok(()),
        [_, 0, 0, 0..=7, ..] => "its first message is shorter than a header".to_owned(),
        [_, 0, ..] => return Ok(()),
        [0x16, 0x03, ..] => {
            "it began TLS after this controller had sent a hello in plain TCP".to_owned()
        }
        [b'A'..=b'Z', ..] => "it sent text, perhaps HTTP, not OpenFlow".to_owned(),
        [first, second, ..] => {
            format!("its first bytes are {first:#04x} {second:#04x}, which begin no OpenFlow hello")
        }
    };
    Err(Closed::NotOpenFlow(what))
}

/// The versions that both sides offer.
#[derive(Debug)]
pub(super) struct Offers {
    /// The versions that this side offers.
    pub(super) ours: OfferedVersions,
    /// Version byte of the switch's hello. The switch uses this version until it has read our hello.
    pub(super) version: u8,
    /// The versions that the switch's hello offers, as text; empty outside the handshake.
    pub(super) theirs: String,
}

/// Handles messages of another version than the agreed one from a switch that has not read our
/// hello yet: an error in any version; hello and echo in the version of its own hello. Returns
/// `false` if `message` is another one.
///
/// # Errors
/// [`Closed::Refused`].
pub(super) fn may_precede_our_hello(
    agreed: Version,
    offers: &Offers,
    header: Header,
    message: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool, Closed> {
    // The types of these four have the same numbers in every version.
    match Kind::from_wire(agreed, header.kind) {
        Ok(Kind::Error) => check_refusal(agreed, offers, message)?,
        _ if header.version != offers.version => return Ok(false),
        Ok(Kind::Hello | Kind::EchoReply) => {}
        Ok(Kind::EchoRequest) => send(out, |out| openflow::echo_reply(message, out)),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Checks that an error message, in any version, does not refuse our hello.
///
/// # Errors
/// [`Closed::Refused`].
pub(super) fn check_refusal(
    agreed: Version,
    offers: &Offers,
    message: &[u8],
) -> Result<(), Closed> {
    match ErrorMessage::decode_body(agreed, message) {
        Ok(error) if error.kind == ErrorMessage::HELLO_FAILED => {
            let text = error.data.get(..MOST_TEXT).unwrap_or(error.data).escape_ascii();
            Err(Closed::Refused {
                ours: offers.ours,
                theirs: offers.theirs.clone(),
                why: format!("{error} \"{text}\""),
            })
        }
        _ => Ok(()),
    }
}

/// Appends the error that refuses a hello, with a text (OpenFlow 1.3.5 §6.3.1). It has the highest
/// known version that the hello offers: errors have the same layout in every version.
pub(super) fn refuse(ours: OfferedVersions, hello: &Hello, xid: u32, out: &mut Vec<u8>) {
    let readable = match hello.offered() {
        Some(bitmap) => (1..=NEWEST).rev().find(|version| bitmap & 1 << version != 0),
        None => Some(hello.version.clamp(1, NEWEST)),
    };
    let text = format!("no OpenFlow version in common: this controller speaks {ours}");
    let error = ErrorMessage {
        version: Version::PREFERRED,
        kind: ErrorMessage::HELLO_FAILED,
        code: INCOMPATIBLE,
        data: text.as_bytes(),
    };
    let at = out.len();
    send(out, |out| error.encode(xid, out));
    if let (Some(version), Some(readable)) = (out.get_mut(at), readable) {
        *version = readable;
    }
}

/// The versions that a hello offers, as text.
pub(super) fn offered(hello: &Hello) -> String {
    let name = |wire: u32| match wire {
        1..=6 => format!("1.{}", wire - 1),
        other => format!("version {other:#04x}"),
    };
    match hello.offered() {
        Some(bitmap) => {
            let offered = (1..32).filter(|bit| bitmap & 1 << bit != 0).map(name);
            offered.collect::<Vec<String>>().join(", ")
        }
        None => format!("up to {}", name(hello.version.into())),
    }
}
