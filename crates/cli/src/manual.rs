//! Writes the manual pages: one per command from its help, and `rosemary.toml(5)` from `docs/configuration.md`.
//!
//! The documentation uses headings, paragraphs, lists, tables and fenced code of Markdown. [`roff`] turns these into the macros
//! of man(7); a row of a table becomes a tagged paragraph.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use clap::Command;

/// The documentation of the configuration.
const CONFIGURATION: &str = include_str!("../../../docs/configuration.md");

/// Writes all pages to `dir`, which is created if necessary.
///
/// # Errors
/// A file cannot be written.
pub fn write(command: Command, dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(command, dir))
        .and_then(|()| fs::write(dir.join("rosemary.toml.5"), configuration()))
        .with_context(|| format!("cannot write the manual to {}", dir.display()))
}

/// Returns the page `rosemary.toml(5)`.
fn configuration() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        ".TH rosemary.toml 5 \"\" \"rosemary {version}\"\n.SH NAME\nrosemary.toml \\- the configuration of \
         Rosemary\n.SH DESCRIPTION\n{}.SH SEE ALSO\n.BR rosemary\\-up (1),\n.BR rosemary (1)\n",
        roff(CONFIGURATION)
    )
}

/// Converts Markdown to macros of man(7). The first heading is left out, as a manual page has a title of its own.
fn roff(markdown: &str) -> String {
    let mut page = String::new();
    let mut lines = markdown.lines().peekable();
    let mut begins = true; // a paragraph begins with the next line of text
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with("# ") {
            begins = true;
        } else if let Some(title) = line.strip_prefix("## ") {
            page += &heading(".SH", title);
        } else if let Some(title) = line.strip_prefix("### ") {
            page += &heading(".SS", title);
        } else if line.starts_with("```") {
            page += ".PP\n.RS 4\n.nf\n";
            for line in lines.by_ref().take_while(|line| !line.starts_with("```")) {
                page += &text_line(&escaped(line));
            }
            page += ".fi\n.RE\n";
        } else if line.starts_with('|') {
            let head = cells(line);
            lines.next_if(|line| line.starts_with("| ---"));
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                page += &tagged(&head, &cells(row));
            }
        } else if let Some(item) = line.strip_prefix("* ") {
            page += ".IP \\(bu 2\n";
            page += &text_line(&inline(item));
            begins = false;
        } else {
            if begins {
                page += ".PP\n";
            }
            page += &text_line(&inline(line.trim_start()));
            begins = false;
        }
    }
    page
}

fn heading(request: &str, title: &str) -> String {
    format!("{request} \"{}\"\n", inline(title))
}

/// Returns the cells of a row of a table.
fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split(" | ").map(str::trim).collect()
}

/// Formats a row: the first cell is the tag, the second the text, and the others follow behind their headings.
fn tagged(head: &[&str], row: &[&str]) -> String {
    let mut cells = head.iter().zip(row);
    let tag = cells.next().map_or_else(String::new, |(_, cell)| inline(cell));
    let mut text = format!(".TP\n{}", text_line(&tag));
    for (i, (head, cell)) in cells.enumerate() {
        if cell.is_empty() {
            continue;
        }
        if i > 0 {
            text += ".br\n";
            text += &text_line(&format!("\\fI{}\\fR: {}", escaped(head), inline(cell)));
        } else {
            text += &text_line(&inline(cell));
        }
    }
    text
}

/// Returns a line that roff cannot take for a request.
fn text_line(text: &str) -> String {
    let guard = if text.starts_with(['.', '\'']) { "\\&" } else { "" };
    format!("{guard}{text}\n")
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// Converts code, emphasis and links within a line.
fn inline(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '[', '*']) {
        let (plain, special) = rest.split_at(at);
        out += &escaped(plain);
        let (marked, after) = if let Some((code, after)) = between(special, "`", "`") {
            (format!("\\fB{}\\fR", escaped(code)), after)
        } else if let Some((link, after)) = link(special) {
            (inline(link), after)
        } else if let Some((word, after)) = between(special, "*", "*") {
            (format!("\\fI{}\\fR", escaped(word)), after)
        } else {
            (special[..1].to_owned(), &special[1..])
        };
        out += &marked;
        rest = after;
    }
    out + &escaped(rest)
}

/// Returns the text of a link `[TEXT](TARGET)` at the beginning of `text`, and what follows.
fn link(text: &str) -> Option<(&str, &str)> {
    let (label, after) = text.strip_prefix('[')?.split_once("](")?;
    let (_, after) = after.split_once(')')?;
    (!label.contains('[')).then_some((label, after))
}

/// Returns the text between two marks at the beginning of `text`, and what follows.
fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<(&'a str, &'a str)> {
    text.strip_prefix(open)?.split_once(close).filter(|(inner, _)| !inner.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_macros() {
        let markdown = "# Title\n\nSee [`a.md`](a.md) and *this*,\nnot [[x]].\n\n## `[a]`\n\n* one\n  more\n\n\
                        | key | value | default |\n| --- | --- | --- |\n| `a-b` | a `\"x\"` | none |\n\n\
                        ```toml\n.x = \"\\n\"\n```\n";
        assert_eq!(
            roff(markdown),
            ".PP\nSee \\fBa.md\\fR and \\fIthis\\fR,\nnot [[x]].\n.SH \"\\fB[a]\\fR\"\n.IP \\(bu 2\none\nmore\n\
             .TP\n\\fBa\\-b\\fR\na \\fB\"x\"\\fR\n.br\n\\fIdefault\\fR: none\n\
             .PP\n.RS 4\n.nf\n\\&.x = \"\\en\"\n.fi\n.RE\n"
        );
    }

    #[test]
    fn manual_of_the_configuration_has_every_key() {
        let page = configuration();
        for key in
            config::CONTROLLER_KEYS.iter().chain(&config::APP_KEYS).chain(&config::LIMITS_KEYS)
        {
            let tag = format!("\\fB{}\\fR", key.replace('-', "\\-"));
            assert!(page.contains(&tag), "{key}");
        }
        assert!(page.lines().all(|line| !line.starts_with('|')), "a table is left");
    }
}
