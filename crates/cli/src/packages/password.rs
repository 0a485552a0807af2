//! Reads the password of a secret key from the terminal, or from the first line of a file.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use zeroize::Zeroizing;
use zxcvbn::feedback::Feedback;
use zxcvbn::{Score, zxcvbn};

/// The least strength of a new password: with the slow hash of a key file or a backup, guessing it takes years.
const LEAST_SCORE: Score = Score::Three;

/// Maximum size of a password, in bytes.
const MAX_SIZE: u64 = 1024;

/// Source of the password.
#[derive(Debug, Clone, Default, Args)]
pub struct PasswordArgs {
    /// File whose first line is the password, - for standard input [default: prompt]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

impl PasswordArgs {
    /// Reads the password of an existing key.
    ///
    /// # Errors
    /// It is empty or cannot be read.
    pub(super) fn get(&self, key: &Path) -> anyhow::Result<Zeroizing<String>> {
        match &self.password_file {
            Some(file) => first_line(file),
            None => ask(&format!("Password of {}: ", key.display())),
        }
    }

    /// Reads the password of a new key; a prompt asks for it twice.
    ///
    /// # Errors
    /// It is empty, weak or cannot be read, or the two inputs differ.
    pub(super) fn get_new(&self) -> anyhow::Result<Zeroizing<String>> {
        if let Some(file) = &self.password_file {
            let password = first_line(file)?;
            check_strength(&password, "key")?;
            return Ok(password);
        }
        let password = ask("Password for the new key: ")?;
        check_strength(&password, "key")?; // before the second prompt
        if ask("The same again: ")? != password {
            bail!("the passwords differ; no key was created");
        }
        Ok(password)
    }

    /// Reads the password of an existing backup.
    ///
    /// # Errors
    /// It is empty or cannot be read.
    pub(crate) fn of_backup(&self, backup: &Path) -> anyhow::Result<Zeroizing<String>> {
        self.get(backup)
    }

    /// Reads the password of a new backup; a prompt asks for it twice.
    ///
    /// # Errors
    /// It is empty, weak or cannot be read, or the two inputs differ.
    pub(crate) fn of_new_backup(&self) -> anyhow::Result<Zeroizing<String>> {
        let password = match &self.password_file {
            Some(file) => first_line(file)?,
            None => ask("Password for the backup: ")?,
        };
        check_strength(&password, "backup")?;
        if self.password_file.is_none() && ask("The same again: ")? != password {
            bail!("the passwords differ; no backup was made");
        }
        Ok(password)
    }
}

/// Refuses a password that can be guessed by whoever has the file of the `kind`.
fn check_strength(password: &str, kind: &str) -> anyhow::Result<()> {
    let strength = zxcvbn(password, &["rosemary", "minisign", "developer"]);
    if strength.score() >= LEAST_SCORE {
        return Ok(());
    }
    let feedback = strength.feedback();
    let warning = feedback.and_then(Feedback::warning).map(|it| it.to_string()).unwrap_or_default();
    let reason = warning.trim_end_matches('.');
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    bail!(
        "the password is weak{reason}: whoever gets the {kind} file could guess it; choose a longer one, such as five unrelated \
         words. No {kind} was created"
    )
}

fn ask(prompt: &str) -> anyhow::Result<Zeroizing<String>> {
    let password = rpassword::prompt_password(prompt);
    let password =
        password.context("cannot prompt for a password here; name a file with --password-file")?;
    not_empty(Zeroizing::new(password))
}

fn first_line(file: &Path) -> anyhow::Result<Zeroizing<String>> {
    let read = |from: &mut dyn io::Read| {
        let mut text = Zeroizing::new(String::new());
        from.take(MAX_SIZE).read_to_string(&mut text).map(|_| text)
    };
    let text = if file == Path::new("-") {
        read(&mut io::stdin())
    } else {
        std::fs::File::open(file).and_then(|mut file| read(&mut file))
    };
    let text = text.with_context(|| format!("cannot read the password in {}", file.display()))?;
    not_empty(Zeroizing::new(text.lines().next().unwrap_or_default().to_owned()))
}

fn not_empty(password: Zeroizing<String>) -> anyhow::Result<Zeroizing<String>> {
    if password.is_empty() {
        bail!("the password is empty; without one, anyone who finds the file could use it");
    }
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_the_first_line_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        let args = PasswordArgs { password_file: Some(file.clone()) };
        let get = |text: &str| {
            std::fs::write(&file, text).unwrap();
            args.get_new().map(|it| it.to_string()).map_err(|error| error.to_string())
        };
        let strong = "mauve otter lights nine lamps";
        assert_eq!(get(&format!("{strong}\nmore\n")).as_deref(), Ok(strong));
        assert!(get("\nmore\n").unwrap_err().contains("is empty"));
    }
    #[test]
    fn weak_password_is_refused_for_a_new_key_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        let args = PasswordArgs { password_file: Some(file.clone()) };
        for weak in ["a password", "12345678", "rosemary", "password123", "qwertyuiop"] {
            std::fs::write(&file, weak).unwrap();
            let error = args.get_new().unwrap_err().to_string();
            assert!(error.contains("is weak") && error.contains("longer"), "{error}");
            assert!(!error.contains(weak), "{error}");
            assert_eq!(*args.get(&dir.path().join("key")).unwrap(), weak);
        }
    }
}
