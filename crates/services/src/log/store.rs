//! The lines on the disk: of each program the newest, as many as its bytes have room for.
//!
//! A program has bytes of its own, so that one that talks without end pushes out nothing but what it has
//! said itself. What one of ours says of an app is a program's of its own here
//! ([`program_on`](super::messages::program_on)).

use std::collections::BTreeSet;

use redb::{
    Database, Range, ReadOnlyTable, ReadableDatabase as _, ReadableTable,
    ReadableTableMetadata as _, Table, TableDefinition,
};

use super::messages::{Filter, Level, Line, MOST_LINES};
use crate::disk::{Disk, DiskError, Form, Store, begin_write};

/// A program, and the line's number.
type Place = (&'static str, u64);

/// Time, level, text.
type Said = (u64, u8, &'static str);

const LINES: TableDefinition<'_, Place, Said> = TableDefinition::new("lines");

/// By program: bytes of its lines, and the number of the last.
const PROGRAMS: TableDefinition<'_, &str, (u64, u64)> = TableDefinition::new("programs");

const FORM: Form = Form {
    cache: 4 * 1024 * 1024,
    tables: |begun| {
        begun.open_table(LINES)?;
        begun.open_table(PROGRAMS)?;
        Ok(())
    },
};

/// Programs of which lines are kept; of more, those that have said nothing for longest go.
const MOST_PROGRAMS: u64 = 1024;

/// Lines that go with one batch: far more than it takes the room of, and so few that nobody waits long behind it
/// where a quota was lowered.
const MOST_GOING: usize = 10_000;

/// Lines that are looked at for one request, so that nobody waits long behind it.
const MOST_LOOKED_AT: usize = if cfg!(test) { 200 } else { 20_000 };

/// What a line takes besides its text and its program's name.
const HEAD: u64 = 32;

/// See the module.
#[derive(Debug)]
pub(super) struct Book<D> {
    store: Store<D>,
    /// Bytes of lines of each program.
    most: u64,
}

/// A part of what somebody reads.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) lines: Vec<Line>,
    /// From where to read on.
    pub(super) next: u64,
    /// Whether that is the end.
    pub(super) end: bool,
}

/// A part of a search for the last lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The number of the first of those that were found; from where it was looked, if none was.
    pub(super) from: u64,
    /// How many were.
    pub(super) found: usize,
    /// Below which number to look on.
    pub(super) before: u64,
    /// Whether all were looked at.
    pub(super) end: bool,
}

impl<D: Disk> Book<D> {
    /// On `disk`, with so many bytes of lines of each program.
    pub(super) fn new(disk: D, most: u64) -> Self {
        Self { store: Store::new(disk, FORM), most }
    }

    /// The number of the next line.
    pub(super) fn next(&mut self) -> Result<u64, DiskError> {
        self.store.with(|database| next(&database.begin_read()?.open_table(PROGRAMS)?))
    }

    /// Keeps lines, but those that it has; the number of the next line. They are on the disk then.
    pub(super) fn keep(&mut self, lines: &[Line]) -> Result<u64, DiskError> {
        let most = self.most;
        self.store.with(|database| {
            let begun = begin_write(database)?;
            let next = {
                let mut tables = Tables {
                    lines: begun.open_table(LINES)?,
                    programs: begun.open_table(PROGRAMS)?,
                    may_go: MOST_GOING,
                };
                let first = next(&tables.programs)?;
                for line in lines.iter().filter(|line| line.number >= first) {
                    tables.add(line, most)?;
                }
                next(&tables.programs)?
            };
            begun.commit()?;
            Ok(next)
        })
    }

    /// The programs of which there are lines.
    pub(super) fn programs(&mut self) -> Result<Vec<String>, DiskError> {
        self.store.with(programs)
    }

