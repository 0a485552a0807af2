//! An emulated switch that checks each received message against the model of
//! [`flow_table`](crate::flow_table): whether the sending app is permitted to send it, and whether
//! it affects only the app's own entries.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, bail, ensure};
use control::app::AppId;
use openflow::{
    Action, Dpid, ErrorMessage, Field, FlowMod, GroupMod, Header, Hello, Kind, Message,
    MultipartRequest, OwnChanges, PacketOut, PortDescReply, Version, append, echo_reply,
    monitor_flows,
};

use crate::fake::{PORT_DESC, features};
use crate::flow_table::{FlowTable, Owner};

/// Owner number in the cookies of the kernel's own flows.
const KERNEL: u16 = 0xffff;

/// Limit of messages of a kind that only the kernel sends, for its handshake and keepalive.
const FEW: u64 = 100;

/// The error that rejects unknown requests (`OFPBRC_BAD_TYPE`).
const BAD_TYPE: u16 = 1;

/// Flow tables of an emulated switch, and counters of the received messages.
#[derive(Debug)]
pub struct Judge {
    version: Version,
    owner: Owner,
    table: FlowTable,
    /// Number of received requests to monitor flows, which only the kernel sends.
    monitors: u32,
    /// Number of received messages, by kind.
    pub received: BTreeMap<u8, u64>,
    /// Number of added, changed and deleted flows, groups and meters.
    pub effects: u64,
    /// Number of messages that the switch would reject.
    pub refused: u64,
}

/// The connection of a judge.
#[derive(Debug)]
pub struct Session {
    stream: TcpStream,
    thread: JoinHandle<anyhow::Result<Judge>>,
}

impl Judge {
    /// Creates a switch that contains the flows, groups and meters of `others`: messages with their
    /// senders. All later messages must be the kernel's or `owner`'s.
    ///
    /// # Errors
    /// A message of the others has no effect.
    pub fn new(version: Version, owner: Owner, others: &[(u16, Vec<u8>)]) -> anyhow::Result<Self> {
        let mut table = FlowTable::new(version, true);
        for (sender, message) in others {
            let done = apply(&mut table, *sender, message)?;
            ensure!(
                done.is_ok_and(|effects| !effects.is_empty()),
                "it has no effect: {message:02x?}"
            );
        }
        let received = BTreeMap::new();
        Ok(Self { version, owner, table, monitors: 0, received, effects: 0, refused: 0 })
    }

