//! The routes that apps publish: they work, no app learns or acts as who uses them, and a hostile app harms no other.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Rosemary};
use rosemary_tests::apps::{configure, in_c, in_rust};
use rosemary_tests::http::{APP_ROUTES, Answer, request_at};
use rosemary_tests::{in_a_lab, in_a_lab_for, kill, rosemary_binary};

use super::{SOON, get, wait_for_api};

/// For tests in which requests time out.
const LONG: Duration = Duration::from_secs(180);

const SERVE: &str = "stage = \"observe\"\ncapabilities = [\"packet-in\", \"http.serve\"]";

fn ask(method: &str, path: &str) -> anyhow::Result<Answer> {
    request_at(APP_ROUTES, (method, path), &[], b"")
}

fn web(path: &str) -> anyhow::Result<Answer> {
    ask("GET", &format!("/apps/web{path}"))
}

fn rogue(path: &str) -> anyhow::Result<Answer> {
    ask("GET", &format!("/apps/rogue{path}"))
}

/// Waits until a request has this status.
fn wait_for(path: &str, status: u16) -> anyhow::Result<Answer> {
    let deadline = Instant::now() + SOON;
    loop {
        match ask("GET", path) {
            Ok(answer) if answer.status == status => return Ok(answer),
            result if Instant::now() > deadline => {
                anyhow::bail!("{path} does not answer {status}: {result:?}")
            }
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Starts Rosemary with the app `web`, and `rogue` with these further keys if they are named.
fn start<'lab>(lab: &'lab Lab, rogue: Option<&str>) -> anyhow::Result<Rosemary<'lab>> {
    let mut apps = vec![in_rust("web", SERVE), in_rust("observer", "stage = \"observe\"")];
    if let Some(keys) = rogue {
        apps.push(in_c(lab, "rogue", "apps/rogue.c", &format!("{SERVE}\n{keys}"))?);
    }
    configure(&apps.iter().map(String::as_str).collect::<Vec<_>>())?;
    let rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    wait_for_api()?;
    wait_for("/apps/web/hello", 200)?;
    Ok(rosemary)
}

fn pid_of(rosemary: &Rosemary<'_>, app: &str) -> anyhow::Result<u32> {
    let status = rosemary.status()?.context("it answers")?;
    status.app(app).and_then(|it| it.pid).context("it runs")
}

fn northbound(rosemary: &Rosemary<'_>) -> anyhow::Result<u32> {
    let services = rosemary.status()?.context("it answers")?.programs.services;
    let service = services.iter().find(|it| it.name == "northbound");
    service.and_then(|it| it.pid).context("it runs")
}

/// Checks that this is a problem that says what to do.
fn is_problem(answer: &Answer, status: u16) -> anyhow::Result<()> {
    ensure!(answer.status == status, "{answer:?}");
    ensure!(answer.header("content-type") == Some("application/problem+json"), "{answer:?}");
    ensure!(answer.json()["hint"].as_str().is_some_and(|it| !it.is_empty()), "{answer:?}");
    is_sandboxed(answer)
}

/// Checks that a browser gives the answer nothing of the operator's.
fn is_sandboxed(answer: &Answer) -> anyhow::Result<()> {
    let policy = answer.header("content-security-policy").context("a policy")?;
    ensure!(policy.starts_with("sandbox;") && !policy.contains("allow-"), "{policy}");
    ensure!(policy.contains("default-src 'none'") && !policy.contains("script"), "{policy}");
    ensure!(answer.head.matches("content-security-policy:").count() == 1, "{answer:?}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "deny"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("referrer-policy", "no-referrer"),
    ] {
        ensure!(answer.header(name) == Some(value), "{name}: {answer:?}");
    }
    for name in ["set-cookie", "access-control-allow-origin", "refresh", "service-worker-allowed"] {
        ensure!(answer.header(name).is_none(), "{name}: {answer:?}");
    }
    Ok(())
}

#[test]
fn routes_of_an_app_are_served_without_their_users_identity() {
    in_a_lab(|lab| {
        let rosemary = start(lab, None)?;
        let hello = web("/hello")?;
        ensure!(hello.body == b"<h1>Hello</h1>\n", "{hello:?}");
        ensure!(hello.header("content-type") == Some("text/html; charset=utf-8"), "{hello:?}");
        ensure!(hello.header("etag") == Some("\"1\""), "{hello:?}");
        is_sandboxed(&hello)?;
        let head = ask("HEAD", "/apps/web/echo")?;
        ensure!(head.status == 200 && head.body.is_empty(), "{head:?}");

        let headers = [
            ("Authorization", "Bearer secret"),
            ("Proxy-Authorization", "Basic secret"),
            ("Cookie", "session=secret"),
            ("Sec-WebSocket-Protocol", "rosemary.v1, bearer.secret"),
            ("X-Forwarded-User", "secret"),
            ("Accept-Language", "nl"),
        ];
        let body = vec![b'y'; 20_000];
        let path = "/apps/web/echo?a=1&b=%2F";
        let echo = request_at(APP_ROUTES, ("POST", path), &headers, &body)?;
        ensure!(echo.status == 200, "{echo:?}");
        let text = String::from_utf8_lossy(&echo.body).into_owned();
        for line in [
            "method POST",
            "path /echo",
            "query a=1&b=%2F",
            "header accept-language: nl",
            "header x-forwarded-prefix: /apps/web",
        ] {
            ensure!(text.lines().any(|it| it == line), "{line}: {text}");
        }
        ensure!(text.ends_with(&"y".repeat(20_000)) && !text.contains("secret"), "{text}");
        is_sandboxed(&echo)?;

        ensure!(web("/later")?.body == b"later\n", "an answer by the app's timer");
        ensure!(web("/big")?.body.len() == 300_000);
        ensure!(web("/away")?.header("location") == Some("/apps/web/hello"));
        let slash = ask("GET", "/apps/web")?;
        ensure!(slash.status == 308 && slash.header("location") == Some("/apps/web/"), "{slash:?}");
        ensure!(web("/nothing")?.status == 404);

        let report = lab.run(&rosemary_binary().to_string_lossy(), &["apps", "web"])?;
        ensure!(report.contains("http://127.0.0.1:8182/apps/web/"), "{report}");
        let json = get("/api/v1/apps/web")?.json();
        ensure!(json["routes"] == "http://127.0.0.1:8182/apps/web/", "{json}");
        ensure!(get("/api/v1/apps/observer")?.json()["routes"].is_null());
        drop(rosemary);
        Ok(())
    });
}

#[test]
fn requests_that_are_not_for_apps_are_refused() {
    in_a_lab(|lab| {
        let _rosemary = start(lab, None)?;
        // The API is not at this address, and the routes are not at that of the API.
        for path in ["/api/v1/apps", "/", "/apps/", "/apps/WEB/", "/metrics", "/apps/%77eb/hello"] {
            is_problem(&ask("GET", path)?, 404)?;
        }
        ensure!(get("/apps/web/hello")?.status == 404);
        is_problem(&ask("GET", "/apps/unknown/")?, 404)?;
        let refused = ask("GET", "/apps/observer/")?;
        is_problem(&refused, 403)?;
        let hint = refused.json()["hint"].to_string();
        ensure!(hint.contains("http.serve") && hint.contains("capabilities"), "{hint}");

        let post = |headers: &[(&str, &str)], body: &[u8]| {
            request_at(APP_ROUTES, ("POST", "/apps/web/echo"), headers, body)
        };
        is_problem(&post(&[], &vec![b'x'; 30_000])?, 413)?;
        let long = format!("/apps/web/{}", "x".repeat(6_000));
        is_problem(&ask("GET", &long)?, 414)?;
        let value = "v".repeat(9_000);
        is_problem(&post(&[("User-Agent", &value)], b"")?, 431)?;
        // Pages of others, DNS rebinding.
        for headers in [
            ("Origin", "http://attacker.example"),
            ("Origin", "null"),
            ("Origin", "http://127.0.0.1:8181"),
            ("Sec-Fetch-Site", "cross-site"),
        ] {
            ensure!(post(&[headers], b"")?.status == 403, "{headers:?}");
        }
        ensure!(post(&[("Host", "attacker.example")], b"")?.status == 421);
        Ok(())
    });
}

#[test]
fn routes_return_after_the_app_and_the_interface_end() {
    in_a_lab(|lab| {
        let rosemary = start(lab, None)?;
        for _ in 0..3 {
            kill(pid_of(&rosemary, "web")?)?;
            wait_for("/apps/web/hello", 200)?;
        }
        let before = pid_of(&rosemary, "web")?;
        for _ in 0..3 {
            kill(northbound(&rosemary)?)?;
            wait_for("/apps/web/hello", 200)?;
        }
        ensure!(pid_of(&rosemary, "web")? == before, "the app did not notice");
        let program = rosemary_binary().to_string_lossy().into_owned();
        lab.run(&program, &["app", "stop", "web"])?;
        let stopped = wait_for("/apps/web/hello", 503)?;
        is_problem(&stopped, 503)?;
        ensure!(
            stopped.json()["hint"].to_string().contains("rosemary app start web"),
            "{stopped:?}"
        );
        lab.run(&program, &["app", "start", "web"])?;
        wait_for("/apps/web/hello", 200)?;
        Ok(())
    });
}

#[test]
fn capability_can_be_granted_and_taken_while_rosemary_runs() {
    in_a_lab(|lab| {
        let without = "stage = \"observe\"";
        configure(&[&in_rust("web", without)])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        wait_for_api()?;
        ensure!(ask("GET", "/apps/web/hello").is_err(), "nobody listens without need");
        let program = rosemary_binary().to_string_lossy().into_owned();
        configure(&[&in_rust("web", SERVE)])?;
        lab.run(&program, &["reload"])?;
        wait_for("/apps/web/hello", 200)?;
        configure(&[&in_rust("web", without)])?;
        lab.run(&program, &["reload"])?;
        wait_for("/apps/web/hello", 403)?;
        rosemary.must_run()?;
        Ok(())
    });
}

#[test]
fn taken_default_address_of_routes_is_a_warning_and_a_taken_chosen_one_an_error() {
    in_a_lab(|lab| {
        let _taken = std::net::TcpListener::bind(APP_ROUTES)?;
        configure(&[&in_rust("web", SERVE)])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let words = ["the routes of apps", "app-routes"];
        rosemary.wait_for_log(&words, SOON)?;
        rosemary.stop(rustix::process::Signal::TERM)?;
        let northbound = format!("[northbound]\napp-routes = \"{APP_ROUTES}\"\n");
        configure(&[&northbound, &in_rust("web", SERVE)])?;
        let output = lab.command(rosemary_binary()).args(["up", "--allow-unsigned"]).output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(
            !output.status.success() && text.contains("`app-routes` in [northbound]"),
            "{text}"
        );
        Ok(())
    });
}

#[test]
fn app_in_the_kernel_cannot_publish_routes() {
    in_a_lab(|lab| {
        configure(&[&in_rust("web", &format!("{SERVE}\nhost = \"kernel\""))])?;
        let output = lab.command(rosemary_binary()).args(["up", "--allow-unsigned"]).output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(78), "{output:?}");
        ensure!(text.contains("host = \"user\", or remove http.serve"), "{text}");
        Ok(())
    });
}

