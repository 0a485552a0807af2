//! Tests when the flows of a switch are read, and for what.

use super::*;

const NONE: Set = Set::EMPTY;

fn ids(slot: AppSlot) -> (AppId, u16) {
    (AppId(u16::try_from(slot.index()).unwrap() + 1), 7)
}

fn both() -> Set {
    Set::of(AppSlot::new(0)).with(Set::of(AppSlot::new(1)))
}

#[test]
fn switch_is_read_when_requested_and_for_each_app_once() {
    let (mut reader, now) = (FlowReader::default(), Instant::now());
    assert!(!reader.is_due(both(), now));
    reader.uninformed = both();
    assert!(!reader.is_due(NONE, now), "no app runs");
    let one = Set::of(AppSlot::new(1));
    assert!(reader.is_due(one, now));
    let reading = reader.begin(Version::V1_3, one, ids, now);
    assert_eq!((reading.only, reading.inform.len()), (Some(AppId(2)), 1));
    assert!(!reader.is_due(both(), now), "one at a time");
    assert_eq!(reader.end(false, false, now).unwrap().inform[0].life, 7);
    assert!(reader.is_due(both(), now), "the other app learns its flows at once");
    reader.request(now);
    assert!(reader.is_due(NONE, now));
    let reading = reader.begin(Version::V1_3, both(), ids, now);
    assert_eq!((reading.only, reading.inform.len()), (None, 1));
    reader.end(false, false, now);
    assert!(!reader.is_due(both(), now + INTERVAL));
    reader.uninformed = one; // it has restarted
    assert!(!reader.is_due(both(), now) && reader.is_due(both(), now + INTERVAL));
}

#[test]
fn flows_of_one_app_cannot_be_selected_in_1_0() {
    let (mut reader, now) = (FlowReader::default(), Instant::now());
    reader.uninformed = Set::of(AppSlot::new(0));
    assert_eq!(reader.begin(Version::V1_0, both(), ids, now).only, None);
}

#[test]
fn silent_switch_gives_up_its_place_and_is_read_later() {
    let (mut reader, now) = (FlowReader::default(), Instant::now());
    reader.request_for_operator(false, false, now);
    reader.begin(Version::V1_3, NONE, ids, now);
    assert!(reader.takes_place(now) && !reader.takes_place(now + HESITATION));
    assert!(reader.failure(now + HESITATION).is_none());
    assert_eq!(reader.failure(now + PATIENCE), Some("it did not answer"));
    assert!(reader.is_awaited);
    let now = now + PATIENCE;
    reader.end(true, false, now);
    assert!(reader.has_failed && !reader.is_awaited);
    assert!(!reader.is_due(NONE, now) && reader.is_due(NONE, now + RETRY));
}

#[test]
fn endless_reply_keeps_no_place_and_fails() {
    let (mut reader, start) = (FlowReader::default(), Instant::now());
    reader.request(start);
    reader.begin(Version::V1_3, NONE, ids, start);
    let mut now = start;
    let mut places = Vec::new();
    while reader.failure(now).is_none() {
        assert!(now < start + LONGEST, "it is read without end");
        places.push(reader.takes_place(now));
        now += HESITATION / 2;
        reader.progress(now);
    }
    assert_eq!(places.iter().filter(|takes| **takes).count(), 8, "for a second");
    assert_eq!(reader.failure(now), Some("its answer has no end"));
}

#[test]
fn found_owners_are_those_that_were_not_removed() {
    let (mut reader, now) = (FlowReader::default(), Instant::now());
    reader.request_for_operator(true, true, now);
    reader.begin(Version::V1_3, NONE, ids, now);
    let reading = reader.reading.as_mut().unwrap();
    assert!(reading.removes_all && reading.removes_foreign);
    reading.foreign = 2;
    let owned = Owned { flows: 3, ..Owned::default() };
    reading.found.extend([(AppId(4), owned), (AppId(5), owned)]);
    reading.removed.insert(AppId(4), owned);
    assert_eq!(reader.end(false, false, now).unwrap().removed.len(), 1);
    assert!(reader.found.keys().eq([&AppId(5)]));
    assert_eq!(reader.foreign, 2);
    reader.request(now);
    let reading = reader.begin(Version::V1_3, NONE, ids, now);
    assert!(!reading.removes_all && !reading.removes_foreign, "once");
    reader.end(false, false, now);
    reader.repeat_removal(now);
    let reading = reader.begin(Version::V1_3, NONE, ids, now);
    assert!(reading.removes_all && reading.removes_foreign, "again, as the switch refused it");
}

