//! Compares the clients of services in C (`rosemary_services.h`) with those of this crate, and the lists of clients in Rust, C
//! and Python with each other.

#![cfg(feature = "host")]
#![allow(clippy::unwrap_used, reason = "the table of a test has room")]

mod in_c;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use openflow::Version;
use rosemary_sdk::services::layout::{Placement, Writes};
use rosemary_sdk::services::stats::{PortCounters, PortRates, Quality, Record, SwitchStats};
use rosemary_sdk::services::table::EMPTY;
use rosemary_sdk::services::{Outcome, REQUEST_OF_APP, Service, apps, broker, topology};
use rosemary_sdk::testing::{AlignedRecord, Bench};
use rosemary_sdk::{Dpid, PortNo};

/// Sends one request of each kind for packets of port 1, looks up counters for those of port 2, and prints answers.
const CLIENT: &str = r#"
#include "rosemary_messages.h"
#include "rosemary_services.h"

struct app {
    const struct rosemary_host *host;
    int64_t connect, drain, counters, limit, release;
};

static void on_answer(struct app *app, const struct rosemary_record *record) {
    struct rosemary_app_counters counters;
    struct rosemary_sender sender;
    uint32_t at = 0, size = 0;
    int more = 0;
    const char *why = rosemary_refusal(record, &size);

    if (rosemary_answers(record, ROSEMARY_SERVICE_BROKER, app->connect))
        rosemary_logf(app->host, ROSEMARY_LOG_INFO, "connect %d %.*s", rosemary_connected(record), (int)size, why ? why : "");
    if (rosemary_answers(record, ROSEMARY_SERVICE_TOPOLOGY, app->drain))
        rosemary_logf(app->host, ROSEMARY_LOG_INFO, "drain %d", rosemary_drained(record));
    if (rosemary_answers(record, ROSEMARY_SERVICE_APPS, app->limit))
        rosemary_logf(app->host, ROSEMARY_LOG_INFO, "limit %.*s", (int)size, why ? why : "");
    if (!rosemary_answers(record, ROSEMARY_SERVICE_APPS, app->counters))
        return;
    while (rosemary_next_app(record, &at, &counters))
        rosemary_logf(app->host, ROSEMARY_LOG_INFO, "app %u %.*s %llu %llu %llu %llu %u %u", counters.number,
                      (int)counters.name_size, counters.name, (unsigned long long)counters.delivered,
                      (unsigned long long)counters.flow_mods, (unsigned long long)counters.refused,
                      (unsigned long long)counters.delayed, counters.limited, counters.pace);
    at = 0;
    while (rosemary_next_sender(record, &at, &sender, &more))
        rosemary_logf(app->host, ROSEMARY_LOG_INFO, "sender %llx %u %u %llu", (unsigned long long)sender.dpid, sender.epoch,
                      sender.app, (unsigned long long)sender.flow_mods);
    rosemary_logf(app->host, ROSEMARY_LOG_INFO, "more %d", more);
}

static void look_up(struct app *app, uint64_t dpid) {
    struct rosemary_switch_stats it;
    struct rosemary_port_counters port;
    struct rosemary_port_rates rates;

    if (rosemary_find_switch_stats(app->host, dpid, &it) == 0)
        rosemary_logf(app->host, ROSEMARY_LOG_INFO, "switch %u %u %u %llx %llx %llu %llu", it.is_stale, it.flows, it.unanswered,
                      (unsigned long long)it.packets, (unsigned long long)it.bytes, (unsigned long long)it.answer_us,
                      (unsigned long long)it.read_ms);
    if (rosemary_find_port_counters(app->host, dpid, 3, &port) == 0)
        rosemary_logf(app->host, ROSEMARY_LOG_INFO, "port %u %u %llx %llx %llx %llx %llu", port.is_stale, port.is_implausible,
                      (unsigned long long)port.rx_packets, (unsigned long long)port.tx_packets,
                      (unsigned long long)port.rx_bytes, (unsigned long long)port.tx_bytes, (unsigned long long)port.read_ms);
    if (rosemary_find_port_rates(app->host, dpid, 3, &rates) == 0)
        rosemary_logf(app->host, ROSEMARY_LOG_INFO, "rates %llx %llx %x %x %x %x %x %x", (unsigned long long)rates.rx_bps,
                      (unsigned long long)rates.tx_bps, rates.rx_pps, rates.tx_pps, rates.rx_dropped, rates.tx_dropped,
                      rates.rx_errors, rates.tx_errors);
    if (rosemary_find_port_rates(app->host, dpid, 4, &rates) == 0)
        rosemary_logf(app->host, ROSEMARY_LOG_INFO, "a port that does not exist");
}

