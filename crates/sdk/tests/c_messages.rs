//! Compares the messages of `rosemary_messages.h` with the codec's messages, in each version of OpenFlow.

#![cfg(feature = "host")]
#![allow(clippy::unwrap_used, reason = "messages of a test fit")]

mod in_c;

use std::path::Path;
use std::process::Command;

use openflow::{
    Action, FlowMod, Match, MultipartReply, MultipartRequest, PacketOut, PortNo, ReplyBody, Version,
};
use rosemary_sdk::MacAddr;
use rosemary_sdk::abi::RecordKind;
use rosemary_sdk::services::storage::{Answer, Expect, Request};
use rosemary_sdk::services::{Outcome, RequestId, Service};
use rosemary_sdk::testing::{AlignedRecord, Bench};

use in_c::compile;

/// Answers each packet-in with every kind of message.
const APP: &str = r#"
#include "rosemary_messages.h"

struct app {
    const struct rosemary_host *host;
    int64_t asked;
};

static int32_t on_record(struct app *app, const struct rosemary_record *record, struct rosemary_turn *turn) {
    const struct rosemary_host *host = app->host;
    struct rosemary_port_stats port;
    uint32_t at = 0, size;

    if (!record)
        return 0;
    while (rosemary_next_port_stats(record, &at, &port))
        rosemary_logf(host, ROSEMARY_LOG_INFO, "port %u: %llu, %llu, %llu", port.port_no,
                      (unsigned long long)port.rx_packets, (unsigned long long)port.tx_bytes,
                      (unsigned long long)port.tx_errors);
    if (rosemary_storage_is_up(record))
        app->asked = rosemary_storage_get(host, "key", 3);
    if (rosemary_storage_answers(record, app->asked)) {
        const uint8_t *value = rosemary_storage_value(record, &size);
        rosemary_logf(host, ROSEMARY_LOG_INFO, "value %.*s", value ? (int)size : 4, value ? (const char *)value : "none");
        rosemary_storage_put(host, "key", 3, "new", 3);
    }
    if (record->kind == ROSEMARY_PACKET_IN) {
        const uint8_t *packet = rosemary_packet(record);
        struct rosemary_flow flow = {0};
        if (rosemary_packet_out(host, record, ROSEMARY_FLOOD) == ROSEMARY_FULL)
            return ROSEMARY_FULL;
        flow.match.in_port = record->in_port;
        flow.match.eth_dst = packet;
        flow.match.eth_src = packet + 6;
        flow.idle_timeout = 60;
        flow.hard_timeout = 600;
        flow.priority = 6;
        flow.output = 2;
        rosemary_add_flow(host, record, &flow);
        memset(&flow, 0, sizeof flow);
        flow.match.eth_type = ROSEMARY_ETH_IPV4;
        flow.match.ip_proto = packet[14];
        flow.match.ipv4_src = packet + 15;
        flow.match.ipv4_dst = packet + 19;
        flow.match.src_port = 80;
        flow.match.dst_port = 8080;
        flow.priority = 7;
        rosemary_add_flow(host, record, &flow);
        rosemary_delete_flows(host, record, &flow.match);
        rosemary_request_port_stats(host, record, 77);
        flow.priority = 65535;
        if (rosemary_add_flow(host, record, &flow) == ROSEMARY_WRONG)
            rosemary_stop(host, turn);
    }
    return 0;
}

ROSEMARY_EXPORT("messages", "1", struct app, on_record)
"#;

/// Compiles the app and puts it on a bench.
fn bench(name: &str) -> Bench {
    in_c::bench(&in_c::object(name, APP))
}

