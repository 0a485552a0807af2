//! Checks that the C header and the Rust structures are the same ABI: compiles apps in C against the header, loads and
//! runs them.

#![cfg(feature = "host")]

mod in_c;

use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::{Path, PathBuf};

use openflow::{Action, FlowMod, FlowModTemplate, MacAddr, Match, PacketOut, PortNo, Version};
use rosemary_sdk::abi::HostFunctions;
use rosemary_sdk::abi::host::{HostedApp, LoadError};
use rosemary_sdk::http::{MOST_ANSWER_BODY, Response};
use rosemary_sdk::testing::{AlignedRecord, Bench, Recorder};
use sys::object::Object;

use in_c::{SHARED, load, made};

/// Compiles `source` into a shared object and loads it.
fn compile(name: &str, source: &Path) -> Object {
    let object = made(&format!("lib{name}.so"));
    in_c::compile(source, &object, &SHARED);
    load(&object)
}

fn source(name: &str, text: &str) -> PathBuf {
    let path = made(&format!("{name}.c"));
    std::fs::write(&path, text).expect("the folder is there");
    path
}

#[test]
fn app_in_c_floods_while_there_is_room() {
    let hub = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/hub.c");
    let app = HostedApp::create(&compile("hub", &hub), Recorder::default()).unwrap();
    assert_eq!((app.name(), app.version()), ("hub", "0.1.0"));
    let mut bench = Bench::of(app);
    assert_eq!(bench.log(), ["Info: hub ready"]);
    for version in Version::ALL.iter().copied() {
        let at = Bench::switch(7, version);
        let sent = bench.event(AlignedRecord::packet_in(at, PortNo(3), b"a whole frame"));
        let packet_out = PacketOut::decode(&sent[0].message).unwrap();
        assert_eq!((sent[0].dpid.0, sent[0].epoch), (7, 1));
        assert_eq!((packet_out.in_port, packet_out.buffer_id), (PortNo(3), None));
        assert_eq!(packet_out.data, b"a whole frame");
        assert!(
            packet_out.actions.iter().eq([Action::Output { port: PortNo::FLOOD, max_len: 0xffff }])
        );
    }
    bench.room = 100;
    let at = Bench::switch(7, Version::V1_3);
    let records = [(); 3].map(|()| AlignedRecord::packet_in(at, PortNo(3), b"a whole frame"));
    let (answer, sent) = bench.batch(&records).unwrap();
    assert_eq!((answer.handled, sent.len()), (1, 1));
}

#[test]
fn app_in_c_answers_http_requests() {
    const WEB: &str = r#"
        #include "rosemary_http.h"
        static const struct rosemary_host *host;
        static void *create(const struct rosemary_host *given) { host = given; return (void *)given; }
        static void destroy(void *app) { (void)app; }
        static char big[300000];
        static int32_t on_batch(void *app, const struct rosemary_batch *batch, struct rosemary_answer *answer) {
            (void)app; (void)answer;
            for (uint32_t i = 0; i < batch->count; i++) {
                const struct rosemary_record *record = batch->records[i];
                struct rosemary_http_request it;
                struct rosemary_http_text agent;
                if (rosemary_http_request_of_record(record, &it) != 0)
                    continue;
                if (rosemary_http_is(&it, "GET", "/big"))
                    rosemary_http_respond(host, record, 200, "text/plain", big, sizeof big);
                else if (rosemary_http_is(&it, "GET", "/agent") && rosemary_http_header(&it, "user-agent", &agent) == 0)
                    rosemary_http_respond(host, record, 200, "text/plain", agent.start, agent.size);
                else if (rosemary_http_is(&it, "POST", "/echo"))
                    rosemary_http_respond(host, record, 201, "text/plain", it.query.size ? it.query.start : (const char *)it.body,
                                          it.query.size ? it.query.size : it.body_size);
                else
                    rosemary_http_respond(host, record, 404, "text/html", "", 0);
            }
            return 0;
        }
        const struct rosemary_app rosemary_app = {
            .abi = ROSEMARY_ABI, .size = sizeof(struct rosemary_app), .name = "web", .version = "1",
            .create = create, .on_batch = on_batch, .destroy = destroy,
        };"#;
    let object = compile("web", &source("web", WEB));
    let mut bench = Bench::of(HostedApp::create(&object, Recorder::default()).unwrap());
    let text = |status, body: &[u8]| Response::of(status, "text/plain", body.to_vec());
    assert_eq!(bench.http("POST", "/echo", b"a body"), Some(text(201, b"a body")));
    assert_eq!(bench.http("POST", "/echo?a=b", b"a body"), Some(text(201, b"a=b")));
    assert_eq!(bench.http("GET", "/big", b""), Some(text(200, &vec![0; 300_000])));
    assert_eq!(bench.http("GET", "/agent", b""), Some(Response::of(404, "text/html", Vec::new())));
}

