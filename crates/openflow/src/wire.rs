//! The building blocks of the per-version types.
//!
//! [`WireFormat`] reads and writes one value. [`Pad`] is padding, kept so that a message re-encodes to
//! the same bytes. [`List`] is a sequence of values, borrowed from a message or from a slice of the
//! caller, so that neither direction allocates. The macro `wire_struct!` defines a struct of fixed
//! layout from its fields, in the order of the specification's figure.

mod list;

use core::fmt;

pub use self::list::{List, ListIter};
use crate::{DecodeError, Reader, Writer};

/// A value with a wire format.
pub trait WireFormat<'a>: Copy {
    /// Size of every value in bytes; `None` if values differ in size. Any bytes of a fixed size are a valid value.
    const SIZE: Option<usize> = None;

    /// Returns the size of the first value of `bytes`; `None` if only [`read`](Self::read) can say whether it is valid.
    #[inline]
    fn valid_size(bytes: &[u8]) -> Option<usize> {
        Self::SIZE.filter(|size| (1..=bytes.len()).contains(size))
    }

    /// Reads a value from `from`; `field` is its name in errors.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not a valid value.
    fn read(from: &mut Reader<'a>, field: &'static str) -> Result<Self, DecodeError>;

    /// Writes the value.
    fn write(&self, to: &mut Writer<'_>);
}

macro_rules! wire_integer {
    ($($int:ident),*) => {$(
        impl<'a> WireFormat<'a> for $int {
            const SIZE: Option<usize> = Some(size_of::<$int>());
            #[inline]
            fn read(from: &mut Reader<'a>, field: &'static str) -> Result<Self, DecodeError> {
                from.$int(field)
            }
            #[inline]
            fn write(&self, to: &mut Writer<'_>) {
                to.$int(*self);
            }
        }
    )*};
}
wire_integer!(u8, u16, u32, u64);

impl<'a, T: WireFormat<'a> + Default, const N: usize> WireFormat<'a> for [T; N] {
    const SIZE: Option<usize> = match T::SIZE {
        Some(size) => Some(size * N),
        None => None,
    };
    #[inline]
    fn read(from: &mut Reader<'a>, field: &'static str) -> Result<Self, DecodeError> {
        let mut items = [T::default(); N];
        for item in &mut items {
            *item = T::read(from, field)?;
        }
        Ok(items)
    }
    #[inline]
    fn write(&self, to: &mut Writer<'_>) {
        for item in self {
            item.write(to);
        }
    }
}

/// All remaining bytes.
impl<'a> WireFormat<'a> for &'a [u8] {
    #[inline]
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        Ok(from.rest())
    }
    #[inline]
    fn write(&self, to: &mut Writer<'_>) {
        to.bytes(self);
    }
}

/// `N` bytes of padding: zero in created messages, kept unchanged in received ones.
///
/// The specification asks senders to write zeros and receivers to ignore them. Real senders write
/// anything, and a codec that dropped the bytes could not reproduce a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pad<const N: usize>(pub [u8; N]);

impl<const N: usize> Default for Pad<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> fmt::Debug for Pad<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == [0; N] { f.write_str("0") } else { write!(f, "{:02x?}", self.0) }
    }
}

impl<'a, const N: usize> WireFormat<'a> for Pad<N> {
    const SIZE: Option<usize> = Some(N);
    #[inline]
    fn read(from: &mut Reader<'a>, field: &'static str) -> Result<Self, DecodeError> {
        from.array(field).map(Self)
    }
    #[inline]
    fn write(&self, to: &mut Writer<'_>) {
        to.bytes(&self.0);
    }
}

/// Padding of 0 to 7 bytes up to a multiple of 8, kept unchanged.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Align8([u8; 7]);

impl fmt::Debug for Align8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Pad(self.0).fmt(f)
    }
}

impl Align8 {
    /// Returns all seven bytes that it can have.
    #[cfg(feature = "serde")]
    pub(crate) fn as_bytes(&self) -> &[u8; 7] {
        &self.0
    }

    /// Reads the padding after `size` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if it is incomplete.
    #[inline]
    pub fn read(
        from: &mut Reader<'_>,
        field: &'static str,
        size: usize,
    ) -> Result<Self, DecodeError> {
        let next = from.peek().first_chunk().map(|next| u64::from_be_bytes(*next));
        let found = from.take(field, Self::after(size))?;
        // Shifts take a fraction of the time of a loop over the bytes.
        let last = match next {
            Some(next) => next & !(u64::MAX >> (8 * (found.len() % 8))),
            None => found.iter().rev().fold(0, |last, byte| last >> 8 | u64::from(*byte) << 56),
        };
        Ok(Self(last.to_be_bytes().first_chunk().copied().unwrap_or_default()))
    }