#[test]
fn messages_in_c_are_those_of_the_codec() {
    let mut bench = bench("messages");
    let (dst, src) = (MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([2, 0, 0, 0, 0, 1]));
    for version in Version::ALL.iter().copied() {
        for (protocol, buffer) in [(6, None), (17, None), (6, Some(5))] {
            let frame = [&dst.0[..], &src.0, &[8, 0, protocol, 10, 0, 0, 1, 10, 0, 0, 2]].concat();
            let switch = Bench::switch(7, version);
            let mut packet = AlignedRecord::packet_in(switch, PortNo(3), &frame);
            if let Some(buffer) = buffer {
                packet = packet.with_buffer(buffer);
            }
            let sent = bench.event(packet);
            let flood = [Action::output(PortNo::FLOOD)];
            let out = match buffer {
                None => PacketOut::new(PortNo(3), &flood, &frame),
                Some(buffer) => PacketOut::buffered(PortNo(3), &flood, buffer),
            };
            let pair = Match::new().in_port(PortNo(3)).eth_dst(dst).eth_src(src);
            let output = [Action::output(PortNo(2))];
            let pair = FlowMod::add(pair).idle_timeout(60).hard_timeout(600).apply(&output);
            let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
            let ip = Match::new().eth_type(0x0800).ip_proto(protocol).ipv4_src(from).ipv4_dst(to);
            let ports = match protocol {
                6 => ip.tcp_src(80).tcp_dst(8080),
                _ => ip.udp_src(80).udp_dst(8080),
            };
            let mut expected = Vec::new();
            let mut add = |encode: &dyn Fn(&mut [u8]) -> Result<usize, openflow::EncodeError>| {
                let mut message = vec![0; 512];
                let size = encode(&mut message).unwrap();
                message.truncate(size);
                expected.push(message);
            };
            add(&|room| out.encode(version, 0, room));
            add(&|room| pair.clone().priority(7).encode(version, 0, room));
            add(&|room| FlowMod::add(ports.clone()).priority(8).encode(version, 0, room));
            add(&|room| FlowMod::delete(ports.clone()).priority(1).encode(version, 0, room));
            add(&|room| MultipartRequest::PortStats(PortNo::ANY).encode(version, 77, room));
            let sent: Vec<_> = sent.into_iter().map(|sent| sent.message).collect();
            assert_eq!(sent, expected, "{version:?}");
            assert_eq!(bench.stopped(), [0], "the priority above the band is not sent");
            assert_eq!(
                bench.log(),
                ["Error: priority 65535: the operator gave this app 0 to 65534"]
            );
        }
    }
}

#[test]
fn cut_off_statistics_are_not_read() {
    let mut bench = bench("statistics");
    for version in Version::ALL.iter().copied() {
        let port = |port_no, rx_packets| openflow::PortStats {
            port_no: PortNo(port_no),
            rx_packets,
            tx_packets: 0,
            rx_bytes: 0,
            tx_bytes: 11,
            rx_dropped: 0,
            tx_dropped: 0,
            rx_errors: 0,
            tx_errors: 13,
            rx_frame_err: 0,
            rx_over_err: 0,
            rx_crc_err: 0,
            collisions: 0,
            duration: None,
        };
        let body = ReplyBody::PortStats(vec![port(1, 5), port(2, 6)]);
        let mut message = vec![0; 512];
        let size = MultipartReply { more: false, body }.encode(version, 77, &mut message).unwrap();
        let ports = ["Info: port 1: 5, 11, 13", "Info: port 2: 6, 11, 13"];
        for end in 0..=size {
            let switch = Bench::switch(7, version);
            bench.event(AlignedRecord::answer(RecordKind::Reply, switch, &message[..end]));
            let head = usize::from(version.layout().multipart_entries);
            let port = (size - head) / 2;
            let whole = end.saturating_sub(head) / port;
            assert_eq!(bench.log(), ports[..whole], "{version:?}, {end} bytes");
        }
    }
}

#[test]
fn storage_requests_in_c_are_those_of_the_sdk() {
    let mut bench = bench("storage");
    let event = |outcome, request, body: &[u8]| {
        AlignedRecord::service(Service::Storage, outcome, RequestId(request), body)
    };
    bench.event(event(Outcome::Up, 0, &[]));
    let asked = bench.asked();
    assert_eq!(
        Request::decode(&asked[0].request),
        Some(Request::Get { namespace: "", key: b"key" })
    );
    let value = Answer::Value { version: 3, value: b"old" }.encode();
    bench.event(event(Outcome::Answered, 9, &value));
    assert!(bench.asked().is_empty(), "the answer to another request");
    bench.event(event(Outcome::Answered, asked[0].id.0, &value));
    let put = Request::Put { namespace: "", key: b"key", expect: Expect::Anything, value: b"new" };
    assert_eq!(Request::decode(&bench.asked()[0].request), Some(put));
    bench.event(event(Outcome::Answered, asked[0].id.0, &Answer::Nothing.encode()));
    for end in 0..value.len() {
        bench.event(event(Outcome::Answered, asked[0].id.0, &value[..end]));
    }
    let log = bench.log();
    assert_eq!(log[0], "Info: value old");
    assert!(log.len() == 2 + value.len() && log[1..].iter().all(|line| line == "Info: value none"));
}

/// An app that adds a flow with a priority, and a test that gives it no band.
const WITHOUT_A_BAND: &str = r#"
#include "rosemary_messages.h"

struct app {
    const struct rosemary_host *host;
};

static int32_t on_record(struct app *app, const struct rosemary_record *record, struct rosemary_turn *turn) {
    struct rosemary_flow flow = {0};
    (void)turn;
    flow.priority = 100;
    return record ? rosemary_add_flow(app->host, record, &flow) : 0;
}

