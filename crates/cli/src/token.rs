//! `rosemary token`: makes, lists and revokes the tokens of the HTTP interface. `rosemary ui`: prints the address of the page, with a
//! token that can be used once.
//!
//! The secret is made here and printed; the monitor receives its hash only.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use config::instance::InstancePaths;
use control::northbound::{Role, TokenRecord, needs_tls};
use serde::Serialize;
use sys::random::hex_digits;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::client;
use crate::say;
use crate::table::{Table, output_width};

/// How long the token of `rosemary ui` can be used.
const ONE_TIME: Duration = Duration::from_secs(60);

/// The longest validity of a token, in days.
const MOST_DAYS: u64 = 3650;

const AFTER_HELP: &str = "\
The token alone is printed on standard output, once: keep it. Programs send it as `Authorization: Bearer TOKEN`. It is valid at once, \
and only its hash is stored. A viewer reads, an operator also acts on the network and on configured apps, an admin also changes the \
configuration.

  curl -H \"Authorization: Bearer $(rosemary token create --role viewer)\" http://127.0.0.1:8181/api/v1/switches

Exit codes: 0 done; 1 Rosemary or its HTTP interface does not run; 2 wrong usage.";

/// Reads the name of a role, and completes it.
pub(crate) fn role() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::name)).try_map(|text| text.parse::<Role>())
}

/// Commands for tokens.
#[derive(Debug, Clone, Subcommand)]
pub enum TokenCommand {
    /// Make a token and print it
    #[command(after_help = AFTER_HELP)]
    Create(CreateArgs),
    /// Show the valid tokens, without their secrets
    List(TokenListArgs),
    /// Revoke a token, which is invalid at once
    Revoke(RevokeArgs),
}

