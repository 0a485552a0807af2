//! Compares `rosemary_tables.h` with the look-ups of this crate, over a table of hosts and addresses.

#![cfg(feature = "host")]
#![allow(clippy::unwrap_used, reason = "the table of a test has room")]

mod in_c;

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::{Command, Stdio};

use rosemary_sdk::services::hosts::{
    Address, Host, address_name, find_address, find_host, host_name,
};
use rosemary_sdk::services::layout::{Placement, Writes};
use rosemary_sdk::services::table::{EMPTY, Slot};
use rosemary_sdk::{Dpid, MacAddr, PortNo};

use in_c::{PROGRAM, compile, made};

const HOSTS: u16 = 300;

fn run(input: &[u8]) -> String {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = made("c_tables");
    compile(&crate_dir.join("tests/c_tables.c"), &program, &PROGRAM);
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was just compiled");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("it does not panic").expect("it reads everything");
    assert!(output.status.success(), "{}", output.status);
    String::from_utf8(output.stdout).expect("it prints ASCII")
}

fn mac(number: u16) -> MacAddr {
    let [high, low] = number.to_be_bytes();
    MacAddr([2, 0xfe, 0, 1, high, low])
}

fn ip(number: u16) -> IpAddr {
    if number.is_multiple_of(2) {
        Ipv4Addr::from(0x0a00_0000 | u32::from(number)).into()
    } else {
        Ipv6Addr::from(0x2001_0db8_0000_0000_8000_0000_0000_0000 | u128::from(number)).into()
    }
}

/// A table with hosts of even and odd numbers, in a VLAN or none.
fn table() -> Vec<Slot> {
    let mut table = vec![EMPTY; 1024];
    let mut writes = Writes::new();
    let mut placement = Placement::new(1024, &mut writes).unwrap();
    for number in 0..HOSTS {
        let (mac, vlan) = (mac(number), number % 3 * 100);
        let host = Host {
            mac,
            vlan,
            dpid: Dpid(u64::MAX - u64::from(number)),
            port: PortNo(u32::MAX - u32::from(number)),
            is_contested: number % 5 == 0,
            is_doubted: number % 3 == 0,
            first_seen_s: 1,
            last_seen_s: 1 << 40,
        };
        placement.insert(host_name(mac, vlan), host.to_slot(), &mut writes).unwrap();
        let address = Address { ip: ip(number), vlan, mac, last_seen_s: number.into() };
        let name = address_name(address.ip, vlan);
        placement.insert(name, address.to_slot(), &mut writes).unwrap();
    }
    for (slot, record) in writes {
        table[slot as usize] = record;
    }
    table
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[test]
fn c_finds_the_same_hosts_and_addresses() {
    let table = table();
    let mut input = (table.len() as u64).to_le_bytes().to_vec();
    input.extend(table.iter().flatten().flat_map(|word| word.to_le_bytes()));
    let mut expected = String::new();
    let mut found = 0;
    for number in 0..HOSTS + 50 {
        for vlan in [number % 3 * 100, 7] {
            input.push(0);
            input.extend(vlan.to_le_bytes());
            input.extend(mac(number).0);
            match find_host(&table, mac(number), vlan) {
                Some(it) => {
                    found += 1;
                    let mac = hex(&it.mac.0);
                    let flags =
                        format!("{} {}", u8::from(it.is_contested), u8::from(it.is_doubted));
                    let (dpid, port) = (it.dpid.0, it.port.0);
                    let seen = format!("{} {}", it.first_seen_s, it.last_seen_s);
                    let _ = writeln!(expected, "{mac} {vlan} {dpid} {port} {flags} {seen}");
                }
                None => expected.push_str("none\n"),
            }
            let (version, bytes) = match ip(number) {
                IpAddr::V4(v4) => (4, v4.octets().to_vec()),
                IpAddr::V6(v6) => (6, v6.octets().to_vec()),
            };
            input.push(version);
            input.extend(vlan.to_le_bytes());
            input.extend(&bytes);
            match find_address(&table, ip(number), vlan) {
                Some(it) => {
                    let mac = hex(&it.mac.0);
                    let _ = writeln!(expected, "{} {vlan} {mac} {}", hex(&bytes), it.last_seen_s);
                }
                None => expected.push_str("none\n"),
            }
        }
    }
    assert_eq!(found, HOSTS);
    assert_eq!(run(&input), expected);
}
