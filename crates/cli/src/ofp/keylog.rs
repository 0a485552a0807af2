//! Decrypts the TLS connections of a capture with the secrets of a key log, by tshark.
//!
//! tshark prints the plaintext of each TLS record with time and addresses, one packet per line. [`Plaintext`] turns the lines into a
//! pcap file of TCP packets, so the reader of captures needs to know nothing of TLS.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use thiserror::Error;

/// The ports that switches connect to; TLS on others is recognised by its first bytes.
const PORTS: [u16; 2] = [6653, 6633];

/// Columns of tshark's output.
const FIELDS: [&str; 8] = [
    "frame.time_epoch",
    "ip.src",
    "ipv6.src",
    "tcp.srcport",
    "ip.dst",
    "ipv6.dst",
    "tcp.dstport",
    "data.data",
];

/// Most bytes of a line: a packet with many records.
const LONGEST_LINE: u64 = 16 << 20;

/// Most directions of connections whose sequence numbers are kept.
const MOST_DIRECTIONS: usize = 1 << 17;

/// Most bytes of tshark's errors that are kept.
const MOST_ERRORS: u64 = 4096;

/// Bytes of plaintext per packet.
const CHUNK: usize = 32 << 10;

/// The header of a pcap file in nanoseconds: format 2.4, packets of up to 256 KiB that begin with IP.
const HEADER: [u32; 6] = [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 256 << 10, 101];

/// Why a capture cannot be decrypted.
#[derive(Debug, Error)]
pub(super) enum KeylogError {
    #[error("cannot open the key log {path}: {error}", path = .path.display())]
    Open { path: PathBuf, error: io::Error },
    #[error("--keylog needs tshark, which is not installed; type: apt-get install tshark")]
    NoTshark,
    #[error("cannot execute tshark: {0}")]
    Execute(io::Error),
}

/// A pcap file with the plaintext of the connections whose secrets are known.
pub(super) struct Plaintext {
    child: Child,
    lines: BufReader<ChildStdout>,
    errors: Option<JoinHandle<String>>,
    /// Bytes of the file that were not read yet, from `at` on.
    ready: Vec<u8>,
    at: usize,
    /// The next sequence number of each direction.
    sequences: HashMap<(SocketAddr, SocketAddr), u32>,
    /// Number of packets with plaintext.
    packets: u64,
}

impl Plaintext {
    /// Has tshark decrypt a capture, which is standard input if `capture` is `-`. TLS is expected at `ports`, too.
    ///
    /// # Errors
    /// [`KeylogError`]. Mistakes of the capture are errors of reading.
    pub(super) fn of(capture: &Path, keys: &Path, ports: &[u16]) -> Result<Self, KeylogError> {
        // tshark does not report an unreadable key log.
        File::open(keys).map_err(|error| KeylogError::Open { path: keys.into(), error })?;
        let mut option = std::ffi::OsString::from("tls.keylog_file:");
        option.push(keys);
        let mut command = Command::new("tshark");
        // Without its own decoder of OpenFlow, tshark prints the plaintext as data.
        command.args(["-n", "-l", "-Y", "tls.app_data", "--disable-protocol", "openflow"]);
        command.arg("-r").arg(capture).arg("-o").arg(option);
        for port in PORTS.iter().chain(ports) {
            command.arg("-d").arg(format!("tcp.port=={port},tls"));
        }
        command.args(["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a"]);
        command.args(FIELDS.iter().flat_map(|field| ["-e", field]));
        command.stdin(Stdio::inherit()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => KeylogError::NoTshark,
            _ => KeylogError::Execute(error),
        })?;
        let missing = || KeylogError::Execute(io::ErrorKind::BrokenPipe.into());
        let lines = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        let errors = child.stderr.take().ok_or_else(missing)?;
        let errors = std::thread::spawn(move || beginning(errors));
        let ready = HEADER.iter().flat_map(|it| it.to_le_bytes()).collect();
        let sequences = HashMap::new();
        Ok(Self { child, lines, errors: Some(errors), ready, at: 0, sequences, packets: 0 })
    }

    /// Reads the next line and makes packets of it. Returns whether there was one.
    fn advance(&mut self) -> io::Result<bool> {
        let mut line = Vec::new();
        (&mut self.lines).take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return self.end().map(|()| false);
        }
        let text = std::str::from_utf8(&line).ok().and_then(|it| it.strip_suffix('\n'));
        let record = text.and_then(Record::of).ok_or_else(|| {
            io::Error::other("tshark printed a line of unknown form; is it older than version 3?")
        })?;
        self.ready.clear();
        self.at = 0;
        self.append(&record)?;
        Ok(true)
    }

    fn append(&mut self, record: &Record) -> io::Result<()> {
        let direction = (record.from, record.to);
        let is_new = !self.sequences.contains_key(&direction);
        if is_new && self.sequences.len() >= MOST_DIRECTIONS {
            return Err(io::Error::other(
                "the capture has too many connections; divide it with editcap",
            ));
        }
        let sequence = self.sequences.entry(direction).or_insert(1);
        if is_new {
            self.ready.extend(packet(record, 0, SYN, &[]));
        }
        for chunk in record.plaintext.chunks(CHUNK) {
            self.ready.extend(packet(record, *sequence, ACK, chunk));
            *sequence = sequence.wrapping_add(u32::try_from(chunk.len()).unwrap_or(0));
            self.packets += 1;
        }
        Ok(())
    }

    /// Checks how tshark has ended.
    fn end(&mut self) -> io::Result<()> {
        let status = self.child.wait()?;
        let errors = self.errors.take().and_then(|it| it.join().ok()).unwrap_or_default();
        if !status.success() {
            return Err(io::Error::other(format!("tshark failed ({status}): {}", errors.trim())));
        }
        if self.packets == 0 {
            return Err(io::Error::other(
                "tshark decrypted nothing: the key log must have the secrets of these connections, the capture the beginning of each, \
                 and TLS must be at port 6653 or 6633 (--port adds others)",
            ));
        }
        Ok(())
    }
}

