//! Users of the HTTP interface with certificates that are revoked, that name strange things, or that are refused.

use std::collections::BTreeMap;
use std::io::{BufReader, Write as _};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use cli::lab::Lab;
use rcgen::{DnType, SanType};
use rosemary_tests::developer::rosemary;
use rosemary_tests::in_a_lab_without_capture_for;
use rosemary_tests::net::{Net, SOON};
use rosemary_tests::pki::Pki;
use rosemary_tests::verdicts::Verdicts;

use super::super::beside::{lines, run};
use super::{
    API_PORT, Bed, Certificate, DAY, LIMIT, OTHER, claim, dns, issue, start, tls, unharmed, uri,
};

/// Requests the list of apps with a certificate; returns the status.
pub(super) fn curl(lab: &Lab, pki: &Pki<'_>, shown: &Certificate) -> Result<u16, String> {
    let mut command = lab.command("curl");
    command.args(["-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", "--cacert"]);
    command.arg(pki.file("api/ca-cert.pem")).arg("--cert").arg(&shown.cert);
    command.arg("--key").arg(&shown.key);
    let output = command.arg(format!("https://{OTHER}:{API_PORT}/api/v1/apps")).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    text.trim().parse().map_err(|_| text.into_owned())
}

fn user(lab: &Lab, pki: &Pki<'_>, name: &str, role: &str) -> anyhow::Result<Certificate> {
    rosemary(lab, &["pki", "user", name, "--role", role, "--dir", pki.dir()])?;
    let file = |part: &str| pki.file(&format!("users/{name}/{part}"));
    Ok(Certificate { cert: file("cert.pem"), key: file("key.pem") })
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn certificates_of_hostile_users_give_no_role() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let Bed { mut net, pki } = start(lab)?;
        let mut verdicts = Verdicts::default();
        let mut attack = |name: &str, attack: &dyn Fn(&mut Net<'_>) -> anyhow::Result<String>| {
            verdicts.beside(&mut net, name, |net| unharmed(net, attack));
        };
        attack("a revoked user who resumes a session", &|net| resumed(net, &pki));
        attack("users with strange, long and many names", &|net| strange_users(net, &pki));
        attack("floods of refused certificates at the interface", &|net| refused_flood(net, &pki));
        attack("hundreds of idle connections of one user", &|net| idle_users(net, &pki));
        verdicts.finish()
    });
}

