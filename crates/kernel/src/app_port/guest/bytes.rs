//! A hosting for tests, which shows what a further hosting in the kernel's process needs: this file and a row of `HOSTINGS`.
//!
//! The code of its apps is a list of bytes. An app sends a packet out of port 1 if the packet's first byte is in the list, and fails at
//! a packet of 13. It is contained if the list has 200.

use std::io;
use std::sync::Arc;

use control::hosting::{Hosting, Properties};
use control::kernel::HostedCode;
use openflow::{PacketOut, PortNo, Version};
use sdk::abi::host::{Answer, Gathered, Host as _};
use sdk::abi::{RECORD_HEAD, Record, RecordKind};

use super::{Artifact, Code, Guest, KernelHost};

/// The row of the hosting.
const ROW: Properties = Properties {
    name: "bytes",
    language: "bytes",
    extension: Some("bytes"),
    ..*Hosting::KERNEL.properties()
};

/// The hosting.
pub(in crate::app_port) const BYTES: Hosting = Hosting::of(&ROW);

/// The longest code, in bytes.
const LONGEST: usize = 256;

/// The code of an app.
#[derive(Debug)]
struct List(Arc<[u8]>);

/// An instance of an app.
#[derive(Debug)]
struct Instance {
    list: Arc<[u8]>,
    version: String,
    host: KernelHost,
}

/// Reads the code of an app.
pub(super) fn load(code: Code<'_>, _: &HostedCode) -> io::Result<Box<dyn Artifact>> {
    let bytes = match code {
        Code::Copy(path) => std::fs::read(path)?,
        Code::Sealed(fd) => sys::shm::read_sealed(fd, LONGEST)?,
    };
    Ok(Box::new(List(bytes.into())))
}

impl Artifact for List {
    fn instance(&self, host: KernelHost) -> Result<Box<dyn Guest>, String> {
        if self.0.is_empty() {
            return Err("it has no bytes".into());
        }
        let version = self.0.len().to_string();
        Ok(Box::new(Instance { list: self.0.clone(), version, host }))
    }

    fn is_contained(&self) -> bool {
        self.0.contains(&200)
    }
}

impl Guest for Instance {
    fn version(&self) -> &str {
        &self.version
    }

    fn host(&mut self) -> &mut KernelHost {
        &mut self.host
    }

    fn on_batch(&mut self, _: u64, records: &Gathered, count: usize) -> Result<Answer, String> {
        for record in records.iter().take(count) {
            let (head, message) = record.split_first_chunk::<RECORD_HEAD>().unwrap();
            let head = Record::from_bytes(head);
            let first = match message.first() {
                Some(first) if head.kind == RecordKind::PacketIn as u16 => *first,
                _ => continue,
            };
            if first == 13 {
                return Err("it met a packet of 13".into());
            }
            if self.list.contains(&first) {
                let packet_out = PacketOut::new(PortNo(1), &[], &message[..1]);
                let room = self.host.reserve(256).unwrap();
                let size = packet_out.encode(Version::PREFERRED, 0, room).unwrap();
                assert!(self.host.commit(head.dpid, head.epoch, size, 0));
            }
        }
        Ok(Answer { handled: count, wake_at_ns: None })
    }

    fn abandon(self: Box<Self>) {}
}
