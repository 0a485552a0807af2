//! Tests the app with records of its host: counters of the monitor, answers of a switch, and answers of services.

use openflow::Version;
use rosemary_sdk::abi::RecordKind;
use rosemary_sdk::services::apps::Request;
use rosemary_sdk::services::{Outcome, REQUEST_OF_APP};
use rosemary_sdk::testing::{AlignedRecord, Bench, Sent, ServiceRequest};

use super::*;

fn switch() -> Switch {
    Bench::switch(1, Version::V1_3)
}

fn bench(config: &str) -> Bench {
    let mut bench = Bench::configured::<Protection>(config).unwrap();
    let up = |service| AlignedRecord::service(service, Outcome::Up, RequestId(0), &[]);
    bench.event(up(Service::Apps));
    bench.event(up(Service::Storage));
    bench
}

fn answer(bench: &mut Bench, request: &ServiceRequest, body: &[u8]) -> Vec<Sent> {
    bench.event(AlignedRecord::service(request.service, Outcome::Answered, request.id, body))
}

/// Answers questions to the switch and requests for counters for `ms` milliseconds, while an app `bulk` sends `rate` flow-mods per second.
/// Returns the other requests to services.
fn pass(bench: &mut Bench, ms: u64, rate: u64, sum: &mut u64) -> Vec<ServiceRequest> {
    let mut others = Vec::new();
    for _ in 0..ms {
        let (_, sent) = bench.batch(&[]).unwrap();
        *sum += rate;
        for question in sent {
            let xid = Xid::of(&question.message).unwrap();
            let reply = [&[4, 8, 0, 12][..], &xid.0.to_be_bytes(), &[0, 0, 0, 128]].concat();
            bench.event(AlignedRecord::answer(RecordKind::Reply, switch(), &reply));
        }
        for request in bench.asked() {
            if request.service != Service::Apps
                || request.request[1..] != Request::Counters.encode()
            {
                others.push(request);
                continue;
            }
            assert_eq!(request.request[0], REQUEST_OF_APP);
            let bulk = AppCounters {
                number: 7,
                name: "bulk".into(),
                delivered: 0,
                flow_mods: *sum / 1000,
                refused: 0,
                delayed: 0,
                limit: None,
            };
            let flow_mods = bulk.flow_mods;
            let sender = Sender { dpid: Dpid(1), epoch: 1, app: 7, flow_mods };
            answer(bench, &request, &Answer::Apps(vec![bulk]).encode());
            let senders = Answer::Senders { senders: vec![sender], more: false };
            answer(bench, &request, &senders.encode());
        }
    }
    others
}

#[test]
fn counters_are_read_twice_per_second() {
    let mut bench = bench("");
    bench.event(AlignedRecord::about(RecordKind::SwitchUp, switch()));
    let asked = bench.asked();
    assert!(asked.iter().any(|it| it.service == Service::Storage), "drains from before a restart");
    let counters = asked.iter().find(|it| it.service == Service::Apps).unwrap();
    for malformed in [&b""[..], &[9], &[2, 1, 0], &[3, 0, 255, 255]] {
        answer(&mut bench, counters, malformed);
    }
    let mut sum = 0;
    let others = pass(&mut bench, 3_000, 500, &mut sum);
    assert!(others.is_empty(), "a switch that answers at once is not harmed: {others:?}");
    assert!(bench.log().iter().any(|line| line.contains("bulk is suspected")), "{:?}", bench.log());
}

#[test]
fn drain_from_before_a_restart_is_ended() {
    use rosemary_sdk::services::storage::KeysWriter;
    use rosemary_sdk::services::topology;

    let mut bench = bench("quiet = 1");
    let asked = bench.asked();
    let list = asked.iter().find(|it| it.service == Service::Storage).unwrap();
    let mut keys = KeysWriter::default();
    assert!(keys.push(&key(Dpid(1)), 1) && keys.push(b"drain/nonsense", 1));
    answer(&mut bench, list, &keys.finish(false));
    for other in asked.iter().filter(|it| it.service == Service::Apps) {
        answer(&mut bench, other, &Answer::Refused("later".into()).encode());
    }
    let mut sum = 0;
    let others = pass(&mut bench, 3_000, 0, &mut sum);
    let services: Vec<Service> = others.iter().map(|it| it.service).collect();
    assert_eq!(services, [Service::Topology], "{others:?}");
    let undrain = topology::Request::Drain { dpid: Dpid(1), on: false };
    assert_eq!(others[0].request[1..], undrain.encode());
    // The drain is remembered until it has ended.
    answer(&mut bench, &others[0], &topology::encode_answer(Ok(())));
    assert!(bench.asked().iter().any(|it| it.service == Service::Storage));
    assert_eq!(bench.incidents().len(), 1);
}