/// Lines that a child prints, one after the other.
fn next_line(output: &mut impl std::io::BufRead) -> anyhow::Result<String> {
    let mut line = String::new();
    output.read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

fn resumed(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let lab = net.lab;
    let alice = user(lab, pki, "alice", "admin")?;
    let port = API_PORT.to_string();
    let mut client = tls(lab, "resume", &alice, &[OTHER, &port]).spawn()?;
    let mut output = BufReader::new(client.stdout.take().context("an output")?);
    let first = next_line(&mut output)?;
    ensure!(first == "HTTP/1.1 200", "before: {first:?}");
    rosemary(lab, &["pki", "revoke-user", "alice", "--dir", pki.dir()])?;
    client.stdin.take().context("an input")?.write_all(b"\n")?;
    let second = next_line(&mut output)?;
    client.wait()?;
    ensure!(second.starts_with("HTTP/1.1 401 resumed=False"), "after: {second:?}");
    Ok(format!("before {first}, after {second}"))
}

fn strange_users(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let (lab, authority) = (net.lab, pki.file("api"));
    let evil = "\u{1b}]0;owned\u{7}\r\n2026-01-01T00:00:00Z ERROR forged";
    let name = "rosemary:user:admin:root";
    let all =
        |names: Vec<String>| names.iter().map(|it| uri(it)).collect::<anyhow::Result<Vec<_>>>();
    let kinds: Vec<Vec<SanType>> = vec![
        all(vec![format!("{name}\0")])?,
        all(vec![format!("{name}\0.example.org")])?,
        all(vec![format!("{name}{evil}")])?,
        all(vec![format!("rosemary:user:admin:{}", "r".repeat(65))])?,
        all(vec![format!("rosemary:user:admin:{}", "r".repeat(20_000))])?,
        all(vec!["rosemary:user:admin:../../root".into()])?,
        all(vec!["rosemary:user:admin:".into()])?,
        all(vec!["rosemary:user:viewer:a:admin:b".into()])?,
        all((0..500).map(|it| format!("rosemary:user:admin:u{it}")).collect())?,
        all(vec![name.into(); 500])?,
        vec![dns(name)?],
        vec![SanType::Rfc822Name(name.try_into()?)],
        vec![uri(name)?, dns(name)?],
    ];
    let count = kinds.len();
    for (number, names) in kinds.into_iter().enumerate() {
        let shown = issue((lab, &authority), &format!("user{number}"), |params| {
            params.subject_alt_names = names;
            Ok(())
        })?;
        let answer = curl(lab, pki, &shown);
        ensure!(answer == Ok(401) || answer.is_err(), "user {number}: {answer:?}");
    }
    let shown = issue((lab, &authority), "common", |params| {
        params.distinguished_name.push(DnType::CommonName, format!("{name}{evil}"));
        Ok(())
    })?;
    let answer = curl(lab, pki, &shown);
    ensure!(answer == Ok(401), "a common name: {answer:?}");
    let (_, audit) = run(lab, &["logs", "audit"])?;
    ensure!(!audit.lines().any(|line| line.starts_with("2026-01-01")), "a forged audit record");
    ensure!(!audit.contains('\u{1b}'), "an escape sequence is in the audit log");
    Ok(format!("{} certificates gave no role", count + 1))
}

/// Processor time and log lines of refusals are bounded, and a good user is served beside them.
fn refused_flood(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let lab = net.lab;
    let good = user(lab, pki, "good", "viewer")?;
    let switch = pki.switch("flood", &[])?;
    let now = SystemTime::now();
    let expired = issue((lab, &pki.file("api")), "late", |params| {
        params.subject_alt_names = vec![uri("rosemary:user:admin:late")?];
        (params.not_before, params.not_after) = ((now - 9 * DAY).into(), (now - DAY).into());
        Ok(())
    })?;
    let bad = [Certificate { cert: switch.cert, key: switch.key }, expired];
    let before = lines(net, &["interface refused"]);
    let (mut outcomes, mut slowest) = (BTreeMap::<String, usize>::new(), Duration::ZERO);
    for round in 0..60 {
        let outcome = match curl(lab, pki, &bad[round % 2]) {
            Ok(status) => status.to_string(),
            Err(_) => "refused".into(),
        };
        *outcomes.entry(outcome).or_default() += 1;
        if round % 10 == 9 {
            let begin = Instant::now();
            let answer = curl(lab, pki, &good);
            slowest = slowest.max(begin.elapsed());
            ensure!(answer == Ok(200), "a good user: {answer:?}");
        }
    }
    ensure!(outcomes.keys().all(|it| it == "refused"), "{outcomes:?}");
    ensure!(slowest < Duration::from_secs(5), "a good user waited for {slowest:?}");
    let count = lines(net, &["interface refused"]) - before;
    ensure!(count > 0 && count <= 60, "{count} lines");
    Ok(format!("{outcomes:?}, {count} lines, a good user in at most {slowest:.1?}"))
}

/// A user holds as many connections as it gets. The operator on this machine, and the switch, are served.
fn idle_users(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let lab = net.lab;
    let hog = user(lab, pki, "hog", "viewer")?;
    let port = API_PORT.to_string();
    let mut client = tls(lab, "idle", &hog, &[OTHER, &port, "900"]).spawn()?;
    let mut output = BufReader::new(client.stdout.take().context("an output")?);
    let held: usize = next_line(&mut output)?.parse().context("a number")?;
    let begin = Instant::now();
    let answer = rosemary_tests::http::request("GET", "/api/v1/apps", &[], b"")?;
    ensure!(answer.status == 200, "the operator: {answer:?}");
    let (code, said) = run(lab, &["apps"])?;
    ensure!(code == Some(0), "{said}");
    let took = begin.elapsed();
    ensure!(took < Duration::from_secs(5), "the operator waited for {took:?}");
    let late = pki.switch("late2", &["--dpid", "0x8a"])?;
    let shown = Certificate { cert: late.cert, key: late.key };
    let seen = claim(lab, &shown, &["000000000000008a"])?;
    ensure!(seen == ["admitted"], "a good switch: {seen:?}");
    drop(client.stdin.take());
    client.wait()?;
    let hog_answer = curl(lab, pki, &hog);
    net.rosemary.wait_for("only s1 is known", SOON, |status| {
        (status.switches.as_ref()?.len() == 1).then_some(())
    })?;
    ensure!(held <= 750, "{held} connections of one address");
    ensure!(hog_answer == Ok(200), "the user itself, afterwards: {hog_answer:?}");
    Ok(format!("{held} connections were held, the operator was served in {took:.1?}"))
}