static int32_t on_record(struct app *app, const struct rosemary_record *record, struct rosemary_turn *turn) {
    static char longest[300];
    (void)turn;
    if (record && record->kind == ROSEMARY_SERVICE)
        on_answer(app, record);
    if (!record || record->kind != ROSEMARY_PACKET_IN)
        return 0;
    if (record->in_port == 2) {
        look_up(app, 7);
        return 0;
    }
    memset(longest, 'x', sizeof longest - 1);
    app->connect = rosemary_connect(app->host, "collector.example", 2055);
    app->drain = rosemary_drain(app->host, 0x0102030405060708u, 1);
    app->counters = rosemary_app_counters(app->host);
    app->limit = rosemary_limit_app(app->host, "bulk", 70000, 30, "too fast");
    app->release = rosemary_release_app(app->host, "bulk");
    if (rosemary_connect(app->host, longest, 1) != ROSEMARY_ASK_TOO_LONG)
        rosemary_logf(app->host, ROSEMARY_LOG_ERROR, "a name of 299 letters was sent");
    return 0;
}

ROSEMARY_EXPORT("client", "1", struct app, on_record)
"#;

/// Compiles the client, once for all tests.
fn compiled() -> &'static Path {
    static OBJECT: OnceLock<PathBuf> = OnceLock::new();
    OBJECT.get_or_init(|| in_c::object("services", CLIENT))
}

fn bench() -> Bench {
    in_c::bench(compiled())
}

fn packet(in_port: u32) -> AlignedRecord {
    AlignedRecord::packet_in(Bench::switch(7, Version::V1_3), PortNo(in_port), b"a whole frame")
}

#[test]
fn requests_in_c_are_those_of_rust() {
    let mut bench = bench();
    bench.event(packet(1));
    let of_app = |body: Vec<u8>| [&[REQUEST_OF_APP][..], &body].concat();
    let measure = apps::Measure::Throttle(70_000);
    let limit = apps::Request::Limit { app: "bulk", measure, seconds: 30, why: "too fast" };
    let drain = topology::Request::Drain { dpid: Dpid(0x0102_0304_0506_0708), on: true };
    let expected = [
        (Service::Broker, broker::Request { host: "collector.example", port: 2055 }.encode()),
        (Service::Topology, of_app(drain.encode())),
        (Service::Apps, of_app(apps::Request::Counters.encode())),
        (Service::Apps, of_app(limit.encode())),
        (Service::Apps, of_app(apps::Request::Release { app: "bulk" }.encode())),
    ];
    let asked: Vec<_> = bench.asked().into_iter().map(|it| (it.service, it.request)).collect();
    assert_eq!(asked, expected);
    assert_eq!(bench.log(), [""; 0]);
}

