//! Tests the tracker with packets, port states and times. `net.rs` has the network.

mod net;
mod restarts;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use proptest::prelude::*;
use rosemary_sdk::packet::Packet;
use rosemary_sdk::services::hosts::{
    self as table, Host, PROBE_MAC, UNTAGGED, addresses, find_host,
};
use rosemary_sdk::services::topology::Endpoint;
use rosemary_sdk::{Dpid, MacAddr, PortNo};

use super::ports::Behind;
use super::reports::Report;
use super::settings::Settings;
use super::sighting::{self, Forged, Proof, Reading, Sighting};
use super::tracker::Probe;

pub(super) use self::net::{ALICE, IP, MALLORY, arp};
use self::net::{BOB, Net, SLOTS, at, dhcp, nd, seconds, tagged, udp};

#[test]
fn packets_state_their_senders() {
    let host = |ip| Reading::Host(Sighting { mac: ALICE, vlan: UNTAGGED, ip });
    let stated = |ip: IpAddr| host(Some((ip, Proof::Stated)));
    assert_eq!(sighting::read(&arp(ALICE, IP)), stated(IP.into()));
    assert_eq!(sighting::read(&arp(ALICE, Ipv4Addr::UNSPECIFIED)), host(None));
    assert_eq!(sighting::read(&udp(ALICE, IP)), host(Some((IP.into(), Proof::Used))));
    let v6: Ipv6Addr = "fe80::1".parse().unwrap();
    let target = v6.octets();
    let unspecified = Ipv6Addr::UNSPECIFIED;
    assert_eq!(sighting::read(&nd(ALICE, v6, 133, &[], (1, ALICE))), stated(v6.into()));
    assert_eq!(sighting::read(&nd(ALICE, v6, 134, &[0; 8], (1, ALICE))), stated(v6.into()));
    assert_eq!(sighting::read(&nd(ALICE, v6, 135, &[9; 16], (1, ALICE))), stated(v6.into()));
    assert_eq!(sighting::read(&nd(ALICE, unspecified, 135, &target, (14, ALICE))), host(None));
    let other: Ipv6Addr = "2001:db8::7".parse().unwrap();
    let advertised = nd(ALICE, v6, 136, &other.octets(), (2, ALICE));
    assert_eq!(sighting::read(&advertised), stated(other.into()));
    assert_eq!(sighting::read(&dhcp(ALICE, 1, ALICE, IP)), stated(IP.into()));
    let Reading::Lease { client, .. } = sighting::read(&dhcp(BOB, 2, ALICE, IP)) else {
        panic!("a lease")
    };
    assert_eq!(Reading::Host(client), stated(IP.into()));
    let Reading::Host(in_vlan) = sighting::read(&tagged(&arp(ALICE, IP), 7)) else { panic!() };
    assert_eq!((in_vlan.vlan, in_vlan.ip), (7, Some((IP.into(), Proof::Stated))));
    for nobody in [[0; 6], [0xff; 6], [1, 0, 0x5e, 0, 0, 1], PROBE_MAC.0] {
        assert_eq!(sighting::read(&udp(MacAddr(nobody), IP)), Reading::Nothing);
    }
}

#[test]
fn forged_messages_are_recognised() {
    let v6: Ipv6Addr = "fe80::1".parse().unwrap();
    let mut forged_arp = arp(ALICE, IP);
    forged_arp[6..12].copy_from_slice(&MALLORY.0);
    for (frame, kind) in [
        (forged_arp, Forged::Arp),
        (nd(MALLORY, v6, 135, &[9; 16], (1, ALICE)), Forged::NeighbourDiscovery),
        (nd(MALLORY, v6, 136, &[9; 16], (2, ALICE)), Forged::NeighbourDiscovery),
        (dhcp(MALLORY, 1, ALICE, IP), Forged::Dhcp),
    ] {
        let Reading::Forged { sender, stated, what } = sighting::read(&frame) else {
            panic!("{kind:?}")
        };
        assert_eq!((sender.mac, stated, what), (MALLORY, ALICE, kind));
        let mut net = Net::new();
        net.packet(at(1, 1), &frame);
        assert_eq!((net.host(MALLORY), net.owner(IP)), (None, None), "nothing is learned");
        assert!(matches!(net.reports()[..], [Report::Forged { .. }]));
        net.packet(at(1, 1), &frame);
        assert_eq!(net.reports(), [], "once in a minute");
    }
}

