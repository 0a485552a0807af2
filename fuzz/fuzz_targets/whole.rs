//! Makes a message of a type byte and a body.

/// A header with the right version and length, then the body.
pub fn message(version: u8, data: &[u8]) -> Option<Vec<u8>> {
    let (kind, body) = data.split_first()?;
    let [high, low] = u16::try_from(body.len() + 8).ok()?.to_be_bytes();
    let mut message = vec![version, *kind, high, low, 0, 0, 0, 7];
    message.extend_from_slice(body);
    Some(message)
}