#[test]
fn answers_in_rust_are_read_in_c() {
    let mut bench = bench();
    bench.event(packet(1));
    let ids: Vec<_> = bench.asked().into_iter().map(|it| (it.service, it.id)).collect();
    let mut answered = |number: usize, body: &[u8]| {
        let (service, id) = ids[number];
        bench.event(AlignedRecord::service(service, Outcome::Answered, id, body));
        bench.log().join("; ").replace("Info: ", "")
    };
    assert_eq!(answered(0, &broker::Answer::Connected.encode()), "connect 0 ");
    assert_eq!(answered(0, &broker::Answer::Failed("no").encode()), "connect 1 no");
    assert_eq!(answered(0, &broker::Answer::NotGranted.encode()), "connect 2 ");
    assert_eq!(answered(1, &topology::encode_answer(Ok(()))), "drain 0");
    let refused = topology::encode_answer(Err(topology::Refused::NotGranted));
    assert_eq!(answered(1, &refused), "drain 2");
    assert_eq!(answered(3, &apps::Answer::Refused("no".into()).encode()), "limit no");
    let app = |number, limit| apps::AppCounters {
        number,
        name: "learning-switch".into(),
        delivered: 1,
        flow_mods: 1 << 40,
        refused: 3,
        delayed: 4,
        limit,
    };
    let all = vec![app(1, None), app(700, Some(apps::Measure::Throttle(9)))];
    let read = answered(2, &apps::Answer::Apps(all).encode());
    let counters = "learning-switch 1 1099511627776 3 4";
    assert_eq!(read, format!("app 1 {counters} 0 0; app 700 {counters} 1 9; more 0"));
    let sender = apps::Sender { dpid: Dpid(u64::MAX - 1), epoch: 2, app: 700, flow_mods: 5 };
    let senders = apps::Answer::Senders { senders: vec![sender; 2], more: true };
    let line = "sender fffffffffffffffe 2 700 5";
    let whole = senders.encode();
    assert_eq!(answered(2, &whole), format!("{line}; {line}; more 1"));
    for cut in 4..whole.len() {
        let read = answered(2, &whole[..cut]);
        assert!(read == "more 1" || read == format!("{line}; more 1"), "{cut}: {read}");
    }
}

#[test]
fn counters_in_c_are_those_of_rust() {
    let (dpid, port, mut writes) = (Dpid(7), PortNo(3), Writes::new());
    let quality = Quality { is_stale: true, is_implausible: false };
    let records = [
        Record::Switch(SwitchStats {
            dpid,
            quality,
            flows: Some(9),
            packets: None,
            bytes: Some(3),
            unanswered: 2,
            answer_us: Some(90),
            read_ms: 77,
        }),
        Record::Port(PortCounters {
            dpid,
            port,
            quality,
            rx_packets: Some(1),
            tx_packets: None,
            rx_bytes: Some(0),
            tx_bytes: Some(15),
            read_ms: 8,
        }),
        Record::Rates(PortRates {
            dpid,
            port,
            quality: Quality::default(),
            rx_bps: None,
            tx_bps: Some(5),
            rx_pps: Some(6),
            tx_pps: None,
            rx_dropped: Some(0),
            tx_dropped: Some(7),
            rx_errors: None,
            tx_errors: Some(15),
        }),
    ];
    let mut placement = Placement::new(64, &mut writes).unwrap();
    for record in records {
        placement.insert(record.name(), record.to_slot(), &mut writes).unwrap();
    }
    let mut table = vec![EMPTY; 64];
    for (slot, record) in writes {
        table[slot as usize] = record;
    }
    let mut bench = bench();
    bench.event(packet(2));
    assert_eq!(bench.log(), [""; 0], "there is no table");
    bench.set_table(Service::Stats, table);
    bench.event(packet(2));
    let unknown = "ffffffffffffffff";
    let expected = [
        format!("Info: switch 1 9 2 {unknown} 3 90 77"),
        format!("Info: port 1 0 1 {unknown} 0 f 8"),
        format!("Info: rates {unknown} 5 6 ffffffff 0 7 ffffffff f"),
    ];
    assert_eq!(bench.log(), expected);
}

