//! The client against a real `ovsdb-server` with the schema of Open vSwitch.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Running, database};
use keys::Keys;
use ovsdb::driver::{Connection, Server, TransactError};
use ovsdb::ownership::{Parent, Scope, WantedRow, reconcile};
use ovsdb::{
    Atom, AtomKind, Change, ChangeKind, Condition, Done, ErrorKind, Event, Failure, Mutation,
    Mutator, Operation, Row, Settings, Uuid, Value, Wanted, WantedColumn, WantedTable,
};
use rosemary_tests::in_a_lab;
use rosemary_tests::net::SOON;
use rosemary_tests::pki::Pki;

use super::vsctl;

const TEXT: AtomKind = AtomKind::String;

const WANTED: Wanted = Wanted {
    database: "Open_vSwitch",
    tables: &[
        WantedTable {
            name: "Open_vSwitch",
            columns: &[
                WantedColumn::set("bridges", AtomKind::Uuid),
                WantedColumn::set("next_cfg", AtomKind::Integer),
                WantedColumn::map("external_ids", TEXT, TEXT),
            ],
        },
        WantedTable {
            name: "Bridge",
            columns: &[
                WantedColumn::set("name", TEXT),
                WantedColumn::set("fail_mode", TEXT),
                WantedColumn::set("protocols", TEXT),
                WantedColumn::set("ports", AtomKind::Uuid),
                WantedColumn::map("external_ids", TEXT, TEXT),
            ],
        },
        WantedTable {
            name: "Port",
            columns: &[
                WantedColumn::set("name", TEXT),
                WantedColumn::set("qos", AtomKind::Uuid),
                WantedColumn::map("external_ids", TEXT, TEXT),
            ],
        },
        WantedTable {
            name: "QoS",
            columns: &[
                WantedColumn::set("type", TEXT),
                WantedColumn::map("queues", AtomKind::Integer, AtomKind::Uuid),
                WantedColumn::map("external_ids", TEXT, TEXT),
            ],
        },
        WantedTable {
            name: "Queue",
            columns: &[
                WantedColumn::set("dscp", AtomKind::Integer),
                WantedColumn::map("other_config", TEXT, TEXT),
                WantedColumn::map("external_ids", TEXT, TEXT),
            ],
        },
    ],
};

fn open(address: &str, keys: Option<&Keys>) -> anyhow::Result<Connection> {
    let tls = keys.map(|keys| keys.client_config().map(Arc::new)).transpose()?;
    let server = Server { address: address.parse()?, tls };
    // The first pause is short, so that reconnections take no time.
    let settings = Settings { first_pause: Duration::from_millis(20), ..Settings::default() };
    Ok(Connection::open(server, WANTED, settings, SOON)?)
}

/// Waits until `look` finds something in the image.
fn until<T>(
    connection: &mut Connection,
    mut look: impl FnMut(&Connection) -> Option<T>,
) -> anyhow::Result<T> {
    loop {
        if let Some(found) = look(connection) {
            return Ok(found);
        }
        connection.next_event(SOON)?.context("no change in time")?;
    }
}

fn bridge<'a>(connection: &'a Connection, name: &str) -> Option<(Uuid, &'a Row)> {
    connection.image().rows("Bridge").find(|(_, row)| row.text("name") == Some(name))
}

