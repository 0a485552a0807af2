//! Reads a TOML table key by key, so that a mistake names the line, the value found and the values
//! expected.
//!
//! A value with a mistake is noted in the [`Findings`] of the text, and then reads as a missing one.
//!
//! `serde` was rejected: its errors name the type instead of the valid values, and say `unknown field`
//! without the closest key.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::app::APP_KEYS;
use super::controller::CONTROLLER_KEYS;
use super::findings::Findings;
use super::northbound::NORTHBOUND_KEYS;
use super::quotas::{HISTORY_KEYS, LOG_KEYS, STORAGE_KEYS};
use super::sessions::SESSIONS_KEYS;
use super::suggestion::nearest;
use super::supervision::{SAFE_MODE_KEYS, SUPERVISION_KEYS};
use super::zones::ZONES_KEYS;

/// A value and its position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'a> {
    key: &'a str,
    pub(super) at: usize,
    is: &'a DeValue<'a>,
    /// The mistakes and notices of the text.
    pub(super) findings: &'a Findings,
}

/// A table of the file with known keys only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'a> {
    /// Byte offset of its beginning.
    pub(super) at: usize,
    is: &'a DeTable<'a>,
    /// The mistakes and notices of the text.
    pub(super) findings: &'a Findings,
}

impl<'a> Table<'a> {
    /// Returns the table `name`. Refuses its keys other than `keys`.
    pub(super) fn new(
        name: &str,
        keys: &[&str],
        at: usize,
        table: &'a DeTable<'a>,
        findings: &'a Findings,
    ) -> Self {
        for key in table.keys().filter(|key| !keys.contains(&&**key.get_ref())) {
            let found: &str = key.get_ref();
            let meant = nearest(found, keys.iter().copied());
            let meant = match (meant, section_of(found)) {
                (Some(key), _) => format!("did you mean `{key}`? "),
                (None, Some(section)) => format!("it belongs into {section} of rosemary.toml; "),
                (None, None) => String::new(),
            };
            let valid = keys.join(", ");
            let what = format!(
                "unknown key {} in {name}; {meant}the valid keys are: {valid}",
                quoted(found)
            );
            findings.refuse(key.span().start, what);
        }
        Self { at, is: table, findings }
    }