#[test]
fn question_that_ends_with_an_error_is_no_slow_answer() {
    let mut bench = bench("");
    let mut questions = bench.event(AlignedRecord::about(RecordKind::SwitchUp, switch()));
    for _ in 0..5_000 {
        questions.extend(bench.batch(&[]).unwrap().1);
        if let [question] = &questions[..] {
            // OFPT_ERROR, OFPET_BAD_REQUEST, OFPBRC_BAD_TYPE.
            let xid = Xid::of(&question.message).unwrap().0.to_be_bytes();
            let error = [&[4, 1, 0, 12][..], &xid, &[0, 1, 0, 1]].concat();
            let sent = bench.event(AlignedRecord::answer(RecordKind::Error, switch(), &error));
            questions.extend(sent);
        }
    }
    assert!(questions.len() > 1, "another question follows");
}

#[test]
fn missing_right_to_limit_is_an_error_at_the_start() {
    for (granted, errors) in [(false, 1), (true, 0)] {
        let mut bench = bench("action = \"throttle\"");
        let counters = bench.asked().into_iter().find(|it| it.service == Service::Apps).unwrap();
        let app = |(number, name): (u16, &str)| AppCounters {
            number,
            name: name.into(),
            delivered: 0,
            flow_mods: 0,
            refused: 0,
            delayed: 0,
            limit: None,
        };
        let apps = [(1, "protection"), (2, "forwarding"), (3, "bulk")].map(app).to_vec();
        answer(&mut bench, &counters, &Answer::Apps(apps).encode());
        let senders = Answer::Senders { senders: Vec::new(), more: false };
        answer(&mut bench, &counters, &senders.encode());
        let release = Request::Release { app: "bulk" }.encode();
        let asked = bench.asked();
        let probes: Vec<_> = asked.iter().filter(|it| it.request[1..] == release).collect();
        assert_eq!(probes.len(), 1, "{asked:?}");
        let why = "the operator has not granted apps.limit:bulk".to_owned();
        let reply = if granted { Answer::Done } else { Answer::Refused(why) };
        answer(&mut bench, probes[0], &reply.encode());
        let log = bench.log();
        let said = |line: &&String| line.contains("action = \"throttle\" has no effect");
        let said: Vec<_> = log.iter().filter(said).collect();
        assert_eq!(said.len(), errors, "{log:?}");
        assert!(said.iter().all(|line| line.contains("\"apps.read\", \"apps.limit:bulk\"]")));
        assert!(bench.incidents().is_empty());
    }
}

#[test]
fn throttle_is_reported_when_it_is_in_force() {
    let mut bench = bench("action = \"throttle\"");
    bench.event(AlignedRecord::about(RecordKind::SwitchUp, switch()));
    let mut sum = 0;
    pass(&mut bench, 20_000, 0, &mut sum);
    // The switch does not answer any more while the suspect sends.
    let mut limits = Vec::new();
    for _ in 0..5_000 {
        bench.batch(&[]).unwrap();
        sum += 500;
        for request in bench.asked() {
            if request.request[1..] == Request::Counters.encode() {
                let bulk = AppCounters {
                    number: 7,
                    name: "bulk".into(),
                    delivered: 0,
                    flow_mods: sum / 1000,
                    refused: 0,
                    delayed: 0,
                    limit: None,
                };
                let sender = Sender { dpid: Dpid(1), epoch: 1, app: 7, flow_mods: bulk.flow_mods };
                answer(&mut bench, &request, &Answer::Apps(vec![bulk]).encode());
                let senders = Answer::Senders { senders: vec![sender], more: false };
                answer(&mut bench, &request, &senders.encode());
            } else if matches!(Request::decode(&request.request[1..]), Some(Request::Limit { .. }))
            {
                limits.push(request);
            }
        }
    }
    assert!(!limits.is_empty() && bench.incidents().is_empty(), "{:?}", bench.log());
    answer(&mut bench, &limits[0], &Answer::Done.encode());
    let incidents = bench.incidents();
    assert_eq!(incidents.len(), 1, "{incidents:?}");
    assert!(
        format!("{incidents:?}").contains("it is throttled to 20 flow-mods/s"),
        "{incidents:?}"
    );
}