#[test]
fn invalid_answers_in_c_are_refused_and_not_sent() {
    // The body of a request describes the answer: "STATUS SIZE:TYPE". If the library refuses it, the app sends another one.
    const WEB: &str = r#"
        #include <stdio.h>
        #include "rosemary_http.h"
        static const struct rosemary_host *host;
        static void *create(const struct rosemary_host *given) { host = given; return (void *)given; }
        static void destroy(void *app) { (void)app; }
        static char body[ROSEMARY_HTTP_MOST_BODY + 1];
        static int32_t on_batch(void *app, const struct rosemary_batch *batch, struct rosemary_answer *answer) {
            (void)app; (void)answer;
            for (uint32_t i = 0; i < batch->count; i++) {
                const struct rosemary_record *record = batch->records[i];
                struct rosemary_http_request it;
                char text[1024] = "";
                unsigned status, size;
                int at = 0;
                if (rosemary_http_request_of_record(record, &it) != 0 || it.body_size >= sizeof text)
                    continue;
                memcpy(text, it.body, it.body_size);
                if (sscanf(text, "%u %u:%n", &status, &size, &at) != 2)
                    continue;
                if (rosemary_http_respond(host, record, status, text + at, body, size) == -1)
                    rosemary_http_respond(host, record, 500, "text/plain", "refused", 7);
            }
            return 0;
        }
        const struct rosemary_app rosemary_app = {
            .abi = ROSEMARY_ABI, .size = sizeof(struct rosemary_app), .name = "web", .version = "1",
            .create = create, .on_batch = on_batch, .destroy = destroy,
        };"#;
    let object = compile("web_refused", &source("web_refused", WEB));
    let mut bench = Bench::of(HostedApp::create(&object, Recorder::default()).unwrap());
    let mut answer = |status: u32, size: usize, media_type: &str| {
        bench.http("POST", "/", format!("{status} {size}:{media_type}").as_bytes())
    };
    let (most, longest) = (MOST_ANSWER_BODY, "x".repeat(256));
    for (status, size, media_type) in [
        (200, 0, ""),
        (599, most, "text/html; charset=utf-8"),
        (404, 5, "a\tb ~!"),
        (200, 0, &longest),
    ] {
        let is_sent = Response::of(u16::try_from(status).unwrap(), media_type, vec![0; size]);
        assert!(is_sent.parts().is_ok(), "the Rust library accepts it, too");
        assert_eq!(answer(status, size, media_type), Some(is_sent));
    }
    let refused = Response::of(500, "text/plain", b"refused".to_vec());
    for (status, size, media_type) in [
        (0, 0, "text/plain"),
        (101, 0, "text/plain"),
        (199, 0, "text/plain"),
        (600, 0, "text/plain"),
        (200 + 65_536, 0, "text/plain"),
        (200, most + 1, "text/plain"),
        (200, 0, "text/plain\r\nset-cookie: a=b"),
        (200, 0, "text/plain\n"),
        (200, 0, "text/plain "),
        (200, 0, "\ttext/plain"),
        (200, 0, "text\x7f"),
        (200, 0, "té"),
        (200, 0, &format!("x{longest}")),
    ] {
        let case = format!("{status} {size} {media_type:?}");
        assert_eq!(answer(status, size, media_type).as_ref(), Some(&refused), "{case}");
    }
}

/// The app with which `make bench` compares the one in Rust.
#[test]
fn bench_app_in_c_installs_flows() {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/speed/apps");
    let object = compile("ordinary", &apps.join("ordinary.c"));
    let (alice, bob) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    for version in [Version::V1_0, Version::V1_3] {
        let mut bench = Bench::of(HostedApp::create(&object, Recorder::default()).unwrap());
        let packet_in = |in_port, to: [u8; 6], from: [u8; 6]| {
            let frame = [&to[..], &from, &[8, 0]].concat();
            AlignedRecord::packet_in(Bench::switch(7, version), PortNo(in_port), &frame)
        };
        let output = |port| [Action::Output { port, max_len: 0 }];
        let sent = bench.event(packet_in(1, bob, alice));
        let packet_out = PacketOut::decode(&sent[0].message).unwrap();
        assert!(packet_out.actions.iter().eq(output(PortNo::FLOOD)), "{packet_out:?}");
        let sent = bench.event(packet_in(2, alice, bob).with_buffer(9));
        let flow_mod = FlowMod::decode(&sent[0].message).unwrap();
        let pair = Match::new().in_port(PortNo(2)).eth_dst(MacAddr(alice)).eth_src(MacAddr(bob));
        assert_eq!((&flow_mod.match_, flow_mod.buffer_id, sent.len()), (&pair, Some(9), 1));
        assert!(flow_mod.instructions.apply.iter().eq(output(PortNo(1))), "{flow_mod:?}");
        let sent = bench.event(packet_in(2, alice, bob));
        let packet_out = PacketOut::decode(&sent[1].message).unwrap();
        assert!(packet_out.actions.iter().eq(output(PortNo(1))), "{packet_out:?}");
    }
}