#[test]
fn invalid_answers_of_a_hostile_app_are_502_and_no_others_are_harmed() {
    in_a_lab_for(LONG, |lab| {
        let mut rosemary = start(lab, Some(""))?;
        wait_for("/apps/rogue/ok", 200)?;
        let before = northbound(&rosemary)?;
        for path in
            ["/giant", "/line-break", "/name", "/status", "/upgrade", "/malformed", "/elsewhere"]
        {
            let answer = rogue(path)?;
            is_problem(&answer, 502).with_context(|| path.to_owned())?;
            ensure!(!String::from_utf8_lossy(&answer.body).contains("<script"), "{answer:?}");
            ensure!(web("/hello")?.status == 200 && rogue("/ok")?.status == 200, "after {path}");
        }
        let page = rogue("/page")?;
        ensure!(page.status == 200 && page.header("content-type") == Some("text/html"), "{page:?}");
        is_sandboxed(&page)?;
        ensure!(rogue("/twice")?.body == b"once" && rogue("/ok")?.status == 200);

        // A connection that breaks the protocol ends until the app is started again.
        for (path, why) in [
            ("/stray", "it answered a request that it did not get"),
            ("/flood", "it sends answers without requests"),
        ] {
            rogue(path)?;
            let words = ["closed the connection to an app with routes", "rogue", why];
            rosemary.wait_for_log(&words, SOON)?;
            is_problem(&wait_for("/apps/rogue/ok", 502)?, 502)?;
            ensure!(web("/hello")?.status == 200, "after {path}");
            lab.run(&rosemary_binary().to_string_lossy(), &["app", "restart", "rogue"])?;
            wait_for("/apps/rogue/ok", 200)?;
        }
        is_problem(&rogue("/exit")?, 502)?;
        wait_for("/apps/rogue/ok", 200)?;
        ensure!(northbound(&rosemary)? == before, "the interface did not end");
        Ok(())
    });
}

