//! Encodes the points of one series in one block of time.
//!
//! ```text
//! format u8 = 1 | number of points | five columns
//! column        one number per point; a number 0 is followed by the number of further zeros
//!   1 slots     difference of the gap to the gap before, signed; a slot is a step of the level, counted from the block's start
//!   2 counts    difference to the count before, signed
//!   3 minima    difference to the minimum before, signed
//!   4 ranges    maximum - minimum
//!   5 sums      sum - minimum * count
//! ```
//!
//! Numbers are variable: seven bits per byte, the low ones first, the high bit on all but the last byte. Signed numbers alternate: 0, -1, 1,
//! -2. Regular samples of a figure that does not change take about a dozen bytes, whatever their number.
//!
//! The decoder accepts only what the encoder writes in meaning: slots in ascending order, and sums that some samples can have.

use super::point::{Level, Points, Sums};

/// The format.
const FORMAT: u8 = 1;

/// Encodes the points of the block that starts at second `start`.
pub fn encode(level: Level, start: u64, points: &Points) -> Vec<u8> {
    let mut out = vec![FORMAT];
    put(&mut out, points.len() as u64);
    let slot = |at: &u64| at.saturating_sub(start) / level.step();
    let mut before = (0_u64, 0_u64);
    let slots = points.keys().map(|at| {
        let (slot, gap) = (slot(at), slot(at).wrapping_sub(before.0));
        let change = signed(gap, before.1);
        before = (slot, gap);
        change
    });
    column(&mut out, slots);
    column(&mut out, differences(points.values().map(|it| u64::from(it.count))));
    column(&mut out, differences(points.values().map(|it| it.min)));
    column(&mut out, points.values().map(|it| it.max - it.min));
    column(&mut out, points.values().map(|it| it.sum - it.min.saturating_mul(it.count.into())));
    out
}

/// Decodes the block that starts at second `start`; `None` if it is damaged.
pub fn decode(level: Level, start: u64, bytes: &[u8]) -> Option<Points> {
    let mut from = bytes;
    let (format, rest) = from.split_first()?;
    from = rest;
    (*format == FORMAT).then_some(())?;
    let len = usize::try_from(take(&mut from)?).ok()?;
    (len as u64 <= level.slots()).then_some(())?;
    let mut columns: [Vec<u64>; 5] = Default::default();
    for column in &mut columns {
        *column = read_column(&mut from, len)?;
    }
    from.is_empty().then_some(())?;
    let [slots, counts, minima, ranges, sums] = columns;
    let (mut slot, mut gap, mut count, mut min) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut points = Points::new();
    for i in 0..len {
        let column = |column: &[u64]| column.get(i).copied();
        gap = unsigned(column(&slots)?, gap);
        (i == 0 || gap > 0).then_some(())?;
        slot = slot.checked_add(gap).filter(|it| *it < level.slots())?;
        count = unsigned(column(&counts)?, count);
        min = unsigned(column(&minima)?, min);
        let max = min.checked_add(column(&ranges)?)?;
        let sum = min.saturating_mul(count).saturating_add(column(&sums)?);
        let highest = u128::from(max) * u128::from(count);
        (count > 0 && u128::from(sum) <= highest).then_some(())?;
        let sums = Sums { count: u32::try_from(count).ok()?, min, max, sum };
        points.insert(start.checked_add(slot * level.step())?, sums);
    }
    Some(points)
}

/// Returns the differences of consecutive numbers, signed.
fn differences(numbers: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
    numbers.scan(0_u64, |before, it| Some(signed(it, std::mem::replace(before, it))))
}

fn column(out: &mut Vec<u8>, numbers: impl Iterator<Item = u64>) {
    let mut numbers = numbers.peekable();
    while let Some(number) = numbers.next() {
        put(out, number);
        if number == 0 {
            let mut further = 0;
            while numbers.next_if_eq(&0).is_some() {
                further += 1;
            }
            put(out, further);
        }
    }
}

