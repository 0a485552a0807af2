//! A byte string that is stored inline while it is short.

use crate::Writer;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::{Deref, Range};

/// Maximum inline size. An exact IPv6 5-tuple takes 63 bytes as OXMs. With this size the type has no
/// padding: a compiler copies padding together with adjacent bytes in one load, which would stall
/// until the stores of both complete.
const FEW: usize = 102;

/// Inline or heap-allocated bytes. The `u8` is the number of valid bytes in the array.
#[derive(Clone)]
pub(crate) enum Bytes {
    Few([u8; FEW], u8),
    Many(Vec<u8>),
}

impl Bytes {
    /// Copies `bytes`.
    #[inline]
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut few = [0; FEW];
        match (few.get_mut(..bytes.len()), u8::try_from(bytes.len())) {
            (Some(room), Ok(size)) => {
                room.copy_from_slice(bytes);
                Self::Few(few, size)
            }
            _ => Self::Many(bytes.to_vec()),
        }
    }

    /// Appends `head` and `tail` inline. Returns `false` without a change if they do not fit.
    #[inline]
    pub(super) fn append<const H: usize, const T: usize>(
        &mut self,
        head: [u8; H],
        tail: [u8; T],
    ) -> bool {
        let Self::Few(few, size) = self else { return false };
        let Some(room) = few.get_mut(usize::from(*size)..) else { return false };
        let Some((first, room)) = room.split_first_chunk_mut() else { return false };
        let Some(second) = room.first_chunk_mut() else { return false };
        (*first, *second) = (head, tail);
        #[expect(clippy::cast_possible_truncation, reason = "it is at most FEW")]
        {
            *size += (H + T) as u8;
        }
        true
    }

    /// Writes the bytes.
    #[inline]
    pub(super) fn write(&self, to: &mut Writer<'_>) {
        match self {
            Self::Few(_, 0) => {}
            Self::Few(few, size) => to.beginning_of(few, usize::from(*size)),
            Self::Many(many) => to.bytes(many),
        }
    }

    /// Inserts `head` and `tail`, at most 255 bytes, after the first `at` bytes.
    #[inline]
    pub(super) fn insert<const N: usize>(&mut self, at: usize, head: [u8; N], tail: &[u8]) {
        if let Self::Few(few, size) = self {
            let (old, more) = (usize::from(*size), N + tail.len());
            if let (true, Ok(new)) = (old + more <= FEW && at <= old, u8::try_from(old + more)) {
                if at < old {
                    few.copy_within(at..old, at + more);
                }
                let place = few.get_mut(at..at + more).and_then(|it| it.split_first_chunk_mut());
                if let Some((first, rest)) = place {
                    *first = head;
                    rest.copy_from_slice(tail);
                    *size = new;
                }
                return;
            }
        }
        self.insert_many(at, &head, tail);
    }

    #[cold]
    fn insert_many(&mut self, at: usize, head: &[u8], tail: &[u8]) {
        let mut many = match core::mem::take(self) {
            Self::Many(many) => many,
            few @ Self::Few(..) => few.to_vec(),
        };
        let at = at.min(many.len());
        many.splice(at..at, head.iter().chain(tail).copied());
        *self = Self::Many(many);
    }

    /// Removes a range.
    pub(super) fn remove(&mut self, range: Range<usize>) {
        let mut rest = self.to_vec();
        rest.drain(range);
        *self = Self::of(&rest);
    }
}

impl Default for Bytes {
    #[inline]
    fn default() -> Self {
        Self::Few([0; FEW], 0)
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Few(few, size) => few.get(..usize::from(*size)).unwrap_or_default(),
            Self::Many(many) => many,
        }
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Bytes {}

impl Hash for Bytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insert_and_remove_match_a_vector() {
        let (mut bytes, mut model) = (Bytes::default(), Vec::new());
        for step in 0..400_usize {
            let (at, size) = (step * 7 % (model.len() + 1), step % 23);
            let tail = vec![u8::try_from(step % 251).unwrap(); size];
            bytes.insert(at, [1, 2, 3], &tail);
            model.splice(at..at, [1, 2, 3].into_iter().chain(tail));
            assert_eq!((&*bytes, &bytes), (&model[..], &Bytes::of(&model)));
            if step % 3 == 2 {
                let start = model.len() / 3;
                let range = start..(start + 40).min(model.len());
                bytes.remove(range.clone());
                model.drain(range);
                assert_eq!(*bytes, model[..]);
            }
        }
    }
}
