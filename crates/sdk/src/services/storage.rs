//! The storage: values under keys, each with a version, durable when it is acknowledged.
//!
//! Every application has a namespace of its own, which no other can see unless the operator grants
//! `storage.read:NAME` or `storage.write:NAME`. Versions count the writes of a namespace and never go
//! back, also over a delete, so a write that expects one ([`Expect`]) is safe.
//!
//! ```text
//! request     what u8 | namespace text, empty for its own | key or prefix short | ...
//!     1  get      key
//!     2  put      key | expect u64 | value long
//!     3  delete   key | expect u64
//!     4  list     prefix | after short: keys behind this one, empty from the first
//!     5  watch    prefix
//!     6  unwatch  request u64, in the key's place as 8 bytes
//! expect      0 whatever is there, all ones nothing, else this version
//! answer      what u8 | ...
//!     0  done     version u64: of the value that was written; 0 if it was deleted
//!     1  value    version u64 | value long
//!     2  nothing  there is no such key
//!     3  conflict version u64: what is there has this one; 0 if nothing is
//!     4  keys     more u8 | for each: version u64 | key short
//!     5  watching (more answers follow)
//!     6  changed  version u64, 0 if deleted | key short
//!     7  refused  why u8
//! ```

use thiserror::Error;

use super::wire::{Reader, Writer};
use super::{AskError, RequestId, Service};
use crate::abi::guest::Host;

/// Bytes of a key, at most; one has a byte at least.
pub const LONGEST_KEY: usize = 512;

/// Bytes of a value, at most.
pub const LONGEST_VALUE: usize = 32 * 1024;

/// What must be there for a write to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Whatever is there.
    Anything,
    /// Nothing.
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

/// What is asked.
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

/// Why something was refused; nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[repr(u8)]
#[non_exhaustive]
pub enum Refused {
    /// The namespace is another app's and not granted for this, or there is none of that name.
    #[error("the operator has not granted this namespace for this")]
    NotGranted = 1,
    /// It is no request, or its key or value is too short or too long.
    #[error("not a request: a key has 1 to {LONGEST_KEY} bytes, a value {LONGEST_VALUE} at most")]
    Malformed = 2,
    /// The namespace has as many bytes or keys as it may.
    #[error("the namespace has as many bytes or keys as the operator's [storage] allows")]
    Quota = 3,
    /// The disk is full.
    #[error("the disk is full")]
    DiskFull = 4,
    /// The disk does not work, or what is on it is damaged.
    #[error("the disk does not work")]
    Failed = 5,
    /// It watches as much as it may.
    #[error("as much is watched as may be")]
    TooManyWatches = 6,
}

impl Refused {
    /// From its number.
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

/// What the storage answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer<'a> {
    /// It is done and on the disk; the version of what was written, 0 of what was deleted.
    Done {
        /// See above.
        version: u64,
    },
    /// What is there.
    Value {
        /// Its version.
        version: u64,
        /// It itself.
        value: &'a [u8],
    },
    /// There is no such key.
    Nothing,
    /// What is there is not what was expected; nothing was done.
    Conflict {
        /// Its version; 0 if nothing is there.
        version: u64,
    },
    /// Keys, in their order.
    Keys(Keys<'a>),
    /// Changes will be told, as answers to the same request.
    Watching,
    /// A key that is watched was written or deleted.
    Changed {
        /// Its version; 0 if it was deleted.
        version: u64,
        /// Which.
        key: &'a [u8],
    },
    /// It may not be, or could not be done.
    Refused(Refused),
}

/// Keys with their versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys<'a> {
    /// Whether there are more behind the last of these.
    pub more: bool,
    entries: Reader<'a>,
}

impl<'a> Keys<'a> {
    /// Each with its version, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], u64)> + use<'a> {
        let mut entries = self.entries;
        std::iter::from_fn(move || {
            let version = entries.u64()?;
            Some((entries.short()?, version))
        })
    }
}

impl<'a> Request<'a> {
    /// As bytes.
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
    /// As bytes, but for [`Answer::Keys`], of which [`KeysWriter`] makes one.
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

    /// From bytes; `None` if they are none.
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

/// Makes the entries of [`Answer::Keys`], as many as an answer holds.
#[derive(Debug, Default)]
pub struct KeysWriter(Writer);

impl KeysWriter {
    /// Adds a key with its version. `false` if there is no room for it.
    pub fn push(&mut self, key: &[u8], version: u64) -> bool {
        let fits = self.0.0.len() + key.len() + 10 <= LONGEST_VALUE;
        if fits {
            self.0.u64(version).short(key);
        }
        fits
    }

    /// The answer's bytes; `more` if there are keys behind the last.
    pub fn finish(self, more: bool) -> Vec<u8> {
        Answer::Keys(Keys { more, entries: Reader(&self.0.0) }).encode()
    }
}

/// Asks the storage. Each call is answered by an [`Event::Storage`](crate::Event::Storage) with the id
/// that it returns.
#[derive(Debug)]
pub struct Client<'h> {
    host: &'h mut Host,
    namespace: &'h str,
}

impl<'h> Client<'h> {
    pub(crate) fn new(host: &'h mut Host) -> Self {
        Self { host, namespace: "" }
    }

    /// In the namespace of the application of this name, instead of its own.
    #[must_use]
    pub fn of(self, app: &'h str) -> Self {
        Self { namespace: app, ..self }
    }

    /// What is under `key`: [`Answer::Value`] or [`Answer::Nothing`].
    ///
    /// # Errors
    /// [`AskError`]; nothing was asked.
    pub fn get(&mut self, key: &[u8]) -> Result<RequestId, AskError> {
        self.ask(&Request::Get { namespace: self.namespace, key })
    }

    /// Writes `value` under `key`, if what is there is as expected: [`Answer::Done`] or
    /// [`Answer::Conflict`].
    ///
    /// # Errors
    /// [`AskError`]; nothing was asked.
    pub fn put(&mut self, key: &[u8], value: &[u8], expect: Expect) -> Result<RequestId, AskError> {
        self.ask(&Request::Put { namespace: self.namespace, key, expect, value })
    }

    /// Deletes what is under `key`, if it is as expected: [`Answer::Done`] or [`Answer::Conflict`].
    /// What is not there is done, too.
    ///
    /// # Errors
    /// [`AskError`]; nothing was asked.
    pub fn delete(&mut self, key: &[u8], expect: Expect) -> Result<RequestId, AskError> {
        self.ask(&Request::Delete { namespace: self.namespace, key, expect })
    }

    /// Keys that begin with `prefix`, behind the key `after`: [`Answer::Keys`].
    ///
    /// # Errors
    /// [`AskError`]; nothing was asked.
    pub fn list(&mut self, prefix: &[u8], after: &[u8]) -> Result<RequestId, AskError> {
        self.ask(&Request::List { namespace: self.namespace, prefix, after })
    }

    /// Tells from now on what changes under keys that begin with `prefix`: [`Answer::Watching`], then
    /// any number of [`Answer::Changed`], until it says otherwise or the service ends.
    ///
    /// # Errors
    /// [`AskError`]; nothing was asked.
    pub fn watch(&mut self, prefix: &[u8]) -> Result<RequestId, AskError> {
        self.ask(&Request::Watch { namespace: self.namespace, prefix })
    }

    /// Ends a watch: [`Answer::Done`] to this request, and to that of the watch.
    ///
    /// # Errors
    /// [`AskError`]; nothing was asked.
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
    fn requests_survive_and_every_cut_of_them_is_refused() {
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
    fn answers_survive_and_keys_are_as_many_as_fit() {
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
