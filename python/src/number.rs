//! Numbers of calls, with errors that name the argument and its range.

use std::fmt::Display;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

/// Reads a number that an argument holds.
///
/// # Errors
/// `OverflowError` with the name and the range if the number does not fit, `TypeError` if it is no whole number.
pub(crate) fn number<'py, T>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: Bounded + for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    value.extract::<T>().map_err(|error| {
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            let most = T::MAX;
            PyOverflowError::new_err(format!("{name} is {value}; expected 0 to {most}"))
        } else {
            error
        }
    })
}

/// As [`number`], for an argument that can be `None`.
///
/// # Errors
/// As [`number`].
pub(crate) fn number_or_none<'py, T>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Option<T>>
where
    T: Bounded + for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    if value.is_none() { Ok(None) } else { number(name, value).map(Some) }
}

/// A type of numbers from 0 on.
pub(crate) trait Bounded: Display {
    /// The greatest number.
    const MAX: Self;
}

macro_rules! bounded {
    ($($kind:ty)*) => { $(impl Bounded for $kind { const MAX: Self = <$kind>::MAX; })* };
}

bounded!(u8 u16 u32 u64);

/// Defines readers of arguments for `from_py_with`, by the argument's name.
macro_rules! arguments {
    ($($name:ident: $kind:ty),* $(,)?) => {
        $(pub(crate) fn $name(value: &Bound<'_, PyAny>) -> PyResult<$kind> {
            number(stringify!($name), value)
        })*
    };
}

arguments! {
    port: u32,
    max_len: u16,
    queue_id: u32,
    eth_type: u16,
    group_id: u32,
    ttl: u8,
    weight: u16,
}