#[test]
fn host_is_learned_with_its_address() {
    let mut net = Net::new();
    net.packet(at(1, 2), &arp(ALICE, IP));
    let host = net.host(ALICE).unwrap();
    assert_eq!((host.dpid, host.port, host.is_contested), (Dpid(1), PortNo(2), false));
    assert_eq!((host.first_seen_s, net.owner(IP)), (1000, Some(ALICE)));
    net.packet(at(2, 1), &tagged(&arp(ALICE, IP), 5));
    assert_eq!(net.place(ALICE), Some(at(1, 2)), "the same address in a VLAN is another host");
    assert_eq!(find_host(&net.table, ALICE, 5).map(|it| it.dpid), Some(Dpid(2)));
    assert_eq!(net.reports(), []);
}

#[test]
fn host_behind_a_link_is_not_learned() {
    let mut net = Net::new();
    net.packet(at(1, 2), &arp(ALICE, IP));
    net.behind(at(1, 2), Behind::Link);
    assert_eq!((net.host(ALICE), net.owner(IP)), (None, None), "what was learned there is wrong");
    net.packet(at(1, 2), &arp(ALICE, IP));
    assert_eq!(net.host(ALICE), None);
    net.packet(at(1, 9), &arp(ALICE, IP));
    assert_eq!(net.host(ALICE), None, "no such port");
}

#[test]
fn segment_shows_its_own_hosts_only() {
    let (segment, home) = (at(1, 1), at(2, 1));
    let mut net = Net::new();
    net.behind(segment, Behind::Undecided);
    net.packet(segment, &udp(BOB, Ipv4Addr::new(10, 0, 0, 2)));
    net.behind(segment, Behind::Segment);
    assert_eq!(net.host(BOB), None, "it may be behind another switch");
    net.packet(home, &arp(ALICE, IP));
    net.packet(segment, &arp(ALICE, IP));
    assert_eq!(net.pass(seconds(2)), [], "the bridge forwarded the packet; nobody is asked");
    assert_eq!(net.place(ALICE), Some(home));
    net.packet(segment, &arp(BOB, Ipv4Addr::new(10, 0, 0, 2)));
    assert_eq!(net.place(BOB), Some(segment));
    // Bob is at a switch now: only packets that pass the segment come in there.
    net.packet(home, &arp(BOB, Ipv4Addr::new(10, 0, 0, 2)));
    assert_eq!(net.pass(Duration::from_millis(10)).len(), 1, "he is asked at the segment");
    net.packet(segment, &arp(BOB, Ipv4Addr::new(10, 0, 0, 2)));
    net.pass(seconds(2));
    assert_eq!(net.place(BOB), Some(home));
    // Mallory claims the place of a host of the segment that answers.
    net.packet(segment, &arp(MALLORY, Ipv4Addr::new(10, 0, 0, 3)));
    net.packet(home, &arp(MALLORY, Ipv4Addr::new(10, 0, 0, 3)));
    let mut answer = arp(MALLORY, Ipv4Addr::new(10, 0, 0, 3));
    answer[..6].copy_from_slice(&PROBE_MAC.0);
    net.packet(segment, &answer);
    net.pass(seconds(2));
    assert_eq!(net.place(MALLORY), Some(segment));
    // A port that is gone holds nobody.
    net.port(home, 1, false);
    net.packet(segment, &arp(ALICE, IP));
    assert_eq!(net.place(ALICE), Some(segment));
}

