//! Reading a TOML table key by key, so that a mistake is told with its place, what was found and
//! what was expected.
//!
//! By hand rather than by `serde`: its errors name the type it wanted, not the values that are
//! meant, and it stops at the word `unknown field` where a list of the keys helps.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A mistake, and where in the text it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    /// Byte offset.
    pub(super) at: usize,
    /// What was found and what was expected, as a phrase.
    pub(super) what: String,
}

impl Mistake {
    pub(super) fn new(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }

    /// That a text is not TOML.
    pub(super) fn syntax(error: &toml::de::Error) -> Self {
        let at = error.span().map_or(0, |span| span.start);
        Self::new(at, format!("this is not TOML: {}", error.message().replace('\n', "; ")))
    }
}

/// A value and where it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'a> {
    key: &'a str,
    pub(super) at: usize,
    is: &'a DeValue<'a>,
}

/// A table of the file, of which only known keys are there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'a> {
    /// Where it begins.
    pub(super) at: usize,
    table: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    /// The table `name`, of which `keys` are the keys that there are.
    pub(super) fn new(
        name: &str,
        keys: &[&str],
        at: usize,
        table: &'a DeTable<'a>,
    ) -> Result<Self, Mistake> {
        let unknown = table.keys().filter(|key| !keys.contains(&&**key.get_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else {
            return Ok(Self { at, table });
        };
        let found: &str = key.get_ref();
        let meant = keys.iter().find(|known| distance(known, found) <= 2);
        let meant = meant.map_or_else(String::new, |key| format!("did you mean `{key}`? "));
        let what = format!(
            "unknown key {found:?} in {name}; {meant}the keys there are: {}",
            keys.join(", ")
        );
        Err(Mistake::new(key.span().start, what))
    }

    /// The value of `key`, if it is there.
    pub(super) fn get(&self, key: &'a str) -> Option<Value<'a>> {
        let value = self.table.get(key)?;
        Some(Value { key, at: value.span().start, is: value.get_ref() })
    }

    /// What `read` makes of the value of `key`, if it is there; `expected` says what it takes.
    pub(super) fn read<T>(
        &self,
        key: &'a str,
        expected: &str,
        read: impl Fn(&Value<'a>) -> Option<T>,
    ) -> Result<Option<T>, Mistake> {
        self.get(key).map(|value| value.read(expected, read)).transpose()
    }

    /// What `read` makes of each element of the list at `key`, if it is there.
    pub(super) fn list<T>(
        &self,
        key: &'a str,
        expected: &str,
        read: impl Fn(&Value<'a>) -> Option<T>,
    ) -> Result<Option<Vec<T>>, Mistake> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let list = value.elements().ok_or_else(|| {
            value.mistake(&format!("a list in brackets; in it, each: {expected}"))
        })?;
        list.iter().map(|element| element.read(expected, &read)).collect::<Result<_, _>>().map(Some)
    }
}

impl<'a> Value<'a> {
    /// What `read` makes of it; `expected` says what it takes.
    pub(super) fn read<T>(
        &self,
        expected: &str,
        read: impl Fn(&Self) -> Option<T>,
    ) -> Result<T, Mistake> {
        read(self).ok_or_else(|| self.mistake(expected))
    }

    /// That it is not what was expected.
    pub(super) fn mistake(&self, expected: &str) -> Mistake {
        Mistake::new(self.at, format!("{} is {}; expected {expected}", self.key, self.shown()))
    }

    pub(super) fn text(&self) -> Option<&'a str> {
        self.is.as_str()
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        self.is.as_bool()
    }

    /// A number that is not negative, in any of TOML's notations.
    pub(super) fn number(&self) -> Option<u64> {
        let number = self.is.as_integer()?;
        u64::from_str_radix(number.as_str(), number.radix()).ok()
    }

    /// A number with or without decimals.
    pub(super) fn decimal(&self) -> Option<f64> {
        match self.is {
            DeValue::Float(number) => number.as_str().parse().ok(),
            #[expect(clippy::cast_precision_loss, reason = "large ones make no sense either way")]
            _ => self.number().map(|number| number as f64),
        }
    }

    /// Whether it is a table.
    pub(super) fn is_table(&self) -> bool {
        self.is.is_table()
    }

    /// The table that it is, of which `keys` are the keys that there are.
    pub(super) fn table(&self, name: &str, keys: &[&str]) -> Result<Table<'a>, Mistake> {
        let table = self.is.as_table();
        let table = table.ok_or_else(|| self.mistake(&format!("a table, as {name} begins")))?;
        Table::new(name, keys, self.at, table)
    }

    /// The elements of the list that it is.
    pub(super) fn elements(&self) -> Option<Vec<Self>> {
        let element = |it: &'a Spanned<DeValue<'a>>| Self {
            key: self.key,
            at: it.span().start,
            is: it.get_ref(),
        };
        Some(self.is.as_array()?.iter().map(element).collect())
    }

    /// It as a person would point at it, short.
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

/// How many letters must be added, removed or replaced to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, b) in other.bytes().enumerate() {
            let replaced = before + usize::from(a != b);
            before = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(before + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_letters() {
        assert_eq!(distance("stage", "stage"), 0);
        assert_eq!(distance("stage", "stag"), 1);
        assert_eq!(distance("stage", "satge"), 2);
        assert_eq!(distance("", "abc"), 3);
    }
}
