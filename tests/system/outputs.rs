//! The output of operators' commands: details of switches, JSON by the schemas, tables that fit.

use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, anyhow, ensure};
use rosemary_tests::capture::is_installed;
use rosemary_tests::net::{INTERVAL, Net};
use rosemary_tests::{in_a_lab, over_versions, rosemary_binary, schema, skip};

over_versions!(outputs_fit_and_have_their_schemas, |of| in_a_lab(move |lab| outputs(&Net::start(
    lab, of
)?)));

fn outputs(net: &Net<'_>) -> anyhow::Result<()> {
    assert_eq!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost(), 0);
    let dpid = net.s1.dpid();
    let command = |args: &[&str]| -> anyhow::Result<Output> {
        let mut command: Command = net.lab.command(rosemary_binary());
        let output = command.args(args).stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "{args:?}: {output:?}");
        Ok(output)
    };
    let text = |args: &[&str]| Ok::<_, anyhow::Error>(String::from_utf8(command(args)?.stdout)?);
    for (name, args) in [
        ("status", &["status"][..]),
        ("switches", &["switches"]),
        ("switch", &["switches", "1"]),
        ("switch", &["switches", "s1"]),
        ("ports", &["ports"]),
        ("ports", &["ports", "s1"]),
        ("flows", &["flows", "of:0000000000000001"]),
        ("flows", &["flows", "s1"]),
        ("apps", &["apps"]),
        ("app", &["apps", "learning-switch"]),
        ("top", &["top"]),
        ("provenance", &["status", "--provenance"]),
        ("orphans", &["flows", "--orphans"]),
        ("orphans", &["flows", "s1", "--orphans"]),
        ("incidents", &["incidents"]),
        ("change", &["app", "restart", "learning-switch"]),
        ("packages", &["app", "list"]),
    ] {
        schema::check(name, &text(&[args, &["--json"]].concat())?)?;
        let output = command(args)?;
        let (shown, notes) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
        // Paths are never cut.
        let mut lines = shown.lines().filter(|line| !line.starts_with("object "));
        let fits = lines.all(|line| line.chars().count() <= 80);
        // Addresses in matches of flows are never cut.
        ensure!(fits || name == "flows", "{name}: {shown}");
        let wide = text(&[args, &["--wide"]].concat())?;
        let is_narrower = wide.lines().map(str::len).max() > shown.lines().map(str::len).max();
        ensure!(!is_narrower || notes.contains("left out: "), "{name}: {shown}{notes}");
    }

    outputs_without_switches(net)?;
    let logs = text(&["logs", "--json"])?;
    ensure!(logs.lines().count() > 3, "log: {logs}");
    logs.lines().try_for_each(|line| schema::check("logs", line))?;
    schema::check("doctor", &text(&["doctor", "--json"])?)?;

    let full = text(&["switches", "0x1"])?;
    for word in [dpid.as_str(), "Open vSwitch", "TABLE", "PORT", "LOCAL", "packet-ins"] {
        ensure!(full.contains(word), "{word}: {full}");
    }
    let app = text(&["apps", "learning-switch"])?;
    for line in ["state        running", "packet-ins   all", "capabilities packet-in"] {
        ensure!(app.lines().any(|it| it == line), "{line}: {app}");
    }
    ensure!(app.contains("priorities ") && app.contains("packet-outs-per-second"), "{app}");
    let mut stranger = net.lab.command(rosemary_binary());
    let stranger = stranger.args(["apps", "stranger"]).stdin(Stdio::null()).output()?;
    let error = String::from_utf8(stranger.stderr)?;
    let named = "there is no app \"stranger\"; the apps are: learning-switch";
    ensure!(stranger.status.code() == Some(1) && error.contains(named), "{error}");
    let ports: serde_json::Value = serde_json::from_str(&text(&["ports", &dpid, "--json"])?)?;
    let port = net.h1.port().to_string();
    let port = ports.as_array().into_iter().flatten().find(|it| it["port"] == port.as_str());
    let port = port.with_context(|| format!("the host's port: {ports}"))?;
    ensure!(port["up"] == true && port["dpid"] == dpid.as_str(), "{port}");
    let received = port["rx_packets"].as_u64().context("Open vSwitch counts packets")?;
    ensure!(received >= 5, "the pings: {port}");

    let connected = format!("connected: {dpid} (s1)");
    for (unknown, why) in [
        ("7", "00:00:00:00:00:00:00:07 is not connected"),
        ("s11", "no connected switch has the name s11; did you mean s1?"),
    ] {
        let mut command = net.lab.command(rosemary_binary());
        let output = command.args(["ports", unknown]).stdin(Stdio::null()).output()?;
        let error = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(1), "{error}");
        ensure!(error.contains(why) && error.contains(&connected), "{error}");
    }
    completions(net)
}

