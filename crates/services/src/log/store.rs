//! Stores log lines on the disk: the newest lines of each program, within its quota.
//!
//! Each program has its own quota, so a program that logs without end only displaces its own lines.
//! Reports of one of our programs about an app count as a separate program
//! ([`program_on`](control::log::program_on)).

use std::collections::BTreeSet;

use redb::{
    Database, Range, ReadOnlyTable, ReadableDatabase as _, ReadableTable,
    ReadableTableMetadata as _, Table, TableDefinition,
};

use crate::disk::{Disk, DiskError, DiskStore, Schema, begin_write};
use control::log::{LogFilter, LogLevel, LogLine, MAX_BATCH_BYTES};

/// Program and line number.
type EntryKey = (&'static str, u64);

/// Time, level, text.
type LineValue = (u64, u8, &'static str);

const LINES: TableDefinition<'_, EntryKey, LineValue> = TableDefinition::new("lines");

/// By program: size of its lines in bytes, and number of its last line.
const PROGRAMS: TableDefinition<'_, &str, (u64, u64)> = TableDefinition::new("programs");

const SCHEMA: Schema = Schema {
    cache: 4 * 1024 * 1024,
    tables: |begun| {
        begun.open_table(LINES)?;
        begun.open_table(PROGRAMS)?;
        Ok(())
    },
};

/// Maximum number of programs; beyond it, the lines of the program that has been silent for longest
/// are removed.
const MAX_PROGRAMS: u64 = 1024;

/// Maximum number of lines removed per batch. It far exceeds the space that a batch needs, but
/// bounds the delay after a quota was lowered.
const MAX_REMOVALS: usize = 10_000;

/// Maximum number of lines scanned per request, so that other requests do not wait long.
const MAX_SCANNED: usize = if cfg!(test) { 200 } else { 20_000 };

/// Size of a line in addition to its text and program name.
const HEADER_SIZE: u64 = 32;

/// The log store; see the module's documentation.
#[derive(Debug)]
pub(super) struct LogStore<D> {
    store: DiskStore<D>,
    /// Quota of each program, in bytes.
    most: u64,
}

/// A page of lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) lines: Vec<LogLine>,
    /// Number from which to continue.
    pub(super) next: u64,
    /// Whether there are no more lines.
    pub(super) end: bool,
}

/// Result of one step of a search for the last lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Number of the first selected line; the start of the search if none was found.
    pub(super) from: u64,
    /// Number of selected lines.
    pub(super) found: usize,
    /// Number below which to continue.
    pub(super) before: u64,
    /// Whether all lines were scanned.
    pub(super) end: bool,
}

impl<D: Disk> LogStore<D> {
    /// Uses `disk`, with a quota of `most` bytes per program.
    pub(super) fn new(disk: D, most: u64) -> Self {
        Self { store: DiskStore::new(disk, SCHEMA), most }
    }

    /// Returns the number of the next line.
    pub(super) fn next(&mut self) -> Result<u64, DiskError> {
        self.store.with(|database| next(&database.begin_read()?.open_table(PROGRAMS)?))
    }

    /// Stores lines except those already stored; returns the number of the next line. The lines are
    /// then on the disk.
    pub(super) fn keep(&mut self, lines: &[LogLine]) -> Result<u64, DiskError> {
        let most = self.most;
        self.store.with(|database| {
            let begun = begin_write(database)?;
            let next = {
                let mut tables = Tables {
                    lines: begun.open_table(LINES)?,
                    programs: begun.open_table(PROGRAMS)?,
                    removals_left: MAX_REMOVALS,
                };
                let first = next(&tables.programs)?;
                // The monitor sends unconfirmed lines again; those below `first` are already
                // stored.
                for line in lines.iter().filter(|line| line.number >= first) {
                    tables.add(line, most)?;
                }
                next(&tables.programs)?
            };
            begun.commit()?;
            Ok(next)
        })
    }

    /// Returns the programs with lines.
    pub(super) fn programs(&mut self) -> Result<Vec<String>, DiskError> {
        self.store.with(programs)
    }

