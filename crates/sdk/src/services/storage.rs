//! Sends requests to the storage: values under keys, each with a version, durable when acknowledged.
//!
//! Every application has a namespace of its own, which others see only if the operator grants
//! `storage.read:NAME` or `storage.write:NAME`. Versions count the writes of a namespace and never go
//! back, even after a delete, so a write that expects a version ([`Expect`]) is safe.
//!
//! ```text
//! request     what u8 | namespace text, empty for its own | key or prefix short | ...
//!     1  get      key
//!     2  put      key | expect u64 | value long
//!     3  delete   key | expect u64
//!     4  list     prefix | after short: keys after this one; empty for all
//!     5  watch    prefix
//!     6  unwatch  request u64, in the key's place as 8 bytes
//! expect      0: any value or none; all ones: no value; else: this version
//! answer      what u8 | ...
//!     0  done     version u64: of the value that was written; 0 if it was deleted
//!     1  value    version u64 | value long
//!     2  nothing  there is no such key
//!     3  conflict version u64: of the present value; 0 if there is none
//!     4  keys     more u8 | for each: version u64 | key short
//!     5  watching (more answers follow)
//!     6  changed  version u64, 0 if deleted | key short
//!     7  refused  why u8
//! ```

use thiserror::Error;

use super::wire::{Reader, Writer};
use super::{AskError, RequestId, Service};
use crate::abi::guest::Host;

/// Most bytes of a key; a key has at least one.
pub const LONGEST_KEY: usize = 512;

/// Most bytes of a value.
pub const LONGEST_VALUE: usize = 32 * 1024;

/// The present value that a write requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Any value or none.
    Anything,
    /// No value.
    Nothing,
    /// The value with this version.
    Version(u64),
}

impl Expect {
    fn number(self) -> u64 {
        match self {
            Self::Anything => 0,
            Self::Nothing => u64::MAX,
            Self::Version(version) => version,
        }
    }

    fn from_number(number: u64) -> Self {
        match number {
            0 => Self::Anything,
            u64::MAX => Self::Nothing,
            version => Self::Version(version),
        }
    }
}

/// A request to the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "said at the methods of `Client`")]
pub enum Request<'a> {
    Get { namespace: &'a str, key: &'a [u8] },
    Put { namespace: &'a str, key: &'a [u8], expect: Expect, value: &'a [u8] },
    Delete { namespace: &'a str, key: &'a [u8], expect: Expect },
    List { namespace: &'a str, prefix: &'a [u8], after: &'a [u8] },
    Watch { namespace: &'a str, prefix: &'a [u8] },
    Unwatch { request: u64 },
}

/// Why the storage refused a request; nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[repr(u8)]
#[non_exhaustive]
pub enum Refused {
    /// The namespace is another app's and not granted, or does not exist.
    #[error("the operator has not granted this use of the namespace")]
    NotGranted = 1,
    /// The request is malformed, or its key or value is too short or too long.
    #[error(
        "malformed request: a key has 1 to {LONGEST_KEY} bytes, a value at most {LONGEST_VALUE}"
    )]
    Malformed = 2,
    /// The namespace has reached its limit of bytes or keys.
    #[error("the namespace has reached the limit of bytes or keys in the operator's [storage]")]
    Quota = 3,
    /// The disk is full.
    #[error("the disk is full")]
    DiskFull = 4,
    /// The disk failed, or its content is damaged.
    #[error("the disk failed")]
    Failed = 5,
    /// The application has reached the limit of watches.
    #[error("too many watches")]
    TooManyWatches = 6,
}

impl Refused {
    /// Returns the refusal with this number.
    fn from_number(number: u8) -> Option<Self> {
        let all = [
            Self::NotGranted,
            Self::Malformed,
            Self::Quota,
            Self::DiskFull,
            Self::Failed,
            Self::TooManyWatches,
        ];
        all.into_iter().find(|it| *it as u8 == number)
    }
}

/// An answer of the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer<'a> {
    /// The write is done and on the disk.
    Done {
        /// The version of the written value; 0 after a delete.
        version: u64,
    },
    /// The value under the key.
    Value {
        /// Its version.
        version: u64,
        /// The value.
        value: &'a [u8],
    },
    /// There is no value under the key.
    Nothing,
    /// The present value is not the expected one; nothing was done.
    Conflict {
        /// The version of the present value; 0 if there is none.
        version: u64,
    },
    /// Keys in ascending order.
    Keys(Keys<'a>),
    /// The watch has begun: changes follow as answers to the same request.
    Watching,
    /// A key that is watched was written or deleted.
    Changed {
        /// Its version; 0 if it was deleted.
        version: u64,
        /// The key.
        key: &'a [u8],
    },
    /// The storage refused the request.
    Refused(Refused),
}

/// Keys with their versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys<'a> {
    /// Whether there are more after the last of these.
    pub more: bool,
    entries: Reader<'a>,
}