/// A client in one language.
#[derive(Debug, Clone, Copy)]
enum Client {
    /// A function or class of this name.
    Has(&'static str),
    /// There is none, for this reason.
    Missing(&'static str),
}

use Client::{Has, Missing};

/// Why C follows tables without a client.
const FOLLOWED: Client = Missing(
    "an app in C reads ROSEMARY_TABLE records itself, with rosemary_topology.h or rosemary_tables.h",
);

/// A function in Rust, and its counterparts in C and Python.
type InLanguages = (&'static str, Client, Client);

/// The public functions of the clients in Rust, with the files that define them, and their counterparts in C and Python.
const CLIENTS: &[(&str, &[InLanguages])] = &[
    (
        "src/services/mod.rs",
        &[
            ("storage", Has("rosemary_storage_get"), Has("storage")),
            ("connect", Has("rosemary_connect"), Has("connect")),
            ("take", Has("take"), Has("take")),
        ],
    ),
    (
        "src/services/apps.rs",
        &[
            ("app_counters", Has("rosemary_app_counters"), Has("app_counters")),
            ("limit_app", Has("rosemary_limit_app"), Has("limit_app")),
            ("release_app", Has("rosemary_release_app"), Has("release_app")),
        ],
    ),
    (
        "src/services/ovsdb/mod.rs",
        &[
            ("databases", Has("rosemary_databases"), Has("databases")),
            ("database_rows", Has("rosemary_database_rows"), Has("database_rows")),
            ("want_rows", Has("rosemary_want_end"), Has("want_rows")),
            ("watch_database", Has("rosemary_watch_database"), Has("watch_database")),
        ],
    ),
    (
        "src/services/ovsdb/value.rs",
        &[
            ("new", Has("rosemary_want_row"), Has("WantedRow")),
            ("with", Has("rosemary_want_set"), Has("WantedRow")),
            ("under", Has("rosemary_want_under"), Has("under")),
            ("text", Has("rosemary_row_atom"), Has("one")),
            ("integer", Has("rosemary_row_atom"), Has("one")),
            ("boolean", Has("rosemary_row_atom"), Has("one")),
            ("rows", Has("rosemary_next_atom"), Has("columns")),
            ("entry", Has("rosemary_row_entry"), Has("entry")),
            ("set", Has("rosemary_want_set"), Has("WantedRow")),
            ("map", Has("rosemary_want_map"), Has("WantedRow")),
        ],
    ),
    (
        "src/topology/client.rs",
        &[
            ("new", FOLLOWED, Has("Topology")),
            ("on_event", FOLLOWED, Has("on_event")),
            ("graph", Has("rosemary_topology_each"), Has("graph")),
            ("is_available", FOLLOWED, Has("is_available")),
            ("drain", Has("rosemary_drain"), Has("drain")),
            ("drain_answer", Has("rosemary_drained"), Has("DrainEvent")),
        ],
    ),
    (
        "src/services/stats.rs",
        &[
            ("find_switch", Has("rosemary_find_switch_stats"), Has("find_switch")),
            ("find_port", Has("rosemary_find_port_counters"), Has("find_port")),
            ("find_rates", Has("rosemary_find_port_rates"), Has("find_rates")),
        ],
    ),
    (
        "src/services/hosts.rs",
        &[
            ("by_mac", Has("rosemary_find_host"), Has("by_mac")),
            ("by_ip", Has("rosemary_find_address"), Has("by_ip")),
            ("records", Has("rosemary_table_record"), Has("records")),
            ("is_available", FOLLOWED, Has("is_available")),
            ("on_event", FOLLOWED, Has("on_event")),
        ],
    ),
    (
        "src/wanted/mod.rs",
        &[
            ("new", Has("rosemary_wanted_create"), Has("Wanted")),
            ("flow", Has("rosemary_wanted_flow"), Has("flow")),
            ("group", Has("rosemary_wanted_group"), Has("group")),
            ("meter", Has("rosemary_wanted_meter"), Has("meter")),
            ("drop_flow", Has("rosemary_wanted_drop_flow"), Has("drop_flow")),
            ("drop_group", Has("rosemary_wanted_drop_group"), Has("drop_group")),
            ("drop_meter", Has("rosemary_wanted_drop_meter"), Has("drop_meter")),
            (
                "keep_only_declared",
                Has("rosemary_wanted_keep_only_declared"),
                Has("keep_only_declared"),
            ),
            ("is_settled", Has("rosemary_wanted_is_settled"), Has("is_settled")),
            ("is_loaded", Has("rosemary_wanted_is_loaded"), Has("is_loaded")),
            ("is_saved", Has("rosemary_wanted_is_saved"), Has("is_saved")),
            ("save_failure", Has("rosemary_wanted_save_failure"), Has("save_failure")),
            ("check", Has("rosemary_wanted_check"), Has("check")),
            ("len", Has("rosemary_wanted_count"), Has("__len__")),
            ("on_event", Has("rosemary_wanted_on_record"), Has("on_event")),
            ("on_wake", Has("rosemary_wanted_on_record"), Has("on_wake")),
        ],
    ),
    (
        "src/network.rs",
        &[
            ("set_timer", Has("rosemary_timer_set"), Has("set_timer")),
            ("repeat_timer", Has("rosemary_timer_repeat"), Has("repeat_timer")),
            ("cancel_timer", Has("rosemary_timer_cancel"), Has("cancel_timer")),
            ("wake_at", Has("wake_at_ns"), Has("wake_at")),
        ],
    ),
    (
        "src/serving.rs",
        &[
            ("report_incident", Has("report_incident"), Has("incident")),
            ("set_problem", Has("set_problem"), Has("set_problem")),
        ],
    ),
];

/// Functions in these files that serve no app as a client, and those whose effect another function has.
const NOT_CLIENTS: &[(&str, &[&str])] = &[
    (
        "src/services/mod.rs",
        &[
            "from_number",
            "code",
            "number",
            "is_for_apps",
            "named",
            "name",
            "table_slots",
            "read_right",
        ],
    ),
    ("src/services/apps.rs", &["encode", "decode"]),
    ("src/services/ovsdb/mod.rs", &["encode", "decode", "add", "answer"]),
    ("src/services/ovsdb/value.rs", &[]),
    ("src/topology/client.rs", &[]),
    (
        "src/services/stats.rs",
        &[
            "to_slot",
            "of_slot",
            "name",
            "encode",
            "decode",
            "switch_name",
            "port_name",
            "rates_name",
            "table_name",
            "group_name",
            "meter_name",
        ],
    ),
    (
        "src/services/hosts.rs",
        &[
            "to_slot",
            "of_slot",
            "vlan_number",
            "find_host",
            "find_address",
            "hosts",
            "addresses",
            "new",
            "of",
            "host_name",
            "address_name",
        ],
    ),
    ("src/wanted/mod.rs", &["flow_name", "is_empty", "flows", "groups", "meters"]),
];

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of the public functions that a source in Rust defines.
fn public_functions(source: &str) -> Vec<&str> {
    let lines = source.lines().map(str::trim_start);
    let lines = lines.filter_map(|line| line.strip_prefix("pub fn "));
    lines
        .map(|line| line.split(|it: char| !it.is_alphanumeric() && it != '_').next().unwrap())
        .collect()
}

/// Whether `text` has this word.
fn has_word(text: &str, word: &str) -> bool {
    text.split(|it: char| !it.is_alphanumeric() && it != '_').any(|it| it == word)
}

#[test]
fn no_client_is_silently_missing_in_c_or_python() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR"));
    let headers: String = std::fs::read_dir(sdk.join("c"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "h"))
        .map(|path| read(&path))
        .collect();
    let python = read(&sdk.join("../../python/rosemary/_native.pyi"));
    for (file, clients) in CLIENTS {
        let source = read(&sdk.join(file));
        let functions = public_functions(&source);
        for (name, c, in_python) in *clients {
            assert!(functions.contains(name), "{file} has no function {name}");
            for (language, text, client) in [("C", &headers, c), ("Python", &python, in_python)] {
                match client {
                    Has(word) => {
                        assert!(has_word(text, word), "{language} has no {word} for {name}");
                    }
                    Missing(why) => assert!(why.len() > 20, "{name}: why does {language} lack it?"),
                }
            }
        }
        let Some((_, others)) = NOT_CLIENTS.iter().find(|(other, _)| other == file) else {
            continue;
        };
        let is_listed =
            |it: &&&str| others.contains(*it) || clients.iter().any(|(name, ..)| name == *it);
        let unlisted: Vec<_> = functions.iter().filter(|it| !is_listed(it)).collect();
        assert!(unlisted.is_empty(), "{file}: add {unlisted:?} to the clients, with C and Python");
    }
}
