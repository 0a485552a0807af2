//! Hashes addresses with a random key, so that nobody outside can choose addresses that meet in one place.
//!
//! The hash is two folded multiplications by secret numbers. No way is known to choose addresses that crowd a few lines
//! without knowing the numbers; if somebody finds one, a host is still looked for in a fixed number of lines.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};

use openflow::MacAddr;

/// A host, and the hash by which it is found.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostKey {
    /// Its address, the first byte lowest.
    pub(super) address: u64,
    pub(super) hash: u32,
}

/// Random numbers that nobody outside knows.
#[derive(Clone, Copy)]
pub(super) struct HashKey([u64; 3]);

impl HashKey {
    pub(super) fn random() -> Self {
        let random = RandomState::new();
        let [before, first, second] = std::array::from_fn(|place| random.hash_one(place));
        // Multiplying by an even number would lose the highest bit.
        Self([before, first | 1, second | 1])
    }

    #[inline]
    pub(super) fn of(&self, host: MacAddr) -> HostKey {
        let mut address = [0; 8];
        address[..6].copy_from_slice(&host.0);
        self.of_address(u64::from_le_bytes(address))
    }

    #[inline]
    pub(super) fn of_address(&self, address: u64) -> HostKey {
        let Self([before, first, second]) = *self;
        #[expect(clippy::cast_possible_truncation, reason = "any of its bits will do")]
        let hash = fold(fold(address ^ before, first), second) as u32;
        HostKey { address, hash }
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey") // its numbers are for nobody's log
    }
}

/// Returns the exclusive-or of a product's halves: each bit depends on nearly all bits of both factors.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low half")]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}
