//! An invented database of a device: it answers the session's requests and records its transactions.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use openflow::{Header, Kind};
use serde_json::{Value as Json, json};

use super::super::{HardwareVtep, OF};
use crate::session::{Driver as _, Event, Inbound, Session, SwitchInfo, Timing};
use crate::{Closed, HostReport};

/// A report of a session, without references to its buffers.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Seen {
    Up(SwitchInfo),
    Host(HostReport),
    /// An error about this message, with its text.
    Refused(u32, String),
    /// Another message: its kind, id and bytes.
    Message(Kind, u32, Vec<u8>),
    Tables,
}

/// A session with its device.
pub(super) struct Bench {
    pub(super) session: Box<dyn Session>,
    pub(super) now: Instant,
    /// The operations of each transaction that the session sent.
    pub(super) transactions: Vec<Json>,
    /// The errors with which the next transactions fail; `None` for success.
    pub(super) failures: VecDeque<Option<&'static str>>,
    /// Columns that the schema lacks, each with its table.
    pub(super) lacks: &'static [(&'static str, &'static str)],
    rows: Json,
    fresh: u32,
}

pub(super) fn uuid(number: u32) -> String {
    format!("00000000-0000-0000-0000-{number:012}")
}

pub(super) fn reference(number: u32) -> Json {
    json!(["uuid", uuid(number)])
}

/// A device `leaf1` with the port `eth3`, the address 10.0.0.1 for tunnels, and no logical switch.
pub(super) fn plain() -> Json {
    json!({
        "Physical_Switch": { uuid(1): {
            "ports": ["set", [reference(2)]], "name": "leaf1", "description": "a test",
            "tunnel_ips": "10.0.0.1",
        }},
        "Physical_Port": { uuid(2): {
            "name": "eth3", "vlan_bindings": ["map", []], "other_config": ["map", []],
        }},
    })
}

fn schema() -> Json {
    let text = json!({"type": "string"});
    let texts = json!({"type": {"key": "string", "min": 0, "max": "unlimited"}});
    let row = json!({"type": {"key": "uuid"}});
    let rows = json!({"type": {"key": "uuid", "min": 0, "max": "unlimited"}});
    let number = json!({"type": {"key": "integer", "min": 0, "max": 1}});
    let map = |key: &str, value: &str| json!({"type": {"key": key, "value": value, "min": 0, "max": "unlimited"}});
    let config = map("string", "string");
    let addresses = |to: &str| json!({"columns": {"MAC": text, "logical_switch": row, to: row, "ipaddr": text}});
    let routed = map("string", "uuid");
    json!({"name": "hardware_vtep", "version": "1.7.0", "tables": {
        "Physical_Switch": {"columns": {
            "ports": rows, "name": text, "description": text, "tunnel_ips": texts}},
        "Physical_Port": {"columns": {
            "name": text, "vlan_bindings": map("integer", "uuid"), "other_config": config}},
        "Logical_Switch": {"columns": {
            "name": text, "description": text, "tunnel_key": number, "other_config": config}},
        "Ucast_Macs_Local": addresses("locator"),
        "Ucast_Macs_Remote": addresses("locator"),
        "Mcast_Macs_Local": {"columns": {"logical_switch": row}},
        "Mcast_Macs_Remote": addresses("locator_set"),
        "Logical_Router": {"columns": {"switch_binding": routed}},
        "Physical_Locator_Set": {"columns": {"locators": rows}},
        "Physical_Locator": {"columns": {
            "encapsulation_type": text, "dst_ip": text, "tunnel_key": number}},
    }})
}

impl Bench {
    /// Opens a session, without the device's first answer.
    pub(super) fn open(driver: &HardwareVtep, rows: Json) -> Self {
        let now = Instant::now();
        Self {
            session: driver.open(now, Timing::default()),
            now,
            transactions: Vec::new(),
            failures: VecDeque::new(),
            lacks: &[],
            rows,
            fresh: 1000,
        }
    }

    /// Opens a session whose handshake is complete. Returns what it reported, too.
    pub(super) fn up(rows: Json) -> (Self, Vec<Seen>) {
        let mut bench = Self::open(&HardwareVtep::default(), rows);
        let seen = bench.pass(10).unwrap();
        (bench, seen)
    }

    /// Lets time pass in ticks, and answers all requests.
    pub(super) fn pass(&mut self, ticks: u32) -> Result<Vec<Seen>, Closed> {
        let mut seen = Vec::new();
        for _ in 0..ticks {
            self.now += Duration::from_millis(100);
            let mut out = Vec::new();
            self.session.tick(self.now, &mut out)?;
            seen.extend(self.settle(out)?);
        }
        Ok(seen)
    }

