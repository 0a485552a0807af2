//! Queues lines for a thread that writes them, so that only this thread blocks on their reader.

use std::collections::VecDeque;
use std::io::{self, Stderr, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

/// Most bytes of queued lines.
const MAX_SIZE: usize = 1 << 20;

/// A bounded queue of lines, with the thread that writes them.
#[derive(Debug)]
pub(super) struct Queue(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<QueueState>,
    /// Signalled when a line was added.
    filled: Condvar,
    /// Signalled when all lines have been written.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    lines: VecDeque<Vec<u8>>,
    /// Bytes of the queued lines and of the line that is being written.
    bytes: usize,
    /// Lines that were dropped since the last added one.
    lost: u64,
    writing: bool,
}

impl Queue {
    /// Starts the thread, which writes to `out` until the process ends.
    ///
    /// # Panics
    /// If the system is out of threads.
    pub(super) fn start(out: impl Write + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("log".into())
            .spawn(move || theirs.serve(out))
            .expect("the system has room for a second thread");
        Self(shared)
    }

    /// Adds a line, or drops and counts it if the queue is full. Never blocks on the writer.
    pub(super) fn push(&self, line: &[u8]) {
        self.0.lock().push(line);
        self.0.filled.notify_one();
    }

    /// Waits until all lines are written, for at most `most`.
    pub(super) fn flush(&self, most: Duration) {
        let until = Instant::now() + most;
        let mut state = self.0.lock();
        while state.writing || !state.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.emptied.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Write for &Queue {
    /// Adds a line: tracing writes one whole line at a time.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl QueueState {
    fn push(&mut self, line: &[u8]) {
        if self.bytes + line.len() > MAX_SIZE {
            self.lost += 1;
            return;
        }
        self.push_lost();
        self.bytes += line.len();
        self.lines.push_back(line.to_vec());
    }

    /// Adds a line with the number of dropped lines, if there are any.
    fn push_lost(&mut self) {
        if self.lost > 0 {
            let note = super::lost(std::mem::take(&mut self.lost)).into_bytes();
            self.bytes += note.len();
            self.lines.push_back(note);
        }
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.lost == 0
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut out: impl Write) {
        let mut state = self.lock();
        loop {
            if state.lines.is_empty() {
                state.push_lost();
            }
            let Some(line) = state.lines.pop_front() else {
                self.emptied.notify_all();
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.writing = true;
            drop(state);
            let _ = out.write_all(&line); // fails if the reader has closed its end, which loses the line
            state = self.lock();
            state.writing = false;
            state.bytes -= line.len();
        }
    }
}

/// Standard error that blocks even if another program has made it non-blocking.
pub(super) struct Patient(pub(super) Stderr);

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], None)?;
                }
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A writer that completes a write only when the test allows it.
    struct Slow {
        may: Receiver<()>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.may.recv();
            let _ = self.written.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn stopped_reader_blocks_no_writer() {
        let (go, may) = channel();
        let (written, lines) = channel();
        let queue = Queue::start(Slow { may, written });
        let line = [b'x'; 1024];
        for _ in 0..2_000 {
            queue.push(&line);
        }
        queue.flush(Duration::from_millis(20));
        drop(go); // from now on every write completes
        queue.flush(Duration::from_secs(60));
        queue.push(b"next\n");
        queue.flush(Duration::from_secs(60));
        let lines: Vec<Vec<u8>> = lines.try_iter().collect();
        assert_eq!(lines.len(), 1024 + 2);
        assert_eq!(lines[1024], super::super::lost(2_000 - 1024).into_bytes());
        assert_eq!(lines[1025], b"next\n");
    }
}
