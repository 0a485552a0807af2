//! Parses messages written as hexadecimal digits in lines of text.
//!
//! A line contains one or more consecutive messages. Blanks, commas, colons, braces and `0x` are
//! ignored, and `#` starts a comment. In a line with tab-separated columns, the last column counts.
//! A hexdump (`xxd`, `hexdump -C`, `tcpdump -x`, Wireshark), whose lines start with an offset, is
//! one item over several lines.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read as _};

/// Maximum size of a line: several 64 KiB messages in digits with blanks.
const MAX_LINE_SIZE: usize = 2 << 20;
/// Maximum size of a hexdump, in bytes.
const MAX_DUMP_SIZE: usize = 1 << 20;
/// Number of bytes in a line of a hexdump.
const DUMP_WIDTH: usize = 16;

/// The bytes of a line or a hexdump.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Number of its first line, from 1.
    pub(super) line: u64,
    /// The bytes, or why the line is invalid.
    pub(super) bytes: Result<Vec<u8>, String>,
}

/// Reads items from text.
#[derive(Debug)]
pub(super) struct Items<R> {
    from: R,
    line: u64,
    /// An unfinished hexdump and its first line.
    dump: Option<(u64, Vec<u8>)>,
    /// The item after a hexdump that has just ended.
    next: Option<Item>,
}

impl<R: BufRead> Items<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, line: 0, dump: None, next: None }
    }

    /// Returns the next item; `None` at the end.
    ///
    /// # Errors
    /// Reading failed.
    pub(super) fn next(&mut self) -> io::Result<Option<Item>> {
        if let Some(item) = self.next.take() {
            return Ok(Some(item));
        }
        loop {
            let read = read_line(&mut self.from)?;
            self.line += 1;
            let number = self.line;
            let line = match read {
                Line::Text(line) => line,
                Line::End => return Ok(self.end_dump()),
                Line::TooLong => {
                    let most = MAX_LINE_SIZE >> 20;
                    let bytes = Err(format!("the line is longer than {most} MiB"));
                    return Ok(Some(self.after_dump(Item { line: number, bytes })));
                }
            };
            let text = String::from_utf8_lossy(&line);
            let held = self.dump.as_ref().map(|(_, bytes)| bytes.len());
            match dump_line(&text) {
                Some((offset, bytes)) if held == Some(offset) && offset < MAX_DUMP_SIZE => {
                    if let Some((_, dump)) = &mut self.dump {
                        dump.extend(bytes);
                    }
                }
                Some((0, bytes)) => {
                    let before = self.end_dump();
                    self.dump = Some((number, bytes));
                    if before.is_some() {
                        return Ok(before);
                    }
                }
                _ => {
                    let end = usize::from_str_radix(text.trim(), 16).ok();
                    if held.is_some() && held == end {
                        return Ok(self.end_dump()); // hexdump writes the last offset alone
                    }
                    if let Some(bytes) = line_bytes(&text) {
                        return Ok(Some(self.after_dump(Item { line: number, bytes })));
                    }
                    if let Some(dump) = self.end_dump() {
                        return Ok(Some(dump));
                    }
                }
            }
        }
    }

    fn end_dump(&mut self) -> Option<Item> {
        let (line, bytes) = self.dump.take()?;
        Some(Item { line, bytes: Ok(bytes) })
    }

    /// Returns the pending hexdump, which this item ends, before the item.
    fn after_dump(&mut self, item: Item) -> Item {
        match self.end_dump() {
            Some(dump) => {
                self.next = Some(item);
                dump
            }
            None => item,
        }
    }
}

/// Whether a text with this beginning contains a line of hexadecimal digits.
pub(super) fn may_hold_messages(prefix: &[u8]) -> bool {
    let mut lines = prefix.split(|&byte| byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        let is_cut = lines.peek().is_none();
        let text = String::from_utf8_lossy(line);
        match dump_line(&text).map(|(_, bytes)| Ok(bytes)).or_else(|| line_bytes(&text)) {
            Some(Ok(_)) => return true,
            // The last line of the prefix may continue, so an odd number of digits is acceptable
            // there.
            Some(Err(_)) if is_cut && digits(last_column(&text)).is_ok() => return true,
            _ => {}
        }
    }
    false
}

