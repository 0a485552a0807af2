//! Lines on their way, with a log that is played. What waits here is not the process's, which other tests
//! add to.

use super::*;

fn line(program: &str, text: &str) -> Line {
    Line { number: 0, time: 1, level: Level::Info, program: program.into(), text: text.into() }
}

fn texts(lines: &[Line]) -> Vec<&str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

#[test]
fn program_that_talks_without_end_loses_its_own_lines_and_nobody_elses() {
    let mut waiting = Waiting::new();
    for _ in 0..10_000 {
        waiting.add(line("app chatter", &"x".repeat(100)));
    }
    waiting.add(line("app quiet", "here I am"));
    let (mut batches, mut next) = (Vec::new(), 0);
    loop {
        let batch = waiting.take(next, 2);
        if batch.is_empty() {
            break;
        }
        assert!(batch.iter().map(Line::size).sum::<usize>() <= MOST_LINES);
        next += batch.len() as u64;
        batches.extend(batch);
    }
    assert!(batches.iter().map(|it| it.number).eq(0..next));
    let chatter = batches.iter().filter(|it| it.text.starts_with('x')).count();
    assert!((100..1_000).contains(&chatter), "{chatter}");
    let quiet = batches.iter().filter(|it| it.program == "app quiet");
    assert_eq!(texts(&quiet.cloned().collect::<Vec<_>>()), ["here I am"]);
    let last = batches.last().unwrap();
    let missing = format!("({} lines are missing here", 10_000 - chatter);
    assert!(last.program == "app chatter" && last.text.starts_with(&missing), "{last:?}");
    assert_eq!(waiting.untold, 10_000 - chatter as u64);
    assert!(waiting.is_empty() && waiting.of.is_empty());
}

#[test]
fn lines_about_an_app_are_told_from_others_by_their_fields_which_nobody_else_can_write() {
    for (text, app) in [
        ("refused a system call app=\"a-1\" program=\"zone\" call=\"openat\"", Some("a-1")),
        ("died program=\"zone b\" pid=3 exit=\"signal 9: app=\\\"c\\\"\"", Some("b")),
        ("rosemary_kernel::worker: switch sent an error dpid=1 app=\"d\"", Some("d")),
        ("died program=\"service log\" pid=3", None),
        ("x why=\" app=\\\"c\\\" program=\\\"zone c\\\"\"", None),
        ("x app=\"not a name\"", None),
        ("x app=\"", None),
    ] {
        assert_eq!(app_in(text), app, "{text}");
    }
}

#[test]
fn what_is_missing_stands_before_what_comes_next() {
    let mut waiting = Waiting::new();
    for _ in 0..20 {
        waiting.add(line("kernel", &"x".repeat(4_000)));
    }
    while waiting.lines.len() > 1 {
        waiting.take(0, 2);
    }
    waiting.add(line("kernel", "next"));
    let batch = waiting.take(0, 2);
    let place = batch.iter().position(|it| it.text == "next").unwrap();
    assert!(batch[place - 1].text.contains("lines are missing here"), "{batch:?}");
}

#[test]
fn lines_of_our_programs_are_taken_apart_and_others_are_warnings() {
    let kernel = "2026-11-21T18:24:22.123456Z  INFO rosemary_kernel: switch connected dpid=1";
    assert_eq!(
        parse(without_time(kernel)),
        (Level::Info, "rosemary_kernel: switch connected dpid=1")
    );
    assert_eq!(parse(" WARN text"), (Level::Warn, "text"));
    assert_eq!(parse("TRACE x"), (Level::Debug, "x"));
    for past in ["thread 'main' panicked", "", "2026Z", "INFOtext"] {
        assert_eq!(parse(without_time(past)), (Level::Warn, past), "{past}");
    }
}

/// The journal with a log's end of its socket.
struct Played {
    journal: Journal,
    log: Packets,
    now: Instant,
}

fn played() -> Played {
    let now = Instant::now();
    let mut journal = Journal::new(now);
    let (ours, log) = Packets::pair().unwrap();
    journal.connect(ours, now);
    journal.attend(now);
    Played { journal, log, now }
}