    /// Writes the padding after `size` bytes.
    #[inline]
    pub fn write(self, to: &mut Writer<'_>, size: usize) {
        to.bytes(self.0.get(..Self::after(size)).unwrap_or_default());
    }

    /// Returns the number of padding bytes after `size` bytes.
    #[inline]
    fn after(size: usize) -> usize {
        size.wrapping_neg() % 8
    }
}

/// A value and the padding after it up to a multiple of 8, which its own length does not include.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Padded<T> {
    /// The value.
    pub item: T,
    /// The padding.
    pub pad: Align8,
}

impl<T> From<T> for Padded<T> {
    fn from(item: T) -> Self {
        Self { item, pad: Align8::default() }
    }
}

impl<'a, T: WireFormat<'a>> WireFormat<'a> for Padded<T> {
    fn read(from: &mut Reader<'a>, field: &'static str) -> Result<Self, DecodeError> {
        let before = from.left();
        let item = T::read(from, field)?;
        let pad = Align8::read(from, field, before - from.left())?;
        Ok(Self { item, pad })
    }
    fn write(&self, to: &mut Writer<'_>) {
        let start = to.position();
        self.item.write(to);
        self.pad.write(to, to.position() - start);
    }
}

/// The empty body of a message that consists of a header only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Empty;

impl<'a> WireFormat<'a> for Empty {
    const SIZE: Option<usize> = Some(0);
    fn read(_: &mut Reader<'a>, _: &'static str) -> Result<Self, DecodeError> {
        Ok(Self)
    }
    fn write(&self, _: &mut Writer<'_>) {}
}

/// Defines structs of fixed layout from their fields in wire order, each of a [`WireFormat`] type. The
/// string is the struct's name in errors. A struct with the parameter `V` has the same layout in several
/// versions, and `V` is the version byte: elements inside of it differ.
macro_rules! wire_struct {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident $(<$life:lifetime $(, $v:ident)?>)? = $label:literal {
            $( $(#[$field_meta:meta])* $field:ident : $type:ty, )*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        pub struct $name $(<$life $(, const $v: u8)?>)? {
            $(
                $(#[$field_meta])*
                #[cfg_attr(feature = "serde", serde(
                    serialize_with = "crate::json::field",
                    skip_serializing_if = "crate::json::nothing"
                ))]
                pub $field: $type,
            )*
        }
        $crate::wire::wire_impl!($name $(<$life $(, $v)?>)? = $label { $($field: $type,)* });
    )*};
}

/// Implements [`WireFormat`] for `wire_struct!`.
macro_rules! wire_impl {
    ($name:ident = $($rest:tt)*) => {
        #[cfg(feature = "serde")]
        $crate::json::as_field!($name);
        $crate::wire::wire_impl!(@ 'a ['a] [] $name = $($rest)*);
    };
    ($name:ident<$life:lifetime> = $($rest:tt)*) => {
        #[cfg(feature = "serde")]
        $crate::json::as_field!($name<'_>);
        $crate::wire::wire_impl!(@ $life [$life] [<$life>] $name = $($rest)*);
    };
    ($name:ident<$life:lifetime, $v:ident> = $($rest:tt)*) => {
        #[cfg(feature = "serde")]
        $crate::json::as_field_of_versions!($name);
        $crate::wire::wire_impl!(@ $life [$life, const $v: u8] [<$life, $v>] $name = $($rest)*);
    };
    (
        @ $life:lifetime [$($generics:tt)*] [$($args:tt)*]
        $name:ident = $label:literal { $($field:ident : $type:ty,)* }
    ) => {
        impl<$($generics)*> $crate::wire::WireFormat<$life> for $name $($args)* {
            const SIZE: Option<usize> = $crate::wire::size_of_all(
                &[$(<$type as $crate::wire::WireFormat<$life>>::SIZE),*]);
            #[inline]
            fn read(
                from: &mut $crate::Reader<$life>,
                _field: &'static str,
            ) -> Result<Self, $crate::DecodeError> {
                // One check for all fields of fixed size at the beginning. The compiler drops the check of each.
                let beginning = const { $crate::wire::size_of_beginning(
                    &[$(<$type as $crate::wire::WireFormat<$life>>::SIZE),*]) };
                if from.left() < beginning {
                    return $crate::wire::read_apart(from, |from| $crate::wire::read_fields!(from, $label { $($field),* }));
                }
                $crate::wire::read_fields!(from, $label { $($field),* })
            }
            #[inline]
            fn write(&self, to: &mut $crate::Writer<'_>) {
                $($crate::wire::WireFormat::write(&self.$field, to);)*
            }
        }
    };
}

