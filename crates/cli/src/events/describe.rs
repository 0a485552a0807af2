//! Describes an event in sentences, one per fact.
//!
//! The data of an event is JSON of the HTTP interface, which may be of another version. A field that is missing or has another
//! form leaves out its part of the sentence.

use control::incident::Incident;
use serde_json::Value;

/// Returns the facts of an event: one line each.
pub(super) fn facts(kind: &str, data: &Value) -> Vec<String> {
    match kind {
        "switch" => vec![switch(data)],
        "app" | "program" => vec![program(kind, data)],
        "incident" => vec![incident(data)],
        "topology" => topology(data),
        "hosts" => vec!["hosts have changed".into()],
        "change" => vec![change(data)],
        "lost" => vec![format!("{} events are missing", data["missed"])],
        _ => vec![format!("{kind} {data}")],
    }
}

fn text<'a>(data: &'a Value, field: &str) -> &'a str {
    data[field].as_str().unwrap_or("-")
}

fn switch(data: &Value) -> String {
    let name = data["name"].as_str().map(|name| format!(" ({name})")).unwrap_or_default();
    let happened = if data["connected"] == true { "connected" } else { "disconnected" };
    format!("switch {}{name} {happened}", text(data, "dpid"))
}

fn program(kind: &str, data: &Value) -> String {
    // The name of a program says what it is: `kernel`, or that of a service.
    let kind = if kind == "app" { "app " } else { "" };
    let restarts = match data["restarts"].as_u64() {
        None | Some(0) => String::new(),
        Some(1) => ", 1 restart".to_owned(),
        Some(count) => format!(", {count} restarts"),
    };
    let last_exit = data["last_exit"].as_str();
    let last_exit = last_exit.map(|it| format!(", last exit: {it}")).unwrap_or_default();
    format!("{kind}{} is {}{restarts}{last_exit}", text(data, "name"), text(data, "state"))
}

fn incident(data: &Value) -> String {
    let Ok(incident) = serde_json::from_value::<Incident>(data.clone()) else {
        return format!("incident {}", data["id"]);
    };
    let Incident { id, program, cause, count, open, duration_ms, .. } = incident;
    let count = if count > 1 { format!(" x{count}") } else { String::new() };
    let over = match duration_ms.filter(|_| !open) {
        Some(ms) => {
            format!("; over after {:.1} s", std::time::Duration::from_millis(ms).as_secs_f64())
        }
        None => String::new(),
    };
    format!("incident {id}: {program}: {cause}{count}{over}")
}

