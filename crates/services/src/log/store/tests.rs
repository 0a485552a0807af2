//! Tests the log store on files: what is kept, the reading order, and what is removed first.

use std::fs::File;

use super::*;
use crate::disk::small::SmallDisk;

const KIB: u64 = 1024;

fn line(number: u64, program: &str, text: &str) -> LogLine {
    let level = if text.starts_with("warn") { LogLevel::Warn } else { LogLevel::Info };
    LogLine { number, time: 100 + number, level, program: program.into(), text: text.into() }
}

fn all() -> LogFilter {
    LogFilter { programs: Vec::new(), since: 0, level: LogLevel::Debug }
}

fn read<D: Disk>(store: &mut LogStore<D>, filter: &LogFilter) -> Vec<LogLine> {
    let (mut lines, mut from) = (Vec::new(), 0);
    loop {
        let page = store.read(from, filter).unwrap();
        assert!(page.end || page.next > from, "reading would not terminate");
        lines.extend(page.lines);
        from = page.next;
        if page.end {
            return lines;
        }
    }
}

fn numbers(lines: &[LogLine]) -> Vec<u64> {
    lines.iter().map(|line| line.number).collect()
}

#[test]
fn selected_lines_are_read_in_order() {
    let mut store = LogStore::new(tempfile::tempfile().unwrap(), 64 * KIB);
    assert_eq!(store.next().unwrap(), 0);
    assert_eq!(store.read(0, &all()).unwrap(), Page { lines: vec![], next: 0, end: true });
    let programs = ["kernel", "app b", "app a"].into_iter().cycle();
    let texts = ["warn", "x"].into_iter().cycle();
    let said = programs.zip(texts).zip(0..9);
    let lines: Vec<LogLine> =
        said.map(|((program, text), number)| line(number, program, text)).collect();
    assert_eq!(store.keep(&lines[..4]).unwrap(), 4);
    assert_eq!(store.keep(&lines[2..]).unwrap(), 9, "two are already stored");
    assert_eq!(read(&mut store, &all()), lines);
    assert_eq!(store.programs().unwrap(), ["app a", "app b", "kernel"]);
    let of = |programs: &[&str]| LogFilter {
        programs: programs.iter().map(|it| (*it).to_owned()).collect(),
        ..all()
    };
    assert_eq!(numbers(&read(&mut store, &of(&["app b"]))), [1, 4, 7]);
    assert_eq!(numbers(&read(&mut store, &of(&["app b", "kernel"]))), [0, 1, 3, 4, 6, 7]);
    assert!(read(&mut store, &of(&["app"])).is_empty());
    assert_eq!(numbers(&read(&mut store, &LogFilter { since: 106, ..all() })), [6, 7, 8]);
    assert_eq!(
        numbers(&read(&mut store, &LogFilter { level: LogLevel::Warn, ..all() })),
        [0, 2, 4, 6, 8]
    );
    let mut last = |count, before, filter: &LogFilter| {
        let Part { from, found, end, .. } = store.last(count, before, filter).unwrap();
        (from, found, end)
    };
    let (most, warnings) = (u64::MAX, LogFilter { level: LogLevel::Warn, ..all() });
    assert_eq!(last(2, most, &of(&["app a"])), (5, 2, false));
    assert_eq!(last(3, most, &warnings), (4, 3, false));
    assert_eq!(last(3, 4, &warnings), (0, 2, true));
    assert_eq!(last(99, most, &all()), (0, 9, true));
    assert_eq!(last(0, most, &all()), (9, 0, false));
    assert_eq!(last(9, most, &of(&["app"])), (9, 0, true));
}

