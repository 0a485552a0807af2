//! Tests with a simulated log service. They use pending lines of their own, because other tests add to the global ones.

use super::*;

fn line(program: &str, text: &str) -> LogLine {
    LogLine {
        number: 0,
        time: 1,
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
    let (mut batches, mut next) = (Vec::new(), 0);
    loop {
        let batch = pending.take(next, 2);
        if batch.is_empty() {
            break;
        }
        assert!(batch.iter().map(LogLine::size).sum::<usize>() <= MAX_LINES);
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
    assert_eq!(pending.unreported, 10_000 - chatter as u64);
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
    for _ in 0..20 {
        pending.add(line("kernel", &"x".repeat(4_000)));
    }
    while pending.lines.len() > 1 {
        pending.take(0, 2);
    }
    pending.add(line("kernel", "next"));
    let batch = pending.take(0, 2);
    let place = batch.iter().position(|it| it.text == "next").unwrap();
    assert!(batch[place - 1].text.contains("lines are missing here"), "{batch:?}");
}

#[test]
fn lines_without_level_are_warnings() {
    let kernel = "2026-11-21T18:24:22.123456Z  INFO rosemary_kernel: switch connected dpid=1";
    assert_eq!(
        parse(without_time(kernel)),
        (LogLevel::Info, "rosemary_kernel: switch connected dpid=1")
    );
    assert_eq!(parse(" WARN text"), (LogLevel::Warn, "text"));
    assert_eq!(parse("TRACE x"), (LogLevel::Debug, "x"));
    for past in ["thread 'main' panicked", "", "2026Z", "INFOtext"] {
        assert_eq!(parse(without_time(past)), (LogLevel::Warn, past), "{past}");
    }
}

/// A forwarder and the log service's end of its socket.
struct Fixture {
    forwarder: LogForwarder,
    log: Packets,
    now: Instant,
}

fn fixture() -> Fixture {
    let now = Instant::now();
    let mut forwarder = LogForwarder::new(now);
    let (ours, log) = Packets::pair().unwrap();
    forwarder.connect(ours, now);
    forwarder.forward(now);
    Fixture { forwarder, log, now }
}

impl Fixture {
    fn receive_request(&self) -> (u64, LogRequest) {
        let mut room = vec![0; 64 * 1024];
        let (size, _) = self.log.receive(&mut room).unwrap();
        let id = u64::from_le_bytes(*room.first_chunk().unwrap());
        (id, serde_json::from_slice(&room[8..size]).unwrap())
    }

    fn answer(&mut self, id: u64, answer: &LogReply) -> Result<(), InvalidReply> {
        let body = serde_json::to_vec(answer).unwrap();
        self.log.send(&[&id.to_le_bytes()[..], &[0], &body].concat()).unwrap();
        self.forwarder.receive(self.now)
    }

    /// Connects a restarted log service that has lines below `next`.
    fn reconnect(&mut self, next: u64) {
        let (ours, log) = Packets::pair().unwrap();
        self.forwarder.disconnect();
        self.forwarder.connect(ours, self.now);
        self.log = log;
        self.forwarder.forward(self.now);
        let (id, request) = self.receive_request();
        assert_eq!(request, LogRequest::Next);
        self.answer(id, &LogReply::Next(next)).unwrap();
    }
}

#[test]
fn batch_is_resent_until_confirmed() {
    let mut fixture = fixture();
    let (id, request) = fixture.receive_request();
    assert_eq!(request, LogRequest::Next);
    fixture.answer(id, &LogReply::Next(40)).unwrap();
    let batch = [line("kernel", "a"), line("kernel", "b")];
    let numbered = |first: u64| -> Vec<LogLine> {
        batch.iter().zip(first..).map(|(it, number)| LogLine { number, ..it.clone() }).collect()
    };
    fixture.forwarder.batch = numbered(40);

    // The disk is full, so the batch is sent again later.
    fixture.now += RETRY;
    fixture.forwarder.forward(fixture.now);
    let (id, request) = fixture.receive_request();
    assert_eq!(request, LogRequest::Keep(numbered(40)));
    fixture.answer(id, &LogReply::NotKept).unwrap();
    assert_eq!(fixture.forwarder.next_due(), Some(fixture.now + RETRY));
    fixture.now += RETRY;
    fixture.forwarder.forward(fixture.now);
    assert_eq!(fixture.receive_request().1, LogRequest::Keep(numbered(40)));

    // A log service that died before it stored the batch, one with a new file, one that stored the batch.
    fixture.reconnect(40);
    assert_eq!(fixture.forwarder.batch, numbered(40));
    fixture.reconnect(0);
    assert_eq!(fixture.forwarder.batch, numbered(0));
    fixture.reconnect(2);
    assert!(fixture.forwarder.batch.is_empty());
}

#[test]
fn silent_log_service_is_overdue() {
    let mut fixture = fixture();
    let begin = fixture.now;
    let (id, _) = fixture.receive_request();
    assert_eq!(fixture.forwarder.next_due(), Some(begin + REPLY_TIMEOUT));
    assert!(!fixture.forwarder.is_overdue(begin + REPLY_TIMEOUT * 29 / 30));
    assert!(fixture.forwarder.is_overdue(begin + REPLY_TIMEOUT));
    fixture.answer(id, &LogReply::Next(0)).unwrap();
    assert!(!fixture.forwarder.is_overdue(begin + REPLY_TIMEOUT));
    let mut silent = self::fixture();
    silent.forwarder.disconnect();
    assert!(!silent.forwarder.is_overdue(silent.now + REPLY_TIMEOUT));
    assert_eq!(silent.forwarder.next_due(), None);
}

#[test]
fn unexpected_reply_is_invalid() {
    let mut fixture = fixture();
    let (id, _) = fixture.receive_request();
    assert_eq!(fixture.answer(id + 1, &LogReply::Next(0)), Err(InvalidReply));
    let mut fixture = self::fixture();
    let (id, _) = fixture.receive_request();
    assert_eq!(fixture.answer(id, &LogReply::Programs(Vec::new())), Err(InvalidReply));
    let mut fixture = self::fixture();
    let (id, _) = fixture.receive_request();
    assert_eq!(fixture.answer(id, &LogReply::Next(u64::MAX)), Err(InvalidReply));
    let mut fixture = self::fixture();
    let (id, _) = fixture.receive_request();
    fixture.answer(id, &LogReply::Next(0)).unwrap();
    assert_eq!(fixture.answer(id, &LogReply::Next(0)), Err(InvalidReply));
}