fn topology(data: &Value) -> Vec<String> {
    let items =
        |field: &str| data[field].as_array().into_iter().flatten().cloned().collect::<Vec<_>>();
    let end = |end: &Value| format!("{} port {}", text(end, "dpid"), text(end, "port"));
    let link = |it: &Value| format!("link {} to {}", end(&it["from"]), end(&it["to"]));
    let mut facts = Vec::new();
    let mut each = |field: &str, sentence: &dyn Fn(&Value) -> String| {
        facts.extend(items(field).iter().map(sentence));
    };
    let dpid = |it: &Value| it.as_str().unwrap_or("-").to_owned();
    each("switches_added", &|it| format!("switch {} is in the topology", dpid(it)));
    each("switches_removed", &|it| format!("switch {} has left the topology", dpid(it)));
    each("ports_up", &|it| format!("{} is up", end(it)));
    each("ports_down", &|it| format!("{} is down", end(it)));
    each("links_up", &|it| format!("{} is up", link(it)));
    each("links_down", &|it| {
        let why = it["why"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
        let at = it.get("cause").map(|cause| format!(" at {}", end(cause))).unwrap_or_default();
        format!("{} is down{why}{at}", link(it))
    });
    match data["omitted"].as_u64() {
        None | Some(0) => {}
        Some(count) => facts.push(format!("the topology has {count} more changes")),
    }
    if data["settled"] == false {
        facts.push("the service topology looks for links".into());
    }
    facts
}

fn change(data: &Value) -> String {
    let state = &data["state"];
    let why = state["why"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
    let steps = data["steps"].as_array().into_iter().flatten();
    let steps: Vec<String> =
        steps.map(|step| format!("{} {}", text(step, "action"), text(step, "program"))).collect();
    let steps = if steps.is_empty() { String::new() } else { format!(" ({})", steps.join(", ")) };
    format!("change {} is {}{why}{steps}", data["id"], text(state, "state"))
}

#[cfg(test)]
mod tests {
    use control::change::{Action, ChangeReport, ChangeState, ChangeStep};
    use control::incident::{Cause, Evidence, FORMAT, IncidentId, Program};
    use serde_json::json;

    use super::*;

    #[test]
    fn programs_and_switches_are_described() {
        for (kind, data, expected) in [
            (
                "switch",
                json!({ "dpid": "00:01", "name": "s1", "connected": true }),
                "switch 00:01 (s1) connected",
            ),
            (
                "switch",
                json!({ "dpid": "00:01", "name": null, "connected": false }),
                "switch 00:01 disconnected",
            ),
            (
                "app",
                json!({ "name": "hub", "state": "starting", "restarts": 2, "last_exit": "killed by SIGSEGV" }),
                "app hub is starting, 2 restarts, last exit: killed by SIGSEGV",
            ),
            (
                "program",
                json!({ "name": "kernel", "state": "running", "restarts": 0, "last_exit": null }),
                "kernel is running",
            ),
            ("lost", json!({ "missed": 3 }), "3 events are missing"),
            ("new-kind", json!({ "a": 1 }), "new-kind {\"a\":1}"),
        ] {
            assert_eq!(facts(kind, &data), [expected]);
        }
    }

    #[test]
    fn topology_has_a_line_per_change() {
        let (from, to) = (json!({ "dpid": "1", "port": "2" }), json!({ "dpid": "3", "port": "4" }));
        let down = json!({ "from": from, "to": to, "why": "port-down", "cause": to });
        let data = json!({
            "version": 7, "settled": true, "switches_added": ["5"], "ports_down": [to], "links_down": [down], "omitted": 9,
        });
        let expected = [
            "switch 5 is in the topology",
            "3 port 4 is down",
            "link 1 port 2 to 3 port 4 is down: port-down at 3 port 4",
            "the topology has 9 more changes",
        ];
        assert_eq!(facts("topology", &data), expected);
        let unsettled = facts("topology", &json!({ "version": 8, "settled": false }));
        assert_eq!(unsettled, ["the service topology looks for links"]);
    }

    #[test]
    fn incident_is_one_line() {
        let mut incident = Incident {
            version: FORMAT,
            id: IncidentId(12),
            time: 1,
            program: Program::kernel(),
            cause: Cause::Signal { signal: 11 },
            count: 2,
            evidence: Evidence::default(),
            reaction: Vec::new(),
            open: true,
            duration_ms: None,
        };
        assert_eq!(
            facts("incident", &json!(incident)),
            ["incident 12: kernel: killed by SIGSEGV x2"]
        );
        (incident.open, incident.duration_ms) = (false, Some(1_250));
        assert_eq!(
            facts("incident", &json!(incident)),
            ["incident 12: kernel: killed by SIGSEGV x2; over after 1.2 s"]
        );
        assert_eq!(facts("incident", &json!({ "id": 3, "of": "another version" })), ["incident 3"]);
    }

    #[test]
    fn change_has_its_state_and_steps() {
        let step = ChangeStep {
            action: Action::Restart,
            program: "app hub".into(),
            why: "its file differs".into(),
        };
        let mut report = ChangeReport {
            id: 4,
            steps: vec![step],
            notices: Vec::new(),
            misconfigured: false,
            state: ChangeState::Done,
        };
        assert_eq!(facts("change", &json!(report)), ["change 4 is done (restart app hub)"]);
        report.state = ChangeState::Undone { why: "app hub ended".into() };
        assert_eq!(
            facts("change", &json!(report)),
            ["change 4 is undone: app hub ended (restart app hub)"]
        );
    }

    #[test]
    fn data_of_another_form_is_no_error() {
        for kind in
            ["switch", "app", "program", "incident", "topology", "hosts", "change", "lost", "x"]
        {
            for data in
                [json!(null), json!([1]), json!({ "state": { "a": [] }, "links_down": [7] })]
            {
                let _ = facts(kind, &data); // must not panic
            }
        }
    }
}