/// Reads the fields of a structure one after the other.
macro_rules! read_fields {
    ($from:ident, $label:literal { $($field:ident),* }) => {
        Ok(Self { $($field: $crate::wire::WireFormat::read(
            $from, concat!($label, ".", stringify!($field)))?,)* })
    };
}
pub(crate) use {read_fields, wire_impl, wire_struct};

/// Returns the size of a structure whose fields have these sizes; `None` if one of them has no fixed size.
pub(crate) const fn size_of_all(fields: &[Option<usize>]) -> Option<usize> {
    match fields {
        [] => Some(0),
        [Some(first), rest @ ..] => match size_of_all(rest) {
            Some(rest) => Some(*first + rest),
            None => None,
        },
        [None, ..] => None,
    }
}

/// Returns the size of the fields before the first one without a fixed size.
pub(crate) const fn size_of_beginning(fields: &[Option<usize>]) -> usize {
    match fields {
        [Some(first), rest @ ..] => *first + size_of_beginning(rest),
        [] | [None, ..] => 0,
    }
}

/// Reads what is rare, apart from the frequent path, which stays small: a structure whose beginning is not whole, for the
/// error that names the first missing field, and versions that are not offered.
#[cold]
#[inline(never)]
pub(crate) fn read_apart<'a, T>(
    from: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    read(from)
}

/// Takes the rest of a structure whose 16-bit length comes next and counts from `start` bytes left.
///
/// # Errors
/// [`DecodeError`] if the length is shorter than the bytes already read, or beyond the available
/// bytes.
#[inline]
pub(crate) fn read_sized<'a>(
    from: &mut Reader<'a>,
    length_field: &'static str,
    start: usize,
) -> Result<Reader<'a>, DecodeError> {
    let offset = from.offset();
    let found = usize::from(from.u16(length_field)?);
    let bad = |expected| DecodeError::BadLength { field: length_field, offset, found, expected };
    let size = found
        .checked_sub(start - from.left())
        .ok_or_else(|| bad("at least the bytes up to and with itself"))?;
    if size > from.left() {
        return Err(bad("no more than the bytes left around it"));
    }
    from.sub(length_field, size)
}

/// Defines structs that contain their own length in bytes, between the fields of `before` and those
/// of `after`.
macro_rules! sized_struct {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident<$life:lifetime $(, $v:ident)?> = $label:literal {
            before { $( $(#[$before_meta:meta])* $before:ident : $before_type:ty, )* }
            after { $( $(#[$after_meta:meta])* $after:ident : $after_type:ty, )* }
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        pub struct $name<$life $(, const $v: u8)?> {
            $(
                $(#[$before_meta])*
                #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::field"))]
                pub $before: $before_type,
            )*
            $(
                $(#[$after_meta])*
                #[cfg_attr(feature = "serde", serde(
                    serialize_with = "crate::json::field",
                    skip_serializing_if = "crate::json::nothing"
                ))]
                pub $after: $after_type,
            )*
        }

        #[cfg(feature = "serde")]
        impl<$life $(, const $v: u8)?> $crate::json::AsField for $name<$life $(, $v)?> {
            fn serialize_field<S: serde::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, serializer)
            }
        }

        impl<$life $(, const $v: u8)?> $crate::wire::WireFormat<$life> for $name<$life $(, $v)?> {
            fn read(
                from: &mut $crate::Reader<$life>,
                _field: &'static str,
            ) -> Result<Self, $crate::DecodeError> {
                let start = from.left();
                $( let $before = $crate::wire::WireFormat::read(
                    from, concat!($label, ".", stringify!($before)))?; )*
                let mut from = $crate::wire::read_sized(from, concat!($label, ".length"), start)?;
                let read = Self {
                    $( $before, )*
                    $( $after: $crate::wire::WireFormat::read(
                        &mut from, concat!($label, ".", stringify!($after)))?, )*
                };
                from.finish(concat!($label, ".length"))?;
                Ok(read)
            }
            fn write(&self, to: &mut $crate::Writer<'_>) {
                let start = to.position();
                $( $crate::wire::WireFormat::write(&self.$before, to); )*
                let length_at = to.position();
                to.u16(0);
                $( $crate::wire::WireFormat::write(&self.$after, to); )*
                to.patch_size(length_at, start);
            }
        }
    )*};
}
pub(crate) use sized_struct;
