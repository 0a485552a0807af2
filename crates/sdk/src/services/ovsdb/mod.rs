//! Reads the databases of switches (OVSDB), and states the rows that an application wants there.
//!
//! The operator names each database with `[[ovsdb]]`. Every application with the service reads all of them (`ovsdb.read`), and writes where
//! `ovsdb.write:DATABASE:BRIDGE:TABLE` allows it. The service brings about the wanted rows, repairs them when others change them, and removes
//! them when the application leaves the configuration. It keeps them while the application or the service restarts; an application states its
//! rows again at [`Event::ServiceUp`](crate::Event::ServiceUp).
//!
//! ```text
//! request     what u8 | ...
//!     1  databases
//!     2  read         database text | table text | after 16 bytes: rows behind this one; zeros for all
//!     3  want         database text | place u8: bit 0 the first part of the rows, bit 1 the last | count u16 | count x wanted
//!     4  watch        database text
//! answer      what u8 | ...
//!     0  databases    owner text | count u16 | count x (name text | address text | state u8: 0 not connected, 1 connected | why text)
//!     1  rows         more u8 | count u16 | count x row
//!     2  part         the part was received, and others must follow
//!     3  wanted       done u8 | count u16 | count x (key text | why text)
//!     4  changed      connected u8 | count u16 | count x table text      (more answers follow)
//!     5  refused      why u8 | text
//! ```
//!
//! The module `value` has the layout of rows and values.

mod value;

pub use self::value::{Atom, Columns, Parent, Row, RowId, Value, WantedRow};

use self::value::text;
use super::wire::{Reader, Writer};
use super::{AskError, MAX_MESSAGE, RequestId, Service};
use crate::network::Network;

/// Most rows that an application may want of one database.
pub const MOST_ROWS: usize = 1000;

/// Most bytes of all rows that an application wants of one database, as in messages.
pub const MOST_BYTES: usize = 1 << 20;

/// Bytes of the head of a request and of an answer, at most, with the name of a database.
const HEAD: usize = 1024;

/// Most bytes of the rows in one message.
const PART: usize = MAX_MESSAGE - HEAD;

/// A request to the service.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Request<'a> {
    /// The databases and their states.
    Databases,
    /// The rows of a table.
    Read {
        /// The database.
        database: &'a str,
        /// The table.
        table: &'a str,
        /// The row after which the answer begins; zeros for the first one.
        after: RowId,
    },
    /// All rows that the application wants of a database, or a part of them.
    Want {
        /// The database.
        database: &'a str,
        /// Whether the rows are the first ones: they replace all that were wanted before.
        is_first: bool,
        /// Whether the rows are the last ones.
        is_last: bool,
        /// The rows.
        rows: Vec<WantedRow>,
    },
    /// Changes of a database.
    Watch {
        /// The database.
        database: &'a str,
    },
}

impl<'a> Request<'a> {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Self::Databases => drop(out.u8(1)),
            Self::Read { database, table, after } => {
                out.u8(2).short(database.as_bytes()).short(table.as_bytes());
                out.0.extend_from_slice(&after.0);
            }
            Self::Want { database, is_first, is_last, rows } => {
                let place = u8::from(*is_first) | u8::from(*is_last) << 1;
                out.u8(3).short(database.as_bytes()).u8(place);
                out.u16(u16::try_from(rows.len()).unwrap_or(u16::MAX));
                for row in rows {
                    row.write(&mut out);
                }
            }
            Self::Watch { database } => drop(out.u8(4).short(database.as_bytes())),
        }
        out.0
    }

    /// Decodes it; `None` if the bytes are malformed.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let request = match from.u8()? {
            1 => Self::Databases,
            2 => Self::Read {
                database: from.text()?,
                table: from.text()?,
                after: RowId(from.take(16)?.try_into().ok()?),
            },
            3 => {
                let (database, place) = (from.text()?, from.u8()?);
                let count = from.u16()?;
                let rows = (0..count).map(|_| WantedRow::read(&mut from)).collect::<Option<_>>()?;
                let (is_first, is_last) = (place & 1 != 0, place & 2 != 0);
                Self::Want { database, is_first, is_last, rows }
            }
            4 => Self::Watch { database: from.text()? },
            _ => return None,
        };
        from.end().map(|()| request)
    }
}

/// The state of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// Its name in the configuration.
    pub name: String,
    /// Its address in the configuration, such as `ssl:192.0.2.7:6640`.
    pub address: String,
    /// Whether the service is connected to it.
    pub is_connected: bool,
    /// Why it is not connected; empty if it is.
    pub why: String,
}

/// A wanted row that the database lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The row's key.
    pub key: String,
    /// The reason, with a remedy.
    pub why: String,
}

