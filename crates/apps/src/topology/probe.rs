//! Makes and reads the LLDP frames that find links (IEEE 802.1AB-2016 §8).
//!
//! ```text
//! 01:80:c2:00:00:0e  address of the port  88cc
//!     chassis  (locally assigned)  the datapath identifier as text
//!     port     (locally assigned)  the port number as text
//!     time to live
//!     organisation's own           02 'R' 'O' | 2 | instance, 8 bytes | dpid u64 | port u32 | nonce u64 | tag, 16 bytes
//!     end
//! ```
//!
//! The tag is HMAC-SHA-256 (RFC 2104) over the bytes from the datapath identifier to the nonce, cut to 16 bytes, with a key
//! that never leaves this process. Hosts see tags of contents that they do not choose, so any keyed hash would do that is
//! hard to forge after many samples. HMAC is the standard one, and it takes a microsecond for each frame. Rejected: `SipHash`,
//! which is faster, because its margin is smaller and this code never sends a probe per packet.
//!
//! A second probe of the same content goes to all stations, so bridges forward it. Its subtype is 3, and its tag covers one
//! byte more, so neither kind can be made of the other.
//!
//! The instance is a random number of this process. A frame of another instance proves nothing: most likely another Rosemary sent it, and
//! an attacker could have. It makes no link either.
//!
//! The nonce is the time at which the probe was sent, in nanoseconds. Only the values inside of the tag's cover count; the
//! texts are for people who read LLDP on a host.

use hmac::{Hmac, KeyInit as _, Mac as _};
use rosemary_sdk::openflow::ethernet;
use rosemary_sdk::packet::lldp::{self, Id, LOCAL, Lldp, ORGANISATION, Tlv};
use rosemary_sdk::services::topology::Endpoint;
use rosemary_sdk::{Dpid, MacAddr, PortNo};
use sha2::Sha256;

/// An organisation's number that nobody owns, as it is locally administered, and the subtypes of these probes.
const OWN: [u8; 3] = [0x02, b'R', b'O'];
const LINK: u8 = 2;
const SEGMENT: u8 = 3;

/// Time to live of the content, in seconds.
const SECONDS: u16 = 10;

/// Bytes of the instance.
const INSTANCE: usize = 8;

/// Bytes that the tag covers.
const COVERED: usize = 20;

/// Bytes of a tag.
const TAG: usize = 16;

/// The key with which this process tags its probes.
#[derive(Debug, Clone)]
pub(super) struct Seal {
    key: Hmac<Sha256>,
    instance: [u8; INSTANCE],
}

impl Seal {
    /// Makes a new key.
    ///
    /// # Panics
    /// If the system has no random numbers: nothing could be trusted then.
    pub(super) fn random() -> Self {
        let mut key = [0; 32];
        getrandom::fill(&mut key).expect("the system has random numbers");
        let mut instance = [0; INSTANCE];
        getrandom::fill(&mut instance).expect("the system has random numbers");
        Self::of(&key, instance)
    }

    pub(super) fn of(key: &[u8; 32], instance: [u8; INSTANCE]) -> Self {
        Self { key: Hmac::new_from_slice(key).expect("HMAC takes keys of any size"), instance }
    }

    /// The knowledge of an attacker who sees the frames of this process: the instance without the key.
    #[cfg(test)]
    pub(super) fn forged(&self) -> Self {
        Self { instance: self.instance, ..Self::random() }
    }

    fn tag(&self, reach: Reach, covered: &[u8]) -> Hmac<Sha256> {
        let tag = self.key.clone().chain_update(covered);
        match reach {
            Reach::Link => tag,
            Reach::Segment => tag.chain_update([SEGMENT]),
        }
    }
}

/// Who receives a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The other end of a link: no bridge forwards it.
    Link,
    /// All ports of a segment: bridges forward it.
    Segment,
}

/// The content of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) reach: Reach,
    /// The port that it leaves through.
    pub(super) from: Endpoint,
    /// When it was sent, in nanoseconds; different for each probe of a port.
    pub(super) nonce: u64,
}

/// Why a frame is no probe of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoProbe {
    /// LLDP of another system.
    Other,
    /// It looks like a probe, but this process did not send it, or someone changed it.
    Forged,
    /// It looks like a probe of another instance.
    Another,
}

