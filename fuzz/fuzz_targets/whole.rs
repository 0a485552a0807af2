//! Builds a message from a type byte and a body.

/// Prefixes the body with a header of the right version and length.
pub fn message(version: u8, data: &[u8]) -> Option<Vec<u8>> {
    let (kind, body) = data.split_first()?;
    let [high, low] = u16::try_from(body.len() + 8).ok()?.to_be_bytes();
    let mut message = vec![version, *kind, high, low, 0, 0, 0, 7];
    message.extend_from_slice(body);
    Some(message)
}
