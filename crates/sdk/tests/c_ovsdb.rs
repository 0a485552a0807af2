//! Compares the client of the service of databases in C (`rosemary_ovsdb.h`) with that of this crate.

#![cfg(feature = "host")]
#![allow(clippy::unwrap_used, reason = "the table of a test has room")]

mod in_c;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use openflow::Version;
use rosemary_sdk::PortNo;
use rosemary_sdk::services::ovsdb::{
    Answer, Atom, Columns, Database, Reason, Refused, Request, Row, RowId, Value, WantedRow,
};
use rosemary_sdk::services::{MAX_MESSAGE, Outcome, Service};
use rosemary_sdk::testing::{AlignedRecord, Bench};

/// Sends one request of each kind for packets of port 1, many rows for those of port 2, a row that is too long for those of port
/// 3, and prints answers.
const CLIENT: &str = r#"
#include "rosemary_messages.h"
#include "rosemary_ovsdb.h"

struct app {
    const struct rosemary_host *host;
    struct rosemary_want want;
};

static const uint8_t id[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

#define SAY(...) rosemary_logf(app->host, ROSEMARY_LOG_INFO, __VA_ARGS__)
#define TEXT(span) (int)(span).size, (span).text

static void print(struct app *app, const struct rosemary_atom *atom) {
    SAY("atom %u %lld %g %d %.*s %u%u", atom->kind, (long long)atom->integer,
        atom->kind == ROSEMARY_ATOM_REAL ? atom->real : 0.0, atom->boolean, TEXT(atom->text), atom->row[0], atom->row[15]);
}

static void on_answer(struct app *app, const struct rosemary_record *record) {
    struct rosemary_span span;
    struct rosemary_database database;
    struct rosemary_row row;
    struct rosemary_column column;
    struct rosemary_atom atom;
    struct rosemary_refused_row refused;
    uint32_t at = 0;
    int reason;

    if (rosemary_ovsdb_owner(record, &span) == 0)
        SAY("owner %.*s", TEXT(span));
    while (rosemary_next_database(record, &at, &database))
        SAY("database %.*s at %.*s %d %.*s", TEXT(database.name), TEXT(database.address), database.is_connected, TEXT(database.why));
    at = 0;
    while (rosemary_next_row(record, &at, &row)) {
        SAY("row %u%u cut %d columns %u", row.id[0], row.id[15], row.is_cut, row.count);
        if (rosemary_row_column(record, &row, "all", &column))
            while (rosemary_next_atom(record, &column, &atom))
                print(app, &atom);
        if (rosemary_row_atom(record, &row, "name", &atom))
            print(app, &atom);
        if (rosemary_row_atom(record, &row, "all", &atom) || rosemary_row_atom(record, &row, "absent", &atom))
            SAY("a column with several elements has one");
        if (rosemary_row_entry(record, &row, "statistics", "rx_errors", &atom))
            print(app, &atom);
        if (rosemary_row_entry(record, &row, "statistics", "absent", &atom))
            SAY("an entry that does not exist");
    }
    if (rosemary_ovsdb_answer(record) == ROSEMARY_OVSDB_ROWS)
        SAY("follow %d", rosemary_rows_follow(record));
    at = 0;
    while (rosemary_next_refused_row(record, &at, &refused))
        SAY("refused %.*s: %.*s", TEXT(refused.key), TEXT(refused.why));
    if (rosemary_ovsdb_answer(record) == ROSEMARY_OVSDB_WANTED)
        SAY("done %d", rosemary_is_wanted_done(record));
    at = 0;
    while (rosemary_next_table(record, &at, &span))
        SAY("changed %.*s", TEXT(span));
    if (rosemary_ovsdb_answer(record) == ROSEMARY_OVSDB_CHANGED)
        SAY("connected %d", rosemary_is_database_connected(record));
    reason = rosemary_ovsdb_refusal(record, &span);
    if (reason >= 0)
        SAY("refused %d %.*s", reason, TEXT(span));
}

static void ask(struct app *app) {
    rosemary_databases(app->host);
    rosemary_database_rows(app->host, "edge", "Port", NULL);
    rosemary_database_rows(app->host, "edge", "Port", id);
    rosemary_watch_database(app->host, "edge");
    rosemary_want_begin(&app->want, app->host, "edge");
    rosemary_want_row(&app->want, "Queue", "slow");
    rosemary_want_row(&app->want, "QoS", "q");
    rosemary_want_under(&app->want, "Port", "eth0", "qos");
    rosemary_want_set(&app->want, "all");
    rosemary_want_integer(&app->want, -1);
    rosemary_want_real(&app->want, 0.5);
    rosemary_want_boolean(&app->want, 1);
    rosemary_want_text(&app->want, "text");
    rosemary_want_existing(&app->want, id);
    rosemary_want_key(&app->want, "slow");
    rosemary_want_port(&app->want, "eth0");
    rosemary_want_set(&app->want, "empty");
    rosemary_want_map(&app->want, "queues");
    rosemary_want_integer(&app->want, 0);
    rosemary_want_key(&app->want, "slow");
    rosemary_want_end(&app->want);
    rosemary_want_begin(&app->want, app->host, "edge");
    rosemary_want_end(&app->want);
}

static void want_many(struct app *app, uint32_t rows, uint32_t size) {
    static char text[ROSEMARY_MOST_REQUEST + 1];
    char key[16];

    memset(text, 'y', size);
    text[size] = 0;
    rosemary_want_begin(&app->want, app->host, "edge");
    for (uint32_t i = 0; i < rows; i++) {
        key[0] = 'q';
        key[1] = (char)('0' + i / 10);
        key[2] = (char)('0' + i % 10);
        key[3] = 0;
        rosemary_want_row(&app->want, "Queue", key);
        rosemary_want_under(&app->want, "QoS", "parent", "queues");
        rosemary_want_set(&app->want, "x");
        rosemary_want_text(&app->want, text);
    }
    SAY("wanted %d", rosemary_want_end(&app->want) > 0);
}

static int32_t on_record(struct app *app, const struct rosemary_record *record, struct rosemary_turn *turn) {
    (void)turn;
    if (record && record->kind == ROSEMARY_SERVICE)
        on_answer(app, record);
    if (!record || record->kind != ROSEMARY_PACKET_IN)
        return 0;
    if (record->in_port == 1)
        ask(app);
    else if (record->in_port == 2)
        want_many(app, 100, 5000);
    else
        want_many(app, 3, ROSEMARY_MOST_REQUEST);
    return 0;
}

ROSEMARY_EXPORT("client", "1", struct app, on_record)
"#;

/// Compiles the client, once for all tests.
fn compiled() -> &'static Path {
    static OBJECT: OnceLock<PathBuf> = OnceLock::new();
    OBJECT.get_or_init(|| in_c::object("ovsdb", CLIENT))
}