#[test]
fn bands_are_checked_at_their_time_and_again_after_a_failure() {
    let (mut reader, now) = (FlowReader::default(), Instant::now());
    let check = now + INTERVAL;
    reader.request_band_check(check);
    reader.request(now);
    assert!(reader.begin(Version::V1_3, NONE, ids, now).band_check.is_none(), "too early");
    reader.end(false, false, now);
    assert!(!reader.is_due(NONE, now) && reader.is_due(NONE, check));
    let reading = reader.begin(Version::V1_3, NONE, ids, check);
    assert!(reading.band_check.is_some() && reading.only.is_none());
    reader.end(true, false, check);
    assert!(reader.is_due(NONE, check + RETRY));
    reader.begin(Version::V1_3, NONE, ids, check + RETRY);
    reader.reading.as_mut().unwrap().is_cut_short = true;
    reader.end(false, false, check + RETRY);
    let again = check + RETRY + INTERVAL;
    assert!(reader.begin(Version::V1_3, NONE, ids, again).band_check.is_some());
    reader.end(false, false, again);
    assert!(!reader.is_due(NONE, again + RETRY));
}

#[test]
fn bands_are_checked_after_apps_have_learned_their_flows() {
    let (mut reader, now) = (FlowReader::default(), Instant::now());
    reader.request_band_check(now);
    reader.uninformed = both();
    assert!(reader.begin(Version::V1_3, both(), ids, now).band_check.is_none());
    reader.end(false, false, now);
    assert!(!reader.is_due(NONE, now) && reader.is_due(NONE, now + GRACE));
    assert!(reader.begin(Version::V1_3, both(), ids, now + GRACE).band_check.is_some());
}

#[test]
fn image_answers_unless_the_flows_themselves_are_needed() {
    let (mut reader, now) = (FlowReader::default(), Instant::now());
    let (version, older) = (Version::V1_3, Version::V1_0);
    let known = KnownFlows { foreign: 3, has_lost: true, has_earlier: true };
    let mut reading = |request: &dyn Fn(&mut FlowReader), ready| {
        request(&mut reader);
        reader.begin(version, ready, ids, now);
        reader.end(false, false, now).unwrap()
    };
    let orphans = reading(&|reader| reader.request(now), NONE);
    assert_eq!(orphans.reason(), Reason::Orphans);
    assert!(orphans.needs_flows(version, None) && !orphans.needs_flows(version, Some(known)));
    assert!(orphans.needs_flows(older, Some(known)), "it removes flows one by one");
    assert!(!orphans.needs_flows(older, Some(KnownFlows { has_lost: false, ..known })));
    let foreign = reading(&|reader| reader.request_for_operator(true, true, now), NONE);
    assert!(foreign.needs_flows(version, Some(known)));
    assert!(!foreign.needs_flows(version, Some(KnownFlows { foreign: 0, ..known })));
    let bands = reading(&|reader| reader.request_band_check(now), NONE);
    assert_eq!(bands.reason(), Reason::Bands);
    assert!(bands.needs_flows(version, Some(known)));
    assert!(!bands.needs_flows(version, Some(KnownFlows { has_earlier: false, ..known })));
    let check = reading(&|reader| reader.request_check(ImageCheck::default()), NONE);
    assert_eq!((check.reason(), check.only), (Reason::Check, None));
    assert!(check.needs_flows(version, Some(KnownFlows::default())));
    let apps = reading(&|reader| reader.uninformed = both(), both());
    assert_eq!(apps.reason(), Reason::Apps);
    assert!(apps.needs_flows(version, Some(KnownFlows::default())));
}

#[test]
fn absent_app_that_runs_again_loses_nothing() {
    let mut absent = AbsentApps::default();
    let app = |number, remove| AbsentApp { app: AppId(number), name: "a".into(), remove };
    absent.add(&[app(1, true), app(2, false)]);
    assert!(absent.loses(AppId(1), false) && !absent.loses(AppId(2), false));
    assert!(absent.loses(AppId(2), true) && !absent.loses(AppId(3), true));
    absent.runs(AppId(1));
    assert!(!absent.loses(AppId(1), true) && !absent.has(AppId(1)) && !absent.is_empty());
}
