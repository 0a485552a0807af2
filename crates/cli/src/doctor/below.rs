//! Reports what protects the programs before Rosemary can check them: means of the system, not of Rosemary.
//!
//! Rosemary checks its own files (`verify` in `[start]`). The firmware, the boot loader, the kernel of the system and the system's
//! files come before that. Secure Boot, lockdown, dm-verity and fs-verity protect these.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use serde::Serialize;

/// The variable of the firmware that says whether Secure Boot is on. Its last byte is 1 if so (UEFI 2.10, §3.3).
const SECURE_BOOT: &str =
    "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

/// Where the system lists its levels of lockdown, the chosen one in brackets: kernel_lockdown(7).
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

/// The means of the system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Below {
    /// Whether the firmware starts signed boot loaders only; `None` if that is unknown, as without UEFI.
    pub(super) secure_boot: Option<bool>,
    /// The level of lockdown: `none`, `integrity` or `confidentiality`; `None` if that is unknown.
    pub(super) lockdown: Option<String>,
    /// Whether the device with Rosemary's programs is protected by dm-verity.
    pub(super) dm_verity: bool,
    /// Whether the file of the monitor is protected by fs-verity.
    pub(super) fs_verity: bool,
}

impl Below {
    /// Finds them. `program` is the monitor.
    pub(super) fn find(program: &Path) -> Self {
        let uuid = fs::metadata(program).ok().and_then(|file| {
            let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
            fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/dm/uuid")).ok()
        });
        let attributes = statx(CWD, program, AtFlags::empty(), StatxFlags::empty());
        Self {
            secure_boot: fs::read(SECURE_BOOT).ok().and_then(|it| Some(*it.last()? == 1)),
            lockdown: fs::read_to_string(LOCKDOWN).ok().as_deref().and_then(chosen),
            dm_verity: uuid.is_some_and(|uuid| uuid.starts_with("CRYPT-VERITY-")),
            fs_verity: attributes
                .is_ok_and(|it| it.stx_attributes.contains(StatxAttributes::VERITY)),
        }
    }

    /// The text for operators.
    pub(super) fn text(&self) -> String {
        let state = |on: Option<bool>| match on {
            Some(true) => "on",
            Some(false) => "off",
            None => "unknown",
        };
        let mut text = String::from(
            "Below Rosemary, which checks its own files only (`verify` in [start]), the system protects:\n",
        );
        let lockdown = self.lockdown.as_deref().unwrap_or("unknown");
        let verity = match (self.dm_verity, self.fs_verity) {
            (true, _) => "dm-verity",
            (false, true) => "fs-verity",
            (false, false) => "no",
        };
        for (state, what) in [
            (state(self.secure_boot), "the boot loader and the kernel of the system (Secure Boot)"),
            (lockdown, "this kernel from root (lockdown)"),
            (verity, "the files of Rosemary's programs (dm-verity of the device, or fs-verity)"),
        ] {
            let _ = writeln!(text, "  {state:<11} {what}"); // writing to a String cannot fail
        }
        text
    }
}

/// The word in brackets.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_level_of_lockdown_is_in_brackets() {
        assert_eq!(chosen("none [integrity] confidentiality\n").as_deref(), Some("integrity"));
        assert_eq!(chosen("none integrity\n"), None);
    }

    #[test]
    fn text_names_each_means() {
        let mut below = Below {
            secure_boot: Some(true),
            lockdown: Some("integrity".into()),
            dm_verity: false,
            fs_verity: true,
        };
        let text = below.text();
        for line in ["on          the boot", "integrity   this", "fs-verity   the files"] {
            assert!(text.contains(&format!("  {line}")), "{text}");
        }
        (below.secure_boot, below.fs_verity) = (None, false);
        assert!(
            below.text().contains("unknown     the boot") && below.text().contains("no          ")
        );
    }

    #[test]
    fn file_without_verity_is_reported_so() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        fs::write(&file, "program").unwrap();
        assert!(!Below::find(&file).fs_verity);
        assert!(!Below::find(Path::new("/nowhere")).dm_verity);
    }
}
