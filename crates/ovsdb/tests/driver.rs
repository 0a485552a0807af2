//! The driver against a server of the test, over a unix socket and TCP.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::{Duration, Instant};

use rosemary_ovsdb::driver::{Connection, DriverError, Server, TransactError};
use rosemary_ovsdb::{
    AtomKind, Done, Event, NotSent, Operation, Settings, Wanted, WantedColumn, WantedTable,
};
use serde_json::{Value, json};

const WANTED: Wanted = Wanted {
    database: "D",
    tables: &[WantedTable { name: "T", columns: &[WantedColumn::set("n", AtomKind::Integer)] }],
};

const LIMIT: Duration = Duration::from_secs(10);

/// Answers requests until `most` of them were answered.
fn serve(mut stream: impl Read + Write, most: usize) {
    let schema = json!({"name": "D", "tables": {"T": {"columns": {"n": {"type": "integer"}}}}});
    let last = "10000000-0000-0000-0000-000000000001";
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    let mut answered = 0;
    while answered < most {
        let read = stream.read(&mut buffer).unwrap_or(0);
        if read == 0 {
            return;
        }
        bytes.extend_from_slice(&buffer[..read]);
        let mut requests = serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>();
        let mut answers = Vec::new();
        while let Some(Ok(request)) = requests.next() {
            let result = match request["method"].as_str() {
                Some("list_dbs") => json!(["D"]),
                Some("get_schema") => schema.clone(),
                Some("monitor_cond_since") => json!([false, last, {}]),
                Some("transact") => json!([{}]),
                _ => json!([]),
            };
            answers.push(json!({"id": request["id"], "result": result, "error": null}).to_string());
        }
        let end = requests.byte_offset();
        bytes.drain(..end);
        for answer in answers.iter().take(most - answered) {
            stream.write_all(answer.as_bytes()).unwrap();
        }
        answered += answers.len();
    }
    // The connection stays open: the client must notice by itself that nothing comes.
    let _ = stream.read(&mut buffer);
    let _ = stream.read(&mut buffer);
}

fn open(address: &str, limit: Duration) -> Result<Connection, DriverError> {
    let server = Server { address: address.parse().unwrap(), tls: None };
    let settings = Settings { first_pause: Duration::from_millis(1), ..Settings::default() };
    Connection::open(server, WANTED, settings, limit)
}

#[test]
fn transaction_goes_over_a_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let server = thread::spawn(move || serve(listener.accept().unwrap().0, usize::MAX));
    let mut connection = open(&format!("unix:{}", path.display()), LIMIT).unwrap();
    let done = connection.transact(&[Operation::Comment("c".into())], LIMIT).unwrap();
    assert_eq!(done, [Done::Nothing]);
    drop(connection);
    server.join().unwrap();
}

#[test]
fn transaction_without_an_answer_ends_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || serve(listener.accept().unwrap().0, 3));
    let mut connection = open(&address, LIMIT).unwrap();
    let start = Instant::now();
    let limit = Duration::from_millis(200);
    let error = connection.transact(&[Operation::Abort], limit).unwrap_err();
    assert!(matches!(error, TransactError::Connection(DriverError::Closed { .. })), "{error:?}");
    assert!(start.elapsed() >= limit && start.elapsed() < LIMIT);
    // The error was the result: no event repeats it.
    let first = connection.next_event(Duration::ZERO).unwrap();
    assert!(matches!(first, Some(Event::Synchronized(_))), "{first:?}");
    assert_eq!(connection.next_event(Duration::ZERO).unwrap(), None);
    let not_sent = connection.transact(&[Operation::Abort], limit).unwrap_err();
    assert!(matches!(not_sent, TransactError::NotSent(NotSent::NotConnected)));
    server.join().unwrap();
}

#[test]
fn absent_server_is_an_error_with_a_remedy() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    drop(listener);
    let error = open(&address, LIMIT).map(drop).unwrap_err();
    assert!(error.to_string().contains("ovs-vsctl set-manager"), "{error}");
}

#[test]
fn silent_server_is_left_at_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    let start = Instant::now();
    let error = open(&address, Duration::from_millis(200)).map(drop).unwrap_err();
    assert!(matches!(error, DriverError::TooLate { .. }), "{error}");
    assert!(start.elapsed() < LIMIT);
    drop(listener);
}