/// A line without its line break.
enum Line {
    End,
    /// The line was skipped.
    TooLong,
    Text(Vec<u8>),
}

fn read_line(from: &mut impl BufRead) -> io::Result<Line> {
    let mut line = Vec::new();
    let most = MAX_LINE_SIZE as u64 + 1;
    if from.take(most).read_until(b'\n', &mut line)? == 0 {
        return Ok(Line::End);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > MAX_LINE_SIZE {
        loop {
            let available = from.fill_buf()?;
            let size = available.len();
            let end = available.iter().position(|&byte| byte == b'\n');
            from.consume(end.map_or(size, |end| end + 1));
            if end.is_some() || size == 0 {
                return Ok(Line::TooLong);
            }
        }
    }
    Ok(Line::Text(line))
}

/// Formats bytes as digits without separators.
pub(super) fn digits_of(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a string cannot fail
        text
    })
}

/// Parses a line; `None` if it is empty.
fn line_bytes(line: &str) -> Option<Result<Vec<u8>, String>> {
    let line = without_comment(line).trim();
    if line.is_empty() {
        return None;
    }
    // Tabs may also separate the digits of a single message.
    Some(bytes(line).or_else(|_| bytes(last_column(line))))
}

fn last_column(line: &str) -> &str {
    line.rsplit('\t').next().unwrap_or(line).trim()
}

fn without_comment(line: &str) -> &str {
    let begins =
        |(at, _): &(usize, &str)| line[..*at].chars().next_back().is_none_or(char::is_whitespace);
    line.match_indices('#').find(begins).map_or(line, |(at, _)| &line[..at])
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let digits = digits(text)?;
    if digits.len() % 2 != 0 {
        return Err(format!("{} hexadecimal digits; a byte has two", digits.len()));
    }
    Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Returns the values of the digits.
fn digits(text: &str) -> Result<Vec<u8>, String> {
    let mut digits = Vec::with_capacity(text.len());
    let is_separator = |c: char| c.is_whitespace() || matches!(c, ',' | ':' | ';' | '{' | '}');
    for word in text.split(is_separator) {
        let (word, is_number) = match word.strip_prefix("0x").or(word.strip_prefix("0X")) {
            Some(word) => (word, true),
            None => (word, false),
        };
        if is_number && word.len() == 1 {
            digits.push(0); // 0x4 stands for 0x04
        }
        for c in word.chars() {
            let digit = c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            digits.push(digit.ok_or_else(|| not_a_digit(text, c))?);
        }
    }
    if digits.is_empty() { Err("no hexadecimal digits".to_owned()) } else { Ok(digits) }
}

fn not_a_digit(text: &str, c: char) -> String {
    let start: String = text.chars().take(24).collect();
    let start = start.escape_default();
    format!("{c:?} is not a hexadecimal digit, in \"{start}...\"")
}

/// Parses offset and bytes of a hexdump line.
fn dump_line(line: &str) -> Option<(usize, Vec<u8>)> {
    let line = line.trim_start();
    let end = line
        .find(|c: char| !c.is_ascii_hexdigit())
        .filter(|end| (4..=8).contains(end))
        .or_else(|| {
            line.starts_with("0x").then(|| {
                // tcpdump -x: "\t0x0010:  0400 ..."
                2 + line[2..].find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(0)
            })
        })?;
    let (offset, rest) = line.split_at(end);
    let rest = match rest.strip_prefix(':') {
        Some(rest) => rest,
        None => rest.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?,
    };
    let offset = usize::from_str_radix(offset.trim_start_matches("0x"), 16).ok()?;
    let mut bytes = Vec::new();
    let mut rest = rest.trim_start_matches(' ');
    while bytes.len() < DUMP_WIDTH {
        let end = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() || word.len() % 2 != 0 || word.len() / 2 > DUMP_WIDTH - bytes.len() {
            break;
        }
        bytes.extend(self::bytes(word).ok()?);
        rest = after.trim_start_matches(' ');
        let blanks = after.len() - rest.len();
        // Two blanks separate the bytes from the characters, except those in the middle of the
        // bytes.
        if blanks != 1 && !(blanks == 2 && bytes.len() == DUMP_WIDTH / 2) {
            break;
        }
    }
    (!bytes.is_empty()).then_some((offset, bytes))
}

#[cfg(test)]
#[path = "hex/tests.rs"]
mod tests;