#[test]
fn structures_have_the_same_layout_in_c() {
    let check = |structure: &str, field: &str, offset: usize| {
        format!("_Static_assert(offsetof(struct {structure}, {field}) == {offset}, \"{field}\");\n")
    };
    let mut text = "#include <stddef.h>\n#include \"rosemary_app.h\"\n".to_owned();
    for (field, offset) in [
        ("size", 0),
        ("kind", 4),
        ("version", 6),
        ("flags", 7),
        ("dpid", 8),
        ("epoch", 16),
        ("in_port", 20),
        ("buffer_id", 24),
        ("data_offset", 28),
        ("data_size", 30),
        ("cookie", 32),
        ("reason", 40),
        ("table_id", 41),
        ("body_size", 42),
        ("total_len", 44),
    ] {
        text += &check("rosemary_record", field, offset);
    }
    for (field, offset) in [("hw_addr", 12), ("name", 20), ("curr_speed", 36)] {
        text += &check("rosemary_port", field, offset);
    }
    for (field, offset) in [
        ("lowest_priority", offset_of!(HostFunctions, lowest_priority)),
        ("log", offset_of!(HostFunctions, log)),
        ("first_group", offset_of!(HostFunctions, first_group)),
        ("last_meter", offset_of!(HostFunctions, last_meter)),
        ("config", offset_of!(HostFunctions, config)),
        ("config_size", offset_of!(HostFunctions, config_size)),
        ("ask", offset_of!(HostFunctions, ask)),
        ("take", offset_of!(HostFunctions, take)),
        ("commit_series", offset_of!(HostFunctions, commit_series)),
    ] {
        text += &check("rosemary_host", field, offset);
    }
    let size = size_of::<HostFunctions>();
    writeln!(text, "_Static_assert(sizeof(struct rosemary_host) == {size}, \"host\");").unwrap();
    text += "_Static_assert(sizeof(struct rosemary_record) == 48, \"record\");\n";
    text += "_Static_assert(sizeof(struct rosemary_port) == 48, \"port\");\n";
    for (field, offset) in [("output", 4), ("buffer_id", 8), ("eth_dst", 12), ("eth_src", 18)] {
        text += &check("rosemary_blanks", field, offset);
    }
    text += "_Static_assert(sizeof(struct rosemary_blanks) == 24, \"blanks\");\n";
    text += "int unused;\n";
    compile("layout", &source("layout", &text));
}

