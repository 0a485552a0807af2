//! The demo's story, step by step, on standard output.

use std::env;
use std::io::{self, IsTerminal as _};

use crate::say;

/// What is told on standard output.
pub(super) struct Story {
    steps: u32,
    pub(super) failed: Vec<String>,
    colour: bool,
    /// What kept a line from being written.
    unwritten: Option<anyhow::Error>,
}

impl Story {
    pub(super) fn new() -> Self {
        let wanted = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let colour = wanted && io::stdout().is_terminal();
        Self { steps: 0, failed: Vec::new(), colour, unwritten: None }
    }

    pub(super) fn step(&mut self, title: &str) {
        self.steps += 1;
        let title = format!("{}. {title}", self.steps);
        self.tell(&format!("\n{}", self.paint("1", &title)));
    }

    pub(super) fn check(&mut self, ok: bool, text: impl Into<String>) {
        let text = text.into();
        let verdict = if ok { self.paint("32", "ok") } else { self.paint("31", "FAILED") };
        self.tell(&format!("   {verdict}  {text}"));
        if !ok {
            self.failed.push(text);
        }
    }

    pub(super) fn end(&mut self, text: &str) {
        self.tell(&format!("\n{}", self.paint("1", text)));
    }

    /// Something worth showing that nothing depends on.
    pub(super) fn note(&mut self, text: impl AsRef<str>) {
        self.tell(&format!("       {}", text.as_ref()));
    }

    pub(super) fn tell(&mut self, text: &str) {
        if self.unwritten.is_none() {
            self.unwritten = say::data(format_args!("{text}\n")).err();
        }
    }

    /// Whether all that was told could be written. Asked between the scenes: a demo that nobody can
    /// see need not go on.
    pub(super) fn written(&mut self) -> anyhow::Result<()> {
        self.unwritten.take().map_or(Ok(()), Err)
    }

    /// `text` in the terminal's style `code` (ECMA-48 §8.3.117).
    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