    /// The last `count` lines below number `before` that are wanted, as far as they are looked at.
    pub(super) fn last(
        &mut self,
        count: usize,
        before: u64,
        filter: &Filter,
    ) -> Result<Part, DiskError> {
        self.store.with(|database| {
            let begun = database.begin_read()?;
            let (table, end) = (begun.open_table(LINES)?, next(&begun.open_table(PROGRAMS)?)?);
            let top = before.min(end);
            let mut heads = Vec::new();
            for program in wanted(database, filter)? {
                let mut rest = range(&table, &program, 0..top)?;
                if let Some(line) = newest(&mut rest, filter)? {
                    heads.push((line, rest));
                }
            }
            let mut part = Part { from: top, found: 0, before: top, end: false };
            for _ in 0..MOST_LOOKED_AT {
                if part.found == count {
                    break;
                }
                let newest_of_all = (0..heads.len()).max_by_key(|i| heads[*i].0.0);
                let Some(i) = newest_of_all else {
                    part.end = true;
                    break;
                };
                let ((number, is_wanted), mut rest) = heads.swap_remove(i);
                part.before = number;
                if is_wanted {
                    part.found += 1;
                    part.from = number;
                }
                if let Some(line) = newest(&mut rest, filter)? {
                    heads.push((line, rest));
                }
            }
            Ok(part)
        })
    }

    /// The lines from number `from` on that are wanted, in their order.
    pub(super) fn read(&mut self, from: u64, filter: &Filter) -> Result<Page, DiskError> {
        self.store.with(|database| {
            let begun = database.begin_read()?;
            let table = begun.open_table(LINES)?;
            let mut heads = Vec::new();
            for program in wanted(database, filter)? {
                let mut rest = range(&table, &program, from..u64::MAX)?;
                if let Some(line) = first(&mut rest)? {
                    heads.push((line, rest));
                }
            }
            let (mut page, mut size) = (Page { lines: Vec::new(), next: from, end: false }, 0);
            for _ in 0..MOST_LOOKED_AT {
                let oldest = (0..heads.len()).min_by_key(|i| heads[*i].0.number);
                let Some(oldest) = oldest else {
                    page.end = true;
                    break;
                };
                let (line, mut rest) = heads.swap_remove(oldest);
                let wanted = filter.selects(line.time, line.level);
                size += if wanted { line.size() } else { 0 };
                if size > MOST_LINES {
                    break;
                }
                page.next = line.number.saturating_add(1);
                if wanted {
                    page.lines.push(line);
                }
                if let Some(next) = first(&mut rest)? {
                    heads.push((next, rest));
                }
            }
            Ok(page)
        })
    }
}

/// What is written into.
struct Tables<'a> {
    lines: Table<'a, Place, Said>,
    programs: Table<'a, &'static str, (u64, u64)>,
    /// Lines that may still be taken out; what remains goes with later batches.
    may_go: usize,
}

