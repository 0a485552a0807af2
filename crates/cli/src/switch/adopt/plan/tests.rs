use super::*;

fn uuid(number: u8) -> Uuid {
    Uuid([number; 16])
}

fn bridge(name: &str, controllers: &[u8]) -> Row {
    Row::new()
        .with("name", Value::one(name))
        .with("datapath_id", Value::one("0000000000000001"))
        .with("controller", Value::set(controllers.iter().map(|it| uuid(*it))))
        .with("protocols", Value::none())
        .with("fail_mode", Value::none())
        .with("other_config", Value::map([("hwaddr", "x")]))
}

fn switch(bridges: &[u8], ssl: &[u8]) -> (&'static str, Uuid, Row) {
    let row = Row::new().with("bridges", Value::set(bridges.iter().map(|it| uuid(*it))));
    let row = row.with("ssl", Value::set(ssl.iter().map(|it| uuid(*it))));
    ("Open_vSwitch", uuid(1), row)
}

fn controller(number: u8, target: &str) -> (&'static str, Uuid, Row) {
    ("Controller", uuid(number), Row::new().with("target", Value::one(target)))
}

fn wish() -> Wish {
    Wish {
        bridge: None,
        target: "tcp:127.0.0.1:6653".into(),
        protocols: vec!["OpenFlow10".into(), "OpenFlow13".into()],
        fail_mode: "secure",
        name: None,
        datapath_id: None,
        keys: None,
        replace: false,
    }
}

fn keys() -> SwitchKeys {
    let [key, cert, ca_cert] = ["/k", "/c", "/a"].map(PathBuf::from);
    SwitchKeys { key, cert, ca_cert }
}

fn inserted<'a>(plan: &'a Plan, of: &str) -> Option<&'a Row> {
    plan.operations.iter().find_map(|it| match it {
        Operation::Insert { table, row, .. } if table == of => Some(row),
        _ => None,
    })
}

fn updated<'a>(plan: &'a Plan, of: &str) -> Option<&'a Row> {
    plan.operations.iter().find_map(|it| match it {
        Operation::Update { table, row, .. } if table == of => Some(row),
        _ => None,
    })
}

fn settings(plan: &Plan) -> Vec<&str> {
    plan.changes.iter().map(|it| it.setting.as_str()).collect()
}

#[test]
fn new_bridge_gets_every_setting_behind_guards() {
    let image = Image::of_rows([switch(&[2], &[]), ("Bridge", uuid(2), bridge("s1", &[]))]);
    let mut wish = wish();
    (wish.name, wish.datapath_id) = (Some("edge".into()), Some(Dpid(7)));
    let plan = plan(&image, &wish).unwrap();
    let expected = [
        "controller",
        "protocols",
        "fail_mode",
        "other_config:dp-desc",
        "other_config:datapath-id",
    ];
    assert_eq!(settings(&plan), expected);
    assert_eq!(plan.changes[0].before, None);
    assert_eq!(plan.changes[0].after.as_deref(), Some("tcp:127.0.0.1:6653"));
    assert_eq!(plan.datapath_id, Some(Dpid(7)));
    let guards = plan.operations.iter().filter(|it| matches!(it, Operation::Wait { .. }));
    assert_eq!(guards.count(), 2);
    assert_eq!(inserted(&plan, "Controller").unwrap().entry(IDS, OWNER), Some(ADOPTION));
    let bridge = updated(&plan, "Bridge").unwrap();
    assert_eq!(bridge.entry("other_config", "hwaddr"), Some("x"), "other settings stay");
    assert_eq!(bridge.entry("other_config", "datapath-id"), Some("0000000000000007"));
    assert!(matches!(plan.operations.last(), Some(Operation::Select { .. })));
}

