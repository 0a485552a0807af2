use proptest::prelude::*;
use serde_json::Map;

use super::*;
use crate::image::{ChangeKind, ImageError};
use crate::row::Row;
use crate::rpc::ServerError;
use crate::value::{AtomKind, Uuid, Value};
use crate::wanted::{WantedColumn, WantedTable};

const WANTED: Wanted = Wanted {
    database: "D",
    tables: &[WantedTable {
        name: "T",
        columns: &[
            WantedColumn::set("name", AtomKind::String),
            WantedColumn::set("numbers", AtomKind::Integer),
        ],
    }],
};

const A: &str = "00000000-0000-0000-0000-00000000000a";
const B: &str = "00000000-0000-0000-0000-00000000000b";
const T1: &str = "10000000-0000-0000-0000-000000000001";
const T2: &str = "10000000-0000-0000-0000-000000000002";

fn schema() -> Json {
    let numbers = json!({"type": {"key": "integer", "min": 0, "max": "unlimited"}});
    json!({"name": "D", "version": "1.0.0", "tables": {"T": {"columns": {"name": {"type": "string"}, "numbers": numbers}}}})
}

/// A client whose server is the test.
struct Replay {
    client: Client,
    now: Instant,
    events: Vec<Event>,
}

impl Replay {
    fn new(settings: Settings) -> Self {
        let now = Instant::now();
        let mut client = Client::new(WANTED, settings, now);
        client.connected(now);
        Self { client, now, events: Vec::new() }
    }

    /// Returns a client whose image has the row A.
    fn synchronized() -> Self {
        let mut replay = Self::new(Settings::default());
        replay.until_monitor();
        let rows = json!({"T": {A: {"initial": {"name": "a", "numbers": ["set", [1, 2]]}}}});
        replay.answer(&json!([false, T1, rows])).unwrap();
        assert!(
            matches!(replay.events.remove(0), Event::Synchronized(changes) if changes.len() == 1)
        );
        replay
    }

    /// Answers until the client asks for rows.
    fn until_monitor(&mut self) {
        self.answer(&json!(["_Server", "D"])).unwrap();
        self.answer(&schema()).unwrap();
    }

    fn send(&mut self, json: &Json) -> Result<(), Closed> {
        self.client.handle(json.to_string().as_bytes(), self.now, &mut self.events)
    }

    /// Returns the requests and answers that the client has sent since the last call.
    fn sent(&mut self) -> Vec<Json> {
        let output = self.client.take_output();
        serde_json::Deserializer::from_slice(&output).into_iter().map(Result::unwrap).collect()
    }

    /// Answers the client's last request.
    fn answer(&mut self, result: &Json) -> Result<Json, Closed> {
        let request = self.sent().pop().expect("a request");
        self.send(&json!({"id": request["id"], "result": result, "error": null}))?;
        Ok(request)
    }

    fn refuse(&mut self, error: &Json) -> Result<String, Closed> {
        let request = self.sent().pop().expect("a request");
        self.send(&json!({"id": request["id"], "result": null, "error": error}))?;
        Ok(request["method"].as_str().unwrap().to_owned())
    }

    fn update(&mut self, rows: &Json) -> Result<(), Closed> {
        self.send(
            &json!({"id": null, "method": "update3", "params": ["rosemary", T2, {"T": rows}]}),
        )
    }

    fn row(&self, uuid: &str) -> Option<&Row> {
        self.client.image().row("T", uuid.parse().unwrap())
    }

    fn pass(&mut self, time: Duration) -> Result<(), Closed> {
        self.now += time;
        self.client.tick(self.now)
    }
}

fn select() -> [Operation; 1] {
    [Operation::Select { table: "T".into(), conditions: vec![], columns: vec!["name".into()] }]
}

