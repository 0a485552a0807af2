//! Divides a stream of bytes into OpenFlow messages (OpenFlow 1.3.5 §7.1.1: the length field counts
//! the header).

use openflow::{DecodeError, Header, Kind, Version};

/// A whole message, and the bytes that follow it.
pub type Cut<'b> = (&'b [u8], &'b [u8]);

/// Returns the first message of `bytes` and the bytes behind it; `None` if the message is incomplete.
///
/// # Errors
/// The length field is less than the header's own 8 bytes, so the beginning of the next message is unknown.
pub fn cut(bytes: &[u8]) -> Result<Option<Cut<'_>>, DecodeError> {
    if bytes.len() < Header::SIZE {
        return Ok(None);
    }
    let header = Header::decode(bytes)?;
    Ok(bytes.split_at_checked(usize::from(header.length)))
}

/// Returns the packet-in at the beginning of `bytes`; `None` if another message is there, or it is incomplete.
#[inline]
pub fn whole_packet_in(version: Version, bytes: &mut [u8]) -> Option<&mut [u8]> {
    let size = packet_in_size(version, bytes)?;
    bytes.get_mut(..size)
}

/// Whether `bytes` begins with a packet-in, which may be incomplete.
#[inline]
pub fn begins_with_packet_in(version: Version, bytes: &[u8]) -> bool {
    packet_in_size(version, bytes).is_some()
}

/// Returns the size of the packet-in at the beginning of `bytes`, which may be incomplete; `None` if another message is there.
#[inline]
fn packet_in_size(version: Version, bytes: &[u8]) -> Option<usize> {
    let [found, kind, high, low, ..] = *bytes.first_chunk::<{ Header::SIZE }>()?;
    let is_packet_in = found == version.wire() && Some(kind) == Kind::PacketIn.to_wire(version);
    let size = usize::from(u16::from_be_bytes([high, low]));
    (is_packet_in && size >= Header::SIZE).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_divided_by_their_lengths() {
        let stream = [1, 0, 0, 8, 0, 0, 0, 1, 1, 2, 0, 9, 0, 0, 0, 2, 0xff, 1];
        let (first, rest) = cut(&stream).unwrap().unwrap();
        assert_eq!(first.len(), 8);
        let (second, rest) = cut(rest).unwrap().unwrap();
        assert_eq!(second.last(), Some(&0xff));
        assert_eq!(rest, [1]);
        assert_eq!(cut(rest), Ok(None));
    }

    #[test]
    fn incomplete_message_is_no_message() {
        let message = [1, 2, 0, 12, 0, 0, 0, 2, 1, 2, 3, 4];
        for len in 0..message.len() {
            assert_eq!(cut(&message[..len]), Ok(None), "cut at {len}");
        }
    }

    #[test]
    fn length_below_the_header_ends_the_stream() {
        for length in 0..8 {
            assert!(cut(&[1, 0, 0, length, 0, 0, 0, 0]).is_err());
        }
    }
}
