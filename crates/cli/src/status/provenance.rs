//! `rosemary status --provenance`: shows which files were checked before they ran.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use control::operator::Provenance;

use super::DEGRADED;
use crate::say;
use crate::table::{Table, output_width};

/// Prints the report. The exit code is [`DEGRADED`] if a file is not the released one.
pub(super) fn show(provenance: &Provenance, json: bool, wide: bool) -> anyhow::Result<ExitCode> {
    if json {
        let json = serde_json::to_string(provenance).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))?;
    } else {
        let (text, note) = text(provenance, output_width(wide));
        say::data(text)?;
        note.iter().for_each(say::note);
    }
    Ok(if provenance.faults.is_empty() { ExitCode::SUCCESS } else { DEGRADED.into() })
}

/// Returns the text, and a note about columns that were left out.
fn text(provenance: &Provenance, width: Option<usize>) -> (String, Option<String>) {
    let Provenance { verify, root, key, parts, files, faults } = provenance;
    let (Some(root), Some(key)) = (root, key) else {
        let text =
            "Nothing is checked: `verify` in [start] is \"off\", or there is no signed manifest.\n";
        return (text.to_owned(), None);
    };
    let mut text = format!("{root}, signed by {key}, verify is \"{verify}\"\n");
    for part in parts {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} {}: {} files", part.name, part.number, part.files);
        let _ = writeln!(text, "manifest {}", part.sha256);
    }
    for fault in faults {
        let _ = writeln!(text, "FAULT: {fault}");
    }
    let mut table = Table::new(["STATE", "FILE", "SHA256"]).expendable(&["SHA256"]);
    for file in files {
        table.row([&file.state.to_string(), &file.path, &file.sha256]);
    }
    let table = table.format(width);
    text.push_str(&table.text);
    (text, table.note())
}

#[cfg(test)]
mod tests {
    use control::operator::{CheckedFile, FileState, ReleasePart};

    use super::*;

    fn provenance() -> Provenance {
        Provenance {
            verify: "require".into(),
            root: Some("/usr".into()),
            key: Some("9C0C7AF5F1A6D9E2".into()),
            parts: vec![ReleasePart {
                name: "rosemary".into(),
                number: 1000,
                sha256: "ab".repeat(32),
                files: 31,
            }],
            files: vec![CheckedFile {
                path: "libexec/rosemary/rosemary-kernel".into(),
                sha256: "cd".repeat(32),
                state: FileState::Replaced,
            }],
            faults: vec!["/usr/libexec/rosemary/rosemary-kernel is missing".into()],
        }
    }

    #[test]
    fn text_names_release_faults_and_files() {
        let (text, note) = text(&provenance(), None);
        let expected = format!(
            "/usr, signed by 9C0C7AF5F1A6D9E2, verify is \"require\"\nrosemary 1000: 31 files\nmanifest {}\n\
             FAULT: /usr/libexec/rosemary/rosemary-kernel is missing\n\
             STATE     FILE                              SHA256\n\
             replaced  libexec/rosemary/rosemary-kernel  {}\n",
            "ab".repeat(32),
            "cd".repeat(32)
        );
        assert_eq!((text, note), (expected, None));
        let narrow = super::text(&provenance(), Some(80));
        assert!(narrow.1.is_some_and(|note| note.contains("SHA256")), "{}", narrow.0);
    }

    #[test]
    fn installation_without_checks_says_so() {
        let nothing = Provenance { root: None, ..provenance() };
        assert!(text(&nothing, None).0.starts_with("Nothing is checked"));
    }
}