#[test]
fn image_follows_the_changes() {
    let mut replay = Replay::synchronized();
    assert_eq!(replay.client.method(), Some("monitor_cond_since"));
    let changes = json!({A: {"modify": {"numbers": ["set", [2, 3]]}}, B: {"insert": {}}});
    replay.update(&changes).unwrap();
    assert_eq!(replay.row(A).unwrap().integers("numbers"), [1, 3].into());
    assert_eq!(replay.row(A).unwrap().text("name"), Some("a"));
    assert_eq!(replay.row(B).unwrap().text("name"), Some(""), "the default");
    let Some(Event::Changed(changes)) = replay.events.pop() else { panic!("changed") };
    let kinds: Vec<ChangeKind> = changes.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [ChangeKind::Modified, ChangeKind::Inserted]);
    replay.update(&json!({A: {"delete": null}})).unwrap();
    assert_eq!((replay.row(A), replay.client.image().len()), (None, 1));
}

#[test]
fn older_servers_are_asked_by_older_methods() {
    let mut replay = Replay::new(Settings::default());
    replay.until_monitor();
    assert_eq!(replay.refuse(&json!("unknown method")).unwrap(), "monitor_cond_since");
    assert_eq!(replay.refuse(&json!({"error": "unknown method"})).unwrap(), "monitor_cond");
    let request = replay.answer(&json!({"T": {A: {"new": {"name": "a", "numbers": 1}}}})).unwrap();
    assert_eq!(request["method"], "monitor");
    assert_eq!(
        request["params"],
        json!(["D", "rosemary", {"T": [{"columns": ["name", "numbers"]}]}])
    );
    assert_eq!(replay.row(A).unwrap().integers("numbers"), [1].into());
    let new = json!({"old": {"name": "a"}, "new": {"name": "b", "numbers": 1}});
    let update = json!({"id": null, "method": "update", "params": ["rosemary", {"T": {A: new}}]});
    replay.send(&update).unwrap();
    assert_eq!(replay.row(A).unwrap().text("name"), Some("b"));
    let update =
        json!({"id": null, "method": "update", "params": ["rosemary", {"T": {A: {"old": {}}}}]});
    replay.send(&update).unwrap();
    assert!(replay.client.image().is_empty());
    let lacking = json!({"T": {A: {"new": {"name": "a"}}}});
    let update = json!({"id": null, "method": "update", "params": ["rosemary", lacking]});
    assert!(matches!(replay.send(&update), Err(Closed::Update(_))));
}

#[test]
fn refusal_with_another_reason_is_no_older_server() {
    let mut replay = Replay::new(Settings::default());
    replay.until_monitor();
    let refused = replay.refuse(&json!({"error": "permission error"})).unwrap_err();
    let error = ServerError { name: "permission error".into(), details: String::new() };
    assert_eq!(refused, Closed::Refused { method: "monitor_cond_since", error });
}

#[test]
fn reconnection_continues_where_the_image_is() {
    let mut replay = Replay::synchronized();
    replay.update(&json!({B: {"insert": {"name": "b"}}})).unwrap();
    replay.events.clear();
    replay.client.disconnected(replay.now, 0, &mut replay.events);
    assert_eq!(replay.client.image().len(), 2, "the image stays");
    assert_eq!(replay.client.reconnect_at(), Some(replay.now + Duration::from_millis(500)));
    replay.client.connected(replay.now);
    replay.until_monitor();
    let request = replay.answer(&json!([true, T2, {"T": {A: {"delete": null}}}])).unwrap();
    assert_eq!(request["params"][3], T2);
    let Some(Event::Synchronized(changes)) = replay.events.pop() else { panic!("synchronized") };
    assert_eq!(changes.len(), 1);
    assert!(replay.row(A).is_none() && replay.row(B).is_some());
}

#[test]
fn server_without_history_sends_all_rows() {
    let mut replay = Replay::synchronized();
    replay.client.disconnected(replay.now, 0, &mut replay.events);
    replay.client.connected(replay.now);
    replay.until_monitor();
    let rows = json!({"T": {B: {"initial": {"name": "b"}}}});
    replay.answer(&json!([false, T1, rows])).unwrap();
    let Some(Event::Synchronized(changes)) = replay.events.pop() else { panic!("synchronized") };
    let kinds: Vec<ChangeKind> = changes.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [ChangeKind::Inserted, ChangeKind::Deleted]);
    assert_eq!(replay.client.image().len(), 1);
}

