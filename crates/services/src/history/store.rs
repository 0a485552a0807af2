//! Stores the samples of series on the disk, in blocks of three resolutions, within a budget.
//!
//! The samples of one time are one row, which is on the disk when [`Store::record`] returns. When ten minutes have passed, or the clock
//! leaves them in either direction, one transaction *seals* them: it merges them into the blocks of each series and level, gives up blocks
//! that are too old or too many, and removes the rows. So a process that is killed loses nothing that was recorded, and counts nothing
//! twice. A clock that comes back to sealed minutes merges into their blocks again.
//!
//! A level keeps a number of blocks with data (see [`Level::kept`]). Beyond the budget, the finest level gives up its oldest blocks first,
//! except for the last ones of each level.

use std::collections::{BTreeMap, BTreeSet};

use control::history::{MAX_POINTS, MAX_POINTS_IN_ALL, SeriesName};
use redb::{
    Database, ReadableDatabase as _, ReadableTable, Table, TableDefinition, WriteTransaction,
};

use super::block::{self, put, take};
use super::directory::{Directory, Entry, Sample};
use super::point::{Level, Points, Sums, add, roll_up};
use crate::disk::{Disk, DiskError, DiskStore, Schema, begin_write};

/// Level, number of the block, number of the series.
type BlockKey = (u8, u32, u32);

const BLOCKS: TableDefinition<'_, BlockKey, &[u8]> = TableDefinition::new("blocks");

/// By level and number of the block: bytes and number of the blocks of all series.
const WINDOWS: TableDefinition<'_, (u8, u32), (u64, u64)> = TableDefinition::new("windows");

/// By the text of the series: its number, when it was seen, when it was used.
const SERIES: TableDefinition<'_, &str, (u32, u64, u64)> = TableDefinition::new("series");

/// The samples that are not sealed, by their order: time, and pairs of series and value.
const TICKS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("ticks");

/// By level: the time before which blocks were given up. [`NEXT`]: the number of the next series.
const META: TableDefinition<'_, u8, u64> = TableDefinition::new("meta");

/// The key of the number of the next series in [`META`].
const NEXT: u8 = 255;

const SCHEMA: Schema = Schema {
    cache: 8 * 1024 * 1024,
    tables: |begun| {
        begun.open_table(BLOCKS)?;
        begun.open_table(WINDOWS)?;
        begun.open_table(SERIES)?;
        begun.open_table(TICKS)?;
        begun.open_table(META)?;
        Ok(())
    },
};

/// Latest time of a sample, so that numbers of blocks fit their keys.
const LATEST: u64 = 1 << 40;

/// Bytes that count for a block in addition to its own: key, lengths, its share of the tree.
const ROW_SIZE: u64 = 40;

/// The share of the budget that blocks may use, in thousandths. The rest is what a copy-on-write tree needs in addition.
const BLOCKS_SHARE: u64 = 400;

/// The bounds of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of the file.
    pub bytes: u64,
    /// Number of series.
    pub series: usize,
}

/// The blocks of all series in one span of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Window {
    bytes: u64,
    rows: u64,
}

impl Window {
    fn size(self) -> u64 {
        self.bytes.saturating_add(self.rows.saturating_mul(ROW_SIZE))
    }
}

/// A window's level and number.
type WindowKey = (Level, u32);

/// What memory knows of the file. After a failed transaction it is read again.
#[derive(Debug)]
struct State {
    directory: Directory,
    windows: BTreeMap<WindowKey, Window>,
    /// The windows that changed since the last transaction.
    changed: BTreeSet<WindowKey>,
    /// By level: the time before which blocks were given up.
    given_up: BTreeMap<u8, u64>,
    /// The raw block of the samples that are not sealed.
    open: Option<u32>,
    /// The samples that are not sealed, by series.
    samples: BTreeMap<u32, Vec<(u64, u64)>>,
    /// The number of the next row of samples.
    tick: u64,
    /// Blocks that could not be decoded since the start.
    unreadable: u64,
}

/// What became of the samples of one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Samples of series that have no place.
    pub left_out: usize,
    /// Series that lost their places.
    pub displaced: usize,
    /// Blocks that could not be decoded since the start.
    pub unreadable: u64,
}

/// A part of a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The seconds of each point.
    pub step: u64,
    /// The points.
    pub points: Points,
    /// The time at which the next page starts, if there is one.
    pub next: Option<u64>,
}

/// The store; see the module's documentation.
#[derive(Debug)]
pub struct Store<D> {
    store: DiskStore<D>,
    bounds: Bounds,
    state: Option<State>,
}

impl<D: Disk> Store<D> {
    /// Uses `disk`, which is empty or has a history.
    pub fn new(disk: D, bounds: Bounds) -> Self {
        Self { store: DiskStore::new(disk, SCHEMA), bounds, state: None }
    }