    /// Returns the value of `key`, if the table has it.
    pub(super) fn get(&self, key: &'a str) -> Option<Value<'a>> {
        let value = self.is.get(key)?;
        let (at, is) = (value.span().start, value.get_ref());
        Some(Value { key, at, is, findings: self.findings })
    }

    /// Returns whether the table has `key` with a value that was refused when it was `read`.
    pub(super) fn is_refused<T>(&self, key: &str, read: Option<&T>) -> bool {
        read.is_none() && self.is.contains_key(key)
    }

    /// Converts the value of `key` with `read`, if the table has it; `expected` describes valid values.
    pub(super) fn read<T>(
        &self,
        key: &'a str,
        expected: &str,
        read: impl Fn(&Value<'a>) -> Option<T>,
    ) -> Option<T> {
        self.get(key)?.read(expected, read)
    }

    /// Converts each element of the list at `key` with `read`, if the table has it. Returns `None` if one is refused.
    pub(super) fn list<T>(
        &self,
        key: &'a str,
        expected: &str,
        read: impl Fn(&Value<'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let value = self.get(key)?;
        let Some(elements) = value.elements() else {
            value.refuse(&format!("a list in brackets; each element: {expected}"));
            return None;
        };
        read_each(&elements, expected, read)
    }
}

/// Returns the section that has this key. A key of several sections belongs into the first one.
fn section_of(key: &str) -> Option<&'static str> {
    let sections: [(&str, &[&str]); 10] = [
        ("[controller]", &CONTROLLER_KEYS),
        ("[zones]", &ZONES_KEYS),
        ("[supervision]", &SUPERVISION_KEYS),
        ("[safe-mode]", &SAFE_MODE_KEYS),
        ("[northbound]", &NORTHBOUND_KEYS),
        ("[storage]", &STORAGE_KEYS),
        ("[log]", &LOG_KEYS),
        ("[history]", &HISTORY_KEYS),
        ("[sessions]", &SESSIONS_KEYS),
        ("[[app]]", &APP_KEYS),
    ];
    sections.into_iter().find(|(_, keys)| keys.contains(&key)).map(|(section, _)| section)
}

/// Converts all `elements` with `read`. Returns `None` if one is refused.
pub(super) fn read_each<'a, T>(
    elements: &[Value<'a>],
    expected: &str,
    read: impl Fn(&Value<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    // All are read before the result is known, so that each mistake is found.
    let elements: Vec<Option<T>> = elements.iter().map(|it| it.read(expected, &read)).collect();
    elements.into_iter().collect()
}

impl<'a> Value<'a> {
    /// Converts the value with `read`, or refuses it; `expected` describes valid values.
    pub(super) fn read<T>(&self, expected: &str, read: impl Fn(&Self) -> Option<T>) -> Option<T> {
        let converted = read(self);
        if converted.is_none() {
            self.refuse(expected);
        }
        converted
    }

    /// Refuses the value, as it is not as expected.
    pub(super) fn refuse(&self, expected: &str) {
        // The words in quotation marks are valid values.
        let valid = expected.split('"').skip(1).step_by(2);
        let meant = self.text().and_then(|text| nearest(text, valid));
        let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"));
        let (key, shown) = (self.key, self.shown());
        self.refuse_as(format!("{key} is {shown}; expected {expected}{meant}"));
    }

    /// Refuses the value for the reason `what`.
    pub(super) fn refuse_as(&self, what: impl Into<String>) {
        self.findings.refuse(self.at, what);
    }

    /// Adds a notice about the value.
    pub(super) fn advise(&self, what: impl Into<String>) {
        self.findings.advise(self.at, what);
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
        let (at, is) = (value.span().start, value.get_ref());
        Some((key, Self { key, at, is, findings: self.findings }))
    }

    /// Returns the entries of a table with any keys, in their order in the text: position and name of the key, and the value.
    pub(super) fn entries(&self) -> Option<Vec<(usize, &'a str, Self)>> {
        let entry = |(key, value): (&'a Spanned<Cow<'a, str>>, &'a Spanned<DeValue<'a>>)| {
            let name: &'a str = key.get_ref();
            let (at, is) = (value.span().start, value.get_ref());
            (key.span().start, name, Self { key: name, at, is, findings: self.findings })
        };
        let mut entries: Vec<_> = self.is.as_table()?.iter().map(entry).collect();
        entries.sort_unstable_by_key(|(at, ..)| *at);
        Some(entries)
    }

    /// Returns the value as a table whose valid keys are `keys`. Refuses any other value.
    pub(super) fn table(&self, name: &str, keys: &[&str]) -> Option<Table<'a>> {
        let table = self.is.as_table();
        if table.is_none() {
            self.refuse(&format!("a table, as {name} begins"));
        }
        Some(Table::new(name, keys, self.at, table?, self.findings))
    }

    /// Returns the elements of the value as a list.
    pub(super) fn elements(&self) -> Option<Vec<Self>> {
        let element = |it: &'a Spanned<DeValue<'a>>| Self {
            key: self.key,
            at: it.span().start,
            is: it.get_ref(),
            findings: self.findings,
        };
        Some(self.is.as_array()?.iter().map(element).collect())
    }

    /// Formats the beginning of the value for an error message.
    fn shown(&self) -> Cow<'a, str> {
        match self.is {
            DeValue::String(text) => quoted(text).into(),
            DeValue::Integer(number) => number.to_string().into(),
            DeValue::Float(number) => number.to_string().into(),
            DeValue::Boolean(yes) => yes.to_string().into(),
            DeValue::Datetime(_) => "a date".into(),
            DeValue::Array(_) => "a list".into(),
            DeValue::Table(_) => "a table".into(),
        }
    }
}

/// Returns the first characters of `text` in quotation marks.
fn quoted(text: &str) -> String {
    let start: String = text.chars().take(60).collect();
    let more = if start.len() < text.len() { "..." } else { "" };
    format!("{}{more}", sys::text::shown(&format!("{start:?}")))
}