impl Read for Plaintext {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.ready.len() {
            if self.errors.is_none() || !self.advance()? {
                return Ok(0);
            }
        }
        let size = out.len().min(self.ready.len() - self.at);
        out[..size].copy_from_slice(&self.ready[self.at..self.at + size]);
        self.at += size;
        Ok(size)
    }
}

impl Drop for Plaintext {
    fn drop(&mut self) {
        // tshark may still run if the reader stopped early.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the beginning of an output, and reads the rest, so that its writer never waits.
fn beginning(mut output: impl Read) -> String {
    let mut text = Vec::new();
    let _ = (&mut output).take(MOST_ERRORS).read_to_end(&mut text);
    let _ = io::copy(&mut output, &mut io::sink());
    String::from_utf8_lossy(&text).into_owned()
}

/// The plaintext of one packet.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    seconds: u32,
    nanoseconds: u32,
    from: SocketAddr,
    to: SocketAddr,
    plaintext: Vec<u8>,
}

impl Record {
    /// Reads a line of tshark; `None` if it has another form. A packet without plaintext has an empty last column.
    fn of(line: &str) -> Option<Self> {
        let columns: Vec<&str> = line.split('\t').collect();
        let [time, from_4, from_6, from_port, to_4, to_6, to_port, data] = columns[..] else {
            return None;
        };
        let (seconds, fraction) = time.split_once('.')?;
        let address = |v4: &str, v6: &str, port: &str| {
            let ip: IpAddr = if v4.is_empty() { v6 } else { v4 }.parse().ok()?;
            Some(SocketAddr::new(ip, port.parse().ok()?))
        };
        let digit = |it: u8| char::from(it).to_digit(16).and_then(|it| u8::try_from(it).ok());
        let digits: Vec<u8> =
            data.bytes().filter(|it| *it != b',').map(digit).collect::<Option<_>>()?;
        let pairs = digits.chunks_exact(2);
        if !pairs.remainder().is_empty() {
            return None;
        }
        Some(Self {
            seconds: seconds.parse().ok()?,
            nanoseconds: format!("{fraction:0<9}").get(..9)?.parse().ok()?,
            from: address(from_4, from_6, from_port)?,
            to: address(to_4, to_6, to_port)?,
            plaintext: pairs.map(|pair| pair[0] << 4 | pair[1]).collect(),
        })
    }
}

/// Flags of TCP.
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// Returns a packet of a pcap file, with its header: IP, TCP without options, no checksums.
fn packet(record: &Record, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut tcp = Vec::with_capacity(20 + payload.len());
    tcp.extend(record.from.port().to_be_bytes());
    tcp.extend(record.to.port().to_be_bytes());
    tcp.extend(sequence.to_be_bytes());
    tcp.extend([0, 0, 0, 0, 5 << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend_from_slice(payload);
    let size = |more: usize| u16::try_from(tcp.len() + more).unwrap_or(u16::MAX);
    let ip = match (record.from.ip(), record.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let [high, low] = size(20).to_be_bytes();
            let head = [0x45, 0, high, low, 0, 0, 0, 0, 64, 6, 0, 0];
            [&head[..], &from.octets(), &to.octets()].concat()
        }
        (from, to) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            let [high, low] = size(0).to_be_bytes();
            [&[0x60, 0, 0, 0, high, low, 6, 64][..], &octets(from), &octets(to)].concat()
        }
    };
    let whole = u32::try_from(ip.len() + tcp.len()).unwrap_or(u32::MAX);
    let head = [record.seconds, record.nanoseconds, whole, whole];
    let mut bytes: Vec<u8> = head.iter().flat_map(|it| it.to_le_bytes()).collect();
    bytes.extend(ip);
    bytes.extend(tcp);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_tshark_becomes_a_record() {
        let line = "1700000000.008\t10.0.0.2\t\t6653\t10.0.0.1\t\t40000\t0400,0008";
        let record = Record::of(line).unwrap();
        assert_eq!((record.seconds, record.nanoseconds), (1_700_000_000, 8_000_000));
        assert_eq!((record.from.port(), record.plaintext), (6653, vec![4, 0, 0, 8]));
        let v6 = "1.000000001\t\t2001:db8::1\t1\t\t2001:db8::2\t2\t";
        let record = Record::of(v6).unwrap();
        assert!(record.from.is_ipv6() && record.plaintext.is_empty());
        for wrong in
            ["", "1.0\t\t\t1\t\t\t2\t00", "1.0\t::\t\t1\t::\t\t2\t0", "1.0\t::\t\t1\t::\t\t2\t0g"]
        {
            assert_eq!(Record::of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn packet_has_the_sizes_of_its_headers() {
        let v4 = Record::of("1.0\t10.0.0.2\t\t6653\t10.0.0.1\t\t9\t").unwrap();
        let v6 = Record::of("1.0\t\t::1\t6653\t\t::2\t9\t").unwrap();
        assert_eq!(packet(&v4, 1, ACK, b"abc").len(), 16 + 20 + 20 + 3);
        let bytes = packet(&v6, 1, ACK, b"abc");
        assert_eq!((bytes.len(), &bytes[20..22]), (16 + 40 + 20 + 3, &[0, 23][..]));
    }
}
