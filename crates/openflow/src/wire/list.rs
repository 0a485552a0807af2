//! A sequence of values that is either borrowed from a message or a slice of the caller.

use core::fmt;

use super::WireFormat;
use crate::{DecodeError, Reader, Writer};

/// A sequence of `T`s that fills the rest of the enclosing structure.
///
/// It is either a slice of the caller (`List::from(&items)`) or received bytes that were validated
/// when the list was read. [`List::iter`] returns the same items for both.
pub struct List<'a, T> {
    repr: Repr<'a, T>,
}

enum Repr<'a, T> {
    /// Received bytes, already validated.
    Received(&'a [u8]),
    /// Items of the caller.
    Items(&'a [T]),
}

impl<T> Clone for List<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for List<'_, T> {}
impl<T> Clone for Repr<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Repr<'_, T> {}

impl<T> Default for List<'_, T> {
    #[inline]
    fn default() -> Self {
        Self { repr: Repr::Items(&[]) }
    }
}

impl<'a, T> From<&'a [T]> for List<'a, T> {
    fn from(items: &'a [T]) -> Self {
        Self { repr: Repr::Items(items) }
    }
}

impl<'a, T, const N: usize> From<&'a [T; N]> for List<'a, T> {
    fn from(items: &'a [T; N]) -> Self {
        Self { repr: Repr::Items(items) }
    }
}

impl<'a, T> From<&'a Vec<T>> for List<'a, T> {
    fn from(items: &'a Vec<T>) -> Self {
        Self { repr: Repr::Items(items) }
    }
}

impl<'a, T: WireFormat<'a>> List<'a, T> {
    /// Wraps bytes that are already validated.
    #[inline]
    pub(crate) fn checked(bytes: &'a [u8]) -> Self {
        Self { repr: Repr::Received(bytes) }
    }

    /// Wraps bytes that are values whose validity needs no reading ([`WireFormat::valid_size`]); `None` for any others.
    #[inline]
    pub(crate) fn of_valid(bytes: &'a [u8]) -> Option<Self> {
        after_valid::<T>(bytes).is_empty().then_some(Self { repr: Repr::Received(bytes) })
    }

    /// Returns the bytes of a received list.
    #[inline]
    pub(crate) fn received(&self) -> Option<&'a [u8]> {
        match self.repr {
            Repr::Received(bytes) => Some(bytes),
            Repr::Items(_) => None,
        }
    }

    /// Iterates over the items in order.
    pub fn iter(&self) -> ListIter<'a, T> {
        ListIter { repr: self.repr }
    }

    /// Whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        match self.repr {
            Repr::Received(bytes) => bytes.is_empty(),
            Repr::Items(items) => items.is_empty(),
        }
    }
}

impl<'a, T: WireFormat<'a>> WireFormat<'a> for List<'a, T> {
    #[inline]
    fn read(from: &mut Reader<'a>, field: &'static str) -> Result<Self, DecodeError> {
        let rest = after_valid::<T>(from.peek());
        if !rest.is_empty() {
            validate::<T>(from, from.left() - rest.len(), field)?;
        }
        Ok(Self { repr: Repr::Received(from.rest()) })
    }

    fn write(&self, to: &mut Writer<'_>) {
        for item in *self {
            item.write(to);
        }
    }
}

/// Skips the values whose validity needs no reading.
#[inline]
fn after_valid<'a, T: WireFormat<'a>>(mut bytes: &'a [u8]) -> &'a [u8] {
    while let Some((_, others)) = T::valid_size(bytes).and_then(|it| bytes.split_at_checked(it)) {
        bytes = others;
    }
    bytes
}

/// Reads the values after the first `valid` bytes.
#[inline(never)]
fn validate<'a, T: WireFormat<'a>>(
    from: &Reader<'a>,
    valid: usize,
    field: &'static str,
) -> Result<(), DecodeError> {
    let mut check = *from;
    check.take(field, valid)?;
    while !check.is_empty() {
        let before = check.left();
        T::read(&mut check, field)?;
        if check.left() == before {
            // No item is empty; if one were, this check would prevent an endless loop.
            return Err(DecodeError::BadLength {
                field,
                offset: check.offset(),
                found: 0,
                expected: "at least one byte",
            });
        }
    }
    Ok(())
}

impl<'a, T: WireFormat<'a>> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;
    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

impl<'a, T: WireFormat<'a>> IntoIterator for &List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;
    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

impl<'a, T: WireFormat<'a> + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}
impl<'a, T: WireFormat<'a> + Eq> Eq for List<'a, T> {}

impl<'a, T: WireFormat<'a> + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

/// The items of a [`List`].
pub struct ListIter<'a, T> {
    repr: Repr<'a, T>,
}

impl<T> Clone for ListIter<'_, T> {
    fn clone(&self) -> Self {
        Self { repr: self.repr }
    }
}

impl<'a, T: WireFormat<'a>> Iterator for ListIter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.repr {
            Repr::Received(bytes) => {
                let mut reader = Reader::new(bytes, 0);
                // The list was validated when it was read, so this fails only at its end.
                let item = T::read(&mut reader, "item").ok();
                *bytes = if item.is_some() { reader.rest() } else { &[] };
                item
            }
            Repr::Items(items) => {
                let (first, rest) = items.split_first()?;
                *items = rest;
                Some(*first)
            }
        }
    }
}