/// Requests for `rogue` from one connection after the other, until `is_over`. Returns the number of answers by their status.
fn flood(is_over: &AtomicBool) -> BTreeMap<u16, usize> {
    // Sent at once. With their bodies they exceed what the interface reads ahead.
    const AT_ONCE: usize = 40;
    let body = "x".repeat(8_000);
    let request = |connection: &str| {
        format!(
            "POST /apps/rogue/ok HTTP/1.1\r\nHost: {APP_ROUTES}\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n{body}",
            body.len()
        )
    };
    let requests = request("keep-alive").repeat(AT_ONCE - 1) + &request("close");
    let mut statuses = BTreeMap::new();
    while !is_over.load(Ordering::Relaxed) {
        // A connection that is closed is a refusal, too. Answers are read while requests are sent.
        let Ok(stream) = TcpStream::connect(APP_ROUTES) else { continue };
        let Ok(mut writing) = stream.try_clone() else { continue };
        let lines = std::thread::scope(|scope| {
            scope.spawn(|| writing.write_all(requests.as_bytes()));
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            lines
                .filter_map(|line| line.split_once("HTTP/1.1 ")?.1.get(..3)?.parse().ok())
                .collect()
        });
        let lines: Vec<u16> = lines;
        for status in lines {
            *statuses.entry(status).or_default() += 1;
        }
    }
    statuses
}

