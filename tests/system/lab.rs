//! Tests the lab without Rosemary. If these tests fail, check the machine first.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use cli::lab::Of;
use cli::lab::processes;
use rosemary_tests::capture::{Capture, is_installed};
use rosemary_tests::{in_a_lab, skip};

#[test]
fn standalone_switch_connects_its_hosts() {
    in_a_lab(|lab| {
        let s1 = lab.switch("s1", Of::V1_3)?;
        let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s1)?);
        s1.stand_alone()?;
        let watch = h2.watch()?;
        let report = h1.ping(&h2, 5, Duration::from_millis(20))?;
        assert_eq!((report.sent, report.received), (5, 5), "{report:?}");
        watch.wait_for(&["ARP", "who-has 10.0.0.2"], Duration::from_secs(5))?;
        assert_eq!(s1.dump_flows()?.len(), 1, "the one that fail_mode=standalone puts there");
        Ok(())
    });
}

#[test]
fn switch_without_a_controller_forwards_nothing() {
    in_a_lab(|lab| {
        let s1 = lab.switch("s1", Of::V1_0)?;
        let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s1)?);
        let report = h1.ping(&h2, 2, Duration::from_millis(20))?;
        assert_eq!((report.sent, report.received), (2, 0), "{report:?}");
        assert_eq!(s1.dump_flows()?, [] as [&str; 0]);
        Ok(())
    });
}

#[test]
fn ended_lab_leaves_nothing() {
    let (sender, receiver) = std::sync::mpsc::channel();
    in_a_lab(move |lab| {
        let s1 = lab.switch("s1", Of::V1_3)?;
        let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s1)?);
        let _pinging = h1.ping_in_background(&h2, 1000, Duration::from_millis(100))?;
        let _watch = h2.watch()?;
        // Other tests run in parallel, in their own networks.
        let mut networks = vec![fs::read_link("/proc/thread-self/ns/net")?];
        for host in [&h1, &h2] {
            networks.push(host.run("readlink", &["/proc/self/ns/net"])?.trim().into());
        }
        let mut found = processes::all();
        found.retain(|process| process.namespace("net").is_some_and(|n| networks.contains(&n)));
        let mut names: Vec<_> = found.iter().map(|process| process.name.as_str()).collect();
        names.sort_unstable(); // the second tcpdump is that of every test
        assert_eq!(names, ["ovs-vswitchd", "ovsdb-server", "ping", "tcpdump", "tcpdump"]);
        sender.send(found)?;
        Ok(())
    });
    let Ok(found) = receiver.recv() else { return };
    let left = processes::wait_until_gone(&found, Duration::from_secs(5));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn tshark_detects_a_malformed_message() {
    in_a_lab(|lab| {
        if !is_installed("tshark") {
            skip(&anyhow::anyhow!("tshark is not installed"));
            return Ok(());
        }
        let hello = b"\x04\0\0\x08\0\0\0\x01";
        // A flow-mod truncated inside its match (OpenFlow 1.3.5 §7.3.4.1).
        let mut cut = [0; 56];
        cut[..4].copy_from_slice(&[4, 14, 0, 56]);
        cut[48..].copy_from_slice(&[0, 1, 0, 32, 0x80, 0, 0, 4]);
        for (messages, is_fine) in [(hello.to_vec(), true), ([&hello[..], &cut].concat(), false)] {
            let capture = Capture::start(lab, 6654)?;
            let controller = TcpListener::bind("127.0.0.1:6654")?;
            let _switch = TcpStream::connect("127.0.0.1:6654")?;
            controller.accept()?.0.write_all(&messages)?;
            let checked = capture.check(lab);
            assert_eq!(checked.is_ok(), is_fine, "{checked:?}");
            assert!(is_fine || format!("{checked:?}").contains("Malformed Packet"), "{checked:?}");
        }
        Ok(())
    });
}