impl Probe {
    /// Makes the frame for a port with this address.
    pub(super) fn write(self, hw_addr: MacAddr, seal: &Seal) -> Vec<u8> {
        let (dpid, port) = (self.from.dpid.to_string(), self.from.port.0.to_string());
        let subtype = match self.reach {
            Reach::Link => LINK,
            Reach::Segment => SEGMENT,
        };
        let mut own = [&OWN[..], &[subtype], &seal.instance, &self.covered()].concat();
        own.extend(&seal.tag(self.reach, &self.covered()).finalize().into_bytes()[..TAG]);
        let mut frame = lldp::frame(
            hw_addr,
            Id { subtype: LOCAL, id: dpid.as_bytes() },
            Id { subtype: LOCAL, id: port.as_bytes() },
            SECONDS,
            &[Tlv { kind: ORGANISATION, value: &own }],
        )
        .expect("all values are short");
        if self.reach == Reach::Segment {
            frame[..6].copy_from_slice(&MacAddr::BROADCAST.0);
        }
        frame
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// [`NoProbe`]: this process did not send it.
    pub(super) fn read(frame: &[u8], seal: &Seal) -> Result<Self, NoProbe> {
        let packet = ethernet::packet(frame).filter(|packet| packet.ethertype == ethernet::LLDP);
        let unit = packet.and_then(|packet| Lldp::decode(packet.payload)).ok_or(NoProbe::Other)?;
        let mut own = unit.others().filter(|tlv| tlv.kind == ORGANISATION);
        let reach = |subtype| match subtype {
            LINK => Some(Reach::Link),
            SEGMENT => Some(Reach::Segment),
            _ => None,
        };
        let own = own.find_map(|tlv| {
            let (subtype, own) = tlv.value.strip_prefix(&OWN)?.split_first()?;
            Some((reach(*subtype)?, own))
        });
        let (reach, own) = own.ok_or(NoProbe::Other)?;
        let (instance, own) = own.split_at_checked(INSTANCE).ok_or(NoProbe::Forged)?;
        let (covered, tag) = own.split_at_checked(COVERED).ok_or(NoProbe::Forged)?;
        if tag.len() == TAG && instance != seal.instance {
            return Err(NoProbe::Another);
        }
        if tag.len() != TAG || seal.tag(reach, covered).verify_truncated_left(tag).is_err() {
            return Err(NoProbe::Forged);
        }
        let number = |range: std::ops::Range<usize>| {
            covered[range].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        let port = u32::try_from(number(8..12)).map_err(|_| NoProbe::Forged)?;
        let from = Endpoint { dpid: Dpid(number(0..8)), port: PortNo(port) };
        Ok(Self { reach, from, nonce: number(12..20) })
    }

    fn covered(self) -> [u8; COVERED] {
        let mut bytes = [0; COVERED];
        bytes[..8].copy_from_slice(&self.from.dpid.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.from.port.0.to_be_bytes());
        bytes[12..].copy_from_slice(&self.nonce.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: Endpoint =
        Endpoint { dpid: Dpid(0x0102_0304_0506_0708), port: PortNo(0x1122_3344) };
    const PROBE: Probe = Probe { reach: Reach::Link, from: FROM, nonce: 0x0a0b_0c0d_0e0f_1011 };
    const PORT_ADDRESS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    #[test]
    fn only_frame_with_own_key_is_read() {
        let (seal, other) = (Seal::random(), Seal::random());
        let frame = PROBE.write(PORT_ADDRESS, &seal);
        assert_eq!(Probe::read(&frame, &seal), Ok(PROBE));
        assert_eq!(Probe::read(&frame, &seal.forged()), Err(NoProbe::Forged));
        assert_eq!(Probe::read(&frame, &other), Err(NoProbe::Another));
    }

    #[test]
    fn tag_is_hmac_sha_256() {
        // Calculated with `openssl dgst -sha256 -mac HMAC -macopt hexkey:0101...`.
        let frame = PROBE.write(PORT_ADDRESS, &Seal::of(&[1; 32], [7; INSTANCE]));
        let tag = &frame[frame.len() - 2 - TAG..frame.len() - 2];
        assert_eq!(tag, KNOWN_TAG, "{tag:02x?}");
    }

    const KNOWN_TAG: [u8; 16] = [
        0x4f, 0x0e, 0x6c, 0xc5, 0xd4, 0x16, 0x3b, 0x89, 0x5a, 0xf4, 0xf8, 0xd8, 0x3a, 0xb3, 0xbc,
        0xa9,
    ];

    #[test]
    fn changed_or_cut_frame_makes_no_probe() {
        let seal = Seal::random();
        let frame = PROBE.write(PORT_ADDRESS, &seal);
        let own = frame.len() - 2 - COVERED - TAG;
        for at in own..frame.len() - 2 {
            let mut changed = frame.clone();
            changed[at] ^= 1;
            assert_eq!(Probe::read(&changed, &seal), Err(NoProbe::Forged), "{at}");
        }
        for end in 0..frame.len() - 2 {
            assert!(Probe::read(&frame[..end], &seal).is_err(), "{end}");
        }
    }

    #[test]
    fn second_probe_passes_bridges_and_is_sealed_for_itself() {
        let seal = Seal::random();
        let second = Probe { reach: Reach::Segment, ..PROBE };
        let frames = [PROBE, second].map(|probe| probe.write(PORT_ADDRESS, &seal));
        assert_eq!(frames[0][..6], lldp::NEAREST_BRIDGE.0);
        assert_eq!(frames[1][..6], MacAddr::BROADCAST.0);
        assert_eq!(Probe::read(&frames[1], &seal), Ok(second));
        let subtype = frames[0].len() - 2 - TAG - COVERED - INSTANCE - 1;
        for (mut frame, other) in frames.into_iter().zip([SEGMENT, LINK]) {
            frame[subtype] = other;
            assert_eq!(Probe::read(&frame, &seal), Err(NoProbe::Forged));
        }
    }

    #[test]
    fn lldp_of_others_is_not_forged() {
        let id = Id { subtype: LOCAL, id: b"x" };
        let frame = lldp::frame(PORT_ADDRESS, id, id, 1, &[]).unwrap();
        assert_eq!(Probe::read(&frame, &Seal::random()), Err(NoProbe::Other));
        assert_eq!(Probe::read(b"short", &Seal::random()), Err(NoProbe::Other));
    }
}