    /// Connects, and checks messages in a thread until the session ends.
    ///
    /// # Errors
    /// Nothing listens at `address`.
    pub fn connect(mut self, address: &str, dpid: u64) -> anyhow::Result<Session> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let reading = stream.try_clone()?;
        let thread = thread::spawn(move || {
            self.serve(reading, Dpid(dpid))?;
            Ok(self)
        });
        Ok(Session { stream, thread })
    }

    fn serve(&mut self, stream: TcpStream, dpid: Dpid) -> anyhow::Result<()> {
        let mut writing = stream.try_clone()?;
        let mut reader = io::BufReader::with_capacity(1 << 16, stream);
        let mut out = Vec::new();
        append(&mut out, |out| Hello::new(&[self.version]).encode(1, out))?;
        let mut message = Vec::new();
        loop {
            if reader.buffer().is_empty() && !out.is_empty() {
                writing.write_all(&out)?;
                out.clear();
            }
            message.resize(Header::SIZE, 0);
            match reader.read_exact(&mut message) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                read => read?,
            }
            let header = Header::decode(&message)?;
            message.resize(usize::from(header.length).max(Header::SIZE), 0);
            reader.read_exact(&mut message[Header::SIZE..])?;
            self.judge(&message).with_context(|| format!("the message {message:02x?}"))?;
            self.answer(&message, dpid, &mut out)?;
        }
    }

    /// Checks a message and applies it to the tables.
    fn judge(&mut self, message: &[u8]) -> anyhow::Result<()> {
        let version = self.version;
        let found = Message::decode(message)?;
        if found.kind() == Some(Kind::Hello) && self.received.is_empty() {
            return Ok(()); // a hello has the kernel's highest version
        }
        ensure!(found.version() == version, "it is of another version");
        let kind = Kind::from_wire(version, message[1])?;
        let count = self.received.entry(message[1]).or_default();
        *count += 1;
        match kind {
            Kind::FlowMod => self.flow_mod(message),
            Kind::GroupMod => {
                for bucket in &GroupMod::decode(message)?.buckets {
                    self.actions(bucket.actions.iter().cloned())?;
                    ensure!(
                        bucket.watch_group >> 16 == u32::from(self.owner.app)
                            || bucket.watch_group == FlowMod::ANY_GROUP,
                        "it watches another app's group"
                    );
                }
                self.apply(self.owner, message)
            }
            Kind::MeterMod => self.apply(self.owner, message),
            Kind::PacketOut => {
                let packet_out = PacketOut::decode(message)?;
                ensure!(packet_out.buffer_id.is_none(), "it uses a buffer that it was not given");
                ensure!(!is_lldp(packet_out.data), "it is LLDP");
                self.actions(packet_out.actions.iter())
            }
            Kind::MultipartRequest if is_flow_monitor(version, message)? => {
                // The switch refuses the first one, and the kernel asks once per connection.
                self.monitors += 1;
                ensure!(self.monitors == 1, "apps may not monitor flows");
                Ok(())
            }
            Kind::MultipartRequest => match MultipartRequest::decode(message)? {
                MultipartRequest::TableFeatures(tables) => {
                    ensure!(tables.is_empty(), "it changes tables");
                    Ok(())
                }
                MultipartRequest::Experimenter { .. } => bail!("it is an experimenter's"),
                _ => Ok(()),
            },
            Kind::BarrierRequest | Kind::GetConfigRequest | Kind::QueueGetConfigRequest => Ok(()),
            Kind::Hello
            | Kind::EchoRequest
            | Kind::EchoReply
            | Kind::FeaturesRequest
            | Kind::SetConfig
            | Kind::RoleRequest
            | Kind::SetAsync => {
                ensure!(*count < FEW, "apps may not send {kind:?}");
                Ok(())
            }
            _ => bail!("apps may not send {kind:?}"),
        }
    }

    fn flow_mod(&mut self, message: &[u8]) -> anyhow::Result<()> {
        let flow_mod = FlowMod::decode(message)?;
        let adds = !flow_mod.command.is_delete();
        if adds && flow_mod.cookie >> 48 == u64::from(KERNEL) {
            ensure!(flow_mod.priority == 0, "the kernel's flow has priority 0");
            let kernel = Owner { app: KERNEL, band: (0, 0), any: false };
            return self.apply(kernel, message);
        }
        ensure!(flow_mod.buffer_id.is_none(), "it uses a buffer that it was not given");
        if self.version == Version::V1_0 {
            let own = u64::from(self.owner.app);
            ensure!(flow_mod.cookie >> 48 == own, "its cookie is not the app's");
        }
        let instructions = &flow_mod.instructions;
        self.actions(instructions.apply.iter().chain(instructions.write.iter()))?;
        let meter = instructions.meter;
        let own = AppId(self.owner.app).meters();
        let is_own = meter.is_none_or(|meter| own.contains(&meter));
        ensure!(is_own, "it uses another app's meter");
        self.apply(self.owner, message)
    }

    fn apply(&mut self, owner: Owner, message: &[u8]) -> anyhow::Result<()> {
        match apply(&mut self.table, owner.app, message)? {
            Ok(effects) => {
                self.effects += effects.len() as u64;
                effects.iter().try_for_each(|effect| owner.may(effect)).map_err(anyhow::Error::msg)
            }
            Err(crate::flow_table::Error::Malformed) => bail!("it is malformed"),
            Err(_) => {
                self.refused += 1;
                Ok(())
            }
        }
    }

    fn actions(&self, actions: impl Iterator<Item = Action>) -> anyhow::Result<()> {
        for action in actions {
            match action {
                Action::Group(group) => {
                    let own = u32::from(self.owner.app);
                    ensure!(group >> 16 == own, "it uses another app's group");
                }
                Action::PopMpls(LLDP) | Action::SetField(Field::EthType(LLDP)) => {
                    bail!("it makes LLDP of other packets")
                }
                Action::Experimenter { .. } | Action::SetField(Field::Opaque(_)) => {
                    bail!("it has an experimenter's action")
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn answer(&self, message: &[u8], dpid: Dpid, out: &mut Vec<u8>) -> anyhow::Result<()> {
        let version = self.version;
        let xid = Header::decode(message)?.xid;
        match Kind::from_wire(version, message[1])? {
            Kind::EchoRequest => append(out, |out| echo_reply(message, out))?,
            Kind::FeaturesRequest => append(out, |out| features(dpid).encode(version, xid, out))?,
            Kind::BarrierRequest => {
                append(out, |out| Kind::BarrierReply.encode_empty(version, xid, out))?
            }
            Kind::MultipartRequest if message.get(8..10) == Some(&PORT_DESC) => {
                append(out, |out| PortDescReply::encode(&[], false, version, xid, out))?
            }
            Kind::MultipartRequest | Kind::GetConfigRequest | Kind::QueueGetConfigRequest => {
                let (kind, code, data) = (ErrorMessage::BAD_REQUEST, BAD_TYPE, &message[..8]);
                append(out, |out| ErrorMessage { version, kind, code, data }.encode(xid, out))?
            }
            _ => 0,
        };
        Ok(())
    }
}

impl Session {
    /// Whether the judge found a violation, or the connection was closed.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Closes the connection; returns the judge.
    ///
    /// # Errors
    /// The violated rules.
    pub fn end(self) -> anyhow::Result<Judge> {
        let _ = self.stream.shutdown(Shutdown::Both); // it may already be closed
        self.thread.join().ok().context("the judge panicked")?
    }
}

/// Applies a flow-mod, group-mod or meter-mod.
fn apply(
    table: &mut FlowTable,
    sender: u16,
    message: &[u8],
) -> anyhow::Result<Result<Vec<crate::flow_table::Effect>, crate::flow_table::Error>> {
    let header = Header::decode(message)?;
    let version = Version::from_wire(header.version).context("a version")?;
    Ok(match Kind::from_wire(version, header.kind)? {
        Kind::FlowMod => table.flow_mod(sender, message),
        Kind::GroupMod => table.group_mod(sender, message),
        Kind::MeterMod => table.meter_mod(sender, message),
        kind => bail!("{kind:?} changes no table"),
    })
}

/// The ethertype of LLDP (IEEE 802.1AB-2016 §7.5).
const LLDP: u16 = 0x88cc;

/// Whether a frame is LLDP, including behind VLAN tags or in 802.3 with SNAP (IEEE 802-2014 §9.4).
/// Whether the message is the kernel's request to monitor all flows.
fn is_flow_monitor(version: Version, message: &[u8]) -> anyhow::Result<bool> {
    let xid = Header::decode(message)?.xid;
    let mut expected = Vec::new();
    append(&mut expected, |out| monitor_flows(version, OwnChanges::Full, xid, out))?;
    Ok(message == expected)
}

fn is_lldp(frame: &[u8]) -> bool {
    let mut rest = frame.get(12..).unwrap_or_default();
    while let [0x81 | 0x91, 0, _, _, behind @ ..] | [0x88, 0xa8, _, _, behind @ ..] = rest {
        rest = behind;
    }
    match rest {
        [0..6, _, 0xaa, 0xaa, 3, 0, 0, 0, ethertype @ ..] => {
            ethertype.starts_with(&LLDP.to_be_bytes())
        }
        _ => rest.starts_with(&LLDP.to_be_bytes()),
    }
}
