//! Tests the pending lines alone, and a forwarder with a simulated log service.
//!
//! The tests of the pending lines make a [`PendingLines`] of their own instead of using the global one, to which all other
//! tests of this process log.

use super::*;

/// When the lines of these tests were received, in nanoseconds since 1970.
const RECEIVED_AT: u64 = 1;

/// When batches are taken from the pending lines: the time of the lines that report a loss.
const TAKEN_AT: u64 = 2;

fn line(program: &str, text: &str) -> LogLine {
    LogLine {
        number: 0,
        time: RECEIVED_AT,
        level: LogLevel::Info,
        program: program.into(),
        text: text.into(),
    }
}

fn texts(lines: &[LogLine]) -> Vec<&str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

#[test]
fn flooding_program_loses_only_its_own_lines() {
    let mut pending = PendingLines::new();
    for _ in 0..10_000 {
        pending.add(line("app chatter", &"x".repeat(100)));
    }
    pending.add(line("app quiet", "here I am"));
    let (mut taken, mut next) = (Vec::new(), 0);
    loop {
        let batch = pending.take(next, TAKEN_AT);
        if batch.is_empty() {
            break;
        }
        assert!(batch.iter().map(LogLine::size).sum::<usize>() <= MAX_BATCH_BYTES);
        next += batch.len() as u64;
        taken.extend(batch);
    }
    assert!(taken.iter().map(|it| it.number).eq(0..next));
    let kept = taken.iter().filter(|it| it.text.starts_with('x')).count();
    // A line has 100 bytes of text and about as many of JSON: 64 KiB hold some 350.
    assert!((100..1_000).contains(&kept), "{kept}");
    let quiet = taken.iter().filter(|it| it.program == "app quiet");
    assert_eq!(texts(&quiet.cloned().collect::<Vec<_>>()), ["here I am"]);
    let last = taken.last().unwrap();
    let missing = format!("({} lines are missing here", 10_000 - kept);
    assert!(last.program == "app chatter" && last.text.starts_with(&missing), "{last:?}");
    assert_eq!(last.time, TAKEN_AT);
    assert_eq!(pending.unreported_on_stderr, 10_000 - kept as u64);
    assert!(pending.is_empty() && pending.programs.is_empty());
}

