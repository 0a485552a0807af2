//! Reads a TOML table key by key, so that an error names the line, the value found and the values
//! expected.
//!
//! `serde` was rejected: its errors name the type instead of the valid values, and say `unknown field`
//! without the closest key.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::suggestion::nearest;

/// A mistake, and its position in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    /// Byte offset.
    pub(super) at: usize,
    /// The value found and the value expected, as a phrase.
    pub(super) what: String,
}

impl Mistake {
    pub(super) fn new(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }

    /// Returns the mistake that a text is not TOML.
    pub(super) fn syntax(error: &toml::de::Error) -> Self {
        let at = error.span().map_or(0, |span| span.start);
        Self::new(at, format!("this is not TOML: {}", error.message().replace('\n', "; ")))
    }
}

/// A value and its position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'a> {
    key: &'a str,
    pub(super) at: usize,
    is: &'a DeValue<'a>,
}

/// A table of the file with known keys only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'a> {
    /// Byte offset of its beginning.
    pub(super) at: usize,
    table: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    /// Returns the table `name`, whose valid keys are `keys`.
    pub(super) fn new(
        name: &str,
        keys: &[&str],
        at: usize,
        table: &'a DeTable<'a>,
    ) -> Result<Self, Mistake> {
        match Self::lenient(name, keys, at, table) {
            (table, None) => Ok(table),
            (_, Some(mistake)) => Err(mistake),
        }
    }

    /// Returns the table `name`, and the mistake if it has a key that is not one of `keys`.
    pub(super) fn lenient(
        name: &str,
        keys: &[&str],
        at: usize,
        table: &'a DeTable<'a>,
    ) -> (Self, Option<Mistake>) {
        let unknown = table.keys().filter(|key| !keys.contains(&&**key.get_ref()));
        let unknown = unknown.min_by_key(|key| key.span().start);
        let mistake = unknown.map(|key| {
            let found: &str = key.get_ref();
            let meant = nearest(found, keys.iter().copied());
            let meant = meant.map_or_else(String::new, |key| format!("did you mean `{key}`? "));
            let valid = keys.join(", ");
            let what =
                format!("unknown key {found:?} in {name}; {meant}the valid keys are: {valid}");
            Mistake::new(key.span().start, what)
        });
        (Self { at, table }, mistake)
    }

    /// Returns the value of `key`, if the table has it.
    pub(super) fn get(&self, key: &'a str) -> Option<Value<'a>> {
        let value = self.table.get(key)?;
        Some(Value { key, at: value.span().start, is: value.get_ref() })
    }

    /// Converts the value of `key` with `read`, if the table has it; `expected` describes valid values.
    pub(super) fn read<T>(
        &self,
        key: &'a str,
        expected: &str,
        read: impl Fn(&Value<'a>) -> Option<T>,
    ) -> Result<Option<T>, Mistake> {
        self.get(key).map(|value| value.read(expected, read)).transpose()
    }

    /// Converts each element of the list at `key` with `read`, if the table has it.
    pub(super) fn list<T>(
        &self,
        key: &'a str,
        expected: &str,
        read: impl Fn(&Value<'a>) -> Option<T>,
    ) -> Result<Option<Vec<T>>, Mistake> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let list = value.elements().ok_or_else(|| {
            value.mistake(&format!("a list in brackets; each element: {expected}"))
        })?;
        list.iter().map(|element| element.read(expected, &read)).collect::<Result<_, _>>().map(Some)
    }
}

impl<'a> Value<'a> {
    /// Converts the value with `read`; `expected` describes valid values.
    pub(super) fn read<T>(
        &self,
        expected: &str,
        read: impl Fn(&Self) -> Option<T>,
    ) -> Result<T, Mistake> {
        read(self).ok_or_else(|| self.mistake(expected))
    }

    /// Returns the mistake that the value is not as expected.
    pub(super) fn mistake(&self, expected: &str) -> Mistake {
        // The words in quotation marks are valid values.
        let valid = expected.split('"').skip(1).step_by(2);
        let meant = self.text().and_then(|text| nearest(text, valid));
        let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"));
        let (key, shown) = (self.key, self.shown());
        Mistake::new(self.at, format!("{key} is {shown}; expected {expected}{meant}"))
    }

    pub(super) fn text(&self) -> Option<&'a str> {
        self.is.as_str()
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        self.is.as_bool()
    }

    /// Returns a number that is not negative, in any of TOML's notations.
    pub(super) fn number(&self) -> Option<u64> {
        let number = self.is.as_integer()?;
        u64::from_str_radix(number.as_str(), number.radix()).ok()
    }

    /// Returns a number with or without decimals.
    pub(super) fn decimal(&self) -> Option<f64> {
        match self.is {
            DeValue::Float(number) => number.as_str().parse().ok(),
            #[expect(
                clippy::cast_precision_loss,
                reason = "numbers that lose precision are above every valid maximum"
            )]
            _ => self.number().map(|number| number as f64),
        }
    }

    /// Returns whether the value is a table.
    pub(super) fn is_table(&self) -> bool {
        self.is.is_table()
    }

    /// Returns key and value of a table with a single key.
    pub(super) fn only_entry(&self) -> Option<(&'a str, Self)> {
        let mut entries = self.is.as_table()?.iter();
        let (key, value) = entries.next().filter(|_| entries.next().is_none())?;
        let key: &'a str = key.get_ref();
        Some((key, Self { key, at: value.span().start, is: value.get_ref() }))
    }

    /// Returns the entries of a table with any keys, in their order in the text: position and name of the key, and the value.
    pub(super) fn entries(&self) -> Option<Vec<(usize, &'a str, Self)>> {
        let entry = |(key, value): (&'a Spanned<Cow<'a, str>>, &'a Spanned<DeValue<'a>>)| {
            let name: &'a str = key.get_ref();
            let value = Self { key: name, at: value.span().start, is: value.get_ref() };
            (key.span().start, name, value)
        };
        let mut entries: Vec<_> = self.is.as_table()?.iter().map(entry).collect();
        entries.sort_unstable_by_key(|(at, ..)| *at);
        Some(entries)
    }

    /// Returns the value as a table whose valid keys are `keys`.
    pub(super) fn table(&self, name: &str, keys: &[&str]) -> Result<Table<'a>, Mistake> {
        let table = self.is.as_table();
        let table = table.ok_or_else(|| self.mistake(&format!("a table, as {name} begins")))?;
        Table::new(name, keys, self.at, table)
    }

    /// Returns the elements of the value as a list.
    pub(super) fn elements(&self) -> Option<Vec<Self>> {
        let element = |it: &'a Spanned<DeValue<'a>>| Self {
            key: self.key,
            at: it.span().start,
            is: it.get_ref(),
        };
        Some(self.is.as_array()?.iter().map(element).collect())
    }

    /// Formats the beginning of the value for an error message.
    fn shown(&self) -> Cow<'a, str> {
        match self.is {
            DeValue::String(text) => {
                let start: String = text.chars().take(60).collect();
                let more = if start.len() < text.len() { "..." } else { "" };
                format!("{start:?}{more}").into()
            }
            DeValue::Integer(number) => number.to_string().into(),
            DeValue::Float(number) => number.to_string().into(),
            DeValue::Boolean(yes) => yes.to_string().into(),
            DeValue::Datetime(_) => "a date".into(),
            DeValue::Array(_) => "a list".into(),
            DeValue::Table(_) => "a table".into(),
        }
    }
}
