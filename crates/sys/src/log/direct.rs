//! Writes to a non-blocking standard error, and drops and counts lines for which it has no room.
//!
//! The monitor's children have a non-blocking pipe as standard error. It takes a line of up to 4096 bytes completely or
//! not at all, pipe(7). If a person started the program, standard error is usually something else, and writes block.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

/// The process's standard error.
#[derive(Debug)]
pub(super) struct Direct;

static STATE: Mutex<DirectState> = Mutex::new(DirectState { lost: 0, cut: false });

#[derive(Debug)]
struct DirectState {
    /// Lines that were dropped since the last written one.
    lost: u64,
    /// Whether the last line was written only in part.
    cut: bool,
}

impl io::Write for Direct {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        state.write(rustix::stdio::stderr(), line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DirectState {
    /// Writes a line, or drops and counts it.
    fn write(&mut self, to: impl AsFd, line: &[u8]) {
        let mut note = String::new();
        if self.cut {
            note.push('\n');
        }
        if self.lost > 0 {
            note += &super::lost(self.lost);
        }
        if !note.is_empty() {
            match write(&to, note.as_bytes()) {
                Some(0) => return self.lost += 1,
                _ => *self = Self { lost: 0, cut: false },
            }
        }
        match write(&to, line) {
            Some(0) => self.lost += 1,
            Some(written) if written < line.len() => (self.lost, self.cut) = (1, true),
            _ => {}
        }
    }
}

/// The number of bytes written; `None` if the reader has closed its end.
fn write(to: impl AsFd, bytes: &[u8]) -> Option<usize> {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match rustix::io::write(&to, rest) {
            Ok(more) => written += more,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(_) => return None,
        }
    }
    Some(written)
}

#[cfg(test)]
mod tests {
    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    fn read(from: impl AsFd) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 20];
        let size = rustix::io::read(from, &mut bytes).unwrap();
        bytes.truncate(size);
        bytes
    }

    #[test]
    fn dropped_lines_are_counted_and_stated() {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let mut state = DirectState { lost: 0, cut: false };
        let line = [[b'x'; 99].as_slice(), b"\n"].concat();
        for _ in 0..1_000 {
            state.write(&writer, &line);
        }
        let mut text = String::from_utf8(read(&reader)).unwrap();
        state.write(&writer, b"next\n");
        text += &String::from_utf8(read(&reader)).unwrap();
        // A note is shorter than a line here, so it may find room where a line does not.
        let (lines, notes): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with('x'));
        let lost =
            notes.iter().filter_map(|note| note.split(['(', ' ']).nth(1)?.parse::<usize>().ok());
        assert_eq!(lines.len() + lost.sum::<usize>(), 1_000);
        assert!(!lines.is_empty() && notes.len() >= 2 && text.ends_with("\nnext\n"), "{notes:?}");
    }

    #[test]
    fn cut_line_ends_before_the_next() {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let mut state = DirectState { lost: 0, cut: false };
        state.write(&writer, &vec![b'x'; 1 << 20]);
        let written = read(&reader);
        assert!(!written.is_empty() && written.len() < 1 << 20);
        state.write(&writer, b"next\n");
        let rest = String::from_utf8(read(&reader)).unwrap();
        assert_eq!(rest, format!("\n{}next\n", super::super::lost(1)));
    }

    #[test]
    fn closed_reader_loses_lines_silently() {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        drop(reader);
        let mut state = DirectState { lost: 0, cut: false };
        state.write(&writer, b"line\n");
        assert_eq!(state.lost, 0);
    }
}
