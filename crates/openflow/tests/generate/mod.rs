//! Generates messages of every type as bytes. Each generator checks that decoding the encoded
//! message returns the generated value.

mod flows;
mod later;
mod raw;
mod statistics;
mod switches;

use proptest::prelude::*;
use rosemary_openflow::{Version, append};

/// Generates a message of any type and version.
pub fn message() -> impl Strategy<Value = Vec<u8>> {
    let of = |version: Version| {
        prop_oneof![
            2 => flows::messages(version),
            2 => statistics::messages(version),
            1 => switches::messages(version),
        ]
    };
    prop_oneof![
        2 => of(Version::V1_0),
        1 => of(Version::V1_1),
        1 => of(Version::V1_2),
        3 => of(Version::V1_3),
        2 => of(Version::V1_4),
        2 => of(Version::V1_5),
        1 => raw::messages(),
        1 => later::messages(),
    ]
}

/// Encodes, decodes and compares a value; returns the bytes.
macro_rules! comes_back {
    ($value:expr, $decode:expr, |$it:ident, $out:ident| $encode:expr) => {{
        let $it = &$value;
        let mut bytes = Vec::new();
        rosemary_openflow::append(&mut bytes, |$out| $encode).expect("the version can express it");
        assert_eq!($decode(&bytes).as_ref(), Ok($it), "{bytes:02x?}");
        bytes
    }};
}
pub(crate) use comes_back;

/// Returns the bytes that `encode` writes.
fn encoded(encode: impl Fn(&mut [u8]) -> Result<usize, rosemary_openflow::EncodeError>) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(&mut bytes, encode).expect("the version can express it");
    bytes
}

/// Leaks a list so that messages can borrow from it.
fn leak<T>(items: Vec<T>) -> &'static [T] {
    Box::leak(items.into_boxed_slice())
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

/// Bytes whose number exceeds a multiple of 8 by `size`.
fn bytes_mod_8(size: usize) -> impl Strategy<Value = Box<[u8]>> {
    (0..4_usize).prop_flat_map(move |eights| {
        prop::collection::vec(any::<u8>(), eights * 8 + size).prop_map(Vec::into_boxed_slice)
    })
}