impl<'a> Keys<'a> {
    /// Returns each key with its version, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], u64)> + use<'a> {
        let mut entries = self.entries;
        std::iter::from_fn(move || {
            let version = entries.u64()?;
            Some((entries.short()?, version))
        })
    }
}

impl<'a> Request<'a> {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        let mut head = |what, namespace: &str, key| {
            out.u8(what).short(namespace.as_bytes()).short(key);
        };
        match *self {
            Self::Get { namespace, key } => head(1, namespace, key),
            Self::Put { namespace, key, expect, value } => {
                head(2, namespace, key);
                out.u64(expect.number()).long(value);
            }
            Self::Delete { namespace, key, expect } => {
                head(3, namespace, key);
                out.u64(expect.number());
            }
            Self::List { namespace, prefix, after } => {
                head(4, namespace, prefix);
                out.short(after);
            }
            Self::Watch { namespace, prefix } => head(5, namespace, prefix),
            Self::Unwatch { request } => head(6, "", &request.to_le_bytes()),
        }
        out.0
    }

    /// From bytes; `None` if they are none, or a key or value is too short or too long.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let (what, namespace, key) = (from.u8()?, from.text()?, from.short()?);
        if key.len() > LONGEST_KEY || (what <= 3 && key.is_empty()) {
            return None;
        }
        let request = match what {
            1 => Self::Get { namespace, key },
            2 => {
                let expect = Expect::from_number(from.u64()?);
                let value = from.long().filter(|value| value.len() <= LONGEST_VALUE)?;
                Self::Put { namespace, key, expect, value }
            }
            3 => Self::Delete { namespace, key, expect: Expect::from_number(from.u64()?) },
            4 => {
                let after = from.short().filter(|after| after.len() <= LONGEST_KEY)?;
                Self::List { namespace, prefix: key, after }
            }
            5 => Self::Watch { namespace, prefix: key },
            6 => Self::Unwatch { request: u64::from_le_bytes(key.try_into().ok()?) },
            _ => return None,
        };
        from.end().map(|()| request)
    }
}

impl<'a> Answer<'a> {
    /// Encodes it. [`KeysWriter`] makes an [`Answer::Keys`].
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match *self {
            Self::Done { version } => out.u8(0).u64(version),
            Self::Value { version, value } => out.u8(1).u64(version).long(value),
            Self::Nothing => out.u8(2),
            Self::Conflict { version } => out.u8(3).u64(version),
            Self::Keys(Keys { more, entries }) => {
                out.u8(4).u8(u8::from(more)).0.extend_from_slice(entries.0);
                &mut out
            }
            Self::Watching => out.u8(5),
            Self::Changed { version, key } => out.u8(6).u64(version).short(key),
            Self::Refused(why) => out.u8(7).u8(why as u8),
        };
        out.0
    }

    /// Decodes it; `None` if the bytes are malformed.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let answer = match from.u8()? {
            0 => Self::Done { version: from.u64()? },
            1 => Self::Value { version: from.u64()?, value: from.long()? },
            2 => Self::Nothing,
            3 => Self::Conflict { version: from.u64()? },
            4 => {
                let more = from.u8()? == 1;
                let keys = Keys { more, entries: from };
                while !from.0.is_empty() {
                    let _version = from.u64()?;
                    from.short()?;
                }
                Self::Keys(keys)
            }
            5 => Self::Watching,
            6 => Self::Changed { version: from.u64()?, key: from.short()? },
            7 => Self::Refused(Refused::from_number(from.u8()?)?),
            _ => return None,
        };
        from.end().map(|()| answer)
    }
}

/// Collects the entries of an [`Answer::Keys`], up to the limit of an answer.
#[derive(Debug, Default)]
pub struct KeysWriter(Writer);

impl KeysWriter {
    /// Adds a key with its version; returns `false` if there is no room.
    pub fn push(&mut self, key: &[u8], version: u64) -> bool {
        let fits = self.0.0.len() + key.len() + 10 <= LONGEST_VALUE;
        if fits {
            self.0.u64(version).short(key);
        }
        fits
    }

    /// Returns the answer's bytes; `more` says that keys follow the last one.
    pub fn finish(self, more: bool) -> Vec<u8> {
        Answer::Keys(Keys { more, entries: Reader(&self.0.0) }).encode()
    }
}

/// Sends requests to the storage. An [`Event::Storage`](crate::Event::Storage) with the id that a call returns is the
/// answer.
#[derive(Debug)]
pub struct Client<'h> {
    host: &'h mut Host,
    namespace: &'h str,
}

impl<'h> Client<'h> {
    pub(crate) fn new(host: &'h mut Host) -> Self {
        Self { host, namespace: "" }
    }

    /// Uses the namespace of the application of this name in place of the own one.
    #[must_use]
    pub fn of(self, app: &'h str) -> Self {
        Self { namespace: app, ..self }
    }