    /// Opens the file, unless it is open.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn open(&mut self) -> Result<(), DiskError> {
        self.with(|_, _, _| Ok(()))
    }

    /// Records samples at `now`, in seconds since 1970. They are then on the disk. Each series may have one sample.
    ///
    /// # Errors
    /// [`DiskError`]: the samples are not recorded.
    pub fn record(&mut self, now: u64, samples: &[Sample]) -> Result<Recorded, DiskError> {
        let now = now.min(LATEST);
        self.with(|state, database, bounds| {
            if state.open.is_some_and(|open| open != number(Level::Raw, now)) {
                state.seal(database, bounds)?;
            }
            state.record(database, now, samples)
        })
    }

    /// Returns the series after this text, in the order of their names, at most `most`, and whether there are more.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn series(&mut self, after: &str, most: usize) -> Result<(Vec<String>, bool), DiskError> {
        self.with(|state, _, _| {
            let mut all: Vec<String> =
                state.directory.iter().map(|(name, _)| name.to_string()).collect();
            all.sort();
            let from = all.partition_point(|it| it.as_str() <= after);
            let more = all.len() - from > most;
            Ok((all.into_iter().skip(from).take(most).collect(), more))
        })
    }

    /// Reads a series from second `from` to before second `to`, in spans of `step` seconds or of the next larger ones that the history
    /// has for that time; `None` if there is no such series. Spans without samples have no point.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn read(
        &mut self,
        name: &SeriesName,
        (from, to): (u64, u64),
        step: u64,
    ) -> Result<Option<Page>, DiskError> {
        self.with(|state, database, _| {
            let Some(id) = state.directory.get(name).map(|it| it.id) else { return Ok(None) };
            state.read(database, id, (from, to), step).map(Some)
        })
    }

    fn with<T>(
        &mut self,
        what: impl FnOnce(&mut State, &Database, Bounds) -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        let (bounds, known) = (self.bounds, self.state.take());
        let (done, state) = self.store.with(|database| {
            let mut state = known.map_or_else(|| State::load(database, bounds), Ok)?;
            let done = what(&mut state, database, bounds)?;
            Ok((done, state))
        })?;
        self.state = Some(state);
        Ok(done)
    }
}

/// Returns the number of the block of a time.
fn number(level: Level, at: u64) -> u32 {
    u32::try_from(at / level.span()).unwrap_or(u32::MAX)
}

/// Returns the first second of a block.
fn start(level: Level, number: u32) -> u64 {
    u64::from(number) * level.span()
}

impl State {
    fn load(database: &Database, bounds: Bounds) -> Result<Self, DiskError> {
        let begun = database.begin_read()?;
        let (mut entries, mut next) = (BTreeMap::new(), 0);
        for row in begun.open_table(SERIES)?.iter()? {
            let (name, entry) = row?;
            let (id, seen, used) = entry.value();
            next = next.max(id.saturating_add(1));
            // A series of another version has a name that this one does not know.
            if let Ok(name) = name.value().parse::<SeriesName>() {
                entries.insert(name, Entry { id, seen, used });
            }
        }
        let mut given_up = BTreeMap::new();
        for row in begun.open_table(META)?.iter()? {
            let (key, value) = row?;
            if key.value() == NEXT {
                next = next.max(u32::try_from(value.value()).unwrap_or(u32::MAX));
            } else {
                given_up.insert(key.value(), value.value());
            }
        }
        let mut windows = BTreeMap::new();
        for row in begun.open_table(WINDOWS)?.iter()? {
            let (key, window) = row?;
            let ((level, number), (bytes, rows)) = (key.value(), window.value());
            if let Some(level) = Level::from_number(level) {
                windows.insert((level, number), Window { bytes, rows });
            }
        }
        let mut state = Self {
            directory: Directory::new(entries, next, bounds.series),
            windows,
            changed: BTreeSet::new(),
            given_up,
            open: None,
            samples: BTreeMap::new(),
            tick: 0,
            unreadable: 0,
        };
        for row in begun.open_table(TICKS)?.iter()? {
            let (key, tick) = row?;
            state.tick = key.value().saturating_add(1);
            match decode_tick(tick.value()) {
                Some((at, values)) => state.remember(at, &values),
                None => state.unreadable += 1,
            }
        }
        Ok(state)
    }

    /// Adds samples to the open block.
    fn remember(&mut self, at: u64, values: &BTreeMap<u32, u64>) {
        self.open = Some(number(Level::Raw, at));
        for (id, value) in values {
            self.samples.entry(*id).or_default().push((at, *value));
        }
    }

