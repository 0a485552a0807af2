//! Reads random numbers of the system.

use std::fs::File;
use std::io::{self, Read as _};

use crate::text::hex;

/// Returns `count` random bytes as hexadecimal digits, good for keys and secrets.
///
/// # Errors
/// `/dev/urandom` cannot be read.
pub fn hex_digits(count: usize) -> io::Result<String> {
    let mut bytes = vec![0; count];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_differ_each_time() {
        let (one, other) = (hex_digits(16).unwrap(), hex_digits(16).unwrap());
        assert_eq!((one.len(), other.len()), (32, 32));
        assert_ne!(one, other);
        assert!(one.bytes().all(|it| it.is_ascii_hexdigit()));
    }
}