ROSEMARY_EXPORT("unbanded", "1", struct app, on_record)

#include "rosemary_bench.h"

int main(void) {
    static const uint8_t packet[14] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0};
    struct rosemary_bench *bench = rosemary_bench_new(&rosemary_app);

    bench->host.lowest_priority = bench->host.highest_priority = 0;
    rosemary_bench_packet_in(bench, 4, 1, packet, 14);
    ROSEMARY_CHECK(bench->count == 1);
    ROSEMARY_CHECK(bench->messages[0].bytes[30] == 0 && bench->messages[0].bytes[31] == 100);
    ROSEMARY_CHECK(bench->log_size == 0);
    rosemary_bench_free(bench);
    return 0;
}
"#;

#[test]
fn kernel_decides_about_flows_without_a_band() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (dir.join("unbanded.c"), dir.join("unbanded"));
    std::fs::write(&source, WITHOUT_A_BAND).unwrap();
    compile(&source, &program, &[]);
    let run = Command::new(program).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

const WITH_TIMERS: &str = r#"
#include "rosemary_timers.h"

struct app {
    const struct rosemary_host *host;
    struct rosemary_timers timers;
};

static int32_t on_record(struct app *app, const struct rosemary_record *record, struct rosemary_turn *turn) {
    if (!record) {
        rosemary_logf(app->host, ROSEMARY_LOG_INFO, "woken");
        return 0;
    }
    rosemary_logf(app->host, ROSEMARY_LOG_INFO, "packet");
    if (record->in_port == 9) {
        ROSEMARY_CHECK(rosemary_timer_set(&app->timers, "once", turn->now_ns + 3000000) == 0);
        ROSEMARY_CHECK(rosemary_timer_repeat(&app->timers, "poll", turn->now_ns, 2000000) == 0);
        ROSEMARY_CHECK(rosemary_timer_repeat(&app->timers, "poll", turn->now_ns, 999999) == -1);
        *turn->wake_at_ns = turn->now_ns + 6000000;
    }
    return 0;
}

static void on_timer(struct app *app, const char *name, struct rosemary_turn *turn) {
    (void)turn;
    rosemary_logf(app->host, ROSEMARY_LOG_INFO, "%s", name);
}

ROSEMARY_EXPORT_WITH_TIMERS("timers", "1", struct app, on_record, on_timer)

static void expect(struct rosemary_bench *bench, uint32_t in_port, const char *log, uint64_t wake_at_ms) {
    static const uint8_t packet[14] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0};

    bench->log_size = 0;
    bench->log[0] = 0;
    if (in_port)
        rosemary_bench_packet_in(bench, 4, in_port, packet, 14);
    else
        rosemary_bench_call(bench, NULL);
    if (strcmp(bench->log, log) != 0 || bench->wake_at_ns != wake_at_ms * 1000000) {
        fprintf(stderr, "at %llu ns: %s, wakes at %llu ns\n", (unsigned long long)bench->now_ns, bench->log,
                (unsigned long long)bench->wake_at_ns);
        exit(1);
    }
}

int main(void) {
    struct rosemary_bench *bench = rosemary_bench_new(&rosemary_app);
    char names[20][8];
    struct rosemary_timers timers = {0};

    /* Each call comes a millisecond after the last one. */
    expect(bench, 9, "packet\n", 3);
    expect(bench, 0, "woken\n", 3); /* it cleared the timer without a name */
    expect(bench, 9, "poll\npacket\n", 5);
    expect(bench, 1, "packet\n", 5);
    expect(bench, 0, "poll\n", 6);
    expect(bench, 0, "once\n", 7);
    ROSEMARY_CHECK(rosemary_timer_cancel(&((struct app *)bench->instance)->timers, "poll"));
    ROSEMARY_CHECK(!rosemary_timer_cancel(&((struct app *)bench->instance)->timers, "poll"));
    bench->log_size = 0;
    rosemary_bench_free(bench);
    for (int i = 0; i < 20; i++) {
        sprintf(names[i], "%d", i);
        ROSEMARY_CHECK(rosemary_timer_set(&timers, names[i], 1) == (i < ROSEMARY_MOST_TIMERS ? 0 : -1));
    }
    return 0;
}
"#;

#[test]
fn timers_in_c_survive_other_records() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (dir.join("timers.c"), dir.join("timers"));
    let text = WITH_TIMERS.replacen("#include", "#include \"rosemary_bench.h\"\n#include", 1);
    std::fs::write(&source, text).unwrap();
    compile(&source, &program, &[]);
    let run = Command::new(program).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}