#[test]
fn search_for_last_lines_continues_to_the_oldest() {
    let mut store = LogStore::new(tempfile::tempfile().unwrap(), 1 << 30);
    let count = 2 * MAX_SCANNED as u64 + 10;
    let text = |number| if number % 150 == 3 { "warn" } else { "x" };
    let program = |number| if number % 2 == 0 { "kernel" } else { "app a" };
    let lines: Vec<LogLine> = (0..count).map(|it| line(it, program(it), text(it))).collect();
    store.keep(&lines).unwrap();
    let warnings = LogFilter { level: LogLevel::Warn, ..all() };
    let (mut before, mut parts) = (u64::MAX, Vec::new());
    loop {
        let part = store.last(10, before, &warnings).unwrap();
        assert!(part.end || part.before < before, "the search would not terminate");
        before = part.before;
        parts.push((part.from, part.found));
        if part.end {
            break;
        }
    }
    // 303, 153 and 3, and then nothing.
    assert_eq!(parts, [(303, 1), (153, 1), (3, 1)]);
}

#[test]
fn program_over_quota_loses_its_own_oldest_lines() {
    let mut store = LogStore::new(tempfile::tempfile().unwrap(), 4 * KIB);
    store.keep(&[line(0, "app quiet", "here I am")]).unwrap();
    let text = "x".repeat(100);
    for turn in 0..20 {
        let lines: Vec<LogLine> =
            (0..20).map(|it| line(1 + turn * 20 + it, "app chatter", &text)).collect();
        store.keep(&lines).unwrap();
    }
    let lines = read(&mut store, &all());
    assert_eq!(lines[0].text, "here I am");
    let kept = numbers(&lines[1..]);
    let expected = 4 * KIB / size("app chatter", &text);
    assert!(kept.iter().copied().eq(401 - expected..401), "{kept:?}");
    // A line that exceeds the quota is kept alone.
    store.keep(&[line(401, "app chatter", &"y".repeat(5_000))]).unwrap();
    assert_eq!(numbers(&read(&mut store, &all())), [0, 401]);
}

#[test]
fn day_of_crashing_apps_fits_in_the_quotas() {
    // An app that crashes at once is started 918 times a day and the kernel, which is never held, 2,885 times; see the
    // monitor's `incidents/day.rs`. Each end and start are at most eight lines of the monitor and eight of the program.
    let file = tempfile::tempfile().unwrap();
    let mut store = LogStore::new(file.try_clone().unwrap(), 64 * KIB);
    store.keep(&[line(0, "app quiet", "here I am")]).unwrap();
    let programs = ["app bad", "monitor on bad", "kernel", "monitor"];
    let text = "x".repeat(120);
    let lines: Vec<LogLine> = (1..=2_885 * 16)
        .map(|number| line(number, programs[usize::try_from(number).unwrap() % 4], &text))
        .collect();
    let mut largest = 0;
    for batch in lines.chunks(400) {
        store.keep(batch).unwrap();
        largest = largest.max(file.metadata().unwrap().len());
    }
    let kept = read(&mut store, &all());
    assert_eq!(kept[0].text, "here I am");
    for program in programs {
        let of = kept.iter().filter(|line| line.program == program);
        let bytes: u64 = of.map(|line| size(program, &line.text)).sum();
        assert!(
            bytes <= 64 * KIB && bytes + 2 * size(program, &text) > 64 * KIB,
            "{program}: {bytes}"
        );
    }
    // The file has the quotas of five programs, and what its format needs beside them.
    assert!(largest <= 3 * 5 * 64 * KIB + 2048 * KIB, "{largest}");
}

#[test]
fn silent_programs_are_removed_for_others() {
    let mut store = LogStore::new(tempfile::tempfile().unwrap(), 4 * KIB);
    let lines: Vec<LogLine> =
        (0..MAX_PROGRAMS + 2).map(|it| line(it, &format!("app {it}"), "x")).collect();
    assert_eq!(store.keep(&lines).unwrap(), MAX_PROGRAMS + 2);
    assert_eq!(read(&mut store, &all()), lines[2..]);
}