#[test]
fn transactions_have_their_answers() {
    let mut replay = Replay::synchronized();
    let deadline = replay.now + Duration::from_secs(5);
    let first = replay.client.transact(&select(), deadline).unwrap();
    let second = replay.client.transact(&[Operation::Abort], deadline).unwrap();
    let requests = replay.sent();
    assert_eq!(requests[0]["params"][1]["op"], "select");
    let aborted = json!({"error": "aborted"});
    replay.send(&json!({"id": requests[1]["id"], "result": [aborted], "error": null})).unwrap();
    replay
        .send(
            &json!({"id": requests[0]["id"], "result": [{"rows": [{"name": "a"}]}], "error": null}),
        )
        .unwrap();
    let error = ServerError { name: "aborted".into(), details: String::new() };
    let failed = Event::Transacted(second, Err(Failure::Operation { index: 0, error }));
    let rows = vec![Row::new().with("name", Value::one("a"))];
    assert_eq!(replay.events, [failed, Event::Transacted(first, Ok(vec![Done::Rows(rows)]))]);
}

#[test]
fn transaction_without_an_answer_has_an_unknown_result() {
    let mut replay = Replay::synchronized();
    let deadline = replay.now + Duration::from_secs(3);
    let id = replay.client.transact(&select(), deadline).unwrap();
    assert_eq!(replay.client.deadline(), Some(deadline));
    assert_eq!(replay.pass(Duration::from_secs(3)), Err(Closed::NoAnswer("transact")));
    replay.client.disconnected(replay.now, 0, &mut replay.events);
    assert_eq!(replay.events, [Event::Transacted(id, Err(Failure::Unknown))]);
    let not_sent = replay.client.transact(&select(), deadline);
    assert_eq!(not_sent, Err(NotSent::NotConnected));
}

#[test]
fn transactions_are_bounded() {
    let mut replay = Replay::synchronized();
    let deadline = replay.now + Duration::from_secs(5);
    for _ in 0..64 {
        replay.client.transact(&select(), deadline).unwrap();
    }
    assert_eq!(replay.client.transact(&select(), deadline), Err(NotSent::TooMany(64)));
    let mut replay = Replay::synchronized();
    let comment = Operation::Comment("x".repeat(9 << 20));
    let not_sent = replay.client.transact(&[comment], deadline);
    assert!(matches!(not_sent, Err(NotSent::TooLarge { most, .. }) if most == 8 << 20));
    let wrong = Operation::update("T", Uuid::default(), Row::new().with("x", Value::none()));
    assert!(matches!(replay.client.transact(&[wrong], deadline), Err(NotSent::Invalid(_))));
    assert!(replay.sent().is_empty());
}

#[test]
fn echo_is_answered_and_sent() {
    let mut replay = Replay::synchronized();
    replay.send(&json!({"id": "echo", "method": "echo", "params": [1, "x"]})).unwrap();
    assert_eq!(replay.sent(), [json!({"id": "echo", "result": [1, "x"], "error": null})]);
    replay.send(&json!({"id": 7, "method": "steal", "params": []})).unwrap();
    assert_eq!(replay.sent()[0]["error"]["error"], "unknown method");
    replay.pass(Duration::from_secs(5)).unwrap();
    assert_eq!(replay.sent()[0]["method"], "echo");
    replay.pass(Duration::from_secs(4)).unwrap();
    assert!(replay.sent().is_empty(), "one probe at a time");
    let silence = Duration::from_secs(10);
    assert_eq!(replay.pass(Duration::from_secs(1)), Err(Closed::Silent(silence)));
}

#[test]
fn answer_to_an_echo_shows_life() {
    let mut replay = Replay::synchronized();
    for _ in 0..10 {
        replay.pass(Duration::from_secs(5)).unwrap();
        assert_eq!(replay.client.deadline(), Some(replay.now + Duration::from_secs(5)));
        replay.answer(&json!([])).unwrap();
    }
}