#[test]
fn first_packet_counts_once_its_port_is_an_edge() {
    let mut net = Net::new();
    net.behind(at(1, 2), Behind::Undecided);
    net.packet(at(1, 2), &arp(ALICE, IP));
    assert_eq!(net.host(ALICE), None);
    net.behind(at(1, 2), Behind::Edge);
    assert_eq!((net.place(ALICE), net.owner(IP)), (Some(at(1, 2)), Some(ALICE)));
    net.behind(at(1, 3), Behind::Undecided);
    net.packet(at(1, 3), &arp(BOB, Ipv4Addr::new(10, 0, 0, 2)));
    net.behind(at(1, 3), Behind::Link);
    net.behind(at(1, 3), Behind::Edge);
    assert_eq!(net.host(BOB), None, "it was behind another switch");
}

#[test]
fn the_switchs_own_port_is_an_edge() {
    let mut net = Net::new();
    let local = Endpoint { dpid: Dpid(1), port: PortNo::LOCAL };
    net.port(local, 1, true);
    net.packet(local, &arp(ALICE, IP));
    assert_eq!(net.place(ALICE), Some(local));
}

#[test]
fn host_moves_at_once_when_its_port_is_down() {
    let mut net = Net::new();
    net.packet(at(1, 1), &arp(ALICE, IP));
    net.port(at(1, 1), 1, false);
    assert_eq!((net.host(ALICE), net.owner(IP)), (None, None));
    net.packet(at(2, 3), &arp(ALICE, IP));
    assert_eq!((net.place(ALICE), net.owner(IP)), (Some(at(2, 3)), Some(ALICE)));
    assert_eq!(net.reports(), []);
}

#[test]
fn host_that_answers_is_not_hijacked() {
    let mut net = Net::new();
    net.packet(at(1, 1), &arp(ALICE, IP));
    net.packet(at(2, 3), &arp(ALICE, IP));
    assert_eq!(net.place(ALICE), Some(at(1, 1)));
    assert!(net.host(ALICE).unwrap().is_contested);
    let probes = net.pass(Duration::from_millis(100));
    let [Probe { at: to, frame }] = &probes[..] else { panic!("one probe: {probes:?}") };
    let request = Packet::parse(frame).unwrap();
    assert_eq!((*to, request.eth_dst, request.eth_src), (at(1, 1), ALICE, PROBE_MAC));
    assert_eq!(request.arp().map(|arp| arp.target_ip), Some(IP));
    net.packet(at(1, 1), &request.arp().unwrap().reply(ALICE));
    assert!(!net.host(ALICE).unwrap().is_contested);
    net.packet(at(2, 3), &arp(ALICE, IP));
    assert_eq!(net.pass(seconds(3)), [], "it is not asked again at once");
    assert_eq!(net.place(ALICE), Some(at(1, 1)));
    let refused =
        Report::HijackRefused { mac: ALICE, first: at(1, 1), second: at(2, 3), answered: true };
    assert_eq!(net.reports(), [refused]);
}

#[test]
fn silent_host_moves_and_the_move_is_reported() {
    let mut net = Net::new();
    net.packet(at(1, 1), &arp(ALICE, IP));
    net.packet(at(2, 3), &udp(ALICE, IP));
    assert_eq!(net.pass(seconds(2)).len(), 3);
    assert_eq!((net.place(ALICE), net.owner(IP)), (Some(at(2, 3)), Some(ALICE)));
    assert_eq!(net.reports(), [Report::Moved { mac: ALICE, from: at(1, 1), to: at(2, 3) }]);
}

#[test]
fn one_forged_packet_moves_no_host_without_address() {
    let raw = |from: MacAddr| [&BOB.0[..], &from.0, &[0x88, 0xb5, 1, 2]].concat();
    let mut net = Net::new();
    net.packet(at(1, 1), &raw(ALICE));
    net.packet(at(2, 3), &raw(ALICE));
    assert_eq!(net.pass(seconds(2)), [], "there is no address to ask for");
    assert_eq!(net.place(ALICE), Some(at(1, 1)));
    assert!(matches!(net.reports()[..], [Report::HijackRefused { answered: false, .. }]));
    for _ in 0..4 {
        net.packet(at(2, 3), &raw(ALICE));
        net.pass(Duration::from_millis(300));
    }
    assert_eq!(net.place(ALICE), Some(at(2, 3)), "it goes on sending there");
}