#[test]
fn removals_per_batch_are_bounded() {
    let file = tempfile::tempfile().unwrap();
    let open = |most| LogStore::<File>::new(file.try_clone().unwrap(), most);
    let mut store = open(1024 * KIB);
    let lines: Vec<LogLine> = (0..25_000).map(|it| line(it, "kernel", "x")).collect();
    for batch in lines.chunks(5_000) {
        store.keep(batch).unwrap();
    }
    drop(store);
    let mut store = open(64 * KIB);
    let most = 64 * KIB / size("kernel", "x");
    let mut next = 25_000;
    for left in [15_001, 5_002, most] {
        store.keep(&[line(next, "kernel", "x")]).unwrap();
        next += 1;
        assert_eq!(read(&mut store, &all()).len() as u64, left);
    }

    drop(store);
    let mut store = open(1024 * KIB);
    let lines: Vec<LogLine> = (next..next + 15_000).map(|it| line(it, "kernel", "x")).collect();
    store.keep(&lines).unwrap();
    next += 15_000;
    let kernels = LogFilter { programs: vec!["kernel".into()], ..all() };
    let mut left = most + 15_000;
    let app = |number: u64, app: u64| line(number, &format!("app {app}"), "x");
    let others = MAX_PROGRAMS - 1;
    let lines: Vec<LogLine> = (0..others).map(|it| app(next + it, it)).collect();
    store.keep(&lines).unwrap();
    next += others;
    for more in 0..3 {
        assert_eq!(read(&mut store, &kernels).len() as u64, left);
        store.keep(&[app(next, others + more)]).unwrap();
        next += 1;
        left = left.saturating_sub(MAX_REMOVALS as u64);
    }
    assert_eq!(left, 0);
    assert_eq!(store.programs().unwrap().len() as u64, MAX_PROGRAMS);
}

#[test]
fn long_log_is_read_in_pages() {
    let mut store = LogStore::new(tempfile::tempfile().unwrap(), 64 * 1024 * KIB);
    let lines: Vec<LogLine> = (0..25_000).map(|it| line(it, "kernel", "x")).collect();
    for batch in lines.chunks(5_000) {
        store.keep(batch).unwrap();
    }
    store.keep(&[line(25_000, "kernel", "warn")]).unwrap();
    assert_eq!(read(&mut store, &all()).len(), 25_001);
    let warn = LogFilter { level: LogLevel::Warn, ..all() };
    let page = store.read(0, &warn).unwrap();
    assert_eq!((page.lines.len(), page.next, page.end), (0, MAX_SCANNED as u64, false));
    assert_eq!(numbers(&read(&mut store, &warn)), [25_000]);
}

#[test]
fn full_disk_keeps_lines_and_recovers() {
    let (disk, capacity) = SmallDisk::new(0);
    let mut store = LogStore::new(disk, 64 * 1024 * KIB);
    assert!(matches!(store.next(), Err(DiskError::Full)));
    capacity.store(2 << 20, std::sync::atomic::Ordering::Relaxed);
    let mut next = store.next().unwrap();
    let text = "x".repeat(4_000);
    let full = loop {
        match store.keep(&[line(next, "kernel", &text)]) {
            Ok(after) => next = after,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, DiskError::Full), "{full}");
    assert!(next > 100 && store.keep(&[line(next, "kernel", &text)]).is_err());
    assert_eq!(read(&mut store, &all()).len() as u64, next);
    capacity.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(store.keep(&[line(next, "kernel", "next")]).unwrap(), next + 1);
}

#[test]
fn lines_survive_reopening() {
    let file = tempfile::tempfile().unwrap();
    let open = || LogStore::<File>::new(file.try_clone().unwrap(), 64 * KIB);
    open().keep(&[line(0, "kernel", "one")]).unwrap();
    let mut store = open();
    assert_eq!(store.next().unwrap(), 1);
    store.keep(&[line(1, "kernel", "two")]).unwrap();
    assert_eq!(read(&mut open(), &all()).len(), 2);
}
