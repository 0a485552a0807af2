//! Tests the command's output and exit codes.
#![expect(clippy::unwrap_used, reason = "a test may")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ofbench::null::NullController;
use openflow::Version;
use serde_json::Value;

const DOCUMENTATION: &str = include_str!("../../../docs/ofbench.md");

fn ofbench(words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ofbench")).args(words.split_whitespace()).output().unwrap()
}

/// Passes the address of a null controller to `with`.
fn with_null(with: impl FnOnce(&str)) {
    let null = NullController::bind("127.0.0.1:0".parse().unwrap(), Version::ALL).unwrap();
    let address = null.address().unwrap().to_string();
    let stop = Arc::new(AtomicBool::new(false));
    let its = stop.clone();
    let thread = thread::spawn(move || null.run(&its));
    with(&address);
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap().unwrap();
}

/// Runs a command and parses its JSON.
fn json(words: &str) -> Value {
    let output = ofbench(words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the field names of an object, including nested objects.
fn names(value: &Value) -> Vec<String> {
    let Value::Object(fields) = value else { return Vec::new() };
    fields.iter().flat_map(|(name, value)| [vec![name.clone()], names(value)].concat()).collect()
}

#[test]
fn every_field_of_the_json_is_documented() {
    with_null(|address| {
        let own = std::process::id();
        let short = format!("{address} --seconds 0.1 --repeat 2 --switches 3 --macs 20 --json");
        for words in [
            format!("throughput {short} --pids {own} --vs {address} --vs-pids {own}"),
            format!("latency {short} --of 1.0"),
            format!("rate {short} --rate 500"),
            format!("flow-mod {short} --no-buffer"),
            format!("connect {short} --vs {address} --pids {own}"),
            format!("idle {short} --pids {own} --vs {address} --vs-pids {own}"),
            format!("flood {short} --give-up 0.1"),
            format!("switches {address} --topology ring:3 --seconds 0.3 --json"),
        ] {
            let told = json(&words);
            assert_eq!(told["version"], 1, "{words}");
            for name in names(&told) {
                assert!(DOCUMENTATION.contains(&format!("`{name}`")), "{name} of {words}");
            }
        }
    });
}

#[test]
fn json_figures_match_the_run() {
    with_null(|address| {
        let told = json(&format!(
            "throughput {address} --vs {address} --seconds 0.1 --repeat 2 --of 1.0 --json"
        ));
        assert!(told["answered"].as_u64().unwrap() > 0);
        assert_eq!(told["answered"], told["flow_mods"]);
        assert_eq!(told["packet_outs"], 0);
        assert_eq!(told["setup"]["of"], "1.0");
        let pairs = told["vs"]["ratios"]["pairs"].as_array().unwrap();
        assert_eq!(pairs.len(), 2);
        for of in Version::NAMES {
            let words = format!("latency {address} --of {of} --seconds 0.1 --repeat 1 --json");
            let result = json(&words);
            assert_eq!(result["setup"]["of"], **of);
            assert!(result["answered"].as_u64().unwrap() > 0, "{words}");
            assert_eq!(result["latency_us"]["count"], result["answered"]);
        }
    });
}

/// Experiments recognise a refusal by these words.
#[test]
fn refused_version_is_named() {
    let null = Command::new(env!("CARGO_BIN_EXE_ofbench"))
        .args(["null", "--listen", "127.0.0.1:0", "--of", "1.3"])
        .stderr(Stdio::piped())
        .spawn();
    let mut null = null.unwrap();
    let mut line = String::new();
    BufReader::new(null.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split(['"', ' ', ';']).find(|word| word.starts_with("127.0.0.1:")).unwrap();
    for of in ["1.0", "1.4"] {
        let output = ofbench(&format!("connect {address} --of {of} --seconds 0.1"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("does not speak OpenFlow {of}: ")), "{said}");
    }
    null.kill().unwrap();
    null.wait().unwrap();
}

#[test]
fn exit_code_says_whose_fault_it_is() {
    let code = |words: &str| {
        let output = ofbench(words);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(code("--help").0, Some(0));
    assert_eq!(code("throughput").0, Some(2));
    let (exit, said) = code("throughput 127.0.0.1:1 --seconds 0.1");
    assert!(exit == Some(1) && said.contains("127.0.0.1:1"), "{exit:?} {said}");
    let (exit, said) = code("switches 127.0.0.1:1 --topology star:3");
    assert!(exit == Some(2) && said.contains("fat-tree:K"), "{exit:?} {said}");
    let (exit, said) = code("throughput 127.0.0.1:1 --tls-dir /nonexistent");
    assert!(exit == Some(1) && said.contains("/nonexistent/ca-cert.pem"), "{exit:?} {said}");
    with_null(|address| {
        let (exit, said) = code(&format!("null --listen {address}"));
        assert!(exit == Some(1) && said.contains(address), "{exit:?} {said}");
        let (exit, said) = code(&format!("throughput {address} --pids 4294967295 --seconds 0.1"));
        assert!(exit == Some(1) && said.contains("4294967295"), "{exit:?} {said}");
        let said = ofbench(&format!("latency {address} --seconds 0.1 --repeat 1")).stdout;
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("answers/s") && said.contains("p99.9"), "{said}");
    });
}

/// Returns the points of each line of a chart.
fn lines_in(svg: &str) -> Vec<usize> {
    let paths = svg.lines().filter(|line| line.contains("stroke-width=\"2\""));
    paths.map(|path| path.matches(['M', 'L']).count()).collect()
}

#[test]
fn plot_draws_throughput_and_latency_of_both_controllers() {
    let dir = tempfile::tempdir().unwrap();
    let charts = dir.path().join("new/charts");
    let read = |file: &str| std::fs::read_to_string(charts.join(file)).unwrap();
    let shown = charts.display();
    with_null(|address| {
        let short = format!("{address} --seconds 0.3 --repeat 2 --macs 20 --plot {shown}");
        json(&format!("latency {short} --vs {address} --json"));
        let (svg, name) = (read("latency-throughput.svg"), format!("A: {address}"));
        assert!(svg.contains("answers per second") && svg.contains(&name), "{svg}");
        assert!(lines_in(&svg).iter().all(|points| *points > 4), "{svg}");
        assert_eq!(lines_in(&svg).len(), 2);
        let svg = read("latency.svg");
        assert!(svg.contains("microseconds") && svg.contains("from packet-in to answer"), "{svg}");
        assert_eq!(lines_in(&svg), [401, 401]);

        // The run would end with an answer: the refusal comes before it.
        let refused = ofbench(&format!("latency {short}"));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("latency-throughput.svg exists: use --force"), "{said}");
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0));

        // Other modes have other files in the same directory. Throughput has no latency.
        json(&format!("throughput {short} --json"));
        assert_eq!(lines_in(&read("throughput.svg")).len(), 1);
        assert!(!charts.join("throughput-latency.svg").exists());
        for mode in ["connect", "flood"] {
            json(&format!("{mode} {short} --switches 2 --give-up 0.1 --json"));
            assert!(lines_in(&read(&format!("{mode}-throughput.svg")))[0] > 4, "{mode}");
            assert_eq!(lines_in(&read(&format!("{mode}-latency.svg"))), [401], "{mode}");
        }
        let idle = ofbench(&format!("idle {address} --plot {shown} --force"));
        let said = String::from_utf8_lossy(&idle.stderr);
        assert!(idle.status.code() == Some(2) && said.contains("leave --plot out"), "{said}");
    });
}

#[test]
fn markdown_has_a_column_for_each_controller() {
    with_null(|address| {
        let table = |words: String| {
            let output = ofbench(&words);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{words}: {said}");
            String::from_utf8(output.stdout).unwrap()
        };
        let short = format!("{address} --seconds 0.1 --repeat 2 --markdown");
        let text = table(format!("latency {short} --vs {address}"));
        let head = format!("| | A: {address} | B: {address} |\n| --- | ---: | ---: |\n");
        assert!(text.starts_with(&head), "{text}");
        assert!(text.contains("| latency | p50 ") && text.contains("| A / B | "), "{text}");
        assert!(text.lines().all(|line| line.matches('|').count() == 4), "{text}");
        let text = table(format!("connect {short}"));
        assert!(text.starts_with(&format!("| | {address} |\n")), "{text}");
        let text = table(format!("switches {address} --seconds 0.3 --markdown"));
        assert!(text.contains("| settled | 2 |"), "{text}");
    });
}