impl Tables<'_> {
    /// Adds a line, and takes out what has no room beside it.
    fn add(&mut self, line: &Line, most: u64) -> Result<(), DiskError> {
        let Line { number, time, level, program, text } = line;
        let held = self.programs.get(program.as_str())?.map(|it| it.value());
        while held.is_none() && self.programs.len()? >= MOST_PROGRAMS && self.may_go > 0 {
            self.forget_oldest()?;
        }
        let bytes = held.map_or(0, |(bytes, _)| bytes) + size(program, text);
        self.lines.insert((program.as_str(), *number), (*time, *level as u8, text.as_str()))?;
        let bytes = self.shrink(program, bytes, most, *number)?;
        self.programs.insert(program.as_str(), (bytes, *number))?;
        Ok(())
    }

    /// Takes out a program's oldest lines of number below `before` while it has more than `most` bytes, as many as
    /// may go. The bytes that it has then.
    fn shrink(
        &mut self,
        program: &str,
        mut bytes: u64,
        most: u64,
        before: u64,
    ) -> Result<u64, DiskError> {
        while bytes > most && self.may_go > 0 {
            let oldest = self.oldest(program)?.filter(|(oldest, _)| *oldest < before);
            let Some((oldest, size)) = oldest else { break };
            self.lines.remove((program, oldest))?;
            bytes = bytes.saturating_sub(size);
            self.may_go -= 1;
        }
        Ok(bytes)
    }

    /// The number and the bytes of a program's oldest line.
    fn oldest(&self, program: &str) -> Result<Option<(u64, u64)>, DiskError> {
        let oldest = self.lines.range((program, 0)..=(program, u64::MAX))?.next().transpose()?;
        Ok(oldest.map(|(place, said)| (place.value().1, size(program, said.value().2))))
    }

    /// Takes out the program that has said nothing for longest, as far as its lines may go.
    fn forget_oldest(&mut self) -> Result<(), DiskError> {
        let mut oldest: Option<(u64, u64, String)> = None;
        for entry in self.programs.iter()? {
            let (program, held) = entry?;
            let (bytes, last) = held.value();
            if oldest.as_ref().is_none_or(|(number, ..)| last < *number) {
                oldest = Some((last, bytes, program.value().to_owned()));
            }
        }
        let Some((last, bytes, program)) = oldest else { return Ok(()) };
        let bytes = self.shrink(&program, bytes, 0, u64::MAX)?;
        if bytes > 0 && self.oldest(&program)?.is_some() {
            self.programs.insert(program.as_str(), (bytes, last))?;
        } else {
            self.programs.remove(program.as_str())?;
        }
        Ok(())
    }
}

/// What a line counts of its program's bytes.
fn size(program: &str, text: &str) -> u64 {
    (program.len() + text.len()) as u64 + HEAD
}

/// The number of the next line: the last one's is some program's last.
fn next(programs: &impl ReadableTable<&'static str, (u64, u64)>) -> Result<u64, DiskError> {
    let mut next = 0;
    for entry in programs.iter()? {
        next = next.max(entry?.1.value().1.saturating_add(1));
    }
    Ok(next)
}

fn programs(database: &Database) -> Result<Vec<String>, DiskError> {
    let table = database.begin_read()?.open_table(PROGRAMS)?;
    table.iter()?.map(|entry| Ok(entry?.0.value().to_owned())).collect()
}

/// The programs that are wanted, of those of which there are lines.
fn wanted(database: &Database, filter: &Filter) -> Result<Vec<String>, DiskError> {
    let mut all = programs(database)?;
    // An operator may name thousands.
    let named: BTreeSet<&String> = filter.programs.iter().collect();
    all.retain(|program| named.is_empty() || named.contains(program));
    Ok(all)
}

/// A program's lines with these numbers.
fn range(
    lines: &ReadOnlyTable<Place, Said>,
    program: &str,
    numbers: std::ops::Range<u64>,
) -> Result<Range<'static, Place, Said>, DiskError> {
    Ok(lines.range((program, numbers.start)..(program, numbers.end))?)
}

/// The number of the newest of those lines, and whether it is wanted.
fn newest(
    lines: &mut Range<'_, Place, Said>,
    filter: &Filter,
) -> Result<Option<(u64, bool)>, DiskError> {
    let Some(entry) = lines.next_back().transpose()? else { return Ok(None) };
    let (place, said) = entry;
    let (time, level, _) = said.value();
    Ok(Some((place.value().1, filter.selects(time, self::level(level)))))
}

/// The first of those lines.
fn first(lines: &mut Range<'_, Place, Said>) -> Result<Option<Line>, DiskError> {
    let Some(entry) = lines.next().transpose()? else { return Ok(None) };
    let (place, said) = entry;
    let ((program, number), (time, level, text)) = (place.value(), said.value());
    let (program, text) = (program.to_owned(), text.to_owned());
    Ok(Some(Line { number, time, level: self::level(level), program, text }))
}

fn level(number: u8) -> Level {
    Level::ALL.into_iter().find(|it| *it as u8 == number).unwrap_or(Level::Debug)
}

#[cfg(test)]
mod tests;