/// Why a request was refused as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Reason {
    /// The request is malformed.
    Malformed = 0,
    /// The configuration has no database of this name.
    UnknownDatabase = 1,
    /// The database is not connected.
    NotConnected = 2,
    /// The database has no such table, or Rosemary does not read it.
    UnknownTable = 3,
    /// More than [`MOST_ROWS`] rows or [`MOST_BYTES`] bytes are wanted.
    TooMany = 4,
    /// Too many requests of the application wait.
    Busy = 5,
}

impl Reason {
    const ALL: [Self; 6] = [
        Self::Malformed,
        Self::UnknownDatabase,
        Self::NotConnected,
        Self::UnknownTable,
        Self::TooMany,
        Self::Busy,
    ];
}

/// An answer of the service.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// The databases.
    Databases {
        /// The value of `rosemary-owner` in `external_ids` of the application's own rows.
        owner: String,
        /// The databases.
        databases: Vec<Database>,
    },
    /// Rows of a table, in the order of their identifiers.
    Rows {
        /// The rows.
        rows: Vec<Row>,
        /// Whether the table has further rows, for a request with the last row as `after`.
        more: bool,
    },
    /// A part of the wanted rows was received.
    Part,
    /// The wanted rows were accepted.
    Wanted {
        /// Whether the database has all rows that are not refused. If not, it is not connected, and gets them later.
        is_done: bool,
        /// The rows that are refused. The service tries to bring them about after changes of the database.
        refused: Vec<Refused>,
    },
    /// Rows of these tables have changed. Further answers to the same request follow.
    Changed {
        /// Whether the database is connected.
        is_connected: bool,
        /// The tables.
        tables: Vec<String>,
    },
    /// The request was refused.
    Refused {
        /// The reason.
        reason: Reason,
        /// The reason as a phrase, with a remedy.
        why: String,
    },
}

impl Answer {
    /// Encodes it. An answer with more than fits a message must not be made: see [`Page`].
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        let count = |len: usize| u16::try_from(len).unwrap_or(u16::MAX);
        match self {
            Self::Databases { owner, databases } => {
                out.u8(0).short(owner.as_bytes()).u16(count(databases.len()));
                for it in databases {
                    out.short(it.name.as_bytes())
                        .short(it.address.as_bytes())
                        .u8(u8::from(it.is_connected));
                    out.short(it.why.as_bytes());
                }
            }
            Self::Rows { rows, more } => {
                out.u8(1).u8(u8::from(*more)).u16(count(rows.len()));
                for row in rows {
                    row.write(&mut out);
                }
            }
            Self::Part => drop(out.u8(2)),
            Self::Wanted { is_done, refused } => {
                out.u8(3).u8(u8::from(*is_done));
                // Of more than fit, the first ones are listed.
                let (mut listed, mut len) = (Writer::default(), 0);
                for it in refused {
                    let before = listed.0.len();
                    listed.short(it.key.as_bytes()).short(it.why.as_bytes());
                    if listed.0.len() > PART {
                        listed.0.truncate(before);
                        break;
                    }
                    len += 1;
                }
                out.u16(count(len)).0.extend(listed.0);
            }
            Self::Changed { is_connected, tables } => {
                out.u8(4).u8(u8::from(*is_connected)).u16(count(tables.len()));
                for table in tables {
                    out.short(table.as_bytes());
                }
            }
            Self::Refused { reason, why } => {
                out.u8(5).u8(*reason as u8).short(why.as_bytes());
            }
        }
        out.0
    }

    /// Decodes it; `None` if the bytes are malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let answer = match from.u8()? {
            0 => {
                let (owner, count) = (text(&mut from)?, from.u16()?);
                let database = |from: &mut Reader<'_>| {
                    let (name, address) = (text(from)?, text(from)?);
                    let is_connected = from.u8()? != 0;
                    Some(Database { name, address, is_connected, why: text(from)? })
                };
                let databases = (0..count).map(|_| database(&mut from)).collect::<Option<_>>()?;
                Self::Databases { owner, databases }
            }
            1 => {
                let (more, count) = (from.u8()? != 0, from.u16()?);
                let rows = (0..count).map(|_| Row::read(&mut from)).collect::<Option<_>>()?;
                Self::Rows { rows, more }
            }
            2 => Self::Part,
            3 => {
                let (is_done, count) = (from.u8()? != 0, from.u16()?);
                let refused =
                    |from: &mut Reader<'_>| Some(Refused { key: text(from)?, why: text(from)? });
                let refused = (0..count).map(|_| refused(&mut from)).collect::<Option<_>>()?;
                Self::Wanted { is_done, refused }
            }
            4 => {
                let (is_connected, count) = (from.u8()? != 0, from.u16()?);
                let tables = (0..count).map(|_| text(&mut from)).collect::<Option<_>>()?;
                Self::Changed { is_connected, tables }
            }
            5 => {
                let number = from.u8()?;
                let reason = Reason::ALL.into_iter().find(|it| *it as u8 == number)?;
                Self::Refused { reason, why: text(&mut from)? }
            }
            _ => return None,
        };
        from.end().map(|()| answer)
    }
}

