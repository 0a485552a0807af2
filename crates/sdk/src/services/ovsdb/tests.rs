use super::*;

fn row(id: u8, columns: Columns) -> Row {
    Row { id: RowId([id; 16]), columns, is_cut: false }
}

fn atoms() -> Vec<Atom> {
    vec![
        Atom::Integer(-1),
        Atom::Real(0.5),
        Atom::Boolean(true),
        Atom::Text("héllo".into()),
        Atom::Row(RowId([7; 16])),
        Atom::Wanted("slow".into()),
        Atom::Port("eth0".into()),
    ]
}

fn wanted() -> WantedRow {
    WantedRow::new("QoS", "q")
        .with("type", "linux-htb")
        .with("queues", Value::map([(0_i64, Atom::Wanted("slow".into()))]))
        .with("all", Value::Set(atoms()))
        .under("Port", "eth0", "qos")
}

#[test]
fn requests_survive_and_cut_ones_are_refused() {
    let want = |rows| Request::Want { database: "edge", is_first: true, is_last: false, rows };
    for request in [
        Request::Databases,
        Request::Read { database: "edge", table: "Port", after: RowId([1; 16]) },
        want(vec![wanted(), WantedRow::new("Queue", "slow")]),
        want(Vec::new()),
        Request::Watch { database: "edge" },
    ] {
        let bytes = request.encode();
        assert_eq!(Request::decode(&bytes), Some(request));
        for cut in 0..bytes.len() {
            assert_eq!(Request::decode(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(Request::decode(&[&bytes[..], &[0]].concat()), None);
    }
}

#[test]
fn answers_survive_and_cut_ones_are_refused() {
    let refused = Refused { key: "q".into(), why: "no".into() };
    let database = Database {
        name: "edge".into(),
        address: "tcp:h:1".into(),
        is_connected: false,
        why: "silent".into(),
    };
    let columns = Columns::from([("a".into(), Value::Set(atoms()))]);
    for answer in [
        Answer::Databases { owner: "0001/app".into(), databases: vec![database] },
        Answer::Rows { rows: vec![row(1, columns), row(2, Columns::new())], more: true },
        Answer::Part,
        Answer::Wanted { is_done: true, refused: vec![refused] },
        Answer::Changed { is_connected: true, tables: vec!["Port".into()] },
        Answer::Refused { reason: Reason::Busy, why: "later".into() },
    ] {
        let bytes = answer.encode();
        assert_eq!(Answer::decode(&bytes), Some(answer));
        for cut in 0..bytes.len() {
            assert_eq!(Answer::decode(&bytes[..cut]), None, "{cut}");
        }
    }
}

#[test]
fn column_that_occurs_twice_is_malformed() {
    let mut bytes = Answer::Rows { rows: vec![row(1, Columns::new())], more: false }.encode();
    bytes.truncate(bytes.len() - 2);
    bytes.extend([2, 0]); // two columns
    for _ in 0..2 {
        bytes.extend([1, 0, b'a', 0, 0, 0, 0, 0]);
    }
    assert_eq!(Answer::decode(&bytes), None);
}

#[test]
fn pages_fit_messages_and_long_rows_are_cut() {
    let long = |size: usize| Value::from("x".repeat(size));
    let mut page = Page::default();
    let columns = Columns::from([("a".into(), long(100_000)), ("b".into(), long(100))]);
    assert!(page.add(row(1, columns)));
    let mut added = 1;
    while page.add(row(2, Columns::from([("b".into(), long(100))]))) {
        added += 1;
    }
    let answer = page.answer(true);
    let bytes = answer.encode();
    assert!(bytes.len() <= MAX_MESSAGE, "{}", bytes.len());
    let Answer::Rows { rows, .. } = answer else { unreachable!("a page is rows") };
    assert_eq!(rows.len(), added);
    assert!(rows[0].is_cut && rows[0].columns.len() == 1 && !rows[1].is_cut);
}

#[test]
fn many_refusals_are_cut_to_a_message() {
    let refused = (0..MOST_ROWS).map(|it| Refused { key: it.to_string(), why: "x".repeat(400) });
    let bytes = Answer::Wanted { is_done: true, refused: refused.collect() }.encode();
    assert!(bytes.len() <= MAX_MESSAGE);
    let Some(Answer::Wanted { refused, .. }) = Answer::decode(&bytes) else { panic!("no answer") };
    assert!(refused.len() > 50);
}

#[test]
fn rows_are_divided_into_parts_that_fit() {
    let rows: Vec<WantedRow> = (0..100)
        .map(|it| WantedRow::new("Queue", format!("q{it}")).with("x", "y".repeat(5000)))
        .collect();
    let parts = parts(&rows).unwrap();
    assert!(parts.len() > 10);
    assert_eq!(parts.iter().map(|it| it.len()).sum::<usize>(), rows.len());
    for rows in parts {
        let rows = rows.to_vec();
        let request = Request::Want { database: "edge", is_first: true, is_last: true, rows };
        assert!(request.encode().len() <= MAX_MESSAGE);
    }
    assert_eq!(super::parts(&[]).unwrap(), [&[][..]]);
    let huge = [WantedRow::new("Queue", "q").with("x", "y".repeat(MAX_MESSAGE))];
    assert_eq!(super::parts(&huge), None);
}

#[test]
fn identifier_has_the_form_of_open_vswitch() {
    let id = RowId(std::array::from_fn(|it| u8::try_from(it).unwrap()));
    assert_eq!(id.to_string(), "00010203-0405-0607-0809-0a0b0c0d0e0f");
}