#[test]
fn adopted_bridge_needs_no_change() {
    let row = bridge("s1", &[3])
        .with("protocols", Value::set(["OpenFlow13", "OpenFlow10"]))
        .with("fail_mode", Value::one("secure"));
    let image = Image::of_rows([
        switch(&[2], &[]),
        ("Bridge", uuid(2), row),
        controller(3, "tcp:127.0.0.1:6653"),
    ]);
    let plan = plan(&image, &wish()).unwrap();
    assert_eq!((plan.changes, plan.operations), (Vec::new(), Vec::new()));
}

#[test]
fn other_controllers_stay_unless_replaced() {
    let image = Image::of_rows([
        switch(&[2], &[]),
        ("Bridge", uuid(2), bridge("s1", &[3, 4])),
        controller(3, "tcp:192.0.2.1:6653"),
        controller(4, "tcp:127.0.0.1:6653"),
    ]);
    let refused = plan(&image, &wish()).unwrap_err();
    let (bridge, targets) = ("s1".to_owned(), "tcp:192.0.2.1:6653".to_owned());
    assert_eq!(refused, Refusal::OtherControllers { bridge, targets });
    let replaced = plan(&image, &Wish { replace: true, ..wish() }).unwrap();
    let controllers = updated(&replaced, "Bridge").unwrap().get("controller").unwrap();
    assert_eq!(controllers.single(), Some(&Atom::NamedUuid(CONTROLLER.into())));
}

#[test]
fn tls_needs_keys_on_the_switch() {
    let without = [switch(&[2], &[]), ("Bridge", uuid(2), bridge("s1", &[]))];
    let image = Image::of_rows(without);
    let wish = Wish { target: "ssl:192.0.2.1:6653".into(), ..wish() };
    assert_eq!(plan(&image, &wish), Err(Refusal::NoKeys("s1".into())));
    let wish = Wish { keys: Some(keys()), ..wish };
    let first = plan(&image, &wish).unwrap();
    assert_eq!(settings(&first)[..3], ["private_key", "certificate", "ca_cert"]);
    assert!(updated(&first, "Open_vSwitch").is_some());
    assert_eq!(inserted(&first, "SSL").unwrap().text("private_key"), Some("/k"));

    let ssl = |key| {
        let row = Row::new().with("private_key", Value::one(key));
        row.with("certificate", Value::one("/c")).with("ca_cert", Value::one("/a"))
    };
    let database = |key| {
        Image::of_rows([
            switch(&[2], &[5]),
            ("Bridge", uuid(2), bridge("s1", &[])),
            ("SSL", uuid(5), ssl(key)),
        ])
    };
    assert!(inserted(&plan(&database("/k"), &wish).unwrap(), "SSL").is_none(), "the same keys");
    assert_eq!(plan(&database("/x"), &wish), Err(Refusal::OtherKeys { key: "/x".into() }));
    assert!(plan(&database("/x"), &Wish { replace: true, ..wish.clone() }).is_ok());
    assert!(
        plan(&database("/x"), &Wish { keys: None, ..wish }).is_ok(),
        "its keys are not asked for"
    );
}

#[test]
fn bridge_is_the_only_one_or_named() {
    let chosen = |bridges: &[&str], name: Option<&str>| {
        let rows =
            bridges.iter().zip(2..).map(|(name, id)| ("Bridge", uuid(id), bridge(name, &[])));
        let image = Image::of_rows(rows.chain([switch(&[], &[])]));
        let name = name.map(Into::into);
        plan(&image, &Wish { bridge: name, ..wish() }).map(|plan| plan.bridge)
    };
    assert_eq!(chosen(&["s1"], None).as_deref(), Ok("s1"));
    assert_eq!(chosen(&["s1", "s2"], Some("s2")).as_deref(), Ok("s2"));
    assert_eq!(chosen(&["s2", "s1"], None), Err(Refusal::SeveralBridges("s1, s2".into())));
    assert_eq!(chosen(&[], None), Err(Refusal::NoBridge));
    let unknown = Refusal::UnknownBridge { name: "x".into(), found: "s1".into() };
    assert_eq!(chosen(&["s1"], Some("x")), Err(unknown));
    assert_eq!(plan(&Image::default(), &wish()), Err(Refusal::NoSwitch));
}
