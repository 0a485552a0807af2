//! Tests a switch that does not read, and apps that waste the kernel's time.

use sdk::Refusal;

use super::*;

const OTHER: AppId = AppId(2);

/// A packet-out of `size` bytes that ends in `number`.
fn packet_out(number: u32, size: usize) -> Vec<u8> {
    let mut data = vec![0; size];
    data.extend(number.to_be_bytes());
    let mut message = Vec::new();
    let packet_out = PacketOut::new(PortNo(1), &[], &data);
    append(&mut message, |out| packet_out.encode(OF, number, out)).unwrap();
    message
}

/// Sends messages as an app. Returns how many found room in its ring.
fn send(zone: &mut FakeZone, to: (u64, u32), messages: impl Iterator<Item = Vec<u8>>) -> u32 {
    let (ZoneEnd { records, messages: writer }, bell) = &mut zone.ends[0];
    let mut sent = 0;
    for message in messages {
        if writer.free() < message.len() + 1024 {
            break;
        }
        let Some(room) = writer.reserve(message.len()) else { break };
        room.copy_from_slice(&message);
        assert!(writer.commit(to.0, to.1, message.len()));
        sent += 1;
    }
    if writer.done(records, 0) {
        bell.ring();
    }
    sent
}

/// Consumes the records of an app. Returns how many of its messages were refused because the output was full.
fn refused_as_full(zone: &mut FakeZone) -> u32 {
    let ends = &mut zone.ends[0].0;
    let batch = ends.records.batch(MAX_BATCH).unwrap();
    let is_full = |record: &[u8]| {
        record[4..6] == (RecordKind::Refused as u16).to_le_bytes()
            && record[40] == Refusal::Full as u8
    };
    let (all, full) = (batch.iter().count(), batch.iter().filter(|it| is_full(it)).count());
    ends.messages.done(&mut ends.records, all);
    u32::try_from(full).unwrap()
}

#[test]
fn flooding_a_slow_switch_delays_no_other_app() {
    let mut bench = Bench::new(1);
    let fakes = bench.connect([1]);
    let to = (1, bench.switches()[0].epoch);
    let mut flooder = bench.attach();
    flooder.snapshot();
    let mut other = bench.attach_as(OTHER, &Policy { order: 1, ..Policy::default() });
    other.snapshot();
    while fakes[0].received.try_recv().is_ok() {} // the handshake
    fakes[0].is_deaf.store(true, Ordering::Relaxed);
    // Until the flooder's share is full, and the socket as well: the system may still enlarge its buffers for a while.
    let mut flood = 0;
    wait_for("the flooder is refused, and the socket is full", || {
        flood += send(&mut flooder, to, (flood..).map(|number| packet_out(number, 2000)));
        let before = bench.all_counters()[0].unsent;
        std::thread::sleep(Duration::from_millis(50));
        let is_full = before > 0 && bench.all_counters()[0].unsent == before;
        (is_full && refused_as_full(&mut flooder) > 0).then_some(())
    });
    let sent = send(&mut other, to, (0..10).map(|number| packet_out(number, 6)));
    assert_eq!(sent, 10);
    wait_for("the other's messages are checked", || {
        (bench.all_counters()[1].packet_outs == 10).then_some(())
    });
    let counters = bench.all_counters();
    assert_eq!((counters[1].refused, refused_as_full(&mut other)), (0, 0));
    assert!(counters[1].unsent > 0, "{counters:?}");
    assert!(counters[0].unsent > 10 * counters[1].unsent, "{counters:?}");
    assert!(bench.switches()[0].unsent > counters[0].unsent);
    // The switch reads: it receives all messages of each app in order, and those of the other app before most of the
    // flood.
    fakes[0].is_deaf.store(false, Ordering::Relaxed);
    let (mut ours, mut last, mut behind) = (Vec::new(), None, 0);
    let mut of_flooder = 0;
    wait_for("everything accepted came", || {
        while let Ok(message) = fakes[0].received.try_recv() {
            let Ok(packet_out) = PacketOut::decode(&message) else { continue };
            let number = u32::from_be_bytes(*packet_out.data.last_chunk().unwrap());
            if packet_out.data.len() == 10 {
                ours.push(number);
                behind = 0;
            } else {
                assert!(last < Some(number), "{last:?}, {number}");
                last = Some(number);
                of_flooder += 1;
                behind += message.len();
            }
        }
        let AppCounters { packet_outs, refused, .. } = bench.counters();
        let is_checked = packet_outs + refused == u64::from(flood);
        (is_checked && of_flooder == packet_outs && ours.len() == 10).then_some(())
    });
    assert_eq!(ours, (0..10).collect::<Vec<_>>());
    assert!(behind > 64 * 1024, "{behind} bytes of the flooder came after the other's");
    bench.stop();
}

#[test]
fn refusals_slow_down_only_their_app() {
    let mut bench = Bench::new(1);
    let fakes = bench.connect([1]);
    let to = (1, bench.switches()[0].epoch);
    let mut offender = bench.attach();
    offender.snapshot();
    let mut other = bench.attach_as(OTHER, &Policy { order: 1, ..Policy::default() });
    other.snapshot();
    while fakes[0].received.try_recv().is_ok() {} // the handshake
    let (start, time) = (Instant::now(), Duration::from_millis(1500));
    let (mut sent, mut others, to_nowhere) = (0_u64, 0, packet_out(0, 6));
    while start.elapsed() < time {
        for _ in 0..20 {
            sent +=
                u64::from(send(&mut offender, (7, 1), vec![to_nowhere.clone(); 500].into_iter()));
            offender.ends[0].1.ring();
            refused_as_full(&mut offender);
        }
        others += send(&mut other, to, [packet_out(others, 0)].into_iter());
        refused_as_full(&mut other);
        fakes[0].packet_outs(1);
    }
    let counters = bench.all_counters();
    // Per second 10,000 refusals and those of one turn, and then 128 per millisecond.
    let seconds = start.elapsed().as_secs() + 2;
    let most =
        seconds * (10_000 + 2 * 4096) + u64::try_from(start.elapsed().as_millis()).unwrap() * 128;
    println!("{sent} sent, {} refused, {others} of the other", counters[0].refused);
    assert!(counters[0].refused < most, "{} of {most}", counters[0].refused);
    assert!(counters[0].slowed > 0, "{counters:?}");
    assert_eq!((counters[1].packet_outs, counters[1].slowed), (others.into(), 0));
    bench.stop();
}

#[test]
fn doorbell_that_rings_without_records_is_ignored() {
    let mut bench = Bench::new(1);
    let fakes = bench.connect([1]);
    let to = (1, bench.switches()[0].epoch);
    let mut zone = bench.attach();
    zone.snapshot();
    while fakes[0].received.try_recv().is_ok() {} // the handshake
    let give_up = Instant::now() + TEST_TIMEOUT;
    while bench.counters().slowed == 0 {
        assert!(Instant::now() < give_up, "it is not slowed down");
        (0..2000).for_each(|_| zone.ends[0].1.ring());
    }
    assert_eq!(send(&mut zone, to, [packet_out(5, 0)].into_iter()), 1);
    fakes[0].packet_outs(1); // its messages are still received
    bench.stop();
}