impl Played {
    fn asked(&self) -> (u64, Request) {
        let mut room = vec![0; 64 * 1024];
        let (size, _) = self.log.receive(&mut room).unwrap();
        let id = u64::from_le_bytes(*room.first_chunk().unwrap());
        (id, serde_json::from_slice(&room[8..size]).unwrap())
    }

    fn answer(&mut self, id: u64, answer: &Answer) -> Result<(), Nonsense> {
        let body = serde_json::to_vec(answer).unwrap();
        self.log.send(&[&id.to_le_bytes()[..], &[0], &body].concat()).unwrap();
        self.journal.hear(self.now)
    }

    /// To another log, which has lines up to `next`.
    fn reconnect(&mut self, next: u64) {
        let (ours, log) = Packets::pair().unwrap();
        self.journal.disconnect();
        self.journal.connect(ours, self.now);
        self.log = log;
        self.journal.attend(self.now);
        let (id, request) = self.asked();
        assert_eq!(request, Request::Next);
        self.answer(id, &Answer::Next(next)).unwrap();
    }
}

#[test]
fn batch_is_handed_in_again_until_it_is_known_to_be_kept_and_no_line_twice() {
    let mut played = played();
    let (id, request) = played.asked();
    assert_eq!(request, Request::Next);
    played.answer(id, &Answer::Next(40)).unwrap();
    let batch = [line("kernel", "a"), line("kernel", "b")];
    let numbered = |first: u64| -> Vec<Line> {
        batch.iter().zip(first..).map(|(it, number)| Line { number, ..it.clone() }).collect()
    };
    played.journal.batch = numbered(40);

    // The disk is full: once more, later.
    played.now += RETRY;
    played.journal.attend(played.now);
    let (id, request) = played.asked();
    assert_eq!(request, Request::Keep(numbered(40)));
    played.answer(id, &Answer::NotKept).unwrap();
    assert_eq!(played.journal.next_due(), Some(played.now + RETRY));
    played.now += RETRY;
    played.journal.attend(played.now);
    assert_eq!(played.asked().1, Request::Keep(numbered(40)));

    // The log dies and had not kept it; then it is one with another file; then it had.
    played.reconnect(40);
    assert_eq!(played.journal.batch, numbered(40));
    played.reconnect(0);
    assert_eq!(played.journal.batch, numbered(0));
    played.reconnect(2);
    assert!(played.journal.batch.is_empty());
}

#[test]
fn log_that_does_not_answer_is_late_until_it_does_or_is_gone() {
    let mut played = played();
    let begin = played.now;
    let (id, _) = played.asked();
    assert_eq!(played.journal.next_due(), Some(begin + PATIENCE));
    assert!(!played.journal.is_late(begin + PATIENCE * 29 / 30));
    assert!(played.journal.is_late(begin + PATIENCE));
    played.answer(id, &Answer::Next(0)).unwrap();
    assert!(!played.journal.is_late(begin + PATIENCE));
    let mut silent = self::played();
    silent.journal.disconnect();
    assert!(!silent.journal.is_late(silent.now + PATIENCE));
    assert_eq!(silent.journal.next_due(), None);
}

#[test]
fn answer_that_was_not_asked_for_is_nonsense() {
    let mut played = played();
    let (id, _) = played.asked();
    assert_eq!(played.answer(id + 1, &Answer::Next(0)), Err(Nonsense));
    let mut played = self::played();
    let (id, _) = played.asked();
    assert_eq!(played.answer(id, &Answer::Programs(Vec::new())), Err(Nonsense));
    let mut played = self::played();
    let (id, _) = played.asked();
    assert_eq!(played.answer(id, &Answer::Next(u64::MAX)), Err(Nonsense));
    let mut played = self::played();
    let (id, _) = played.asked();
    played.answer(id, &Answer::Next(0)).unwrap();
    assert_eq!(played.answer(id, &Answer::Next(0)), Err(Nonsense));
}