#[test]
fn flapping_host_is_reported_and_held() {
    let mut net = Net::new();
    net.packet(at(1, 1), &arp(ALICE, IP));
    for turn in 0..5 {
        net.packet(at(2 - turn % 2, 3), &arp(ALICE, IP));
        net.pass(seconds(2));
    }
    let reports = net.reports();
    assert!(matches!(reports.last(), Some(Report::Flapping { moves: 5, .. })), "{reports:?}");
    let place = net.place(ALICE);
    net.packet(at(1, 4), &arp(ALICE, IP));
    net.pass(seconds(3));
    assert_eq!(net.place(ALICE), place, "it stays for some time");
}

#[test]
fn address_of_host_that_answers_is_not_taken() {
    let mut net = Net::new();
    net.packet(at(1, 1), &arp(ALICE, IP));
    net.packet(at(1, 2), &arp(MALLORY, IP));
    assert_eq!(net.pass(Duration::from_millis(100)).len(), 1);
    assert_eq!(net.owner(IP), Some(ALICE));
    net.packet(at(1, 1), &arp(ALICE, IP));
    net.pass(seconds(2));
    assert_eq!(net.owner(IP), Some(ALICE));
    let refused = Report::AddressRefused { ip: IP.into(), owner: ALICE, by: MALLORY, at: at(1, 2) };
    assert_eq!(net.reports(), [refused]);
}

#[test]
fn address_of_silent_host_goes_to_the_claimant() {
    let mut net = Net::new();
    net.packet(at(1, 1), &arp(ALICE, IP));
    net.packet(at(1, 2), &arp(BOB, IP));
    net.pass(seconds(2));
    assert_eq!(net.owner(IP), Some(BOB));
    assert!(matches!(net.reports()[..], [Report::AddressMoved { owner: ALICE, by: BOB, .. }]));
    assert_eq!(addresses(&net.table).count(), 1);
}

#[test]
fn packet_with_anothers_address_is_reported_and_changes_nothing() {
    let mut net = Net::new();
    net.packet(at(1, 1), &arp(ALICE, IP));
    net.packet(at(1, 2), &udp(MALLORY, IP));
    assert_eq!((net.owner(IP), net.place(MALLORY)), (Some(ALICE), Some(at(1, 2))));
    let used = Report::AddressUsed { ip: IP.into(), owner: ALICE, by: MALLORY, at: at(1, 2) };
    assert_eq!(net.reports(), [used]);
    let routers = [MALLORY].into();
    let mut net = Net::with(Settings { routers, ..Settings::default() }, SLOTS);
    net.packet(at(1, 1), &arp(ALICE, IP));
    net.packet(at(1, 2), &udp(MALLORY, IP));
    assert_eq!(net.reports(), [], "a router may");
}

#[test]
fn stated_address_beats_a_used_one() {
    let mut net = Net::new();
    net.packet(at(1, 2), &udp(MALLORY, IP));
    assert_eq!(net.owner(IP), Some(MALLORY));
    net.packet(at(1, 1), &arp(ALICE, IP));
    assert_eq!((net.owner(IP), net.reports()), (Some(ALICE), vec![]));
}

#[test]
fn lease_gives_its_client_a_free_address_only() {
    let mut net = Net::new();
    net.packet(at(1, 1), &arp(ALICE, IP));
    net.packet(at(1, 2), &arp(BOB, Ipv4Addr::new(10, 0, 0, 2)));
    let given = Ipv4Addr::new(10, 0, 0, 77);
    net.packet(at(2, 1), &dhcp(MALLORY, 2, BOB, given));
    assert_eq!((net.owner(given), net.place(BOB)), (Some(BOB), Some(at(1, 2))));
    net.packet(at(2, 1), &dhcp(MALLORY, 2, BOB, IP));
    net.packet(at(2, 1), &dhcp(MALLORY, 2, MacAddr([2, 0, 0, 0, 0, 0x99]), given));
    assert_eq!((net.owner(IP), net.owner(given)), (Some(ALICE), Some(BOB)));
}

