//! Compares text in certificates by its letters and digits alone, so that a misspelt name is recognised as one.

/// Most characters of a name that an error shows.
const MAX_SHOWN: usize = 100;

/// The depth of nested percent-encodings that is decoded.
const MAX_ENCODINGS: usize = 3;

/// The beginning of a name, for an error.
pub(crate) fn shown(name: &str) -> String {
    name.chars().take(MAX_SHOWN).collect()
}

/// Counts the places in which the letters and digits of `bytes` are `what`.
pub(crate) fn occurrences(bytes: &[u8], what: &[u8]) -> usize {
    letters(bytes).windows(what.len()).filter(|part| *part == what).count()
}

/// Removes percent-encoding and everything but ASCII letters, made lower case, and digits. UTF-16 text
/// gives the same result as UTF-8.
pub(crate) fn letters(bytes: &[u8]) -> Vec<u8> {
    let mut text = bytes.to_vec();
    for _ in 0..MAX_ENCODINGS {
        text = percent_decoded(&text);
    }
    text.retain(u8::is_ascii_alphanumeric);
    text.make_ascii_lowercase();
    text
}

fn percent_decoded(mut bytes: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let mut decoded = Vec::with_capacity(bytes.len());
    while let Some((first, rest)) = bytes.split_first() {
        let encoded = match (first, rest) {
            (b'%', [high, low, rest @ ..]) => {
                digit(*high).zip(digit(*low)).map(|(high, low)| (high << 4 | low, rest))
            }
            _ => None,
        };
        let (byte, rest) = encoded.unwrap_or((*first, rest));
        decoded.push(byte);
        bytes = rest;
    }
    decoded
}