/// Changes the database from outside by each kind of difference, and checks that the image follows.
fn follows(lab: &Lab, connection: &mut Connection) -> anyhow::Result<()> {
    // A message of many records and writes.
    let comment = Operation::Comment("x".repeat(1 << 20));
    assert_eq!(connection.transact(&[comment], SOON)?, [Done::Nothing]);
    vsctl(lab, &["add-br", "br9"])?;
    until(connection, |it| bridge(it, "br9").map(drop))?;
    // An optional value, a set and a map: set, changed, emptied.
    vsctl(lab, &["set", "bridge", "br9", "fail_mode=secure"])?;
    vsctl(
        lab,
        &[
            "set",
            "bridge",
            "br9",
            "protocols=OpenFlow10,OpenFlow13",
            "external-ids:a=1",
            "external-ids:b=2",
        ],
    )?;
    until(connection, |it| {
        let (_, row) = bridge(it, "br9")?;
        let is = row.texts("protocols") == ["OpenFlow10", "OpenFlow13"].into()
            && row.text("fail_mode") == Some("secure")
            && row.entry("external_ids", "b") == Some("2");
        is.then_some(())
    })?;
    vsctl(lab, &["set", "bridge", "br9", "protocols=OpenFlow13,OpenFlow15", "external-ids:a=3"])?;
    vsctl(lab, &["clear", "bridge", "br9", "fail_mode"])?;
    vsctl(lab, &["remove", "bridge", "br9", "external-ids", "b"])?;
    until(connection, |it| {
        let (_, row) = bridge(it, "br9")?;
        let ids: BTreeMap<_, _> =
            row.pairs("external_ids").map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let is = row.texts("protocols") == ["OpenFlow13", "OpenFlow15"].into()
            && row.text("fail_mode").is_none()
            && ids == [("a".to_owned(), "3".to_owned())].into();
        is.then_some(())
    })?;
    vsctl(lab, &["del-br", "br9"])?;
    until(connection, |it| bridge(it, "br9").is_none().then_some(()))
}

/// Lets the lab's server listen at `remote`.
fn listen(lab: &Lab, remote: &str) -> anyhow::Result<()> {
    vsctl(lab, &["set-manager", remote])?;
    let port: u16 = remote.split(':').nth(1).context("a port")?.parse()?;
    lab.wait_for(format!("{remote} listens"), SOON, |_| {
        Ok(TcpStream::connect(("127.0.0.1", port)).is_ok().then_some(()))
    })?;
    Ok(())
}

fn keys_of(pki: &Pki<'_>) -> anyhow::Result<Keys> {
    let read = |name: &str| fs::read(pki.file(name));
    Ok(Keys {
        certificate: read("controller-cert.pem")?,
        key: read("controller-key.pem")?.into(),
        authorities: read("ca-cert.pem")?,
    })
}

#[test]
fn image_follows_a_real_server_over_each_transport() {
    in_a_lab(|lab| {
        lab.start_open_vswitch()?;
        let mut local = open(&database(), None)?;
        assert_eq!(local.method(), Some("monitor_cond_since"));
        assert_eq!((local.local_address(), local.certificate()), (None, None));
        follows(lab, &mut local)?;

        listen(lab, "ptcp:6640:127.0.0.1")?;
        let mut tcp = open("tcp:127.0.0.1:6640", None)?;
        follows(lab, &mut tcp)?;

        let pki = Pki::init(lab, "pki")?;
        let switch = pki.switch("s1", &["--dpid", "1"])?;
        let paths = [&switch.key, &switch.cert, &switch.ca_cert].map(|it| it.display().to_string());
        vsctl(lab, &["set-ssl", &paths[0], &paths[1], &paths[2]])?;
        listen(lab, "pssl:6641:127.0.0.1")?;
        let mut tls = open("ssl:127.0.0.1:6641", Some(&keys_of(&pki)?))?;
        ensure!(tls.certificate().is_some());
        follows(lab, &mut tls)?;
        Ok(())
    });
}

#[test]
fn server_of_another_authority_is_refused() {
    in_a_lab(|lab| {
        lab.start_open_vswitch()?;
        let (pki, foreign) = (Pki::init(lab, "pki")?, Pki::init(lab, "foreign")?);
        let switch = foreign.switch("s1", &[])?;
        // The switch trusts the right authority, and its own certificate is of another one.
        let paths = [&switch.key, &switch.cert, &pki.file("ca-cert.pem")]
            .map(|it| it.display().to_string());
        vsctl(lab, &["set-ssl", &paths[0], &paths[1], &paths[2]])?;
        listen(lab, "pssl:6640:127.0.0.1")?;
        let error = open("ssl:127.0.0.1:6640", Some(&keys_of(&pki)?)).map(drop).unwrap_err();
        let error = format!("{error:#}");
        ensure!(error.contains("UnknownIssuer"), "{error}");
        Ok(())
    });
}