#[test]
fn hosts_of_a_port_are_bounded_and_its_flood_is_reported() {
    let mut net = Net::with(Settings { hosts_per_port: 3, ..Settings::default() }, SLOTS);
    for number in 0..10 {
        net.packet(
            at(1, 1),
            &arp(MacAddr([2, 0, 0, 0, 1, number]), Ipv4Addr::new(10, 1, 0, number)),
        );
    }
    assert_eq!(table::hosts(&net.table).count(), 3);
    assert_eq!(net.reports(), [Report::PortFull { at: at(1, 1), hosts: 3 }]);
    assert_eq!(net.tracker.refused, 7);
    net.packet(at(1, 2), &arp(ALICE, IP));
    assert_eq!(net.place(ALICE), Some(at(1, 2)), "another port has room");
}

#[test]
fn full_table_is_reported_and_displaces_nobody() {
    let mut net = Net::with(Settings::default(), 64);
    for number in 0..60 {
        net.packet(
            at(1, 1),
            &arp(MacAddr([2, 0, 0, 0, 1, number]), Ipv4Addr::new(10, 1, 0, number)),
        );
    }
    let known: Vec<Host> = table::hosts(&net.table).collect();
    let reports = net.reports();
    assert!(matches!(reports[..], [Report::TableFull { .. }]), "{reports:?}");
    for number in 100..200 {
        net.packet(
            at(1, 2),
            &arp(MacAddr([2, 0, 0, 0, 1, number]), Ipv4Addr::new(10, 1, 0, number)),
        );
    }
    for host in known {
        assert!(net.host(host.mac).is_some(), "{host:?} is still there");
    }
}

#[test]
fn addresses_of_a_host_are_bounded() {
    let mut net = Net::new();
    for number in 0..40 {
        net.packet(at(1, 1), &udp(ALICE, Ipv4Addr::new(192, 0, 2, number)));
    }
    assert_eq!(addresses(&net.table).count(), 4, "sources of packets may be a router's");
    for number in 0..40 {
        net.packet(at(1, 1), &arp(ALICE, Ipv4Addr::new(10, 0, 2, number)));
    }
    assert_eq!(addresses(&net.table).count(), 16);
    net.pass(seconds(301));
    net.packet(at(1, 1), &arp(ALICE, Ipv4Addr::new(10, 0, 3, 1)));
    assert_eq!(net.owner(Ipv4Addr::new(10, 0, 3, 1)), Some(ALICE), "old ones give way");
    assert_eq!(addresses(&net.table).count(), 16);
}

#[test]
fn silent_host_is_probed_and_forgotten() {
    let settings = Settings { max_age_s: 60, ..Settings::default() };
    let mut net = Net::with(settings, SLOTS);
    net.packet(at(1, 1), &arp(ALICE, IP));
    net.packet(at(1, 2), &arp(BOB, Ipv4Addr::new(10, 0, 0, 2)));
    for _ in 0..200 {
        for probe in net.pass(seconds(1)) {
            let request = Packet::parse(&probe.frame).unwrap();
            if request.eth_dst == BOB {
                net.packet(at(1, 2), &request.arp().unwrap().reply(BOB));
            }
        }
    }
    assert_eq!((net.host(ALICE), net.owner(IP)), (None, None));
    assert_eq!(net.place(BOB), Some(at(1, 2)), "it answered");
    assert!(net.host(BOB).unwrap().last_seen_s > 1100);
    assert_eq!(net.reports(), []);
}

#[test]
fn hosts_of_switch_that_returns_are_kept() {
    let mut net = Net::new();
    net.packet(at(1, 1), &arp(ALICE, IP));
    net.packet(at(1, 2), &arp(BOB, Ipv4Addr::new(10, 0, 0, 2)));
    net.tracker.switch_down(Dpid(1), net.now);
    net.pass(seconds(30));
    assert_eq!(net.place(ALICE), Some(at(1, 1)));
    net.tracker.switch_up(Dpid(1), 2, net.now);
    net.port(at(1, 1), 2, true);
    net.pass(seconds(5));
    assert_eq!(net.place(ALICE), Some(at(1, 1)));
    assert_eq!(net.host(BOB), None, "its port did not come back");
    net.tracker.snapshot(net.now);
    net.pass(seconds(61));
    assert_eq!(net.host(ALICE), None, "the switch did not come back");
}