#[test]
fn lines_about_apps_are_found_by_fields() {
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
fn count_of_lost_lines_precedes_next_line() {
    let mut pending = PendingLines::new();
    // 80 kB, more than the 64 KiB that a program may have pending, so that some are lost.
    for _ in 0..20 {
        pending.add(line("kernel", &"x".repeat(4_000)));
    }
    assert!(pending.unreported_on_stderr > 0);
    while pending.lines.len() > 1 {
        pending.take(0, TAKEN_AT);
    }
    pending.add(line("kernel", "next"));
    let batch = pending.take(0, TAKEN_AT);
    let place = batch.iter().position(|it| it.text == "next").unwrap();
    assert!(batch[place - 1].text.contains("lines are missing here"), "{batch:?}");
}

#[test]
fn log_line_has_level_of_its_prefix() {
    let kernel = "2026-11-21T18:24:22.123456Z  INFO rosemary_kernel: switch connected dpid=1";
    assert_eq!(
        parse(without_time(kernel)),
        (LogLevel::Info, "rosemary_kernel: switch connected dpid=1")
    );
    assert_eq!(parse(" WARN text"), (LogLevel::Warn, "text"));
    assert_eq!(parse("TRACE x"), (LogLevel::Debug, "x"));
}

#[test]
fn lines_without_level_are_warnings() {
    for bypassing in ["thread 'main' panicked", "", "2026Z", "INFOtext"] {
        assert_eq!(parse(without_time(bypassing)), (LogLevel::Warn, bypassing), "{bypassing}");
    }
}

/// A forwarder, and the end of its socket that a log service would have.
struct Fixture {
    forwarder: LogForwarder,
    service_end: Packets,
    now: Instant,
}

impl Fixture {
    /// Connects a forwarder, which sends its first request: [`LogRequest::Next`].
    fn connected() -> Self {
        let now = Instant::now();
        let mut forwarder = LogForwarder::new(now);
        let (monitor_end, service_end) = Packets::pair().unwrap();
        forwarder.connect(monitor_end, now);
        forwarder.forward(now);
        Self { forwarder, service_end, now }
    }

    fn receive_request(&self) -> (u64, LogRequest) {
        let mut buffer = vec![0; MAX_MESSAGE];
        let (size, _) = self.service_end.receive(&mut buffer).unwrap();
        let (id, request) = buffer[..size].split_first_chunk().unwrap();
        (u64::from_le_bytes(*id), serde_json::from_slice(request).unwrap())
    }

    /// Sends a reply to the forwarder, which receives it.
    fn reply(&mut self, id: u64, reply: &LogReply) -> Result<(), InvalidReply> {
        const NO_MORE: u8 = 0; // the byte in which a service announces a further answer, see `sdk::services`
        let body = serde_json::to_vec(reply).unwrap();
        self.service_end.send(&[&id.to_le_bytes()[..], &[NO_MORE], &body].concat()).unwrap();
        self.forwarder.receive(self.now)
    }

    /// Receives the request for the next number and answers it.
    fn reply_next(&mut self, next: u64) {
        let (id, request) = self.receive_request();
        assert_eq!(request, LogRequest::Next);
        self.reply(id, &LogReply::Next(next)).unwrap();
    }

    /// Connects a restarted log service that has lines below `next`.
    fn reconnect(&mut self, next: u64) {
        let (monitor_end, service_end) = Packets::pair().unwrap();
        self.forwarder.disconnect();
        self.forwarder.connect(monitor_end, self.now);
        self.service_end = service_end;
        self.forwarder.forward(self.now);
        self.reply_next(next);
    }
}

#[test]
fn batch_is_resent_until_confirmed() {
    let mut fixture = Fixture::connected();
    fixture.reply_next(40);
    let batch = [line("kernel", "a"), line("kernel", "b")];
    let numbered = |first: u64| -> Vec<LogLine> {
        batch.iter().zip(first..).map(|(it, number)| LogLine { number, ..it.clone() }).collect()
    };
    // A batch set by hand, as the pending lines are global.
    fixture.forwarder.batch = numbered(40);

    // The disk is full, so the batch is sent again later.
    fixture.now += RETRY;
    fixture.forwarder.forward(fixture.now);
    let (id, request) = fixture.receive_request();
    assert_eq!(request, LogRequest::Keep(numbered(40)));
    fixture.reply(id, &LogReply::NotKept).unwrap();
    assert_eq!(fixture.forwarder.next_due(), Some(fixture.now + RETRY));
    fixture.now += RETRY;
    fixture.forwarder.forward(fixture.now);
    assert_eq!(fixture.receive_request().1, LogRequest::Keep(numbered(40)));

    // The log service died before it stored the batch.
    fixture.reconnect(40);
    assert_eq!(fixture.forwarder.batch, numbered(40));
    // It has a new file.
    fixture.reconnect(0);
    assert_eq!(fixture.forwarder.batch, numbered(0));
    // It stored the batch, and died before it could confirm that.
    fixture.reconnect(2);
    assert!(fixture.forwarder.batch.is_empty());
}

#[test]
fn silent_log_service_is_overdue() {
    let mut fixture = Fixture::connected();
    let begin = fixture.now;
    let (id, _) = fixture.receive_request();
    assert_eq!(fixture.forwarder.next_due(), Some(begin + REPLY_TIMEOUT));
    let shortly_before = begin + REPLY_TIMEOUT.saturating_sub(Duration::from_millis(1));
    assert!(!fixture.forwarder.is_overdue(shortly_before));
    assert!(fixture.forwarder.is_overdue(begin + REPLY_TIMEOUT));
    fixture.reply(id, &LogReply::Next(0)).unwrap();
    assert!(!fixture.forwarder.is_overdue(begin + REPLY_TIMEOUT));
}

#[test]
fn log_service_that_ended_is_not_overdue() {
    let mut fixture = Fixture::connected();
    fixture.forwarder.disconnect();
    assert!(!fixture.forwarder.is_overdue(fixture.now + REPLY_TIMEOUT));
    assert_eq!(fixture.forwarder.next_due(), None);
}

#[test]
fn unexpected_reply_is_invalid() {
    let cases = [
        ("to another request", 1, LogReply::Next(0)),
        ("of a type that answers operators", 0, LogReply::Programs(Vec::new())),
        ("with a number out of range", 0, LogReply::Next(u64::MAX)),
    ];
    for (case, id_offset, reply) in cases {
        let mut fixture = Fixture::connected();
        let (id, _) = fixture.receive_request();
        assert_eq!(fixture.reply(id + id_offset, &reply), Err(InvalidReply), "{case}");
    }
}

#[test]
fn second_reply_to_a_request_is_invalid() {
    let mut fixture = Fixture::connected();
    let (id, _) = fixture.receive_request();
    fixture.reply(id, &LogReply::Next(0)).unwrap();
    assert_eq!(fixture.reply(id, &LogReply::Next(0)), Err(InvalidReply));
}