#[test]
fn app_in_c_sends_a_series() {
    for version in Version::ALL.iter().copied() {
        let template = FlowModTemplate::new(&FlowMod::add(Match::new()), version).unwrap();
        let (flow_mod, size) = (template.message(), template.message().len());
        let text = format!(
            "#include \"rosemary_app.h\"\n\
             static const uint8_t flow_mod[{size}] = {{ {flow_mod:?} }};\n\
             static void *create(const struct rosemary_host *host) {{ return (void *)host; }}\n\
             static int32_t on_batch(void *app, const struct rosemary_batch *batch,\n\
                                     struct rosemary_answer *answer) {{\n\
                 const struct rosemary_host *host = app;\n\
                 const struct rosemary_record *record = batch->records[0];\n\
                 struct rosemary_blanks blanks[2] = {{\n\
                     {{1, 2, 3, {{4, 5, 6, 7, 8, 9}}, {{10, 11, 12, 13, 14, 15}}}},\n\
                     {{record->in_port, 0xfffffffbu, ROSEMARY_NO_BUFFER, {{0}}, {{0}}}}}};\n\
                 uint32_t packet_size = 2;\n\
                 uint8_t *room = host->reserve(host, 256);\n\
                 memcpy(room, flow_mod, sizeof flow_mod);\n\
                 memcpy(room + sizeof flow_mod, blanks, sizeof *blanks);\n\
                 memcpy(room + sizeof flow_mod + 24, &packet_size, 4);\n\
                 memcpy(room + sizeof flow_mod + 28, \"\\xca\\xfe\", 2);\n\
                 if (host->commit_series(host, record->dpid, record->epoch, sizeof flow_mod + 30, 1))\n\
                     return ROSEMARY_FAILED;\n\
                 room = host->reserve(host, sizeof flow_mod + sizeof blanks);\n\
                 memcpy(room, flow_mod, sizeof flow_mod);\n\
                 memcpy(room + sizeof flow_mod, blanks, sizeof blanks);\n\
                 (void)answer;\n\
                 if (host->commit_series(host, record->dpid, record->epoch, 1000, 0) != -1)\n\
                     return ROSEMARY_FAILED;\n\
                 return host->commit_series(host, record->dpid, record->epoch,\n\
                                            sizeof flow_mod + sizeof blanks, 2);\n\
             }}\n\
             static void destroy(void *app) {{ (void)app; }}\n\
             const struct rosemary_app rosemary_app = {{\n\
                 .abi = ROSEMARY_ABI, .size = sizeof(struct rosemary_app), .name = \"pairs\",\n\
                 .version = \"1\", .create = create, .on_batch = on_batch, .destroy = destroy}};"
        )
        .replace("{ [", "{ ")
        .replace("] }", " }");
        let name = format!("pairs-{size}");
        let object = compile(&name, &source(&name, &text));
        let mut bench = Bench::of(HostedApp::create(&object, Recorder::default()).unwrap());
        let at = Bench::switch(7, version);
        let sent = bench.event(AlignedRecord::packet_in(at, PortNo(5), &[0; 60]));
        let said = |in_port, dst, src, buffer_id, output| {
            let pair = Match::new().in_port(in_port).eth_dst(MacAddr(dst)).eth_src(MacAddr(src));
            let out = [Action::output(output)];
            let (mut message, xid) = (vec![0; size], 0);
            let add = FlowMod::add(pair).buffer_id(buffer_id).apply(&out);
            add.encode(version, xid, &mut message).unwrap();
            message
        };
        let (mut packet_out, out) = (Vec::new(), [Action::output(PortNo(2))]);
        let plain = PacketOut::new(PortNo(1), &out, &[0xca, 0xfe]);
        openflow::append(&mut packet_out, |room| plain.encode(version, 1, room)).unwrap();
        let first =
            said(PortNo(1), [4, 5, 6, 7, 8, 9], [10, 11, 12, 13, 14, 15], Some(3), PortNo(2));
        let mut second = said(PortNo(5), [0; 6], [0; 6], None, PortNo(0xffff_fffb));
        second[4..8].copy_from_slice(&1_u32.to_be_bytes());
        let sent: Vec<_> = sent.into_iter().map(|sent| sent.message).collect();
        assert_eq!(sent, [first.clone(), packet_out, first, second]);
    }
}

#[test]
fn app_in_c_rejects_a_bad_configuration() {
    let picky = source(
        "picky",
        "#include \"rosemary_app.h\"\n\
         static void *create(const struct rosemary_host *host) {\n\
             if (host->config_size == 2 && memcmp(host->config, \"ok\", 2) == 0)\n\
                 return (void *)host;\n\
             host->log(host, ROSEMARY_LOG_ERROR, \"line 1: not ok\", 14);\n\
             return 0;\n\
         }\n\
         static int32_t on_batch(void *app, const struct rosemary_batch *batch,\n\
                                 struct rosemary_answer *answer) {\n\
             (void)app; (void)batch; (void)answer; return 0;\n\
         }\n\
         static void destroy(void *app) { (void)app; }\n\
         const struct rosemary_app rosemary_app = {\n\
             .abi = ROSEMARY_ABI, .size = sizeof(struct rosemary_app), .name = \"picky\",\n\
             .version = \"1\", .create = create, .on_batch = on_batch, .destroy = destroy};",
    );
    let object = compile("picky", &picky);
    HostedApp::create(&object, Recorder::with_config("ok")).unwrap();
    let error = HostedApp::create(&object, Recorder::with_config("no")).unwrap_err();
    assert!(error.to_string().ends_with("instance: line 1: not ok"), "{error}");
}

#[test]
fn object_of_another_abi_is_refused() {
    let other = source(
        "other",
        "#include \"rosemary_app.h\"\nconst struct rosemary_app rosemary_app = {.abi = 99, .size = 8};",
    );
    let error = HostedApp::create(&compile("other", &other), Recorder::default()).unwrap_err();
    assert!(matches!(error, LoadError::Abi { abi: 99, size: 8, .. }), "{error}");
    let none = source("none", "int nothing;");
    let error = HostedApp::create(&compile("none", &none), Recorder::default()).unwrap_err();
    assert!(matches!(error, LoadError::NoSymbol(_)), "{error}");
    let empty = source(
        "empty",
        "#include \"rosemary_app.h\"\nconst struct rosemary_app rosemary_app = {\n\
         .abi = ROSEMARY_ABI, .size = sizeof(struct rosemary_app)};",
    );
    let error = HostedApp::create(&compile("empty", &empty), Recorder::default()).unwrap_err();
    assert!(matches!(error, LoadError::Member("on_batch")), "{error}");
}