#[test]
fn server_that_never_answers_is_left() {
    let mut replay = Replay::new(Settings::default());
    for _ in 0..9 {
        replay.pass(Duration::from_secs(1)).unwrap();
        replay.client.handle(b"{\"", replay.now, &mut replay.events).unwrap();
    }
    let closed = replay.pass(Duration::from_secs(1)).unwrap_err();
    assert_eq!(closed, Closed::NoAnswer("list_dbs"), "a message without end shows no life");

    let mut replay = Replay::synchronized();
    let closed = (0..100).find_map(|_| {
        replay.client.handle(b"{\"", replay.now, &mut replay.events).unwrap();
        replay.pass(Duration::from_secs(1)).err()
    });
    assert_eq!(closed, Some(Closed::NoAnswer("echo")));
    assert_eq!(replay.now - replay.client.last_received, Duration::from_secs(15));
}

#[test]
fn server_that_only_sends_echoes_is_left() {
    let settings = Settings { output: 10_000, ..Settings::default() };
    let mut replay = Replay::new(settings);
    let echo = json!({"id": 1, "method": "echo", "params": ["x".repeat(1000)]});
    let closed = (0..100).find_map(|_| replay.send(&echo).err()).expect("the output is bounded");
    assert!(matches!(closed, Closed::OutputFull(waiting) if waiting <= 10_000));
}

#[test]
fn answers_that_nobody_asked_for_close_the_connection() {
    for id in [json!(99), json!(-1), json!("1"), json!(null), json!([1])] {
        let mut replay = Replay::synchronized();
        let answer = json!({"id": id, "result": [], "error": null});
        assert_eq!(replay.send(&answer), Err(Closed::UnknownAnswer), "{id}");
    }
    let mut replay = Replay::new(Settings::default());
    let request = replay.answer(&json!(["D"])).unwrap();
    let again = json!({"id": request["id"], "result": ["D"], "error": null});
    assert_eq!(replay.send(&again), Err(Closed::UnknownAnswer), "the same answer twice");
}

#[test]
fn wrong_updates_leave_no_image() {
    for (rows, is_expected) in [
        (
            json!({B: {"modify": {"name": "b"}}}),
            (|it| matches!(it, Closed::Image(ImageError::UnknownRow { .. })))
                as fn(&Closed) -> bool,
        ),
        (json!({B: {"delete": null}}), |it| {
            matches!(it, Closed::Image(ImageError::UnknownRow { .. }))
        }),
        (json!({A: {"insert": {"name": "b"}}}), |it| {
            matches!(it, Closed::Image(ImageError::Collision { .. }))
        }),
        (json!({A: {"modify": {"name": ["set", []]}}}), |it| {
            matches!(it, Closed::Image(ImageError::Value { .. }))
        }),
        (json!({A: {"modify": {"name": 5}}}), |it| matches!(it, Closed::Update(_))),
        (json!({A: {"modify": {"other": 5}}}), |it| matches!(it, Closed::Update(_))),
        (json!({A: {"modify": {}, "delete": null}}), |it| matches!(it, Closed::Update(_))),
        (json!({A: {"replace": {}}}), |it| matches!(it, Closed::Update(_))),
        (json!({"a": {"delete": null}}), |it| matches!(it, Closed::Update(_))),
        (json!([]), |it| matches!(it, Closed::Update(_))),
    ] {
        let mut replay = Replay::synchronized();
        let closed = replay.update(&rows).unwrap_err();
        assert!(is_expected(&closed), "{rows}: {closed}");
        assert!(replay.client.image().is_empty());
        replay.client.disconnected(replay.now, 0, &mut replay.events);
        replay.client.connected(replay.now);
        replay.until_monitor();
        let request = replay.answer(&json!([false, T1, {}])).unwrap();
        assert_eq!(request["params"][3], NO_TRANSACTION, "all rows are read");
    }
}

#[test]
fn image_is_bounded() {
    let image = ImageLimits { rows: 3, size: 4096 };
    let mut replay = Replay::new(Settings { image, ..Settings::default() });
    replay.until_monitor();
    replay.answer(&json!([false, T1, {"T": {A: {"initial": {}}}}])).unwrap();
    let huge = replay.update(&json!({B: {"insert": {"name": "x".repeat(4096)}}}));
    assert_eq!(huge, Err(Closed::Image(ImageError::TooLarge(4096))));
    let mut replay = Replay::new(Settings { image, ..Settings::default() });
    replay.until_monitor();
    let rows =
        (0..4).map(|it| (format!("00000000-0000-0000-0000-{it:012}"), json!({"initial": {}})));
    let rows = json!({"T": rows.collect::<Map<_, _>>()});
    let many = replay.answer(&json!([false, T1, rows]));
    assert_eq!(many, Err(Closed::Image(ImageError::TooManyRows(3))));
}

