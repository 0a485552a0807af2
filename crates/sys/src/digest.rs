//! Computes the SHA-256 of files and of bytes.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use sha2::{Digest as _, Sha256};

use crate::shm::sealed_copy;
use crate::text::hex;

/// Computes the SHA-256 of a file from its beginning, as hexadecimal digits.
///
/// # Errors
/// The file cannot be read.
pub fn sha256(file: &File) -> io::Result<String> {
    let (mut hash, mut at, mut buffer) = (Sha256::new(), 0, vec![0; 64 * 1024]);
    loop {
        // By offset, because the file's own position is shared with other processes.
        let size = file.read_at(&mut buffer, at)?;
        if size == 0 {
            break;
        }
        hash.update(buffer.get(..size).unwrap_or_default());
        at += size as u64;
    }
    Ok(hex(&hash.finalize()))
}

/// Copies bytes into sealed memory of this name, and returns it with its SHA-256. Whoever gets the memory can compare.
///
/// # Errors
/// The system is out of memory.
pub fn sealed_with_sha256(name: &str, bytes: &[u8]) -> io::Result<(OwnedFd, String)> {
    let memory = sealed_copy(name, bytes)?;
    Ok((memory, hex(&Sha256::digest(bytes))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_equals_that_of_sha256sum() {
        let of = |bytes: &[u8]| {
            let (object, digest) = sealed_with_sha256("object", bytes).unwrap();
            assert_eq!(sha256(&File::from(object)).unwrap(), digest);
            digest
        };
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(of(b""), empty);
        let million = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
        assert_eq!(of(&vec![b'a'; 1_000_000]), million);
    }
}
