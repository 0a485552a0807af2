//! Writes messages into a capture: each is a TCP segment of its own connection from port 6653.

const PORT: u16 = 6653;

/// Largest message that a segment holds.
pub const MAX_MESSAGE: usize = 0xffff - 40;

/// Link type of packets that start with the IP header.
const RAW_IP: u32 = 101;

/// Returns a capture file; the message at index `n` is in frame `n + 1`.
pub fn capture<'a>(messages: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut file = Vec::new();
    // Magic number, version 2.4, time zone and accuracy, largest packet, link type.
    file.extend(0xa1b2_c3d4_u32.to_le_bytes());
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    file.extend(0x4_0000_u32.to_le_bytes());
    file.extend(RAW_IP.to_le_bytes());
    for (message, number) in messages.zip(0_u32..) {
        let size = u32::try_from(40 + message.len()).unwrap();
        for word in [number, 0, size, size] {
            file.extend(word.to_le_bytes());
        }
        file.extend(ip(number, size));
        file.extend(tcp());
        file.extend(message);
    }
    file
}

/// Returns an IPv4 header whose source address is different for each number.
fn ip(number: u32, size: u32) -> Vec<u8> {
    let [_, high, middle, low] = number.to_be_bytes();
    let [.., size_high, size_low] = size.to_be_bytes();
    let head = [0x45, 0, size_high, size_low, 0, 0, 0, 0, 64, 6, 0, 0];
    [&head[..], &[10, high, middle, low], &[192, 0, 2, 1]].concat()
}

/// Returns a TCP header: the first segment of a connection, with the flags ACK and PSH.
fn tcp() -> Vec<u8> {
    let mut header = [PORT.to_be_bytes(), 40_000_u16.to_be_bytes()].concat();
    header.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    header
}
