//! `rosemary-verify`: checks the files of an installation before they run. See the library.
//!
//! It has few parts, because it is the first program of the chain: whoever can change it can change what it says.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::{Write as _, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rosemary_verify::{Error, Fault, Finding, Release, key_file, read_key};

const HELP: &str = "\
Compares the files of an installation of Rosemary with the signed manifest of the release.

Usage: rosemary-verify [--heal] [--key FILE] [DIR]

  DIR         the root of the installation; without it, the one of this program, such as /usr
  --heal      replace damaged and missing files from DIR/lib/rosemary/recovery
  --key FILE  the public key of the releases; without it, DIR/etc/rosemary/release.pub, and /etc/rosemary/release.pub
              if DIR is /usr

It prints a line for each file that differs, and reads no configuration.

Exit codes: 0 no file differs, or all of them were replaced; 1 the system refused to read something; 2 wrong
usage; 3 a file differs; 4 the manifest, its signature or the public key is missing or damaged.
";

/// The exit codes besides 0, by whose fault it is.
const SYSTEM: u8 = 1;
const USAGE: u8 = 2;
const FILES: u8 = 3;
const RELEASE: u8 = 4;

/// The command line.
struct Arguments {
    heal: bool,
    key: Option<PathBuf>,
    root: PathBuf,
}

fn main() -> ExitCode {
    let mut heal = false;
    let (mut key, mut root) = (None, None);
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--heal") => heal = true,
            Some("--key") => match arguments.next() {
                Some(file) => key = Some(PathBuf::from(file)),
                None => return wrong_usage(),
            },
            Some("--help" | "-h") => {
                let _ = stdout().write_all(HELP.as_bytes()); // a closed output is no failure
                return ExitCode::SUCCESS;
            }
            Some("--version") => {
                say(format_args!("rosemary-verify {}", env!("CARGO_PKG_VERSION")));
                return ExitCode::SUCCESS;
            }
            Some(option) if option.starts_with('-') => return wrong_usage(),
            _ if root.is_some() => return wrong_usage(),
            _ => root = Some(PathBuf::from(argument)),
        }
    }
    let Some(root) = root.or_else(own_root) else {
        complain(
            "this program is not in bin or libexec/rosemary of an installation; name its root as DIR",
        );
        return USAGE.into();
    };
    run(&Arguments { heal, key, root }).into()
}

fn run(arguments: &Arguments) -> u8 {
    let Arguments { heal, key, root } = arguments;
    let opened = read_key(&key.clone().unwrap_or_else(|| key_file(root)))
        .and_then(|key| Release::open(root, &key, *heal));
    let (release, mut findings) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            complain(&error);
            return if matches!(error, Error::System { .. }) { SYSTEM } else { RELEASE };
        }
    };
    findings.extend(release.check_all(*heal));
    for finding in &findings {
        report(root, finding);
    }
    for part in release.parts() {
        let manifest = &part.manifest;
        say(format_args!(
            "{} {}: {} files, manifest {}, signed by {}",
            manifest.part.name(),
            manifest.version,
            manifest.entries().len(),
            part.sha256,
            release.key()
        ));
    }
    findings.iter().map(code).max().unwrap_or(0)
}

/// The exit code for a finding.
fn code(finding: &Finding) -> u8 {
    match (&finding.replaced, &finding.fault) {
        (Some(Ok(())), _) => 0,
        (None, Fault::System(_)) => SYSTEM,
        _ => FILES,
    }
}

fn report(root: &Path, finding: &Finding) {
    let path = root.join(&finding.path);
    let (path, fault) = (path.display(), &finding.fault);
    match &finding.replaced {
        None => complain(format_args!("{path} {fault}")),
        Some(Ok(())) => complain(format_args!("{path} {fault}; replaced it")),
        Some(Err(why)) => complain(format_args!("{path} {fault}; {why}; install Rosemary again")),
    }
}

/// The root of the installation that contains this program.
fn own_root() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let dir = own.parent()?;
    let levels = if dir.ends_with("libexec/rosemary") { 2 } else { 1 };
    let is_installed = levels == 2 || dir.ends_with("bin");
    dir.ancestors().nth(levels).filter(|_| is_installed).map(Path::to_owned)
}

fn wrong_usage() -> ExitCode {
    complain("wrong usage; rosemary-verify --help shows the options");
    USAGE.into()
}

fn say(text: impl Display) {
    let _ = writeln!(stdout(), "{text}"); // the exit code says the same
}

fn complain(text: impl Display) {
    let _ = writeln!(stderr(), "rosemary-verify: {text}"); // the exit code says the same
}