/// Options of `rosemary token create`.
#[derive(Debug, Clone, Args)]
pub struct CreateArgs {
    /// The rights of the token
    #[arg(long, value_parser = role())]
    pub role: Role,
    /// How long it is valid: a number and s, m, h or d, such as 30d [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub expires: Option<Duration>,
    /// A name by which lists and audit records show it
    #[arg(long, default_value = "token")]
    pub name: String,
    /// The instance to change.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Options of `rosemary token list`.
#[derive(Debug, Clone, Args)]
pub struct TokenListArgs {
    /// Print JSON: a list with an object per token
    #[arg(long)]
    pub json: bool,
    /// Show all columns, however wide
    #[arg(long)]
    pub wide: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Options of `rosemary token revoke`.
#[derive(Debug, Clone, Args)]
pub struct RevokeArgs {
    /// The identifier or the name of the token; all tokens of a name are revoked
    pub token: String,
    /// The instance to change.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Options of `rosemary ui`.
#[derive(Debug, Clone, Args)]
pub struct UiArgs {
    /// Only print the address
    #[arg(long)]
    pub no_open: bool,
    /// The role of the page
    #[arg(long, default_value = "admin", value_parser = role())]
    pub role: Role,
    /// The instance to open.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// A token; its JSON is a stable interface.
#[derive(Debug, Serialize)]
struct Line {
    id: String,
    name: String,
    role: Role,
    /// In seconds since 1970.
    created: u64,
    /// In seconds since 1970; `None` for never.
    expires: Option<u64>,
}

/// Runs a command for tokens.
///
/// # Errors
/// Rosemary or its HTTP interface does not run, or the output cannot be written.
pub fn run(command: &TokenCommand) -> anyhow::Result<()> {
    match command {
        TokenCommand::Create(args) => create(args),
        TokenCommand::List(args) => list(args),
        TokenCommand::Revoke(args) => revoke(args),
    }
}

fn create(args: &CreateArgs) -> anyhow::Result<()> {
    let (secret, record) = new(args.role, &args.name, args.expires)?;
    let id = record.id.clone();
    client::connect(&args.instance)?.add_token(record)?;
    say::data(format_args!("{secret}\n"))?;
    say::note(format_args!("it is token {id}; `rosemary token revoke {id}` revokes it"));
    Ok(())
}

/// Makes a secret and its record.
fn new(
    role: Role,
    name: &str,
    lifetime: Option<Duration>,
) -> anyhow::Result<(String, TokenRecord)> {
    let random = |count| hex_digits(count).context("cannot read random numbers");
    let secret = format!("rsm1_{}", random(32)?);
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let record = TokenRecord {
        id: random(4)?,
        name: name.to_owned(),
        role,
        sha256: package::sha256(secret.as_bytes()),
        created,
        expires: lifetime.map(|it| created + it.as_secs()),
        one_time: false,
    };
    Ok((secret, record))
}

fn list(args: &TokenListArgs) -> anyhow::Result<()> {
    let tokens = client::connect(&args.instance)?.tokens()?;
    let lines: Vec<Line> = tokens
        .into_iter()
        .map(|TokenRecord { id, name, role, created, expires, .. }| Line {
            id,
            name,
            role,
            created,
            expires,
        })
        .collect();
    if args.json {
        let json = serde_json::to_string(&lines).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    if lines.is_empty() {
        say::note("there is no token; `rosemary token create --role ROLE` makes one");
        return Ok(());
    }
    let mut table = Table::new(["ID", "NAME", "ROLE", "MADE", "EXPIRES"]).expendable(&["MADE"]);
    for it in &lines {
        let expires = it.expires.map_or_else(|| "never".to_owned(), date);
        table.row([&it.id, &it.name, it.role.name(), &date(it.created), &expires]);
    }
    say::table(&table.format(output_width(args.wide)))
}

/// Formats seconds since 1970.
fn date(seconds: u64) -> String {
    let date =
        i64::try_from(seconds).ok().and_then(|it| OffsetDateTime::from_unix_timestamp(it).ok());
    date.and_then(|it| it.format(&Rfc3339).ok()).unwrap_or_else(|| seconds.to_string())
}

fn revoke(args: &RevokeArgs) -> anyhow::Result<()> {
    match client::connect(&args.instance)?.revoke_token(&args.token, None)? {
        0 => bail!("there is no token {:?}; `rosemary token list` shows the tokens", args.token),
        1 => say::note(format_args!("revoked {}", args.token)),
        count => say::note(format_args!("revoked {count} tokens")),
    }
    Ok(())
}

/// Runs `rosemary ui`.
///
/// # Errors
/// Rosemary or its HTTP interface does not run, or the output cannot be written.
pub fn open(args: &UiArgs) -> anyhow::Result<()> {
    let (secret, record) = new(args.role, "rosemary ui", Some(ONE_TIME))?;
    let record = TokenRecord { one_time: true, ..record };
    let api = client::connect(&args.instance)?.add_token(record)?;
    let api = api.ok_or_else(|| {
        anyhow!(
            "the HTTP interface has no address, as another program has taken the default one; start Rosemary with --api \
             ADDR:PORT"
        )
    })?;
    let scheme = if needs_tls(api) { "https" } else { "http" };
    let host = if api.ip().is_unspecified() {
        format!("localhost:{}", api.port())
    } else {
        api.to_string()
    };
    let address = format!("{scheme}://{host}/#login={secret}");
    say::data(format_args!("{address}\n"))?;
    say::note(format_args!("open it within {} s; it works once", ONE_TIME.as_secs()));
    // Scripts read the address; only a person at a desktop has a browser.
    let has_desktop =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|it| std::env::var_os(it).is_some());
    if !args.no_open && has_desktop && io::stdout().is_terminal() {
        let opened = redirect(&address).and_then(|page| {
            Command::new("xdg-open")
                .arg(page)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
        });
        if opened.is_err() {
            say::note("no browser could be opened; copy the address");
        }
    }
    Ok(())
}

/// Writes a page that leads to `address`, in a new directory that only this user can enter, and returns its path.
///
/// Every user can read the arguments of a browser, so the address, which has a secret, is no argument. The secret works once and for
/// a short time, so the page may stay.
fn redirect(address: &str) -> io::Result<PathBuf> {
    let place = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::Builder::new()
        .prefix("rosemary-ui-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(place)?;
    let path = folder.keep().join("open.html");
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0;url={address}\"><title>Rosemary</title>\n"
    );
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(page.as_bytes())?;
    Ok(path)
}

/// Reads a time such as `30d`.
fn parse_time(text: &str) -> Result<Duration, String> {
    let expected =
        || format!("expected a number and s, m, h or d, such as 30d, up to {MOST_DAYS}d");
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 24 * 3600)];
    let unit = text.chars().last().and_then(|last| units.iter().find(|(name, _)| *name == last));
    let (_, factor) = unit.ok_or_else(expected)?;
    let number = text.get(..text.len() - 1).and_then(|it| it.parse::<u64>().ok());
    let seconds = number.and_then(|it| it.checked_mul(*factor));
    let seconds = seconds.filter(|it| (1..=MOST_DAYS * 24 * 3600).contains(it));
    seconds.map(Duration::from_secs).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn page_with_the_secret_is_private() {
        let page = redirect("http://127.0.0.1:1/#login=secret").unwrap();
        let mode =
            |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let folder = page.parent().unwrap();
        assert_eq!((mode(&page), mode(folder)), (0o600, 0o700));
        assert!(
            fs::read_to_string(&page).unwrap().contains("url=http://127.0.0.1:1/#login=secret\"")
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(parse_time("30d"), Ok(Duration::from_secs(30 * 24 * 3600)));
        assert_eq!(parse_time("90m"), Ok(Duration::from_secs(5400)));
        for wrong in ["", "30", "d", "0d", "-1d", "4000d", "1w", "1é"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn secrets_differ_and_only_their_hash_is_in_the_record() {
        let (one, record) = new(Role::Viewer, "ci", Some(ONE_TIME)).unwrap();
        let (other, _) = new(Role::Viewer, "ci", None).unwrap();
        assert!(one != other && one.len() == 69);
        assert_eq!(record.expires, Some(record.created + 60));
        let text = format!("{record:?}");
        assert!(!text.contains(&one[5..]), "{text}");
    }
}