    fn record(
        &mut self,
        database: &Database,
        now: u64,
        samples: &[Sample],
    ) -> Result<Recorded, DiskError> {
        let choice = self.directory.choose(samples, now);
        let begun = begin_write(database)?;
        {
            let mut series = begun.open_table(SERIES)?;
            for name in &choice.displaced {
                series.remove(name.to_string().as_str())?;
            }
            // Times of known series are written when the samples are sealed.
            for (name, it) in choice.changed.iter().filter(|it| it.1.id >= self.directory.next()) {
                series.insert(name.to_string().as_str(), (it.id, it.seen, it.used))?;
                begun.open_table(META)?.insert(NEXT, u64::from(it.id) + 1)?;
            }
            begun
                .open_table(TICKS)?
                .insert(self.tick, encode_tick(now, &choice.values).as_slice())?;
        }
        begun.commit()?;
        self.tick += 1;
        self.directory.apply(&choice);
        self.remember(now, &choice.values);
        Ok(Recorded {
            left_out: choice.left_out,
            displaced: choice.displaced.len(),
            unreadable: self.unreadable,
        })
    }

    /// Merges the samples that are not sealed into blocks, and gives up what is beyond the bounds.
    fn seal(&mut self, database: &Database, bounds: Bounds) -> Result<(), DiskError> {
        let begun = begin_write(database)?;
        {
            let mut blocks = begun.open_table(BLOCKS)?;
            let samples = std::mem::take(&mut self.samples);
            for (id, samples) in samples {
                let mut raw = Points::new();
                for (at, value) in samples {
                    add(&mut raw, at, Sums::of(value));
                }
                for level in Level::ALL {
                    self.merge(&mut blocks, level, id, &roll_up(&raw, level.step()))?;
                }
            }
            self.give_up(&mut blocks, bounds)?;
        }
        self.store_tables(&begun)?;
        begun.commit()?;
        self.open = None;
        Ok(())
    }

    /// Merges points, which lie in one block, into the block of a series.
    fn merge(
        &mut self,
        blocks: &mut Table<'_, BlockKey, &'static [u8]>,
        level: Level,
        id: u32,
        new: &Points,
    ) -> Result<(), DiskError> {
        let Some((at, _)) = new.first_key_value() else { return Ok(()) };
        let number = number(level, *at);
        let key = (level as u8, number, id);
        let (mut points, mut old) = (Points::new(), None);
        if let Some(block) = blocks.get(key)? {
            let bytes = block.value();
            old = Some(bytes.len() as u64);
            match block::decode(level, start(level, number), bytes) {
                Some(known) => points = known,
                None => self.unreadable += 1,
            }
        }
        for (at, sums) in new {
            add(&mut points, *at, *sums);
        }
        let bytes = block::encode(level, start(level, number), &points);
        blocks.insert(key, bytes.as_slice())?;
        self.changed.insert((level, number));
        let window = self.windows.entry((level, number)).or_default();
        window.rows += u64::from(old.is_none());
        window.bytes = window.bytes.saturating_sub(old.unwrap_or(0)) + bytes.len() as u64;
        Ok(())
    }

    /// Gives up the oldest blocks of each level beyond their number, and then the finest and oldest ones beyond the budget.
    fn give_up(
        &mut self,
        blocks: &mut Table<'_, BlockKey, &'static [u8]>,
        bounds: Bounds,
    ) -> Result<(), DiskError> {
        for level in Level::ALL {
            while self.count(level) > level.kept() {
                self.give_up_oldest(blocks, level)?;
            }
        }
        let most = bounds.bytes / 1000 * BLOCKS_SHARE;
        for least in [Level::kept_at_least, |_| 1] {
            for level in Level::ALL {
                while self.size() > most && self.count(level) > least(level) {
                    self.give_up_oldest(blocks, level)?;
                }
            }
        }
        Ok(())
    }

    fn give_up_oldest(
        &mut self,
        blocks: &mut Table<'_, BlockKey, &'static [u8]>,
        level: Level,
    ) -> Result<(), DiskError> {
        let oldest = self.windows.range((level, 0)..=(level, u32::MAX)).next();
        let Some((_, number)) = oldest.map(|(key, _)| *key) else { return Ok(()) };
        let rows = (level as u8, number, 0)..=(level as u8, number, u32::MAX);
        blocks.retain_in(rows, |_, _| false)?;
        self.windows.remove(&(level, number));
        self.changed.insert((level, number));
        let end = start(level, number) + level.span();
        let before = self.given_up.entry(level as u8).or_default();
        *before = end.max(*before);
        Ok(())
    }

    fn count(&self, level: Level) -> usize {
        self.windows.range((level, 0)..=(level, u32::MAX)).count()
    }

    fn size(&self) -> u64 {
        self.windows.values().map(|it| it.size()).sum()
    }

