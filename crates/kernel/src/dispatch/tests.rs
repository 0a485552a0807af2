//! Tests how full apps limit what is read from a switch.

use dal::SwitchInfo;
use openflow::{Dpid, PortNo, Version, append};
use sys::ring::{DEFAULT_CAPACITY, Room};

use super::*;
use crate::app_port::{LARGER, part};
use crate::ids::{AppSlot, ConnId};
use crate::pool::idle;
use control::app::AppId;
use control::kernel::Tuning;
use control::policy::{Policy, Stage};

/// The longest turn.
const READ: usize = 256 << 10;

/// Makes apps that are detached, so that their packet-ins wait in their backlogs.
fn dispatch(policies: Vec<Policy>) -> Dispatch {
    let mut dispatch = Dispatch::default();
    for (index, policy) in policies.into_iter().enumerate() {
        let shared_quota = idle(1).shared_quota(AppId(1));
        let mut app_port = AppPort::new(
            AppId(1),
            "app".into(),
            AppSlot::new(index),
            Tuning::default(),
            shared_quota,
        );
        app_port.policy = policy;
        dispatch.app_ports.push(app_port);
    }
    dispatch.replan();
    dispatch
}

fn switch(dpid: u64) -> Switch {
    let (version, dpid) = (Version::V1_3, Dpid(dpid));
    let info = SwitchInfo {
        version,
        dpid,
        n_tables: 1,
        n_buffers: 0,
        capabilities: openflow::Capabilities(0),
        actions: 0,
        no_packets: None,
        ports: Vec::new(),
    };
    Switch::new(info, 1)
}

/// Sends packet-ins of a switch until one is dropped.
fn fill(dispatch: &mut Dispatch, switch: &mut Switch, now: Instant) {
    let (packet_in, mut message) = (PacketIn::new(PortNo(1), &[7; 60]), Vec::new());
    append(&mut message, |out| packet_in.encode(Version::V1_3, 0, out)).unwrap();
    while switch.counters.dropped == 0 {
        dispatch.packet_in(ConnId(0), switch, &packet_in, &message, now);
    }
}

fn observer(dpids: Vec<u64>) -> Policy {
    let mut policy = Policy { stage: Stage::Observe, ..Policy::default() };
    policy.filter.dpids = dpids;
    policy
}

/// As if it were the only switch that has sent something.
fn pressure(dispatch: &mut Dispatch, switch: &Switch, now: Instant) -> Pressure {
    dispatch.pressure(switch, 1, READ, now)
}

#[test]
fn switches_without_full_apps_are_read() {
    let (now, one) = (Instant::now(), switch(1));
    let nobody = Pressure { full: FullApps::NotWorthWaiting, room: usize::MAX, turn: READ };
    assert_eq!(pressure(&mut dispatch(vec![]), &one, now), nobody);
    let room = Room::Ordinary.of(DEFAULT_CAPACITY * LARGER) / 2;
    let all = Pressure { full: FullApps::NotWorthWaiting, room, turn: READ };
    assert_eq!(pressure(&mut dispatch(vec![observer(vec![]), Policy::default()]), &one, now), all);
}

#[test]
fn switch_waits_for_its_own_full_apps_only() {
    let (now, [mut one, two]) = (Instant::now(), [1, 2].map(switch));
    let mut dispatch = dispatch(vec![observer(vec![1]), observer(vec![2])]);
    fill(&mut dispatch, &mut one, now);
    assert_eq!(pressure(&mut dispatch, &one, now).full, FullApps::All);
    assert_eq!(pressure(&mut dispatch, &one, now + WORTH_WAITING).full, FullApps::All);
    assert_eq!(pressure(&mut dispatch, &two, now).full, FullApps::NotWorthWaiting);

    dispatch.app_ports[1].policy = observer(vec![1]);
    dispatch.replan();
    let room = Room::Ordinary.of(DEFAULT_CAPACITY * LARGER) / 2;
    assert_eq!(
        pressure(&mut dispatch, &one, now),
        Pressure { full: FullApps::OnlySome, room, turn: READ }
    );
    let later = now + WORTH_WAITING;
    assert_eq!(
        pressure(&mut dispatch, &one, later),
        Pressure { full: FullApps::NotWorthWaiting, room, turn: READ }
    );
}

