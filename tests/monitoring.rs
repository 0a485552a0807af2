//! Checks the alert rules and the dashboard in `etc/` against the metrics that `docs/metrics.md` lists.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

const ETC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../etc");

/// The words of `text` that begin like a metric of Rosemary.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("rosemary_")).collect()
}

#[test]
fn rules_and_dashboard_use_metrics_that_exist() {
    let page = fs::read_to_string(format!("{ETC}/../docs/metrics.md")).unwrap();
    let rows: String = page.lines().filter(|line| line.starts_with("| `rosemary_")).collect();
    let listed = metrics(&rows);
    assert!(listed.len() > 20, "{listed:?}");
    for file in ["rosemary.rules.yml", "grafana-dashboard.json"] {
        let text = fs::read_to_string(format!("{ETC}/{file}")).unwrap();
        let used = metrics(&text);
        assert!(used.len() > 5, "{file} uses {used:?}");
        let base = |name: &&str| !listed.contains(name.trim_end_matches("_bucket"));
        let unknown: Vec<_> = used.into_iter().filter(base).collect();
        assert_eq!(unknown, [""; 0], "{file}: docs/metrics.md does not list them");
    }
}

#[test]
fn dashboard_is_json_with_one_panel_per_place() {
    let text = fs::read_to_string(format!("{ETC}/grafana-dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let places: BTreeSet<String> =
        panels.iter().map(|panel| panel["gridPos"].to_string()).collect();
    assert_eq!(places.len(), panels.len());
    assert!(panels.iter().all(|panel| !panel["targets"].as_array().unwrap().is_empty()));
}

#[test]
fn rules_pass_promtool() {
    let Ok(checked) = Command::new("promtool")
        .args(["check", "rules"])
        .arg(format!("{ETC}/rosemary.rules.yml"))
        .output()
    else {
        eprintln!("SKIPPED: promtool is not installed");
        assert!(std::env::var_os("ROSEMARY_REQUIRE_ALL").is_none());
        return;
    };
    assert!(
        checked.status.success(),
        "{}{}",
        String::from_utf8_lossy(&checked.stdout),
        String::from_utf8_lossy(&checked.stderr)
    );
}