    /// Reads the value under `key`: [`Answer::Value`] or [`Answer::Nothing`].
    ///
    /// # Errors
    /// [`AskError`]; no request was sent.
    pub fn get(&mut self, key: &[u8]) -> Result<RequestId, AskError> {
        self.ask(&Request::Get { namespace: self.namespace, key })
    }

    /// Writes `value` under `key` if the present value is the expected one: [`Answer::Done`] or
    /// [`Answer::Conflict`].
    ///
    /// # Errors
    /// [`AskError`]; no request was sent.
    pub fn put(&mut self, key: &[u8], value: &[u8], expect: Expect) -> Result<RequestId, AskError> {
        self.ask(&Request::Put { namespace: self.namespace, key, expect, value })
    }

    /// Deletes the value under `key` if it is the expected one: [`Answer::Done`] or [`Answer::Conflict`].
    /// Deleting no value is done, too.
    ///
    /// # Errors
    /// [`AskError`]; no request was sent.
    pub fn delete(&mut self, key: &[u8], expect: Expect) -> Result<RequestId, AskError> {
        self.ask(&Request::Delete { namespace: self.namespace, key, expect })
    }

    /// Lists keys that begin with `prefix`, after the key `after`: [`Answer::Keys`].
    ///
    /// # Errors
    /// [`AskError`]; no request was sent.
    pub fn list(&mut self, prefix: &[u8], after: &[u8]) -> Result<RequestId, AskError> {
        self.ask(&Request::List { namespace: self.namespace, prefix, after })
    }

    /// Watches keys that begin with `prefix`: [`Answer::Watching`], then an [`Answer::Changed`] for each change, until
    /// [`unwatch`](Self::unwatch) or the end of the service.
    ///
    /// # Errors
    /// [`AskError`]; no request was sent.
    pub fn watch(&mut self, prefix: &[u8]) -> Result<RequestId, AskError> {
        self.ask(&Request::Watch { namespace: self.namespace, prefix })
    }

    /// Ends a watch: [`Answer::Done`] to this request and to the watch's.
    ///
    /// # Errors
    /// [`AskError`]; no request was sent.
    pub fn unwatch(&mut self, watch: RequestId) -> Result<RequestId, AskError> {
        self.ask(&Request::Unwatch { request: watch.0 })
    }

    fn ask(&mut self, request: &Request<'_>) -> Result<RequestId, AskError> {
        self.host.ask(Service::Storage, &request.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_and_cut_ones_are_refused() {
        let (namespace, key, value) = ("other", &b"key"[..], &b"value"[..]);
        for request in [
            Request::Get { namespace, key },
            Request::Put { namespace: "", key, expect: Expect::Nothing, value },
            Request::Delete { namespace, key, expect: Expect::Version(7) },
            Request::List { namespace, prefix: b"", after: key },
            Request::Watch { namespace, prefix: key },
            Request::Unwatch { request: 9 },
        ] {
            let bytes = request.encode();
            assert_eq!(Request::decode(&bytes), Some(request));
            for cut in 0..bytes.len() {
                assert_eq!(Request::decode(&bytes[..cut]), None, "{request:?} {cut}");
            }
            assert_eq!(Request::decode(&[&bytes[..], &[0]].concat()), None);
        }
    }

    #[test]
    fn key_and_value_out_of_bounds_are_refused() {
        let put = |key: &[u8], value: &[u8]| {
            let expect = Expect::Anything;
            let bytes = Request::Put { namespace: "", key, expect, value }.encode();
            Request::decode(&bytes).is_some()
        };
        assert!(put(&[1; LONGEST_KEY], &vec![1; LONGEST_VALUE]) && put(b"k", b""));
        assert!(!put(&[1; LONGEST_KEY + 1], b"") && !put(b"k", &vec![1; LONGEST_VALUE + 1]));
        assert!(!put(b"", b"") && !put(&vec![1; 70_000], b""));
    }

    #[test]
    fn answers_survive_and_keys_fill_one() {
        for answer in [
            Answer::Done { version: 1 },
            Answer::Value { version: 2, value: b"value" },
            Answer::Nothing,
            Answer::Conflict { version: 3 },
            Answer::Watching,
            Answer::Changed { version: 4, key: b"key" },
            Answer::Refused(Refused::Quota),
        ] {
            let bytes = answer.encode();
            assert_eq!(Answer::decode(&bytes), Some(answer));
            for cut in 0..bytes.len() {
                assert_eq!(Answer::decode(&bytes[..cut]), None, "{answer:?} {cut}");
            }
        }
        let mut keys = KeysWriter::default();
        let mut count = 0;
        while keys.push(&[7; 100], count) {
            count += 1;
        }
        let bytes = keys.finish(true);
        let Some(Answer::Keys(keys)) = Answer::decode(&bytes) else { panic!() };
        assert!(keys.more && bytes.len() <= super::super::MAX_MESSAGE);
        assert!(keys.iter().map(|(_, version)| version).eq(0..count));
    }
}