fn read_column(from: &mut &[u8], len: usize) -> Option<Vec<u64>> {
    let mut numbers = Vec::with_capacity(len);
    while numbers.len() < len {
        let number = take(from)?;
        numbers.push(number);
        if number == 0 {
            let further = usize::try_from(take(from)?).ok()?;
            (further <= len - numbers.len()).then_some(())?;
            numbers.resize(numbers.len() + further, 0);
        }
    }
    Some(numbers)
}

/// Returns `number - before`, modulo 2^64, with small numbers for small differences.
fn signed(number: u64, before: u64) -> u64 {
    let difference = number.wrapping_sub(before);
    (difference << 1) ^ if difference >> 63 == 1 { u64::MAX } else { 0 }
}

/// Reverses [`signed`].
fn unsigned(difference: u64, before: u64) -> u64 {
    let sign = if difference & 1 == 1 { u64::MAX } else { 0 };
    before.wrapping_add((difference >> 1) ^ sign)
}

/// Appends a variable number.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Takes a variable number; `None` if the bytes end before it, or it does not fit.
pub(super) fn take(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        (shift < 63 || bits <= 1).then_some(())?;
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::point::add;
    use super::*;
    use control::history::MAX_VALUE;

    fn block() -> impl Strategy<Value = (Level, Points)> {
        let level = proptest::sample::select(Level::ALL.to_vec());
        let value = prop_oneof![Just(0), 0_u64..5_000, 0..=MAX_VALUE];
        let samples = proptest::collection::vec((0_u64..600, value), 0..700);
        (level, samples).prop_map(|(level, samples)| {
            let mut points = Points::new();
            for (slot, value) in samples {
                let at = start(level) + slot % level.slots() * level.step();
                add(&mut points, at, Sums::of(value));
            }
            (level, points)
        })
    }

    fn start(level: Level) -> u64 {
        4_000 * level.span()
    }

    proptest! {
        #[test]
        fn blocks_are_read_as_they_are_written((level, points) in block()) {
            let bytes = encode(level, start(level), &points);
            prop_assert_eq!(decode(level, start(level), &bytes), Some(points));
        }

        #[test]
        fn damaged_blocks_are_refused_or_sound(
            (level, points) in block(), at in 0_usize..5_000, byte: u8, cut in 0_usize..5_000,
        ) {
            let mut bytes = encode(level, start(level), &points);
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(bytes.len() - cut % 3);
            if let Some(points) = decode(level, start(level), &bytes) {
                prop_assert!(points.len() as u64 <= level.slots());
                for (at, it) in points {
                    prop_assert!(at >= start(level) && at < start(level) + level.span());
                    prop_assert!(it.count > 0 && it.min <= it.max && it.min <= it.sum);
                }
            }
        }

        #[test]
        fn any_bytes_are_decoded_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for level in Level::ALL {
                let _ = decode(level, u64::MAX - 5, &bytes);
            }
        }

        #[test]
        fn numbers_are_read_as_they_are_written(number: u64, before: u64) {
            prop_assert_eq!(unsigned(signed(number, before), before), number);
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            let mut from = bytes.as_slice();
            prop_assert_eq!(take(&mut from), Some(number));
            prop_assert!(from.is_empty());
        }
    }

    #[test]
    fn regular_samples_of_a_still_figure_are_short() {
        let mut points = Points::new();
        for slot in (0..600).step_by(10) {
            add(&mut points, slot, Sums::of(1_000_000_000));
        }
        let bytes = encode(Level::Raw, 0, &points);
        assert!(bytes.len() <= 24, "{}", bytes.len());
        assert_eq!(encode(Level::Raw, 0, &Points::new()), [1, 0]);
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        for bytes in [&[0x80][..], &[0xff; 10], &[0xff; 11], &[]] {
            assert_eq!(take(&mut &*bytes), None);
        }
        assert_eq!(decode(Level::Hours, 0, &[1, 121, 0, 120]), None, "too many points");
        assert_eq!(decode(Level::Raw, 0, &[1, 2, 0, 200]), None, "more zeros than points");
        assert_eq!(decode(Level::Raw, 0, &[2, 0]), None, "another format");
    }
}
