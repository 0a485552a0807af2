//! The book on files: what is kept, in which order it is read, and what goes first.

use std::fs::File;

use super::*;
use crate::disk::small::Small;

const KIB: u64 = 1024;

fn line(number: u64, program: &str, text: &str) -> Line {
    let level = if text.starts_with("warn") { Level::Warn } else { Level::Info };
    Line { number, time: 100 + number, level, program: program.into(), text: text.into() }
}

fn all() -> Filter {
    Filter { programs: Vec::new(), since: 0, level: Level::Debug }
}

fn read<D: Disk>(book: &mut Book<D>, filter: &Filter) -> Vec<Line> {
    let (mut lines, mut from) = (Vec::new(), 0);
    loop {
        let page = book.read(from, filter).unwrap();
        assert!(page.end || page.next > from, "it would be read for ever");
        lines.extend(page.lines);
        from = page.next;
        if page.end {
            return lines;
        }
    }
}

fn numbers(lines: &[Line]) -> Vec<u64> {
    lines.iter().map(|line| line.number).collect()
}

#[test]
fn lines_are_read_as_they_came_whole_and_of_whom_one_wants() {
    let mut book = Book::new(tempfile::tempfile().unwrap(), 64 * KIB);
    assert_eq!(book.next().unwrap(), 0);
    assert_eq!(book.read(0, &all()).unwrap(), Page { lines: vec![], next: 0, end: true });
    let programs = ["kernel", "app b", "app a"].into_iter().cycle();
    let texts = ["warn", "x"].into_iter().cycle();
    let said = programs.zip(texts).zip(0..9);
    let lines: Vec<Line> =
        said.map(|((program, text), number)| line(number, program, text)).collect();
    assert_eq!(book.keep(&lines[..4]).unwrap(), 4);
    assert_eq!(book.keep(&lines[2..]).unwrap(), 9, "two of them are there already");
    assert_eq!(read(&mut book, &all()), lines);
    assert_eq!(book.programs().unwrap(), ["app a", "app b", "kernel"]);
    let of = |programs: &[&str]| Filter {
        programs: programs.iter().map(|it| (*it).to_owned()).collect(),
        ..all()
    };
    assert_eq!(numbers(&read(&mut book, &of(&["app b"]))), [1, 4, 7]);
    assert_eq!(numbers(&read(&mut book, &of(&["app b", "kernel"]))), [0, 1, 3, 4, 6, 7]);
    assert!(read(&mut book, &of(&["app"])).is_empty());
    assert_eq!(numbers(&read(&mut book, &Filter { since: 106, ..all() })), [6, 7, 8]);
    assert_eq!(numbers(&read(&mut book, &Filter { level: Level::Warn, ..all() })), [0, 2, 4, 6, 8]);
    let mut last = |count, before, filter: &Filter| {
        let Part { from, found, end, .. } = book.last(count, before, filter).unwrap();
        (from, found, end)
    };
    let (most, warnings) = (u64::MAX, Filter { level: Level::Warn, ..all() });
    assert_eq!(last(2, most, &of(&["app a"])), (5, 2, false));
    assert_eq!(last(3, most, &warnings), (4, 3, false));
    assert_eq!(last(3, 4, &warnings), (0, 2, true));
    assert_eq!(last(99, most, &all()), (0, 9, true));
    assert_eq!(last(0, most, &all()), (9, 0, false));
    assert_eq!(last(9, most, &of(&["app"])), (9, 0, true));
}

#[test]
fn search_for_the_last_lines_goes_on_in_parts_to_the_oldest() {
    let mut book = Book::new(tempfile::tempfile().unwrap(), 1 << 30);
    let count = 2 * MOST_LOOKED_AT as u64 + 10;
    let text = |number| if number % 150 == 3 { "warn" } else { "x" };
    let program = |number| if number % 2 == 0 { "kernel" } else { "app a" };
    let lines: Vec<Line> = (0..count).map(|it| line(it, program(it), text(it))).collect();
    book.keep(&lines).unwrap();
    let warnings = Filter { level: Level::Warn, ..all() };
    let (mut before, mut parts) = (u64::MAX, Vec::new());
    loop {
        let part = book.last(10, before, &warnings).unwrap();
        assert!(part.end || part.before < before, "it would be asked for ever");
        before = part.before;
        parts.push((part.from, part.found));
        if part.end {
            break;
        }
    }
    // 303; 153; 3, and behind it nothing.
    assert_eq!(parts, [(303, 1), (153, 1), (3, 1)]);
}

#[test]
fn program_that_says_much_pushes_out_its_own_oldest_lines_and_no_others() {
    let mut book = Book::new(tempfile::tempfile().unwrap(), 4 * KIB);
    book.keep(&[line(0, "app quiet", "here I am")]).unwrap();
    let text = "x".repeat(100);
    for turn in 0..20 {
        let lines: Vec<Line> =
            (0..20).map(|it| line(1 + turn * 20 + it, "app chatter", &text)).collect();
        book.keep(&lines).unwrap();
    }
    let lines = read(&mut book, &all());
    assert_eq!(lines[0].text, "here I am");
    let kept = numbers(&lines[1..]);
    let expected = 4 * KIB / size("app chatter", &text);
    assert!(kept.iter().copied().eq(401 - expected..401), "{kept:?}");
    // One that is longer than all its room is kept alone.
    book.keep(&[line(401, "app chatter", &"y".repeat(5_000))]).unwrap();
    assert_eq!(numbers(&read(&mut book, &all())), [0, 401]);
}

