//! Prints the demo's transcript to standard output.

use std::env;
use std::io::{self, IsTerminal as _};

use crate::say;

/// The transcript of the demo.
pub(super) struct Transcript {
    steps: u32,
    pub(super) failed: Vec<String>,
    colour: bool,
    /// The first error of writing.
    unwritten: Option<anyhow::Error>,
}

impl Transcript {
    pub(super) fn new() -> Self {
        let wanted = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let colour = wanted && io::stdout().is_terminal();
        Self { steps: 0, failed: Vec::new(), colour, unwritten: None }
    }

    pub(super) fn step(&mut self, title: &str) {
        self.steps += 1;
        let title = format!("{}. {title}", self.steps);
        self.print(&format!("\n{}", self.paint("1", &title)));
    }

    pub(super) fn check(&mut self, ok: bool, text: impl Into<String>) {
        let text = text.into();
        let verdict = if ok { self.paint("32", "ok") } else { self.paint("31", "FAILED") };
        self.print(&format!("   {verdict}  {text}"));
        if !ok {
            self.failed.push(text);
        }
    }

    pub(super) fn end(&mut self, text: &str) {
        self.print(&format!("\n{}", self.paint("1", text)));
    }

    /// Prints additional information.
    pub(super) fn note(&mut self, text: impl AsRef<str>) {
        self.print(&format!("       {}", text.as_ref()));
    }

    pub(super) fn print(&mut self, text: &str) {
        if self.unwritten.is_none() {
            self.unwritten = say::data(format_args!("{text}\n")).err();
        }
    }

    /// Returns the first error of writing. Called between the scenes, because a demo without a
    /// reader need not continue.
    pub(super) fn written(&mut self) -> anyhow::Result<()> {
        self.unwritten.take().map_or(Ok(()), Err)
    }

    /// Wraps `text` in the terminal style `code` (ECMA-48 §8.3.117).
    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