    /// Searches the last `count` selected lines below number `before`, within the scan limit.
    pub(super) fn last(
        &mut self,
        count: usize,
        before: u64,
        filter: &LogFilter,
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
            for _ in 0..MAX_SCANNED {
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

    /// Returns the selected lines from number `from` on, in order.
    pub(super) fn read(&mut self, from: u64, filter: &LogFilter) -> Result<Page, DiskError> {
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
            for _ in 0..MAX_SCANNED {
                let oldest = (0..heads.len()).min_by_key(|i| heads[*i].0.number);
                let Some(oldest) = oldest else {
                    page.end = true;
                    break;
                };
                let (line, mut rest) = heads.swap_remove(oldest);
                let wanted = filter.selects(line.time, line.level);
                size += if wanted { line.size() } else { 0 };
                // The page is full. `next` still points to this line, so the next page starts with
                // it.
                if size > MAX_BATCH_BYTES {
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

/// Tables of a write transaction.
struct Tables<'a> {
    lines: Table<'a, EntryKey, LineValue>,
    programs: Table<'a, &'static str, (u64, u64)>,
    /// Number of lines that may still be removed; the rest follows with later batches.
    removals_left: usize,
}

impl Tables<'_> {
    /// Adds a line and removes lines beyond the quota.
    fn add(&mut self, line: &LogLine, most: u64) -> Result<(), DiskError> {
        let LogLine { number, time, level, program, text } = line;
        let held = self.programs.get(program.as_str())?.map(|it| it.value());
        while held.is_none() && self.programs.len()? >= MAX_PROGRAMS && self.removals_left > 0 {
            self.remove_oldest_program()?;
        }
        let bytes = held.map_or(0, |(bytes, _)| bytes) + size(program, text);
        self.lines.insert((program.as_str(), *number), (*time, *level as u8, text.as_str()))?;
        let bytes = self.shrink(program, bytes, most, *number)?;
        self.programs.insert(program.as_str(), (bytes, *number))?;
        Ok(())
    }

    /// Removes a program's oldest lines with numbers below `before` while it exceeds `most` bytes
    /// and removals are allowed. Returns its remaining bytes.
    fn shrink(
        &mut self,
        program: &str,
        mut bytes: u64,
        most: u64,
        before: u64,
    ) -> Result<u64, DiskError> {
        while bytes > most && self.removals_left > 0 {
            let oldest = self.oldest(program)?.filter(|(oldest, _)| *oldest < before);
            let Some((oldest, size)) = oldest else { break };
            self.lines.remove((program, oldest))?;
            bytes = bytes.saturating_sub(size);
            self.removals_left -= 1;
        }
        Ok(bytes)
    }

    /// Returns number and size of a program's oldest line.
    fn oldest(&self, program: &str) -> Result<Option<(u64, u64)>, DiskError> {
        let oldest = self.lines.range((program, 0)..=(program, u64::MAX))?.next().transpose()?;
        Ok(oldest.map(|(key, value)| (key.value().1, size(program, value.value().2))))
    }

    /// Removes the lines of the program that has been silent for longest, as far as removals are
    /// allowed.
    fn remove_oldest_program(&mut self) -> Result<(), DiskError> {
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

/// Returns the size of a line that counts towards the quota.
fn size(program: &str, text: &str) -> u64 {
    (program.len() + text.len()) as u64 + HEADER_SIZE
}

/// Returns the number of the next line: the last line is the last one of some program.
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

/// Returns the selected programs among those with lines.
fn wanted(database: &Database, filter: &LogFilter) -> Result<Vec<String>, DiskError> {
    let mut all = programs(database)?;
    // A set, because an operator may name thousands.
    let named: BTreeSet<&String> = filter.programs.iter().collect();
    all.retain(|program| named.is_empty() || named.contains(program));
    Ok(all)
}

/// Returns a program's lines in a range of numbers.
fn range(
    lines: &ReadOnlyTable<EntryKey, LineValue>,
    program: &str,
    numbers: std::ops::Range<u64>,
) -> Result<Range<'static, EntryKey, LineValue>, DiskError> {
    Ok(lines.range((program, numbers.start)..(program, numbers.end))?)
}

/// Returns the number of the newest line in the range, and whether it is selected.
fn newest(
    lines: &mut Range<'_, EntryKey, LineValue>,
    filter: &LogFilter,
) -> Result<Option<(u64, bool)>, DiskError> {
    let Some(entry) = lines.next_back().transpose()? else { return Ok(None) };
    let (key, value) = entry;
    let (time, level, _) = value.value();
    Ok(Some((key.value().1, filter.selects(time, self::level(level)))))
}

/// Returns the first line in the range.
fn first(lines: &mut Range<'_, EntryKey, LineValue>) -> Result<Option<LogLine>, DiskError> {
    let Some(entry) = lines.next().transpose()? else { return Ok(None) };
    let (key, value) = entry;
    let ((program, number), (time, level, text)) = (key.value(), value.value());
    let (program, text) = (program.to_owned(), text.to_owned());
    Ok(Some(LogLine { number, time, level: self::level(level), program, text }))
}

fn level(number: u8) -> LogLevel {
    LogLevel::ALL.into_iter().find(|it| *it as u8 == number).unwrap_or(LogLevel::Debug)
}

#[cfg(test)]
mod tests;
