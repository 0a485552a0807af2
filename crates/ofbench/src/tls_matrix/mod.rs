//! Which TLS versions, suites and certificates a controller or a switch accepts, and what TLS costs there.

mod certificates;
mod controller;
mod crypto;
mod hello;
mod switch;

use std::fs;
use std::net::TcpListener;

use anyhow::{Context as _, bail};
use serde::Serialize;

use self::certificates::Authority;
use self::crypto::RecordTime;
use crate::args::{TlsMatrixArgs, resolve};
use crate::measure::summary::Summary;
use crate::report::{Rows, VERSION, format_markdown, format_text};
use crate::terminal::{self, StatusLine};
use crate::tls::TlsVersion;

/// Whether a peer accepts something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "reason", rename_all = "snake_case")]
enum Verdict {
    Accepted,
    Refused(String),
}

/// An offer to a peer, and its verdict.
#[derive(Debug, Clone, Serialize)]
struct Cell {
    /// The TLS version, or what is offered.
    with: String,
    name: String,
    #[serde(flatten)]
    verdict: Verdict,
}

impl Cell {
    fn new(with: &str, name: &str, verdict: Verdict) -> Self {
        Self { with: with.to_owned(), name: name.to_owned(), verdict }
    }
}

/// Handshakes per second.
#[derive(Debug, Clone, Serialize)]
struct Rate {
    version: String,
    handshake: String,
    per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The time of an echo by the size of its message.
#[derive(Debug, Clone, Serialize)]
struct EchoTime {
    bytes: usize,
    us: Summary,
}

/// The JSON document; see `docs/ofbench.md`.
#[derive(Debug, Default, Serialize)]
struct Document {
    version: u32,
    ofbench: &'static str,
    mode: &'static str,
    peer: String,
    suites: Vec<Cell>,
    certificates: Vec<Cell>,
    rates: Vec<Rate>,
    echoes: Vec<EchoTime>,
    /// Why echoes were not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    echoes_failed: Option<String>,
    /// From a switch's connection to its hello, with TLS 1.2 and 1.3, in microseconds.
    handshake_us: Vec<Summary>,
    records: Vec<RecordTime>,
}

/// Runs `ofbench tls-matrix`.
///
/// # Errors
/// The peer is unreachable or does not speak TLS, or the authority's files cannot be used.
pub fn run(args: &TlsMatrixArgs) -> anyhow::Result<()> {
    if args.records_only {
        let records = crypto::measure(!crypto::is_without_aes())?;
        return terminal::print(format_args!("{}\n", serde_json::to_string(&records)?));
    }
    let mut document = Document {
        version: VERSION,
        ofbench: env!("CARGO_PKG_VERSION"),
        mode: "tls-matrix",
        ..Document::default()
    };
    let authority = args.pki.as_ref().map(|dir| -> anyhow::Result<Authority> {
        let read = |name: &str| {
            let path = dir.join(name);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        Ok(Authority::new(read("ca-cert.pem")?, read("ca-key.pem")?))
    });
    let authority = authority.transpose()?;
    let mut line = StatusLine::new();
    let progress = |line: &mut StatusLine, step: &str| line.show(step);
    match (&args.controller, args.listen) {
        (Some(controller), _) => {
            document.peer.clone_from(controller);
            let target =
                controller::Target { address: resolve(controller)?, interval: args.seconds };
            document.suites = target
                .suites(|step| progress(&mut line, step))
                .with_context(|| format!("cannot connect to {controller}"))?;
            if let Some(authority) = &authority {
                document.certificates =
                    target.certificates(authority, |step| progress(&mut line, step))?;
                document.rates = target.rates(authority, |step| progress(&mut line, step))?;
                let echoes = target.echoes(authority, |step| progress(&mut line, step));
                match echoes {
                    Ok(echoes) => {
                        let echoes = echoes.into_iter();
                        document.echoes =
                            echoes.map(|(bytes, us)| EchoTime { bytes, us }).collect();
                    }
                    Err(why) => document.echoes_failed = Some(format!("{why:#}")),
                }
            }
        }
        (None, Some(listen)) => {
            let listener =
                TcpListener::bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
            listener.set_nonblocking(true)?;
            terminal::note(format_args!("waiting for a switch on {}", listener.local_addr()?));
            let target = switch::Target { listener: &listener, patience: args.patience };
            let offer = target.offer()?;
            document.peer = "switch".into();
            document.suites = switch::cells_of(&offer);
            if let Some(authority) = &authority {
                (document.certificates, document.handshake_us) =
                    target.certificates(authority, |step| progress(&mut line, step))?;
            }
        }
        (None, None) => bail!("name a controller, or --listen for a switch"),
    }
    progress(&mut line, "records in memory");
    document.records = crypto::measure(true)?;
    document.records.extend(crypto::measure_without_aes()?);
    line.clear();
    if args.json {
        return terminal::print(format_args!("{}\n", serde_json::to_string_pretty(&document)?));
    }
    let rows = rows(&document);
    terminal::print(if args.markdown {
        format_markdown(&[(&document.peer, rows)])
    } else {
        format_text(&rows)
    })
}

fn name_of(version: TlsVersion) -> &'static str {
    match version {
        TlsVersion::Tls12 => "TLS 1.2",
        TlsVersion::Tls13 => "TLS 1.3",
    }
}

/// Returns the rows of the document for people.
fn rows(document: &Document) -> Rows {
    let cell = |cell: &Cell| match &cell.verdict {
        Verdict::Accepted => "yes".to_owned(),
        Verdict::Refused(reason) => format!("no: {reason}"),
    };
    let mut rows = Rows::new();
    for it in &document.suites {
        rows.push((format!("{}, {}", it.with, it.name), cell(it)));
    }
    for it in &document.certificates {
        rows.push((format!("{}, certificate {}", it.with, it.name), cell(it)));
    }
    for rate in &document.rates {
        let value = rate.per_second.map_or_else(
            || format!("not measured: {}", rate.reason.as_deref().unwrap_or_default()),
            |rate| format!("{rate:.0}/s"),
        );
        rows.push((format!("{}, {} handshakes", rate.version, rate.handshake), value));
    }
    for (version, us) in ["TLS 1.2", "TLS 1.3"].iter().zip(&document.handshake_us) {
        let name = format!("{version}, from connection to hello");
        rows.push((name, format!("{:.0} us", us.median)));
    }
    if let Some(why) = &document.echoes_failed {
        rows.push(("echo".to_owned(), format!("not measured: {why}")));
    }
    for echo in &document.echoes {
        let value = format!("{:.1} us  p95 {:.1}", echo.us.median, echo.us.p95);
        rows.push((format!("echo of {} bytes", echo.bytes), value));
    }
    for record in document.records.iter().filter(|record| record.aes_instructions) {
        let without = document.records.iter().find(|other| {
            !other.aes_instructions && (&other.suite, other.bytes) == (&record.suite, record.bytes)
        });
        let without = without.map_or(String::new(), |it| {
            format!("; without AES instructions {:.2} us", it.median_us)
        });
        let name = format!("{}, record of {} bytes", record.suite, record.bytes);
        rows.push((name, format!("{:.2} us{without}", record.median_us)));
    }
    rows
}
