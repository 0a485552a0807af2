//! Shared parts of the experiments: options, progress, charts, and the verdict on the claim.

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Termination};

use anyhow::{Context as _, bail};
use cli::lab;
use ofbench::figure::Figure;

use crate::os_ken;

/// The text of a table for what was left out.
pub const NOT_MEASURED: &str = "not measured";

/// The options of an experiment.
#[derive(Debug)]
pub struct Experiment {
    charts: PathBuf,
    /// Whether other controllers are left out.
    only_rosemary: bool,
}

impl Experiment {
    /// Reads the options and checks that these programs are installed, before the experiment begins.
    ///
    /// Charts go to `target/experiments/NAME`; with `--save` they replace those of `experiments/NAME`. `--only rosemary` leaves
    /// out other controllers, which need a network for their installation.
    ///
    /// # Errors
    /// Another option, or [`LabError::Missing`](lab::LabError::Missing), which names the Debian
    /// packages.
    pub fn new(name: &str, programs: &[&'static str]) -> anyhow::Result<Self> {
        let experiment = Self::with_options(name, env::args_os().skip(1))?;
        lab::require(programs)?;
        Ok(experiment)
    }

    fn with_options(
        name: &str,
        options: impl IntoIterator<Item = OsString>,
    ) -> anyhow::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut charts = root.join("target/experiments").join(name);
        let mut only_rosemary = false;
        let mut options = options.into_iter();
        while let Some(option) = options.next() {
            match option.to_str() {
                Some("--save") => charts = root.join("experiments").join(name),
                Some("--only") if options.next().is_some_and(|it| it == "rosemary") => {
                    only_rosemary = true;
                }
                Some("--only") => bail!("--only is for one controller: --only rosemary"),
                _ => bail!(
                    "unknown option {}; --save replaces the charts of experiments/{name}, --only rosemary leaves out other \
                     controllers",
                    option.display()
                ),
            }
        }
        Ok(Self { charts, only_rosemary })
    }

    /// Whether other controllers are left out.
    pub fn only_rosemary(&self) -> bool {
        self.only_rosemary
    }

    /// Returns the program that runs os-ken's apps, as [`os_ken::install`]; `None` if other controllers are left out.
    ///
    /// # Errors
    /// The installation failed.
    pub fn os_ken(&self) -> anyhow::Result<Option<PathBuf>> {
        if self.only_rosemary {
            return Ok(None);
        }
        let program = os_ken::install();
        program.map(Some).context("os-ken cannot be compared; --only rosemary leaves it out")
    }

    /// Writes a chart and reports its path.
    ///
    /// # Errors
    /// The file or its directory cannot be written.
    pub fn draw(&self, file: &str, figure: &Figure) -> anyhow::Result<()> {
        fs::create_dir_all(&self.charts)
            .with_context(|| format!("cannot make {}", self.charts.display()))?;
        let path = self.charts.join(file);
        figure.write(&path).with_context(|| format!("cannot write {}", path.display()))?;
        note(format_args!("wrote {}", path.canonicalize().unwrap_or(path).display()));
        Ok(())
    }
}

/// Collects the parts of an experiment's claim that do not hold.
///
/// Every experiment ends with the line that [`Verdict::line`] returns; those in Python do so with `verdict` of
/// `experiments/measure.py`.
#[derive(Debug, Default)]
pub struct Verdict {
    broken: Vec<String>,
}

impl Verdict {
    /// Notes `otherwise` if a part of the claim does not hold.
    pub fn require(&mut self, holds: bool, otherwise: impl Display) {
        if !holds {
            self.broken.push(otherwise.to_string());
        }
    }

    /// Returns the last line of the experiment's output: `holds`, or what does not hold.
    #[must_use]
    pub fn line(&self) -> String {
        if self.broken.is_empty() {
            "holds\n".to_owned()
        } else {
            format!("does not hold: {}\n", self.broken.join("; "))
        }
    }
}

/// Reports progress on standard error; standard output has the result.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Returns the exit code of a program, and reports its error in one line on standard error. The error of a `main` that returns it
/// would have a backtrace.
pub fn finished<T: Termination>(outcome: anyhow::Result<T>) -> ExitCode {
    match outcome {
        Ok(done) => done.report(),
        Err(error) => {
            note(in_one_line(&error));
            ExitCode::FAILURE
        }
    }
}

fn in_one_line(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_names_each_part_that_does_not_hold() {
        let mut verdict = Verdict::default();
        verdict.require(true, "a");
        assert_eq!(verdict.line(), "holds\n");
        verdict.require(false, format_args!("{} of 2", 1));
        verdict.require(false, "c");
        assert_eq!(verdict.line(), "does not hold: 1 of 2; c\n");
    }

    #[test]
    fn error_is_one_line_without_a_backtrace() {
        let error = anyhow::anyhow!("no such file").context("cannot read x");
        assert_eq!(in_one_line(&error), "cannot read x: no such file");
    }

    #[test]
    fn tracked_charts_are_replaced_with_save_only() {
        let charts = |options: &[&str]| {
            let options = options.iter().map(OsString::from);
            Experiment::with_options("fig", options).map(|it| it.charts)
        };
        assert!(charts(&[]).unwrap().ends_with("target/experiments/fig"));
        let saved = charts(&["--save"]).unwrap();
        assert!(saved.ends_with("experiments/fig") && !saved.ends_with("target/experiments/fig"));
        let only = |options: &[&str]| {
            let options = options.iter().map(OsString::from);
            Experiment::with_options("fig", options).map(|it| it.only_rosemary())
        };
        assert!(only(&["--only", "rosemary", "--save"]).unwrap() && !only(&["--save"]).unwrap());
        assert!(only(&["--only"]).is_err() && only(&["--only", "os-ken"]).is_err());
        let error = charts(&["--sav"]).unwrap_err().to_string();
        assert!(error.contains("--sav;") && error.contains("--save replaces"), "{error}");
    }
}