/// Checks the JSON of commands that need no switch.
fn outputs_without_switches(net: &Net<'_>) -> anyhow::Result<()> {
    let rosemary = rosemary_binary().display().to_string();
    let (pki, key) = ("/run/lab/pki", "/run/lab/keys/developer.key");
    std::fs::write("/run/lab/password", "mauve otter lights nine lamps\n")?;
    for (name, args) in [
        ("pki", &["pki", "init", "--dir", pki][..]),
        ("pki-switch", &["pki", "switch", "s1", "--dpid", "1", "--dir", pki]),
        ("pki", &["pki", "controller", "--force", "--dir", pki]),
        ("pki-api", &["pki", "api", "localhost", "--dir", pki]),
        ("pki-user", &["pki", "user", "alice", "--role", "viewer", "--dir", pki]),
        ("pki-revoke-user", &["pki", "revoke-user", "alice", "--dir", pki]),
        ("key", &["key", "new", "--key", key, "--password-file", "/run/lab/password"]),
        ("key", &["key", "show", "--key", key]),
        ("safe-mode", &["safe-mode", "status"]),
        ("sessions", &["session", "list"]),
        ("accounts", &["accounts"]),
    ] {
        schema::check(name, &net.lab.run(&rosemary, &[args, &["--json"]].concat())?)?;
    }
    std::fs::write("/run/lab/messages", "0400000800000001\n0400\n")?;
    let decode = ["ofp", "decode", "--json", "/run/lab/messages"];
    let decoded = net.lab.command(rosemary_binary()).args(decode).output()?;
    let lines = String::from_utf8(decoded.stdout)?;
    ensure!(lines.lines().count() == 2, "{lines}");
    lines.lines().try_for_each(|line| schema::check("decode", line))?;
    Ok(())
}

/// Checks what the shells complete.
fn completions(net: &Net<'_>) -> anyhow::Result<()> {
    // What bash shows for `rosemary flows <TAB>` and `rosemary logs lear<TAB>`.
    let rosemary = rosemary_binary().display().to_string();
    let completed = |words: &str, place: &str| -> anyhow::Result<String> {
        let script = format!(
            "source <(\"$0\" completions bash); COMP_WORDS=(\"$0\" {words}); COMP_CWORD={place}; \
             _rosemary_with_names \"$0\" \"${{COMP_WORDS[{place}]}}\" \"${{COMP_WORDS[{place}-1]}}\"; echo \"${{COMPREPLY[@]}}\""
        );
        Ok(net.lab.run("bash", &["-c", &script, &rosemary])?)
    };
    ensure!(
        completed("flows ''", "2")? == "0000000000000001 s1\n",
        "{}",
        completed("flows ''", "2")?
    );
    let apps = completed("logs lear", "2")?;
    ensure!(apps.contains("learning-switch") && !apps.contains("firewall"), "{apps}");
    let apps = completed("apps lear", "2")?;
    ensure!(apps.contains("learning-switch"), "{apps}");
    let apps = completed("logs --json kernel lear", "4")?;
    ensure!(apps.contains("learning-switch"), "{apps}");
    let levels = completed("logs --level ''", "3")?;
    ensure!(levels.contains("debug") && !levels.contains("learning-switch"), "{levels}");
    // Options may name the instance.
    for (words, place, expected) in [
        ("flows --runtime-dir /run/rosemary ''", "4", "0000000000000001 s1\n"),
        ("flows --runtime-dir = /run/rosemary ''", "5", "0000000000000001 s1\n"),
        ("flows --runtime-dir /nowhere ''", "4", "\n"),
    ] {
        let found = completed(words, place)?;
        ensure!(found == expected, "{words}: {found}");
    }
    // bash completes files where the function has no answer.
    for command in ["app install ''", "app verify --json ''", "ofp decode ''"] {
        let place = command.split(' ').count().to_string();
        let files = completed(command, &place)?;
        ensure!(files == "\n", "{command}: {files}");
    }
    let files = completed("up --config /etc/pass", "3")?;
    ensure!(files.contains("/etc/passwd"), "{files}");
    let commands = completed("''", "1")?;
    ensure!(commands.contains("completions") && !commands.contains(" man "), "{commands}");
    let options = completed("flows --js", "2")?;
    ensure!(options.contains("--json"), "{options}");

    if !is_installed("zsh") {
        skip(&anyhow!("zsh is not installed: its completions were not checked"));
        return Ok(());
    }
    // zsh permits compadd only while it completes, so a function of that name prints the words instead.
    let completed = |words: &str, place: &str| -> anyhow::Result<String> {
        let script = format!(
            "compdef() {{ }}; compadd() {{ shift; print -r -- $@ }}; source <($0 completions zsh); \
             words=($0 {words}); CURRENT={place}; _rosemary_with_names"
        );
        Ok(net.lab.run("zsh", &["-fc", &script, &rosemary])?)
    };
    ensure!(
        completed("flows ''", "3")? == "0000000000000001 s1\n",
        "{}",
        completed("flows ''", "3")?
    );
    let apps = completed("app stop ''", "4")?;
    ensure!(apps.contains("learning-switch"), "{apps}");
    for (words, place, expected) in [
        ("flows --runtime-dir /run/rosemary ''", "5", "0000000000000001 s1"),
        ("flows --runtime-dir=/run/rosemary ''", "4", "0000000000000001 s1"),
        ("flows --runtime-dir=/nowhere ''", "4", ""),
    ] {
        let found = completed(words, place)?;
        ensure!(found.trim() == expected, "{words}: {found}");
    }
    Ok(())
}