/// The rows of an answer, as many as fit.
#[derive(Debug, Default)]
pub struct Page {
    rows: Vec<Row>,
    size: usize,
}

impl Page {
    /// Adds a row. Returns `false` if it does not fit: the answer then says that more rows follow. A row that fits no answer loses columns.
    pub fn add(&mut self, mut row: Row) -> bool {
        let size = |row: &Row| {
            let mut out = Writer::default();
            row.write(&mut out);
            out.0.len()
        };
        let mut needed = size(&row);
        if needed > PART {
            row.is_cut = true;
            let mut columns = std::mem::take(&mut row.columns);
            // The short columns stay.
            columns.retain(|name, value| {
                let alone = Columns::from([(name.clone(), value.clone())]);
                let alone = Row { id: row.id, columns: alone, is_cut: true };
                size(&alone) <= PART / 64
            });
            row.columns = columns;
            needed = size(&row);
        }
        let fits = self.size + needed <= PART;
        if fits {
            self.size += needed;
            self.rows.push(row);
        }
        fits
    }

    /// Returns the answer.
    pub fn answer(self, more: bool) -> Answer {
        Answer::Rows { rows: self.rows, more }
    }
}

impl Network<'_> {
    /// Requests the list of databases. [`Event::Served`](crate::Event::Served) has the answer, for [`Answer::decode`]:
    /// [`Answer::Databases`].
    ///
    /// # Errors
    /// [`AskError`]; no request was sent.
    pub fn databases(&mut self) -> Result<RequestId, AskError> {
        self.host().ask(Service::Ovsdb, &Request::Databases.encode())
    }

    /// Requests the rows of a table behind the row `after`, [`RowId::default`] for the first ones. The answer is [`Answer::Rows`] or
    /// [`Answer::Refused`]. The bridges of a switch are in the table `Bridge`, their ports in `Port`, and speed, errors and counters in
    /// `Interface` (ovs-vswitchd.conf.db(5)).
    ///
    /// # Errors
    /// [`AskError`]; no request was sent.
    pub fn database_rows(
        &mut self,
        database: &str,
        table: &str,
        after: RowId,
    ) -> Result<RequestId, AskError> {
        let request = Request::Read { database, table, after };
        self.host().ask(Service::Ovsdb, &request.encode())
    }

    /// States all rows that the application wants of a database. They replace the rows that it wanted before, and rows that it wants no
    /// more are removed. The answer is [`Answer::Wanted`] or [`Answer::Refused`]; a set with more than 40 KiB is sent in parts.
    /// The last part has this answer, the earlier ones have [`Answer::Part`].
    ///
    /// # Errors
    /// [`AskError`]: the rows are not wanted, and those before still are.
    pub fn want_rows(&mut self, database: &str, rows: &[WantedRow]) -> Result<RequestId, AskError> {
        let parts = parts(rows).ok_or(AskError::TooLong)?;
        let count = parts.len();
        let mut sent = Err(AskError::TooLong);
        for (place, rows) in parts.into_iter().enumerate() {
            let (is_first, is_last) = (place == 0, place + 1 == count);
            let request = Request::Want { database, is_first, is_last, rows: rows.to_vec() };
            sent = Ok(self.host().ask(Service::Ovsdb, &request.encode())?);
        }
        sent
    }

    /// Requests a notice of each change of a database. [`Answer::Changed`] names the tables, at most once a second.
    ///
    /// # Errors
    /// [`AskError`]; no request was sent.
    pub fn watch_database(&mut self, database: &str) -> Result<RequestId, AskError> {
        self.host().ask(Service::Ovsdb, &Request::Watch { database }.encode())
    }
}

/// Divides rows into parts that fit messages, at least one; `None` if a row fits none.
fn parts(rows: &[WantedRow]) -> Option<Vec<&[WantedRow]>> {
    let (mut parts, mut first, mut size) = (Vec::new(), 0, 0);
    for (place, row) in rows.iter().enumerate() {
        let mut out = Writer::default();
        row.write(&mut out);
        if out.0.len() > PART {
            return None;
        }
        if size + out.0.len() > PART {
            parts.push(&rows[first..place]);
            (first, size) = (place, 0);
        }
        size += out.0.len();
    }
    parts.push(&rows[first..]);
    Some(parts)
}

#[cfg(test)]
mod tests;