#[test]
fn programs_that_are_long_gone_make_room_for_others() {
    let mut book = Book::new(tempfile::tempfile().unwrap(), 4 * KIB);
    let lines: Vec<Line> =
        (0..MOST_PROGRAMS + 2).map(|it| line(it, &format!("app {it}"), "x")).collect();
    assert_eq!(book.keep(&lines).unwrap(), MOST_PROGRAMS + 2);
    assert_eq!(read(&mut book, &all()), lines[2..]);
}

#[test]
fn lowered_quota_and_a_program_that_goes_take_out_so_many_lines_with_a_batch_and_the_rest_later() {
    let file = tempfile::tempfile().unwrap();
    let open = |most| Book::<File>::new(file.try_clone().unwrap(), most);
    let mut book = open(1024 * KIB);
    let lines: Vec<Line> = (0..25_000).map(|it| line(it, "kernel", "x")).collect();
    for batch in lines.chunks(5_000) {
        book.keep(batch).unwrap();
    }
    drop(book);
    let mut book = open(64 * KIB);
    let most = 64 * KIB / size("kernel", "x");
    let mut next = 25_000;
    for left in [15_001, 5_002, most] {
        book.keep(&[line(next, "kernel", "x")]).unwrap();
        next += 1;
        assert_eq!(read(&mut book, &all()).len() as u64, left);
    }

    drop(book);
    let mut book = open(1024 * KIB);
    let lines: Vec<Line> = (next..next + 15_000).map(|it| line(it, "kernel", "x")).collect();
    book.keep(&lines).unwrap();
    next += 15_000;
    let kernels = Filter { programs: vec!["kernel".into()], ..all() };
    let mut left = most + 15_000;
    let app = |number: u64, app: u64| line(number, &format!("app {app}"), "x");
    let others = MOST_PROGRAMS - 1;
    let lines: Vec<Line> = (0..others).map(|it| app(next + it, it)).collect();
    book.keep(&lines).unwrap();
    next += others;
    for more in 0..3 {
        assert_eq!(read(&mut book, &kernels).len() as u64, left);
        book.keep(&[app(next, others + more)]).unwrap();
        next += 1;
        left = left.saturating_sub(MOST_GOING as u64);
    }
    assert_eq!(left, 0);
    assert_eq!(book.programs().unwrap().len() as u64, MOST_PROGRAMS);
}

#[test]
fn long_log_is_read_in_pages_also_where_little_of_it_is_wanted() {
    let mut book = Book::new(tempfile::tempfile().unwrap(), 64 * 1024 * KIB);
    let lines: Vec<Line> = (0..25_000).map(|it| line(it, "kernel", "x")).collect();
    for batch in lines.chunks(5_000) {
        book.keep(batch).unwrap();
    }
    book.keep(&[line(25_000, "kernel", "warn")]).unwrap();
    assert_eq!(read(&mut book, &all()).len(), 25_001);
    let warn = Filter { level: Level::Warn, ..all() };
    let page = book.read(0, &warn).unwrap();
    assert_eq!((page.lines.len(), page.next, page.end), (0, MOST_LOOKED_AT as u64, false));
    assert_eq!(numbers(&read(&mut book, &warn)), [25_000]);
}

#[test]
fn full_disk_keeps_what_is_there_and_goes_on_when_there_is_room() {
    let (disk, room) = Small::new(0);
    let mut book = Book::new(disk, 64 * 1024 * KIB);
    assert!(matches!(book.next(), Err(DiskError::Full)));
    room.store(2 << 20, std::sync::atomic::Ordering::Relaxed);
    let mut next = book.next().unwrap();
    let text = "x".repeat(4_000);
    let full = loop {
        match book.keep(&[line(next, "kernel", &text)]) {
            Ok(after) => next = after,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, DiskError::Full), "{full}");
    assert!(next > 100 && book.keep(&[line(next, "kernel", &text)]).is_err());
    assert_eq!(read(&mut book, &all()).len() as u64, next);
    room.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(book.keep(&[line(next, "kernel", "next")]).unwrap(), next + 1);
}

#[test]
fn lines_are_there_when_the_file_is_opened_again() {
    let file = tempfile::tempfile().unwrap();
    let open = || Book::<File>::new(file.try_clone().unwrap(), 64 * KIB);
    open().keep(&[line(0, "kernel", "one")]).unwrap();
    let mut book = open();
    assert_eq!(book.next().unwrap(), 1);
    book.keep(&[line(1, "kernel", "two")]).unwrap();
    assert_eq!(read(&mut open(), &all()).len(), 2);
}
