//! Lines that apps print become lines of the log.

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Rosemary};
use control::log::{LogLevel, LogLine};
use rosemary_tests::apps::{configure, in_c, in_rust};
use rosemary_tests::developer::{refused, rosemary};
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, rosemary_binary};

const OBSERVER: &str = "stage = \"observe\"";

/// Returns the lines of the log.
fn log(lab: &Lab) -> anyhow::Result<Vec<LogLine>> {
    let json = rosemary(lab, &["logs", "--json", "--since", "1d", "-n", "10000"])?;
    json.lines().map(|line| serde_json::from_str(line).context(line.to_owned())).collect()
}

/// Waits for a line of `program` that begins with `text`, and returns the lines of the log.
fn wait_for(lab: &Lab, program: &str, text: &str) -> anyhow::Result<Vec<LogLine>> {
    Ok(lab.wait_for(format!("{program} prints {text}"), SOON, |evidence| {
        let Ok(lines) = log(lab) else { return Ok(None) };
        evidence.0 = format!("{lines:#?}");
        let is_it = |it: &LogLine| it.program == program && it.text.starts_with(text);
        Ok(lines.iter().any(is_it).then_some(lines))
    })?)
}

#[test]
fn printed_lines_have_levels_by_their_stream() {
    in_a_lab(|lab| {
        let in_zone = in_rust("printer", OBSERVER);
        let c = in_c(lab, "printf", "apps/printf.c", OBSERVER)?;
        configure(&["[zones]\nrequire = \"full\"\n", &in_zone, &c])?;
        let mut up = Rosemary::start(lab, &rosemary_binary(), &[])?;
        up.wait_for_log(&["INFO", "printer: printed at its creation"], SOON)?;
        up.wait_for_log(&["WARN", "printer: printed as an error"], SOON)?;
        // C keeps what it prints for a pipe in a buffer, unless the zone changes that.
        up.wait_for_log(&["INFO", "printf: printed by C"], SOON)?;
        let lines = wait_for(lab, "app printer", "printed in round 3")?;
        for (app, text, level) in [
            ("app printer", "printed at its creation", LogLevel::Info),
            ("app printer", "printed as an error", LogLevel::Warn),
            ("app printer", "printed in round 1", LogLevel::Info),
            ("app printf", "printed by C", LogLevel::Info),
        ] {
            let found = lines.iter().filter(|it| it.program == app && it.text == text);
            let levels: Vec<LogLevel> = found.map(|line| line.level).collect();
            ensure!(levels == [level], "{text}: {levels:?}");
        }
        ensure!(!lines.iter().any(|line| line.text.contains("without an end")), "{lines:#?}");
        Ok(())
    });
}

#[test]
fn flood_of_printed_lines_is_limited_and_ends_no_app() {
    in_a_lab(|lab| {
        let keys = "stage = \"observe\"\nconfig = \"flood\"";
        configure(&[&in_rust("printer", keys)])?;
        std::fs::write("/etc/rosemary/flood", "flood")?;
        let mut up = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let notice = ["WARN", "printer: dropped", "its log limit; raise log-bytes-per-second"];
        up.wait_for_log(&notice, SOON)?;
        let status = up.status()?.context("it runs")?;
        let app = status.programs.apps.first().context("the app")?;
        ensure!(app.restarts == 0 && app.pid.is_some(), "{app:?}");
        let lines = wait_for(lab, "app printer", "dropped ")?;
        let kept = lines.iter().filter(|it| it.text.starts_with("one of many")).count();
        ensure!((100..1_000).contains(&kept), "{kept} lines, 40 KiB by the limit");
        Ok(())
    });
}

#[test]
fn lines_that_a_kernel_app_prints_are_the_kernels() {
    in_a_lab(|lab| {
        let keys = "stage = \"observe\"\nhost = \"kernel\"";
        let c = in_c(lab, "printf", "apps/printf.c", keys)?;
        configure(&[&in_rust("printer", keys), &c])?;
        let mut up = Rosemary::start(lab, &rosemary_binary(), &[])?;
        up.wait_for_log(&["INFO", "kernel: printed in round 2"], SOON)?;
        up.wait_for_log(&["INFO", "kernel: printed by C"], SOON)?;
        let lines = wait_for(lab, "kernel", "printed in round 2")?;
        ensure!(!lines.iter().any(|it| it.program == "app printer"), "{lines:#?}");
        Ok(())
    });
}

#[test]
fn environment_reaches_one_app_and_a_reload_changes_it() {
    in_a_lab(|lab| {
        let printer = |env: &str| in_rust("printer", &format!("{OBSERVER}\nenv = {env}"));
        let observer = in_rust("observer", OBSERVER);
        configure(&[&printer("{ APP_COLOUR = \"blue\", TZ = \"CET-1\" }"), &observer])?;
        let mut up = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let lines = wait_for(lab, "app printer", "printed in round 1")?;
        let variables = lines.iter().filter_map(|line| line.text.strip_prefix("variable "));
        let mut variables: Vec<&str> = variables.collect();
        variables.sort_unstable();
        ensure!(variables == ["APP_COLOUR=blue", "TZ=CET-1"], "{variables:?}");

        let pid = |up: &mut Rosemary<'_>, app: &str| -> anyhow::Result<u32> {
            let status = up.status()?.context("it runs")?;
            status.app(app).and_then(|app| app.pid).context("the app runs")
        };
        let before = (pid(&mut up, "printer")?, pid(&mut up, "observer")?);
        configure(&[&printer("{ APP_COLOUR = \"green\" }"), &observer])?;
        let steps = rosemary(lab, &["reload", "--dry-run"])?;
        ensure!(steps.contains("app printer") && steps.contains("changed: env"), "{steps}");
        ensure!(!steps.contains("observer"), "{steps}");
        rosemary(lab, &["reload"])?;
        up.wait_for_log(&["printer: variable APP_COLOUR=green"], SOON)?;
        let after = (pid(&mut up, "printer")?, pid(&mut up, "observer")?);
        ensure!(after.0 != before.0 && after.1 == before.1, "{before:?}, {after:?}");

        configure(&[&printer("{ LD_PRELOAD = \"/tmp/x.so\" }"), &observer])?;
        let error = refused(lab, &["reload"])?;
        ensure!(error.contains("rosemary.toml:5:9: \"LD_PRELOAD\" is no variable"), "{error}");
        Ok(())
    });
}