    /// Writes all tables but the blocks, and removes the rows of samples.
    fn store_tables(&mut self, begun: &WriteTransaction) -> Result<(), DiskError> {
        begun.open_table(TICKS)?.retain(|_, _| false)?;
        let mut windows = begun.open_table(WINDOWS)?;
        for (level, number) in std::mem::take(&mut self.changed) {
            let key = (level as u8, number);
            match self.windows.get(&(level, number)) {
                Some(window) => windows.insert(key, (window.bytes, window.rows))?,
                None => windows.remove(key)?,
            };
        }
        let mut meta = begun.open_table(META)?;
        for (level, before) in &self.given_up {
            meta.insert(*level, *before)?;
        }
        let mut series = begun.open_table(SERIES)?;
        for (name, it) in self.directory.iter() {
            series.insert(name.to_string().as_str(), (it.id, it.seen, it.used))?;
        }
        Ok(())
    }

    fn read(
        &mut self,
        database: &Database,
        id: u32,
        (from, to): (u64, u64),
        step: u64,
    ) -> Result<Page, DiskError> {
        let from = from.max(self.oldest());
        let to = to.min(LATEST + 1).max(from);
        let (level, step) = self.resolution(from, to, step);
        let (from, end) = (from - from % step, to.next_multiple_of(step));
        let blocks = database.begin_read()?.open_table(BLOCKS)?;
        let mut points = Points::new();
        let open = self.open_points(id, level);
        let numbers = (level, number(level, from))..=(level, number(level, end));
        // One point more than a page has shows where the next one starts.
        let mut numbers: Vec<u32> = self.windows.range(numbers).map(|(key, _)| key.1).collect();
        numbers.extend(open.keys().next().map(|at| number(level, *at)));
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            if points.len() > MAX_POINTS {
                break;
            }
            let mut all = open.clone();
            all.retain(|at, _| self::number(level, *at) == number);
            if let Some(block) = blocks.get((level as u8, number, id))? {
                match block::decode(level, start(level, number), block.value()) {
                    Some(known) => known.into_iter().for_each(|(at, it)| add(&mut all, at, it)),
                    None => self.unreadable += 1,
                }
            }
            for (at, sums) in all.range(from..end) {
                add(&mut points, at - at % step, *sums);
            }
        }
        // A point that is cut off is complete in the next page, where it is the first one.
        let next = points.keys().nth(MAX_POINTS).copied();
        if let Some(next) = next {
            points.split_off(&next);
        }
        Ok(Page { step, points, next })
    }

    /// Returns the first second of the oldest block or sample.
    fn oldest(&self) -> u64 {
        let blocks = self.windows.keys().map(|(level, number)| start(*level, *number));
        blocks.chain(self.open.map(|open| start(Level::Raw, open))).min().unwrap_or(0)
    }

    /// Returns the level and the step of an answer: the coarsest level of at most `step`, or a coarser one if that reaches further back.
    fn resolution(&self, from: u64, to: u64, step: u64) -> (Level, u64) {
        // Aligned, the first and the last point may be parts of a step.
        let least = (to - from).div_ceil(MAX_POINTS_IN_ALL - 2);
        let step = step.max(least).clamp(1, LATEST);
        let fits = |it: &Level| it.step() <= step;
        let first = Level::ALL.into_iter().rev().find(fits).unwrap_or(Level::Raw);
        let reaches = |it: &Level| {
            *it >= first && self.given_up.get(&(*it as u8)).is_none_or(|before| *before <= from)
        };
        let level = Level::ALL.into_iter().find(reaches).unwrap_or(Level::Hours);
        (level, step.next_multiple_of(level.step()))
    }

    /// Returns the samples of a series that are not sealed, as points of a level.
    fn open_points(&self, id: u32, level: Level) -> Points {
        let mut points = Points::new();
        for (at, value) in self.samples.get(&id).into_iter().flatten() {
            add(&mut points, at - at % level.step(), Sums::of(*value));
        }
        points
    }
}

/// Encodes the samples of one time: time, number of samples, and for each the difference to the series before and the value.
fn encode_tick(at: u64, values: &BTreeMap<u32, u64>) -> Vec<u8> {
    let mut out = Vec::with_capacity(values.len() * 4 + 16);
    put(&mut out, at);
    put(&mut out, values.len() as u64);
    let mut before = 0;
    for (id, value) in values {
        put(&mut out, u64::from(id - before));
        put(&mut out, *value);
        before = *id;
    }
    out
}

fn decode_tick(mut bytes: &[u8]) -> Option<(u64, BTreeMap<u32, u64>)> {
    let at = take(&mut bytes).filter(|at| *at <= LATEST)?;
    let len = take(&mut bytes)?;
    let (mut id, mut values) = (0_u32, BTreeMap::new());
    for _ in 0..len {
        id = id.checked_add(u32::try_from(take(&mut bytes)?).ok()?)?;
        values.insert(id, take(&mut bytes)?);
    }
    bytes.is_empty().then_some((at, values))
}

#[cfg(test)]
mod tests;