#[test]
fn host_of_switch_that_is_away_moves_at_once() {
    let mut net = Net::new();
    net.packet(at(1, 1), &arp(ALICE, IP));
    net.tracker.switch_down(Dpid(1), net.now);
    net.packet(at(2, 2), &arp(ALICE, IP));
    assert_eq!((net.place(ALICE), net.reports()), (Some(at(2, 2)), vec![]));
}

#[test]
fn ipv6_host_is_probed_by_solicitation() {
    let v6: Ipv6Addr = "fe80::a".parse().unwrap();
    let mut net = Net::new();
    let hello = tagged(&nd(ALICE, v6, 133, &[], (1, ALICE)), 9);
    net.packet(at(1, 1), &hello);
    net.packet(at(1, 2), &hello);
    let probes = net.pass(Duration::from_millis(100));
    let probe = Packet::parse(&probes[0].frame).unwrap();
    assert_eq!((probe.vlan, probe.dst_ip()), (Some(9), Some(v6.into())));
    let icmp = probe.icmpv6().unwrap();
    assert!(icmp.is_checksum_valid(
        "fe80::c52:6fff:fe73:6501".parse::<Ipv6Addr>().unwrap().octets(),
        v6.octets()
    ));
    assert_eq!(icmp.slice()[8..24], v6.octets());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes in: table and state agree, no host is behind a link, and nothing exceeds its bounds.
    #[test]
    fn table_follows_any_events(steps in prop::collection::vec((0_u8..10, 0_u8..6, 0_u32..6, any::<[u8; 4]>()), 1..300)) {
        let mut net = Net::with(Settings { hosts_per_port: 4, max_age_s: 10, ..Settings::default() }, 40);
        let mut behind: HashMap<Endpoint, Behind> = HashMap::new();
        for (what, who, port, noise) in steps {
            let (mac, place) = (MacAddr([2, 0, 0, 0, 0, who]), at(u64::from(port % 2) + 1, port / 2 + 1));
            let ip = Ipv4Addr::new(10, 0, 0, noise[0] % 8);
            match what {
                0..=2 => net.packet(place, &arp(mac, ip)),
                3 => net.packet(place, &udp(mac, ip)),
                4 => {
                    let mut frame = arp(mac, ip);
                    frame[usize::from(noise[1] % 42)] = noise[2];
                    frame.truncate(usize::from(noise[3] % 43));
                    net.packet(place, &frame);
                }
                5 => {
                    let state = [Behind::Undecided, Behind::Edge, Behind::Link][usize::from(noise[0] % 3)];
                    behind.insert(place, state);
                    net.behind(place, state);
                }
                6 => {
                    if noise[0] % 2 == 0 {
                        behind.insert(place, Behind::Undecided);
                    }
                    net.port(place, 1, noise[0] % 2 == 1);
                }
                7 => net.tracker.switch_down(place.dpid, net.now),
                8 => net.tracker.switch_up(place.dpid, 1, net.now),
                _ => drop(net.pass(Duration::from_millis(u64::from(noise[0]) * 20))),
            }
            let hosts: Vec<Host> = table::hosts(&net.table).collect();
            prop_assert_eq!(hosts.len(), net.tracker.directory.len());
            for host in &hosts {
                let place = Endpoint { dpid: host.dpid, port: host.port };
                prop_assert_ne!(behind.get(&place), Some(&Behind::Link));
                prop_assert!(hosts.iter().filter(|it| (it.dpid, it.port) == (host.dpid, host.port)).count() <= 4);
                prop_assert_eq!(find_host(&net.table, host.mac, host.vlan), Some(*host));
            }
            for address in addresses(&net.table) {
                prop_assert!(find_host(&net.table, address.mac, address.vlan).is_some(), "an address without host");
            }
        }
    }
}