fn insert_bridge(name: &str) -> [Operation; 2] {
    let row = Row::new().with("name", Value::one(name));
    let insert = Operation::Insert { table: "Bridge".into(), row, name: Some("new".into()) };
    let new = Value::Set([Atom::NamedUuid("new".into())].into());
    let mutations = vec![Mutation::new("bridges", Mutator::Insert, new)];
    let refer =
        Operation::Mutate { table: "Open_vSwitch".into(), conditions: Vec::new(), mutations };
    [insert, refer]
}

/// Returns the server's error of a transaction that must fail.
fn fault(connection: &mut Connection, operations: &[Operation]) -> (ErrorKind, bool) {
    match connection.transact(operations, SOON) {
        Err(TransactError::Failed(failure)) => {
            let kind = failure.server_error().map(ovsdb::ServerError::kind);
            (kind.unwrap_or_else(|| panic!("{failure}")), matches!(failure, Failure::Commit(_)))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn transactions_have_the_results_of_a_real_server() {
    in_a_lab(|lab| {
        lab.start_open_vswitch()?;
        let mut db = open(&database(), None)?;
        let done = db.transact(&insert_bridge("a"), SOON)?;
        let [Done::Inserted(uuid), Done::Count(1)] = done[..] else { anyhow::bail!("{done:?}") };
        until(&mut db, |it| it.image().row("Bridge", uuid).map(drop))?;

        let select = Operation::Select {
            table: "Bridge".into(),
            conditions: vec![Condition::equal("name", Value::one("a"))],
            columns: vec!["name".into(), "_uuid".into()],
        };
        let done = db.transact(&[select], SOON)?;
        let row = Row::new().with("name", Value::one("a")).with("_uuid", Value::one(uuid));
        assert_eq!(done, [Done::Rows(vec![row])]);

        // The server checks what the client cannot.
        assert_eq!(
            fault(&mut db, &insert_bridge("a")),
            (ErrorKind::Constraint, true),
            "two of a name"
        );
        let stranger = Value::one(Uuid([7; 16]));
        let refer =
            Operation::mutate("Bridge", uuid, Mutation::new("ports", Mutator::Insert, stranger));
        assert_eq!(fault(&mut db, &[refer]), (ErrorKind::Referential, true));
        let [insert, refer] = insert_bridge("b");
        assert_eq!(fault(&mut db, &[insert, refer, Operation::Abort]), (ErrorKind::Aborted, false));

        // A guard that holds, and then a guard that fails.
        let mode = |mode: &str| Row::new().with("fail_mode", Value::one(mode));
        let before = Row::new().with("fail_mode", Value::none());
        let guarded = |before: &Row, after| {
            [
                Operation::unless_changed("Bridge", uuid, before),
                Operation::update("Bridge", uuid, after),
            ]
        };
        assert_eq!(
            db.transact(&guarded(&before, mode("secure")), SOON)?,
            [Done::Nothing, Done::Count(1)]
        );
        let late = guarded(&before, mode("standalone"));
        assert_eq!(fault(&mut db, &late), (ErrorKind::TimedOut, false));
        until(&mut db, |it| {
            (it.image().row("Bridge", uuid)?.text("fail_mode") == Some("secure")).then_some(())
        })?;

        // The client checks what it can: nothing is sent.
        let wrong = Operation::update("Bridge", uuid, mode("open"));
        assert!(matches!(db.transact(&[wrong], SOON), Err(TransactError::NotSent(_))));
        Ok(())
    });
}

#[test]
fn reconnection_brings_the_changes_alone() {
    in_a_lab(|lab| {
        lab.start_open_vswitch()?;
        vsctl(lab, &["add-br", "before"])?;
        let mut db = open(&database(), None)?;
        while db.next_event(Duration::from_millis(200))?.is_some() {}
        // The server closes all connections.
        let control = control_socket(lab.files(), "ovsdb-server")?;
        lab.run("ovs-appctl", &["-t", &control, "ovsdb-server/reconnect"])?;
        let ended = db.next_event(SOON).unwrap_err();
        ensure!(ended.to_string().contains("closed the connection"), "{ended}");
        ensure!(bridge(&db, "before").is_some(), "the image stays");
        vsctl(lab, &["add-br", "later"])?;
        db.reconnect(SOON)?;
        let (uuid, _) = bridge(&db, "later").context("the new bridge")?;
        let Some(Event::Synchronized(changes)) = db.next_event(SOON)? else {
            anyhow::bail!("no event")
        };
        let (table, kind) = ("Bridge".to_owned(), ChangeKind::Inserted);
        ensure!(changes.contains(&Change { table, uuid, kind }), "{changes:?}");
        let is_old = |it: &&Change| it.table == "Bridge" && it.uuid != uuid;
        ensure!(!changes.iter().any(|it| is_old(&it)), "{changes:?}");
        follows(lab, &mut db)
    });
}

/// Returns the control socket of a program of the lab.
fn control_socket(files: &Path, program: &str) -> anyhow::Result<String> {
    let names = fs::read_dir(files)?.filter_map(|it| it.ok()?.file_name().into_string().ok());
    let is_it = |name: &String| {
        name.starts_with(&format!("{program}."))
            && Path::new(name).extension().is_some_and(|it| it == "ctl")
    };
    let name = names.into_iter().find(is_it).context("a control socket")?;
    Ok(files.join(name).display().to_string())
}

#[test]
fn client_survives_a_restart_of_the_server() {
    in_a_lab(|lab| {
        let file = lab.files().join("other.db").display().to_string();
        lab.run("ovsdb-tool", &["create", &file, "/usr/share/openvswitch/vswitch.ovsschema"])?;
        let address = "tcp:127.0.0.1:6642";
        let start = || -> anyhow::Result<Running> {
            let mut command = lab.command("ovsdb-server");
            command.args(["--no-chdir", "--unixctl=none", "--remote=ptcp:6642:127.0.0.1", &file]);
            let server = lab.start("other-server", command)?;
            lab.wait_for("it listens", SOON, |_| {
                Ok(TcpStream::connect("127.0.0.1:6642").is_ok().then_some(()))
            })?;
            Ok(server)
        };
        let server = start()?;
        let mut db = open(address, None)?;
        let row = Row::new().with("external_ids", Value::map([("a", "1")]));
        let insert = Operation::Insert { table: "Open_vSwitch".into(), row, name: None };
        db.transact(&[insert], SOON)?;
        let has_row = |it: &Connection| it.image().rows("Open_vSwitch").next().map(drop);
        until(&mut db, has_row)?;
        drop(server);
        while db.next_event(SOON).is_ok() {} // events of before, then the end
        db.reconnect(SOON).unwrap_err();
        let not_sent = db.transact(&[Operation::Abort], SOON);
        assert!(matches!(not_sent, Err(TransactError::NotSent(_))), "{not_sent:?}");
        let _server = start()?;
        db.reconnect(SOON)?;
        until(&mut db, has_row)?;
        Ok(())
    });
}

/// Passes the connections at `port` on to the server at `to`, with other words in the client's messages.
fn proxy(port: u16, to: u16, words: &'static [(&str, &str)]) -> anyhow::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    thread::spawn(move || -> std::io::Result<()> {
        for client in listener.incoming() {
            let (mut client, mut server) = (client?, TcpStream::connect(("127.0.0.1", to))?);
            let (mut answers, mut back) = (server.try_clone()?, client.try_clone()?);
            thread::spawn(move || std::io::copy(&mut answers, &mut back));
            thread::spawn(move || -> std::io::Result<()> {
                let mut bytes = vec![0; 64 * 1024];
                loop {
                    let read = client.read(&mut bytes)?;
                    let mut text = String::from_utf8_lossy(&bytes[..read]).into_owned();
                    for (word, other) in words {
                        text = text.replace(word, other);
                    }
                    server.write_all(text.as_bytes())?;
                    if read == 0 {
                        return Ok(());
                    }
                }
            });
        }
        Ok(())
    });
    Ok(())
}

#[test]
fn image_follows_servers_with_older_methods() {
    in_a_lab(|lab| {
        lab.start_open_vswitch()?;
        listen(lab, "ptcp:6640:127.0.0.1")?;
        proxy(6650, 6640, &[("\"monitor_cond_since\"", "\"monitor_cond_later\"")])?;
        proxy(6651, 6640, &[("\"monitor_cond_since\"", "\"x\""), ("\"monitor_cond\"", "\"y\"")])?;
        for (address, method) in
            [("tcp:127.0.0.1:6650", "monitor_cond"), ("tcp:127.0.0.1:6651", "monitor")]
        {
            let mut db = open(address, None)?;
            assert_eq!(db.method(), Some(method));
            follows(lab, &mut db)?;
        }
        Ok(())
    });
}

/// A `QoS` with a queue at a port, as an owner wants it.
fn quality(port: Uuid, kind: &str, queues: &[(i64, &str)]) -> Vec<WantedRow> {
    let numbers = queues.iter().map(|(number, key)| (*number, Atom::NamedUuid((*key).into())));
    let row = Row::new().with("type", Value::one(kind)).with("queues", Value::map(numbers));
    let parent = Some(Parent { table: "Port".into(), uuid: port, column: "qos".into() });
    let mut rows = vec![WantedRow { table: "QoS".into(), key: "q".into(), row, parent }];
    rows.extend(queues.iter().map(|(number, key)| WantedRow {
        table: "Queue".into(),
        key: (*key).into(),
        row: Row::new().with("dscp", Value::one(*number)),
        parent: None,
    }));
    rows
}

#[test]
fn owner_changes_its_own_rows_alone() {
    in_a_lab(|lab| {
        lab.start_open_vswitch()?;
        vsctl(lab, &["add-br", "s1"])?;
        vsctl(
            lab,
            &[
                "--",
                "create",
                "queue",
                "external-ids:rosemary-owner=other",
                "external-ids:rosemary-key=a",
            ],
        )?;
        vsctl(lab, &["--", "create", "queue", "dscp=5"])?;
        let mut db = open(&database(), None)?;
        let (port, _) = db.image().rows("Port").next().context("the port of the bridge")?;
        let mut carry_out = |wanted: &[WantedRow]| -> anyhow::Result<(usize, usize, usize)> {
            let schema = db.schema().context("a schema")?.clone();
            let scope = Scope { bridges: Some(["s1".to_owned()].into()), ..Scope::default() };
            let plan = reconcile(db.image(), &schema, "app", &scope, wanted);
            ensure!(plan.refused.is_empty(), "{:?}", plan.refused);
            let operations = plan.operations();
            if !operations.is_empty() {
                db.transact(&operations, SOON)?;
            }
            // The answer follows the update, so the image is current.
            let again = reconcile(db.image(), &schema, "app", &scope, wanted);
            ensure!(again.is_done(), "one transaction is enough: {again:?}");
            let count = |table| db.image().rows(table).count();
            Ok((operations.len(), count("QoS"), count("Queue")))
        };
        let first = carry_out(&quality(port, "linux-htb", &[(0, "a"), (1, "b")]))?;
        assert_eq!((first.1, first.2), (1, 4));
        let same = carry_out(&quality(port, "linux-htb", &[(0, "a"), (1, "b")]))?;
        assert_eq!(same, (0, 1, 4));
        let other = carry_out(&quality(port, "linux-hfsc", &[(1, "b"), (2, "c"), (3, "d")]))?;
        assert_eq!((other.1, other.2), (1, 5));
        assert_eq!(vsctl(lab, &["get", "port", "s1", "qos"])?.trim().len(), 36);
        let none = carry_out(&[])?;
        assert_eq!((none.1, none.2), (0, 2), "the rows of others stay");
        assert_eq!(vsctl(lab, &["get", "port", "s1", "qos"])?.trim(), "[]");
        Ok(())
    });
}
