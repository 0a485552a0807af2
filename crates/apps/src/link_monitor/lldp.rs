//! Makes and reads the LLDP frames that find links (IEEE 802.1AB-2016 §8). They go to the nearest bridge, so that only
//! the other end of a link gets them.
//!
//! ```text
//! 01:80:c2:00:00:0e  port's address  88cc
//!     chassis  (locally assigned)  the datapath, 8 bytes
//!     port     (locally assigned)  the port, 4 bytes
//!     time to live
//!     organisation's own           keyed hash of datapath and port, 8 bytes
//!     end
//! ```

use std::hash::{BuildHasher as _, RandomState};

use rosemary_sdk::{Dpid, MacAddr, PortNo};

/// The destination of LLDP, which no bridge forwards (IEEE 802.1Q-2018 table 8-1).
const NEAREST_BRIDGE: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];
const LLDP: [u8; 2] = [0x88, 0xcc];

// Types of TLVs (IEEE 802.1AB-2016 table 8-1), and the subtype "locally assigned".
const END: u8 = 0;
const CHASSIS: u8 = 1;
const PORT: u8 = 2;
const TIME_TO_LIVE: u8 = 3;
const OWN: u8 = 127;
const LOCAL: u8 = 7;

/// An organisation's number that nobody owns: locally administered.
const ORGANISATION: [u8; 4] = [0x02, b'R', b'O', 1];

/// Time to live of the frame's content, in seconds.
const SECONDS: [u8; 2] = [0, 10];

/// The key that proves that this process sent a frame.
#[derive(Debug, Clone, Default)]
pub(super) struct Seal(RandomState);

impl Seal {
    pub(super) fn new() -> Self {
        Self::default()
    }

    fn of(&self, probe: Probe) -> [u8; 8] {
        self.0.hash_one((probe.from.0.0, probe.from.1.0)).to_be_bytes()
    }
}

/// The content of a frame: the datapath and port that it was sent from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) from: (Dpid, PortNo),
}

impl Probe {
    /// Makes the frame for a port with this address.
    pub(super) fn write(self, hw_addr: MacAddr, seal: &Seal) -> Vec<u8> {
        let (dpid, port) = self.from;
        let mut frame = [&NEAREST_BRIDGE[..], &hw_addr.0, &LLDP].concat();
        let mut put = |kind: u8, parts: &[&[u8]]| {
            let size = u8::try_from(parts.concat().len()).unwrap_or(u8::MAX); // none is that long
            frame.extend([kind << 1, size]);
            frame.extend(parts.concat());
        };
        put(CHASSIS, &[&[LOCAL], &dpid.0.to_be_bytes()]);
        put(PORT, &[&[LOCAL], &port.0.to_be_bytes()]);
        put(TIME_TO_LIVE, &[&SECONDS]);
        put(OWN, &[&ORGANISATION, &seal.of(self)]);
        put(END, &[]);
        frame
    }

    /// Reads a frame; `None` if this process did not send it.
    pub(super) fn read(frame: &[u8], seal: &Seal) -> Option<Self> {
        let mut rest = frame.get(12..)?.strip_prefix(&LLDP)?;
        let mut next = |kind: u8, before: &[u8]| -> Option<&[u8]> {
            let ([head, size], behind) = rest.split_first_chunk::<2>()?;
            let (value, behind) = behind.split_at_checked(usize::from(*size))?;
            rest = behind;
            (*head == kind << 1).then_some(value)?.strip_prefix(before)
        };
        let dpid = next(CHASSIS, &[LOCAL])?.try_into().ok().map(u64::from_be_bytes)?;
        let port = next(PORT, &[LOCAL])?.try_into().ok().map(u32::from_be_bytes)?;
        next(TIME_TO_LIVE, &[])?;
        let sealed = next(OWN, &ORGANISATION)?;
        let probe = Self { from: (Dpid(dpid), PortNo(port)) };
        (sealed == seal.of(probe)).then_some(probe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: Probe = Probe { from: (Dpid(0x0102_0304_0506_0708), PortNo(3)) };

    #[test]
    fn only_frame_with_own_key_is_read() {
        let (seal, other) = (Seal::new(), Seal::new());
        let frame = PROBE.write(MacAddr([2, 0, 0, 0, 0, 1]), &seal);
        assert_eq!(Probe::read(&frame, &seal), Some(PROBE));
        assert_eq!(Probe::read(&frame, &other), None);
    }

    #[test]
    fn changed_or_cut_frame_is_rejected() {
        let seal = Seal::new();
        let frame = PROBE.write(MacAddr([2, 0, 0, 0, 0, 1]), &seal);
        let told = 14; // addresses are whose they may be
        for at in told..frame.len() - 2 {
            let mut changed = frame.clone();
            changed[at] ^= 1;
            let is_time = at == 34 || at == 35; // which proves nothing
            assert!(is_time || Probe::read(&changed, &seal).is_none(), "{at}");
        }
        for end in 0..frame.len() - 2 {
            assert_eq!(Probe::read(&frame[..end], &seal), None, "{end}");
        }
    }
}
