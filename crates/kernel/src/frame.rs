//! What dispatch and checks must know of a packet.

/// The ethertype behind any VLAN tags (IEEE 802.1Q-2018 §9.6); `None` if the frame has none.
pub(crate) fn ethertype(frame: &[u8]) -> Option<u16> {
    const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
    let mut at = 12;
    loop {
        let field = frame.get(at..at + 2)?;
        let ethertype = u16::from_be_bytes([field[0], field[1]]);
        if !TAGS.contains(&ethertype) {
            return Some(ethertype);
        }
        at += 4;
    }
}
