//! Checks properties of generated messages of every type.
#![allow(unreachable_pub, reason = "modules shared between test programs")]

mod checks;
mod generate;

use proptest::prelude::*;

/// Sets the header's length to the message's size.
fn with_true_length(mut bytes: Vec<u8>) -> Vec<u8> {
    let size = u16::try_from(bytes.len()).expect("generated messages are small");
    if let Some(length) = bytes.get_mut(2..4) {
        length.copy_from_slice(&size.to_be_bytes());
    }
    bytes
}

/// Decodes arbitrary bytes in every available way.
fn look_at(bytes: &[u8]) {
    let _ = checks::raw_comes_back(bytes);
    let _ = checks::meaning_comes_back(bytes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Generating a message already checks that `decode(encode(m)) == m`.
    #[test]
    fn generated_message_reencodes(bytes in generate::message()) {
        prop_assert_eq!(checks::raw_comes_back(&bytes), Ok(()));
    }

    #[test]
    fn message_cut_anywhere_is_an_error(bytes in generate::message()) {
        // The last bytes matter as much as the first ones.
        let tail = bytes.len().saturating_sub(200);
        for len in (0..tail.min(200)).chain(tail..bytes.len()) {
            let cut = bytes.get(..len).unwrap_or_default();
            prop_assert!(checks::raw_comes_back(cut).is_err());
            prop_assert!(checks::meaning_comes_back(cut).is_err());
            look_at(&with_true_length(cut.to_vec()));
        }
    }

    #[test]
    fn any_16_bits_set_to_any_value_never_panic_or_hang(
        bytes in generate::message(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u16>()), 1..4),
    ) {
        let mut bytes = bytes;
        for (at, value) in changes {
            let at = at.index(bytes.len() - 1);
            if let Some(field) = bytes.get_mut(at..at + 2) {
                field.copy_from_slice(&value.to_be_bytes());
            }
        }
        look_at(&bytes);
        look_at(&with_true_length(bytes));
    }

    #[test]
    fn any_bytes_never_panic_or_hang(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        look_at(&bytes);
        let mut bytes = bytes;
        for version in 1..=6 {
            if let Some(first) = bytes.first_mut() {
                *first = version;
            }
            if bytes.len() >= 8 {
                look_at(&with_true_length(bytes.clone()));
            }
        }
    }
}

proptest! {
    // Each case decodes several thousand messages.
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn every_16_bits_set_to_the_edges_never_panic_or_hang(bytes in generate::message()) {
        let bytes = with_true_length(bytes);
        // Later bytes repeat the same structures.
        for at in 4..(bytes.len() - 1).min(300) {
            for value in [0, 1, 3, 4, 7, 8, 9, 0xfff8, 0xffff_u16] {
                let mut changed = bytes.clone();
                if let Some(field) = changed.get_mut(at..at + 2) {
                    field.copy_from_slice(&value.to_be_bytes());
                }
                look_at(&changed);
            }
        }
    }
}
