//! Shows with a counting allocator that the packet path does not allocate.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::cell::Cell;

use rosemary_openflow::{
    Action, Echo, Field, FlowMod, Header, MacAddr, Match, PacketIn, PacketOut, PortNo, Version,
    echo_reply,
};
use sys::testing::Counting;

thread_local! {
    // Per thread, because the test harness allocates in other threads.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting(|_| ALLOCATIONS.with(|count| count.set(count.get() + 1)));

/// Counts the allocations of `run`.
fn allocations(run: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    run();
    ALLOCATIONS.with(Cell::get) - before
}

fn packet_in(version: Version) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    let size = PacketIn::new(PortNo(3), &[0xab; 200]).encode(version, 0, &mut bytes).unwrap();
    bytes.truncate(size);
    bytes
}

#[test]
fn counting_allocator_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1]))), 1);
}

#[test]
fn decoding_header_packet_in_and_echo_allocates_nothing() {
    for &version in Version::ALL {
        let bytes = packet_in(version);
        let echo = [version.wire(), 2, 0, 12, 0, 0, 0, 7, 1, 2, 3, 4];
        let mut out = [0; 16];
        let count = allocations(|| {
            Header::decode(&bytes).unwrap();
            let found = PacketIn::decode(&bytes).unwrap();
            assert_eq!(found.data.len(), 200);
            assert_eq!(found.match_.fields().count(), usize::from(version >= Version::V1_2));
            Echo::decode(&echo).unwrap();
            echo_reply(&echo, &mut out).unwrap();
        });
        assert_eq!(count, 0, "{version}");
    }
}

#[test]
fn exact_tcp_flow_mod_does_not_allocate() {
    for &version in Version::ALL {
        let mut out = [0; 512];
        let count = allocations(|| {
            let match_ = Match::new()
                .in_port(PortNo(3))
                .eth_src(MacAddr([2, 0, 0, 0, 0, 1]))
                .eth_dst(MacAddr([2, 0, 0, 0, 0, 2]))
                .eth_type(0x0800)
                .ip_proto(6)
                .ipv4_src([10, 0, 0, 1].into())
                .ipv4_dst([10, 0, 0, 2].into())
                .tcp_src(1234)
                .tcp_dst(80);
            let rewrite = Field::EthDst(MacAddr([2, 0, 0, 0, 0, 9]).into());
            let actions = [Action::SetField(rewrite), Action::output(PortNo(7))];
            let flow_mod = FlowMod::add(match_).priority(100).idle_timeout(60).apply(&actions);
            let size = flow_mod.encode(version, 7, &mut out).unwrap();
            // The kernel's use does not allocate either: decode it, and read every action.
            let decoded = FlowMod::decode(&out[..size]).unwrap();
            assert_eq!(decoded.instructions.apply.iter().count(), 2);
            assert_eq!(decoded, flow_mod);
        });
        assert_eq!(count, 0, "{version}");
    }
}

#[test]
fn packet_out_in_both_directions_allocates_nothing() {
    for &version in Version::ALL {
        let mut out = [0; 512];
        let count = allocations(|| {
            let actions = [Action::output(PortNo::FLOOD)];
            let packet_out = PacketOut::new(PortNo(3), &actions, &[0xab; 200]);
            let size = packet_out.encode(version, 7, &mut out).unwrap();
            assert_eq!(PacketOut::decode(&out[..size]).unwrap(), packet_out);
        });
        assert_eq!(count, 0, "{version}");
    }
}