/// Resident memory of a process, in KiB.
fn resident(pid: u32) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find(|it| it.starts_with("VmRSS:")).context("VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("a number")?.parse()?)
}

#[test]
fn flood_of_requests_to_one_app_harms_no_other() {
    in_a_lab_for(LONG, |lab| {
        let rosemary = start(lab, Some("hang-seconds = 1"))?;
        wait_for("/apps/rogue/ok", 200)?;
        let pid = northbound(&rosemary)?;
        let before = resident(pid)?;
        let is_over = AtomicBool::new(false);
        let (mut times, mut most) = (Vec::new(), before);
        let begun = Instant::now();
        let statuses = std::thread::scope(|scope| -> anyhow::Result<_> {
            let floods: Vec<_> = (0..24).map(|_| scope.spawn(|| flood(&is_over))).collect();
            let served = (0..40).try_for_each(|_| {
                for path in ["/livez", "/api/v1/apps", "/apps/web/hello"] {
                    let asked = Instant::now();
                    let is_route = path.starts_with("/apps/");
                    let answer = if is_route { ask("GET", path)? } else { get(path)? };
                    ensure!(answer.status == 200, "{path}: {answer:?}");
                    times.push(asked.elapsed());
                }
                most = most.max(resident(pid)?);
                std::thread::sleep(Duration::from_millis(100));
                anyhow::Ok(())
            });
            is_over.store(true, Ordering::Relaxed);
            let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
            for flood in floods {
                for (status, count) in flood.join().ok().context("a thread ended")? {
                    *statuses.entry(status).or_default() += count;
                }
            }
            served.map(|()| statuses)
        })?;
        times.sort_unstable();
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        println!(
            "{:?} answers by status in {:?}; others answered in {median:?} (median), {longest:?} (longest); memory {before} KiB, \
             then at most {most} KiB",
            statuses,
            begun.elapsed()
        );
        let of = |status| statuses.get(&status).copied().unwrap_or_default();
        ensure!(of(429) > 0, "the flood exceeds the rate of requests: {statuses:?}");
        ensure!(statuses.keys().all(|it| [200, 429, 503].contains(it)), "{statuses:?}");
        ensure!(longest < Duration::from_secs(2), "{longest:?}");
        ensure!(most < before + 64_000, "{before} KiB became {most} KiB");
        wait_for("/apps/rogue/ok", 200)?;
        ensure!(northbound(&rosemary)? == pid, "the interface did not end");
        Ok(())
    });
}

#[test]
fn silent_app_is_504_while_others_answer() {
    in_a_lab_for(LONG, |lab| {
        let rosemary = start(lab, Some("hang-seconds = 1"))?;
        wait_for("/apps/rogue/ok", 200)?;
        let begun = Instant::now();
        std::thread::scope(|scope| -> anyhow::Result<()> {
            // More than the app may have at once.
            let asked: Vec<_> = (0..24)
                .map(|number| {
                    let path = if number % 2 == 0 { "/hang" } else { "/endless" };
                    scope.spawn(move || rogue(path))
                })
                .collect();
            std::thread::sleep(Duration::from_secs(1));
            for _ in 0..20 {
                let asked = Instant::now();
                ensure!(web("/hello")?.status == 200 && get("/livez")?.status == 200);
                ensure!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
            }
            let busy = rogue("/ok")?;
            is_problem(&busy, 503)?;
            ensure!(busy.header("retry-after").is_some(), "{busy:?}");
            let mut late = 0;
            for answer in asked {
                let answer = answer.join().ok().context("a thread ended")??;
                ensure!([503, 504].contains(&answer.status), "{answer:?}");
                late += usize::from(answer.status == 504);
            }
            ensure!(late == 16, "{late} of 24 reached the app");
            Ok(())
        })?;
        ensure!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
        wait_for("/apps/rogue/ok", 200)?;
        // An app that hangs in a call is ended. On a busy machine its second of processor time takes longer than an answer may.
        let spun = rogue("/spin")?;
        ensure!([502, 504].contains(&spun.status), "{spun:?}");
        wait_for("/apps/rogue/ok", 200)?;
        ensure!(pid_of(&rosemary, "web").is_ok());
        Ok(())
    });
}