    /// Sends OpenFlow messages, and lets the device answer.
    pub(super) fn send(&mut self, messages: &[u8]) -> Vec<Seen> {
        self.settle(messages.to_vec()).unwrap()
    }

    /// Exchanges messages until neither side has any.
    fn settle(&mut self, mut out: Vec<u8>) -> Result<Vec<Seen>, Closed> {
        let mut seen = self.receive(Vec::new(), &mut out)?;
        for _ in 0..1000 {
            self.session.seal(&mut out, 0);
            let requests = std::mem::take(&mut out);
            let mut answers = Vec::new();
            for request in serde_json::Deserializer::from_slice(&requests).into_iter::<Json>() {
                answers.extend(self.answer(&request.unwrap()));
            }
            if answers.is_empty() {
                break;
            }
            seen.extend(self.receive(answers, &mut out)?);
        }
        seen.extend(self.receive(Vec::new(), &mut out)?);
        Ok(seen)
    }

    /// Passes bytes of the device to the session.
    pub(super) fn receive(
        &mut self,
        mut bytes: Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Vec<Seen>, Closed> {
        let (mut at, mut room, mut seen) = (0, Vec::new(), Vec::new());
        while let Some(taken) = self.session.take(&mut bytes[at..], &mut room, out)? {
            at += taken.size.unwrap();
            match taken.inbound {
                Inbound::Message(Event::Up(info), _) => seen.push(Seen::Up(info)),
                Inbound::Message(Event::Host(host), _) => seen.push(Seen::Host(host)),
                Inbound::Message(Event::Described(_), _) => seen.push(Seen::Tables),
                Inbound::Message(Event::Error(error), message) => {
                    let xid = Header::decode(message).unwrap().xid;
                    seen.push(Seen::Refused(xid, error.explanation().unwrap().to_owned()));
                }
                Inbound::Message(_, message) => {
                    let header = Header::decode(message).unwrap();
                    let kind = Kind::from_wire(OF, header.kind).unwrap();
                    seen.push(Seen::Message(kind, header.xid, message.to_vec()));
                }
                Inbound::Nothing => {}
                Inbound::PacketIns(_) => panic!("the device has no packets"),
            }
        }
        self.session.note_received(self.now);
        Ok(seen)
    }

    fn answer(&mut self, request: &Json) -> Vec<u8> {
        let id = &request["id"];
        let result = match request["method"].as_str() {
            Some("list_dbs") => json!(["hardware_vtep", "_Server"]),
            Some("get_schema") => {
                let mut schema = schema();
                for (table, column) in self.lacks {
                    let columns = schema["tables"][table]["columns"].as_object_mut().unwrap();
                    columns.remove(*column).unwrap();
                }
                schema
            }
            Some("monitor") => {
                let mut updates = self.rows.clone();
                for rows in updates.as_object_mut().unwrap().values_mut() {
                    for row in rows.as_object_mut().unwrap().values_mut() {
                        *row = json!({"new": row.take()});
                    }
                }
                updates
            }
            Some("transact") => return self.transact(request),
            Some("echo") => request["params"].clone(),
            _ => {
                return json!({"id": id, "result": null, "error": "unknown method"})
                    .to_string()
                    .into_bytes();
            }
        };
        json!({"id": id, "result": result, "error": null}).to_string().into_bytes()
    }

    fn transact(&mut self, request: &Json) -> Vec<u8> {
        let operations = request["params"].as_array().unwrap()[1..].to_vec();
        let is_probe = operations[0]["op"] == "select";
        let results: Vec<Json> = match self.failures.pop_front().flatten().filter(|_| !is_probe) {
            Some(error) => vec![json!({"error": error, "details": "by the test"})],
            None => operations.iter().map(|it| self.result(it)).collect(),
        };
        if !is_probe {
            self.transactions.push(Json::Array(operations));
        }
        json!({"id": request["id"], "result": results, "error": null}).to_string().into_bytes()
    }

    fn result(&mut self, operation: &Json) -> Json {
        match operation["op"].as_str() {
            Some("insert") => {
                self.fresh += 1;
                json!({"uuid": reference(self.fresh)})
            }
            Some("wait") => json!({}),
            Some("select") => json!({"rows": []}),
            _ => json!({"count": 1}),
        }
    }

    /// Has the database report changes: rows by table and identifier, as in an `update` of RFC 7047 §4.1.6.
    pub(super) fn change(&mut self, updates: &Json) -> Vec<Seen> {
        let update =
            json!({"id": null, "method": "update", "params": ["rosemary", updates]}).to_string();
        let mut out = Vec::new();
        let mut seen = self.receive(update.into_bytes(), &mut out).unwrap();
        seen.extend(self.settle(out).unwrap());
        seen
    }
}