#[test]
fn panic_of_a_confined_app_shows_its_backtrace() {
    in_a_lab(|lab| {
        let keys = "stage = \"observe\"\nconfig = \"panic\"\nenv = { RUST_BACKTRACE = \"1\" }";
        configure(&["[zones]\nrequire = \"full\"\n", &in_rust("printer", keys)])?;
        std::fs::write("/etc/rosemary/panic", "panic")?;
        let mut up = Rosemary::start(lab, &rosemary_binary(), &[])?;
        up.wait_for_log(&["WARN", "printer: stack backtrace:"], SOON)?;
        up.wait_for_log(&["printer: note: Some details are omitted"], SOON)?;
        let log = up.log();
        ensure!(log.contains("on_wake") && log.contains("apps/printer.rs:"), "{log}");
        Ok(())
    });
}

/// Whether the log has a line of `program` that begins with `text`, among those after the line `number`.
fn has(lines: &[LogLine], number: u64, program: &str, text: &str) -> bool {
    let is_it = |it: &LogLine| it.program == program && it.text.contains(text);
    lines.iter().any(|it| it.number > number && is_it(it))
}

/// Waits for `later` lines of `program` after the last line of the log, and returns the log and the last line's number.
fn wait_for_later(lab: &Lab, program: &str, later: &str) -> anyhow::Result<(Vec<LogLine>, u64)> {
    let last = log(lab).ok().and_then(|lines| Some(lines.last()?.number)).unwrap_or_default();
    let lines = lab.wait_for(format!("{program} logs {later} again"), SOON, |evidence| {
        let Ok(lines) = log(lab) else { return Ok(None) };
        evidence.0 = format!("{:#?}", lines.iter().rev().take(20).collect::<Vec<_>>());
        let count = lines.iter().filter(|it| it.number > last && it.text.contains(later)).count();
        Ok((count > 2).then_some(lines))
    })?;
    Ok((lines, last))
}

/// Waits until `program` logs lines with the first text and none with the second: lines that were on their way when the
/// level changed may still arrive.
fn wait_for_end(lab: &Lab, program: &str, (goes_on, ends): (&str, &str)) -> anyhow::Result<()> {
    let mut rest = 20;
    loop {
        let (lines, last) = wait_for_later(lab, program, goes_on)?;
        if !has(&lines, last, program, ends) {
            return Ok(());
        }
        ensure!(rest > 0, "{program} goes on with {ends:?}: {lines:#?}");
        rest -= 1;
    }
}

#[test]
fn level_of_the_log_changes_while_an_app_runs() {
    in_a_lab(|lab| {
        for (host, program) in [("user", "app printer"), ("kernel", "kernel on printer")] {
            let printer = |level: &str| {
                let keys = format!("{OBSERVER}\nhost = \"{host}\"\nlog-level = \"{level}\"");
                in_rust("printer", &keys)
            };
            configure(&[&printer("warn")])?;
            let mut up = Rosemary::start(lab, &rosemary_binary(), &[])?;
            wait_for_later(lab, program, "warning of round")?;
            let pids = |up: &mut Rosemary<'_>| -> anyhow::Result<_> {
                let status = up.status()?.context("it runs")?;
                let app = status.app("printer").context("the app")?;
                Ok((status.programs.kernel.pid, app.pid, app.restarts))
            };
            let before = pids(&mut up)?;
            let (lines, last) = wait_for_later(lab, program, "warning of round")?;
            ensure!(!has(&lines, last, program, "news of round"), "{host}: {lines:#?}");
            ensure!(!has(&lines, last, "app printer", "printed in round"), "{host}: {lines:#?}");

            let steps = rosemary(lab, &["app", "log-level", "printer", "debug"])?;
            ensure!(steps.contains("update  app printer  its log has the level debug"), "{steps}");
            let (lines, last) = wait_for_later(lab, program, "detail of round")?;
            ensure!(has(&lines, last, program, "news of round"), "{host}: {lines:#?}");
            let full = rosemary(lab, &["apps", "printer"])?;
            ensure!(full.contains("log level    debug"), "{full}");

            // The configured level applies again, and then another one.
            rosemary(lab, &["app", "log-level", "printer", "default"])?;
            wait_for_end(lab, program, ("warning of round", "news of round"))?;
            rosemary(lab, &["app", "log-level", "printer", "error"])?;
            configure(&[&printer("info")])?;
            let steps = rosemary(lab, &["reload"])?;
            ensure!(steps.contains("changed: log-level"), "{steps}");
            wait_for_end(lab, program, ("news of round", "detail of round"))?;
            ensure!(pids(&mut up)? == before, "{host}: a program has restarted");
            let error = refused(lab, &["app", "log-level", "printed", "debug"])?;
            ensure!(error.contains("printed"), "{error}");
        }
        Ok(())
    });
}