#[test]
fn size_of_the_image_returns_to_zero() {
    let mut replay = Replay::synchronized();
    let size = replay.client.image().size();
    replay.update(&json!({A: {"modify": {"name": "longer", "numbers": ["set", [5, 6]]}}})).unwrap();
    assert!(replay.client.image().size() > size);
    replay.update(&json!({A: {"delete": null}})).unwrap();
    assert_eq!(replay.client.image().size(), 0);
}

#[test]
fn other_databases_are_listed() {
    let mut replay = Replay::new(Settings::default());
    let closed = replay.answer(&json!(["hardware_vtep", "_Server", 5, "a b"])).unwrap_err();
    assert_eq!(
        closed.to_string(),
        "the server has no database D, only: hardware_vtep, _Server; name the server of a switch"
    );
}

#[test]
fn schema_that_changed_makes_all_rows_be_read() {
    let mut replay = Replay::synchronized();
    replay.client.disconnected(replay.now, 0, &mut replay.events);
    replay.client.connected(replay.now);
    replay.answer(&json!(["D"])).unwrap();
    let mut changed = schema();
    changed["version"] = json!("2.0.0");
    replay.answer(&changed).unwrap();
    let closed = replay.answer(&json!([true, T2, {}])).unwrap_err();
    assert_eq!(closed, Closed::Answer("monitor_cond_since"), "nothing was there to continue");
}

#[test]
fn removed_database_closes_the_connection() {
    let mut replay = Replay::synchronized();
    let canceled = json!({"id": null, "method": "monitor_canceled", "params": ["rosemary"]});
    assert_eq!(replay.send(&canceled), Err(Closed::Canceled));
}

/// The messages of a server from the list of databases to an update.
fn stream() -> Vec<u8> {
    let rows = json!({"T": {A: {"initial": {"name": "\"}{", "numbers": ["set", [1, 2]]}}}});
    let update = json!([MONITOR, T2, {"T": {B: {"insert": {"name": "b"}}}}]);
    [
        json!({"id": 1, "result": ["D"], "error": null}),
        json!({"id": 2, "result": schema(), "error": null}),
        json!({"id": 3, "result": [false, T1, rows], "error": null}),
        json!({"id": "e", "method": "echo", "params": []}),
        json!({"id": null, "method": "update3", "params": update}),
    ]
    .iter()
    .flat_map(|it| it.to_string().into_bytes())
    .collect()
}

#[test]
fn stream_may_be_cut_anywhere() {
    let stream = stream();
    for cut in 0..=stream.len() {
        let mut replay = Replay::new(Settings::default());
        let (first, second) = stream.split_at(cut);
        for part in [first, second] {
            replay.client.handle(part, replay.now, &mut replay.events).unwrap();
        }
        assert_eq!(replay.client.image().len(), 2, "cut at {cut}");
        let mut replay = Replay::new(Settings::default());
        replay.client.handle(first, replay.now, &mut replay.events).unwrap();
        replay.client.disconnected(replay.now, 0, &mut replay.events);
        assert!(replay.client.reconnect_at().is_some(), "ended at {cut}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Bytes of the stream are replaced, removed and doubled: the client stays within its bounds, or closes the connection.
    #[test]
    fn changed_stream_is_no_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..6),
    ) {
        let mut bytes = stream();
        for (at, byte, how) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, byte),
                _ => bytes[at] = b"{}[]\",:0"[usize::from(byte % 8)],
            }
        }
        let mut replay = Replay::new(Settings::default());
        if replay.client.handle(&bytes, replay.now, &mut replay.events).is_err() {
            replay.client.disconnected(replay.now, 7, &mut replay.events);
        }
        let _ = replay.client.tick(replay.now + Duration::from_secs(60));
        prop_assert!(replay.client.image().len() <= 3);
        prop_assert!(replay.client.pending.len() <= 1);
    }
}