fn bench() -> Bench {
    in_c::bench(compiled())
}

fn packet(in_port: u32) -> AlignedRecord {
    AlignedRecord::packet_in(Bench::switch(7, Version::V1_3), PortNo(in_port), b"a whole frame")
}

fn id() -> RowId {
    RowId(std::array::from_fn(|it| u8::try_from(it + 1).unwrap()))
}

fn atoms() -> Vec<Atom> {
    vec![
        Atom::Integer(-1),
        Atom::Real(0.5),
        Atom::Boolean(true),
        Atom::Text("text".into()),
        Atom::Row(id()),
        Atom::Wanted("slow".into()),
        Atom::Port("eth0".into()),
    ]
}

#[test]
fn requests_in_c_are_those_of_rust() {
    let mut bench = bench();
    bench.event(packet(1));
    let qos = WantedRow::new("QoS", "q")
        .with("all", Value::Set(atoms()))
        .with("empty", Value::Set(Vec::new()))
        .with("queues", Value::map([(0_i64, Atom::Wanted("slow".into()))]))
        .under("Port", "eth0", "qos");
    let want = |rows| Request::Want { database: "edge", is_first: true, is_last: true, rows };
    let read = |after| Request::Read { database: "edge", table: "Port", after };
    let expected = [
        Request::Databases,
        read(RowId::default()),
        read(id()),
        Request::Watch { database: "edge" },
        want(vec![WantedRow::new("Queue", "slow"), qos]),
        want(Vec::new()),
    ];
    let asked = bench.asked();
    assert!(asked.iter().all(|it| it.service == Service::Ovsdb));
    let asked: Vec<_> = asked.into_iter().map(|it| it.request).collect();
    assert_eq!(asked, expected.map(|it| it.encode()));
}