#[test]
fn switch_waits_while_the_hold_queue_is_full() {
    let (now, [mut one, two]) = (Instant::now(), [1, 2].map(switch));
    let (mut first, second) = (Policy::default(), Policy { order: 1, ..Policy::default() });
    first.filter.dpids = vec![1];
    let mut dispatch = dispatch(vec![first, second]);
    let (packet_in, mut message) = (PacketIn::new(PortNo(1), &[7; 60]), Vec::new());
    append(&mut message, |out| packet_in.encode(Version::V1_3, 0, out)).unwrap();
    let mut sent = 0;
    while pressure(&mut dispatch, &one, now).full != FullApps::All {
        dispatch.packet_in(ConnId(0), &mut one, &packet_in, &message, now);
        sent += 1;
    }
    assert!(sent > 500, "{sent}");
    assert_eq!((one.queue.len(), one.counters.dropped), (sent, 0));
    assert_eq!(pressure(&mut dispatch, &two, now).full, FullApps::NotWorthWaiting);
    assert!(!dispatch.room_came(now));

    dispatch.expire(now);
    assert_eq!(dispatch.next_moved(), Some(ConnId(0)));
    assert_eq!(dispatch.next_moved(), None, "once, however many packets came");
    dispatch.advance(&mut one, now); // to the first
    let later = now + crate::hold_queue::PATIENCE;
    dispatch.expire(later);
    assert_eq!((dispatch.next_moved(), dispatch.next_moved()), (Some(ConnId(0)), None));
    dispatch.advance(&mut one, later);
    assert!(dispatch.room_came(later));
    assert_eq!((one.queue.len(), one.counters.dropped), (0, 0));
    assert!(dispatch.app_ports.iter().all(|app_port| app_port.counts.delivered == sent as u64));
}

#[test]
fn observer_with_room_does_not_overload_control_apps() {
    let (now, mut one) = (Instant::now(), switch(1));
    let mut dispatch = dispatch(vec![Policy::default()]);
    fill(&mut dispatch, &mut one, now);
    assert_eq!(pressure(&mut dispatch, &one, now).full, FullApps::All);
    let mut app_port = AppPort::new(
        AppId(2),
        "observer".into(),
        AppSlot::new(1),
        Tuning::default(),
        idle(1).shared_quota(AppId(2)),
    );
    app_port.policy = observer(vec![]);
    dispatch.app_ports.push(app_port);
    dispatch.replan();
    assert_eq!(pressure(&mut dispatch, &one, now + WORTH_WAITING).full, FullApps::All);
}

#[test]
fn read_size_is_never_zero() {
    let (now, mut one) = (Instant::now(), switch(1));
    let policies = vec![Policy::default(), Policy { order: 1, ..Policy::default() }];
    let mut dispatch = dispatch(policies);
    // The first app is live and handles nothing.
    let (parts, _fds) = part::make(&idle(1), Tuning::default().ring).unwrap();
    let app_port = &mut dispatch.app_ports[0];
    app_port.attach(parts.into_iter().next().unwrap());
    while app_port.has_work() {
        app_port.pump([&mut one].into_iter(), |_, _| true);
    }
    let (packet_in, mut message) = (PacketIn::new(PortNo(1), &[7; 60]), Vec::new());
    append(&mut message, |out| packet_in.encode(Version::V1_3, 0, out)).unwrap();
    while dispatch.holds.room(one.queue.len()) > 0 {
        dispatch.packet_in(ConnId(0), &mut one, &packet_in, &message, now);
        dispatch.expire(now);
        while dispatch.next_moved().is_some() {
            dispatch.advance(&mut one, now);
        }
    }
    let pressure = pressure(&mut dispatch, &one, now);
    assert!(dispatch.app_ports[0].is_waited_for() && !dispatch.app_ports[0].is_full());
    assert!(matches!(pressure.full, FullApps::All | FullApps::AllAndBusy));
    assert_eq!(pressure.room, LEAST_TURN);
}