#[test]
fn many_rows_in_c_are_sent_in_parts() {
    let mut bench = bench();
    bench.event(packet(2));
    assert_eq!(bench.log(), ["Info: wanted 1"]);
    let asked = bench.asked();
    let (mut all, last) = (Vec::new(), asked.len() - 1);
    for (number, it) in asked.iter().enumerate() {
        assert!(it.request.len() <= MAX_MESSAGE);
        let request = Request::decode(&it.request).unwrap();
        let Request::Want { database: "edge", is_first, is_last, rows } = request else {
            panic!("{request:?}")
        };
        assert_eq!((is_first, is_last), (number == 0, number == last));
        all.extend(rows);
    }
    assert!(last > 10);
    let row = |it: usize| {
        let row = WantedRow::new("Queue", format!("q{it:02}")).with("x", "y".repeat(5000));
        row.under("QoS", "parent", "queues")
    };
    assert_eq!(all, (0..100).map(row).collect::<Vec<_>>());
}

#[test]
fn row_that_fits_no_message_is_refused_in_c() {
    let mut bench = bench();
    bench.event(packet(3));
    assert_eq!(bench.log(), ["Info: wanted 0"]);
    assert!(bench.asked().is_empty());
}

fn answers() -> Vec<(Answer, String)> {
    let database = |name: &str, is_connected, why: &str| Database {
        name: name.into(),
        address: "tcp:h:1".into(),
        is_connected,
        why: why.into(),
    };
    let columns = Columns::from([
        ("all".into(), Value::Set(atoms())),
        ("name".into(), "p1".into()),
        ("statistics".into(), Value::map([("rx", 1_i64), ("rx_errors", 7)])),
    ]);
    let row = |id, columns, is_cut| Row { id, columns, is_cut };
    let refused = |key: &str| Refused { key: key.into(), why: "no".into() };
    let text = |text: &str| text.to_owned();
    vec![
        (
            Answer::Databases {
                owner: "000000000001/app".into(),
                databases: vec![database("edge", true, ""), database("core", false, "silent")],
            },
            text(
                "owner 000000000001/app; database edge at tcp:h:1 1 ; database core at tcp:h:1 0 silent",
            ),
        ),
        (
            Answer::Rows {
                rows: vec![row(id(), columns, false), row(RowId([9; 16]), Columns::new(), true)],
                more: true,
            },
            text(
                "row 116 cut 0 columns 3; atom 0 -1 0 1  00; atom 1 4602678819172646912 0.5 1  00; \
                 atom 2 1 0 1  00; atom 3 0 0 0 text 00; atom 4 0 0 0  116; atom 5 0 0 0 slow 00; \
                 atom 6 0 0 0 eth0 00; atom 3 0 0 0 p1 00; atom 0 7 0 1  00; \
                 row 99 cut 1 columns 0; follow 1",
            ),
        ),
        (Answer::Part, String::new()),
        (
            Answer::Wanted { is_done: true, refused: vec![refused("a"), refused("b")] },
            text("refused a: no; refused b: no; done 1"),
        ),
        (
            Answer::Changed { is_connected: true, tables: vec!["Port".into(), "QoS".into()] },
            text("changed Port; changed QoS; connected 1"),
        ),
        (Answer::Refused { reason: Reason::Busy, why: "later".into() }, text("refused 5 later")),
    ]
}

#[test]
fn answers_in_rust_are_read_in_c() {
    let mut bench = bench();
    bench.event(packet(1));
    let request = bench.asked()[0].id;
    let mut read = |body: &[u8]| {
        bench.event(AlignedRecord::service(Service::Ovsdb, Outcome::Answered, request, body));
        bench.log().join("; ").replace("Info: ", "")
    };
    for (answer, expected) in answers() {
        let body = answer.encode();
        assert_eq!(read(&body), expected);
        // A cut element is left out, and no byte behind the record is read.
        let lines: Vec<&str> = expected.split("; ").collect();
        for cut in 0..body.len() {
            let all = read(&body[..cut]);
            let mut read = all.split("; ").filter(|it| !it.is_empty());
            let last =
                |it: &str| ["follow", "done", "connected"].iter().any(|word| it.starts_with(word));
            let known = read.all(|line| lines.contains(&line) || last(line));
            assert!(known, "{cut}: {all}");
        }
    }
}
