//! Estimates how full a switch's flow tables are, and how many flows each app has there (*Rosemary §3.2.4*).
//!
//! Between two reports of the switch the kernel knows only which adds it has sent. That is an estimate, because an add may
//! replace a flow or be refused, and flows expire. **The estimate decides when to ask the switch again; only the switch's
//! report decides** whether the operator is alerted, and whether an app has used up its quota of flows. So an app can
//! exceed its quota for the time that a report takes.
//!
//! A switch to which no app has added flows is not asked: its tables cannot fill. Others are asked seldom: flows expire, and
//! operators see the number.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use openflow::{
    Available as _, FlowStatsRequest, Match, MultipartReply, MultipartRequest, Version,
};

use crate::check::{APP_SHIFT, OWN_BITS};
use crate::ids::AppSlot;
use control::app::AppId;

/// Hundredths of its size from which a table is nearly full, and below which it has room again.
const NEARLY_FULL: u64 = 90;
const ROOM_AGAIN: u64 = 80;

/// Time between two requests for the tables: while flows are added, and when a table is nearly full by the estimate.
const EVERY: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(1);

/// The same after flows were added: they expire, and the operator sees the number.
const LATER: Duration = Duration::from_secs(30);

/// Time between two counts of an app's flows.
const COUNT_EVERY: Duration = Duration::from_millis(20);

/// Time after which an unanswered count is requested again.
const PATIENCE: Duration = Duration::from_secs(5);

/// The flow tables of one switch.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    /// The tables to which flows were added, or that are nearly full, with their numbers.
    tables: Vec<(u8, Filling)>,
    /// The apps that have a quota of flows and added some.
    apps: BTreeMap<AppSlot, Holding>,
    /// When the tables were last requested.
    asked: Option<Instant>,
    /// The tables must be requested this long after `asked`.
    wanted: Option<Duration>,
    /// When the numbers of adds were last halved because the flows are counted all the time.
    aged: Option<Instant>,
}

/// A table that fills.
#[derive(Debug, Default)]
struct Filling {
    /// Adds since the last request, and those before it that no report contains yet.
    since: u32,
    before: u32,
    /// Adds of each app, by its slot: halved with each report.
    by: Vec<u32>,
    /// The estimate cannot be that of a nearly full table before `since` is this.
    look_at: u32,
    nearly_full: bool,
}

/// An app's flows.
#[derive(Debug, Default)]
struct Holding {
    counted: Option<u32>,
    /// Adds since the last request.
    since: u32,
    asked: Option<Instant>,
    waiting: bool,
    /// Flows in the parts of the reply so far.
    part: u32,
    /// Whether a part does not say how many flows there are.
    is_unknown: bool,
}

/// A change of a table that is reported to the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is nearly full; this app has added most lately.
    NearlyFull { most: Option<AppSlot> },
    /// It has room again.
    RoomAgain,
}

impl Occupancy {
    /// Whether an app with a quota of `most` flows may add one, by the last report of the switch.
    pub(crate) fn has_room(&self, slot: AppSlot, most: u32) -> bool {
        let counted = self.apps.get(&slot).and_then(|holding| holding.counted);
        counted.is_none_or(|counted| counted < most)
    }

    /// Notes adds of an app to a table. `known` returns the number of flows in the last report, and the size of the table.
    pub(crate) fn added(
        &mut self,
        slot: AppSlot,
        (table, adds): (u8, u32),
        known: impl FnOnce() -> (Option<u32>, Option<u32>),
    ) {
        let filling = filling_of(&mut self.tables, table);
        filling.since = filling.since.saturating_add(adds);
        if filling.by.len() <= slot.index() {
            filling.by.resize(slot.index() + 1, 0);
        }
        let by = &mut filling.by[slot.index()];
        *by = by.saturating_add(adds);
        if filling.since >= filling.look_at || self.wanted.is_none() {
            let soon = filling.look(known());
            let wanted = if soon { SOON } else { EVERY };
            self.wanted = Some(self.wanted.map_or(wanted, |before| before.min(wanted)));
        }
    }

    /// Whether the tables must be requested now; if so, notes that they are.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let since = |at: Instant| now.saturating_duration_since(at);
        let is_due =
            self.wanted.is_some_and(|after| self.asked.is_none_or(|at| since(at) >= after));
        if is_due {
            self.asked = Some(now);
            // A table that is nearly full is watched until it has room again.
            let is_full = self.tables.iter().any(|(_, it)| it.nearly_full);
            let later = (!self.tables.is_empty()).then_some(LATER);
            self.wanted = if is_full { Some(EVERY) } else { later };
            for (_, filling) in &mut self.tables {
                filling.before = filling.added();
                (filling.since, filling.look_at) = (0, 0);
            }
        }
        is_due
    }

    /// Whether the counts of the apps' adds are due to be aged; if so, notes the time. For a switch whose flows are counted all the time: other
    /// reports are as far apart as this.
    pub(crate) fn take_age(&mut self, now: Instant) -> bool {
        let is_due = self.aged.is_none_or(|at| now.saturating_duration_since(at) >= EVERY);
        if is_due {
            self.aged = Some(now);
        }
        is_due
    }

    /// Notes how many flows a table has, and its size. `ages` is whether earlier adds of apps count less from now on.
    pub(crate) fn note_count(
        &mut self,
        table: u8,
        (flows, size): (u32, Option<u32>),
        ages: bool,
    ) -> Option<Change> {
        let nearly_full = is_part(NEARLY_FULL, flows, size);
        if !nearly_full && !self.tables.iter().any(|(number, _)| *number == table) {
            return None;
        }
        let filling = filling_of(&mut self.tables, table);
        (filling.before, filling.look_at) = (0, 0);
        let most = filling.most();
        if ages {
            filling.by.iter_mut().for_each(|adds| *adds /= 2);
        }
        if nearly_full && !filling.nearly_full {
            filling.nearly_full = true;
            self.wanted = Some(self.wanted.map_or(EVERY, |before| before.min(EVERY)));
            return Some(Change::NearlyFull { most });
        }
        let room_again = filling.nearly_full && !is_part(ROOM_AGAIN, flows, size);
        filling.nearly_full &= !room_again;
        room_again.then_some(Change::RoomAgain)
    }

    /// The estimate of flows that were added to a table since the last report.
    #[cfg(test)]
    pub(crate) fn added_since(&self, table: u8) -> u32 {
        self.tables.iter().find(|(number, _)| *number == table).map_or(0, |(_, it)| it.added())
    }

    /// The tables that are nearly full, each with the app that adds most.
    pub(crate) fn nearly_full(&self) -> impl Iterator<Item = (u8, Option<AppSlot>)> {
        let full = self.tables.iter().filter(|(_, filling)| filling.nearly_full);
        full.map(|(table, filling)| (*table, filling.most()))
    }

    /// Notes that an app with a quota of `most` flows adds flows now, or is refused. Returns whether its flows must be counted
    /// now; if so, notes that they are.
    pub(crate) fn is_count_due(
        &mut self,
        slot: AppSlot,
        most: u32,
        adds: u32,
        now: Instant,
    ) -> bool {
        let holding = self.apps.entry(slot).or_default();
        holding.since = holding.since.saturating_add(adds);
        let estimate = holding.counted.map(|it| it.saturating_add(holding.since));
        let since = holding.asked.map(|at| now.saturating_duration_since(at));
        let may_ask =
            since.is_none_or(|it| it >= if holding.waiting { PATIENCE } else { COUNT_EVERY });
        let is_due = may_ask && estimate.is_none_or(|it| it >= most);
        if is_due {
            *holding = Holding {
                counted: holding.counted,
                asked: Some(now),
                waiting: true,
                ..Holding::default()
            };
        }
        is_due
    }

    /// Takes a part of the reply to [`count`].
    pub(crate) fn counted(&mut self, slot: AppSlot, app: AppId, part: &MultipartReply<'_>) {
        let Some(holding) = self.apps.get_mut(&slot) else { return };
        match flows_of(app, part) {
            Some(flows) => holding.part = holding.part.saturating_add(flows),
            None => holding.is_unknown = true,
        }
        if !part.more {
            let (flows, is_unknown) = (holding.part, holding.is_unknown);
            (holding.part, holding.is_unknown) = (0, false);
            holding.counted = Some(flows).filter(|_| !is_unknown);
            holding.waiting = false;
        }
    }
}

impl Filling {
    fn added(&self) -> u32 {
        self.before.saturating_add(self.since)
    }

    /// Whether the table may be nearly full now without the operator's knowledge; notes when to look again.
    fn look(&mut self, (reported, size): (Option<u32>, Option<u32>)) -> bool {
        let flows = reported.unwrap_or(0).saturating_add(self.added());
        let is_soon = !self.nearly_full && is_part(NEARLY_FULL, flows, size);
        let size = size.filter(|_| !is_soon && !self.nearly_full).unwrap_or(u32::MAX);
        let nearly = (u64::from(size) * NEARLY_FULL).div_ceil(100);
        let left = u32::try_from(nearly.saturating_sub(flows.into())).unwrap_or(u32::MAX);
        self.look_at = self.since.saturating_add(left);
        is_soon
    }

    /// The app that has added most lately.
    fn most(&self) -> Option<AppSlot> {
        let most = self.by.iter().enumerate().max_by_key(|(_, adds)| **adds);
        most.filter(|(_, adds)| **adds > 0).map(|(slot, _)| AppSlot::new(slot))
    }
}

/// The entry of a table. There are at most 255, and mostly it is the first.
#[inline]
fn filling_of(tables: &mut Vec<(u8, Filling)>, table: u8) -> &mut Filling {
    let known = tables.iter().position(|(number, _)| *number == table);
    let place = known.unwrap_or_else(|| {
        tables.push((table, Filling::default()));
        tables.len() - 1
    });
    &mut tables[place].1
}

/// Whether `flows` are at least this number of hundredths of `size`, if that is known.
fn is_part(hundredths: u64, flows: u32, size: Option<u32>) -> bool {
    size.is_some_and(|size| size > 0 && u64::from(flows) * 100 >= u64::from(size) * hundredths)
}

/// The request for the number of an app's flows in a switch. OpenFlow 1.0 cannot select flows by cookie, so it requests all
/// flows.
pub(crate) fn count(version: Version, app: AppId) -> MultipartRequest<'static> {
    let all = FlowStatsRequest::new(Match::new());
    if !version.features().cookie_masks {
        return MultipartRequest::Flow(all);
    }
    let cookie = u64::from(app.0) << APP_SHIFT;
    MultipartRequest::Aggregate(FlowStatsRequest { cookie, cookie_mask: !OWN_BITS, ..all })
}

/// The number of an app's flows in a part of the reply; `None` if the switch does not count them.
fn flows_of(app: AppId, part: &MultipartReply<'_>) -> Option<u32> {
    match &part.body {
        openflow::ReplyBody::Aggregate(all) => all.flow_count.available(),
        openflow::ReplyBody::Flow(flows) => {
            let own = flows.iter().filter(|flow| flow.cookie >> APP_SHIFT == u64::from(app.0));
            u32::try_from(own.count()).ok()
        }
        _ => Some(0), // the type was compared with the question's
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(index: usize) -> AppSlot {
        AppSlot::new(index)
    }

    const SIZE: Option<u32> = Some(100);

    /// Adds of the app in `slot` to table 0.
    fn add(occupancy: &mut Occupancy, slot: usize, count: u32, reported: u32) {
        let slot = AppSlot::new(slot);
        (0..count).for_each(|_| occupancy.added(slot, (0, 1), || (Some(reported), SIZE)));
    }

    /// Reports how many flows a table has, and its size, as a switch that is asked from time to time.
    fn report(
        occupancy: &mut Occupancy,
        table: u8,
        flows: u32,
        size: Option<u32>,
    ) -> Option<Change> {
        occupancy.note_count(table, (flows, size), true)
    }

    #[test]
    fn operator_is_alerted_once_until_there_is_room() {
        let (mut occupancy, now) = (Occupancy::default(), Instant::now());
        add(&mut occupancy, 1, 20, 0);
        add(&mut occupancy, 2, 80, 0);
        assert_eq!(report(&mut occupancy, 0, 89, SIZE), None);
        assert_eq!(
            report(&mut occupancy, 0, 90, SIZE),
            Some(Change::NearlyFull { most: Some(slot(2)) })
        );
        assert_eq!(report(&mut occupancy, 0, 100, SIZE), None);
        assert_eq!(report(&mut occupancy, 0, 80, SIZE), None, "not yet room again");
        assert_eq!(report(&mut occupancy, 0, 95, SIZE), None);
        assert!(occupancy.nearly_full().eq([(0, Some(slot(2)))]));
        assert_eq!(report(&mut occupancy, 0, 79, SIZE), Some(Change::RoomAgain));
        assert_eq!(occupancy.nearly_full().next(), None);
        assert_eq!(
            report(&mut occupancy, 0, 90, SIZE),
            Some(Change::NearlyFull { most: Some(slot(2)) })
        );
        add(&mut occupancy, 1, 10, 90);
        assert!(occupancy.is_due(now));
        report(&mut occupancy, 0, 70, SIZE);
        let again = report(&mut occupancy, 0, 99, SIZE);
        assert_eq!(
            again,
            Some(Change::NearlyFull { most: Some(slot(1)) }),
            "of late it was this one"
        );
    }

    #[test]
    fn app_that_adds_most_is_known_while_flows_are_counted_all_the_time() {
        let (mut occupancy, start) = (Occupancy::default(), Instant::now());
        add(&mut occupancy, 1, 80, 0);
        let mut change = None;
        for tick in 0..100 {
            if tick % 10 == 0 {
                add(&mut occupancy, 2, 1, 80);
            }
            let ages = occupancy.take_age(start + Duration::from_millis(100) * tick);
            change = change.or(occupancy.note_count(0, (80 + tick / 10 + 1, SIZE), ages));
        }
        assert_eq!(change, Some(Change::NearlyFull { most: Some(slot(1)) }));
    }

    #[test]
    fn table_of_unknown_size_is_never_nearly_full() {
        let mut occupancy = Occupancy::default();
        assert_eq!(report(&mut occupancy, 3, 95, SIZE), Some(Change::NearlyFull { most: None }));
        assert_eq!(report(&mut occupancy, 4, u32::MAX, None), None);
        assert_eq!(report(&mut occupancy, 5, 0, Some(0)), None);
        let full = report(&mut occupancy, 6, u32::MAX, Some(u32::MAX));
        assert_eq!(full, Some(Change::NearlyFull { most: None }));
    }

    #[test]
    fn switch_is_asked_only_while_flows_are_added() {
        let (mut occupancy, start) = (Occupancy::default(), Instant::now());
        assert!(!occupancy.is_due(start));
        add(&mut occupancy, 0, 1, 0);
        assert!(occupancy.is_due(start), "the first time at once");
        assert!(!occupancy.is_due(start + 2 * EVERY), "nothing was added since");
        add(&mut occupancy, 0, 1, 0);
        assert!(!occupancy.is_due(start + SOON));
        assert!(occupancy.is_due(start + EVERY));
        add(&mut occupancy, 0, 88, 0);
        assert_eq!(occupancy.added_since(0), 90);
        let at = start + EVERY;
        assert!(!occupancy.is_due(at + SOON / 2) && occupancy.is_due(at + SOON), "90 in all");
        report(&mut occupancy, 0, 90, SIZE);
        assert_eq!(occupancy.added_since(0), 0);
        let at = at + SOON;
        assert!(!occupancy.is_due(at + SOON));
        assert!(occupancy.is_due(at + EVERY), "a full one is watched");
        report(&mut occupancy, 0, 1, SIZE);
        assert!(occupancy.is_due(at + 2 * EVERY));
        assert!(!occupancy.is_due(at + 4 * EVERY), "it has room again");
        assert!(occupancy.is_due(at + 2 * EVERY + LATER), "its flows may have expired");
    }

    fn aggregate(flow_count: u32) -> MultipartReply<'static> {
        let all = openflow::AggregateStats { packet_count: 0, byte_count: 0, flow_count };
        MultipartReply { more: false, body: openflow::ReplyBody::Aggregate(all) }
    }

    #[test]
    fn count_that_is_not_available_refuses_nobody() {
        let (mut occupancy, now) = (Occupancy::default(), Instant::now());
        occupancy.is_count_due(slot(1), 10, 1, now);
        occupancy.counted(slot(1), AppId(7), &aggregate(u32::MAX));
        assert!(occupancy.has_room(slot(1), 10));
        assert!(occupancy.is_count_due(slot(1), 10, 1, now + COUNT_EVERY));
    }

    #[test]
    fn app_is_refused_only_by_the_count_of_the_switch() {
        let (mut occupancy, start) = (Occupancy::default(), Instant::now());
        assert!(occupancy.has_room(slot(1), 10));
        assert!(occupancy.is_count_due(slot(1), 10, 1, start), "nothing is known yet");
        for _ in 0..20 {
            assert!(occupancy.has_room(slot(1), 10), "an estimate refuses no app");
            assert!(
                !occupancy.is_count_due(slot(1), 10, 1, start + COUNT_EVERY),
                "the answer is not there"
            );
        }
        occupancy.counted(slot(1), AppId(7), &aggregate(3));
        assert!(occupancy.has_room(slot(1), 10) && occupancy.has_room(slot(2), 10));
        assert!(occupancy.is_count_due(slot(1), 10, 1, start + COUNT_EVERY), "20 more went since");
        occupancy.counted(slot(1), AppId(7), &aggregate(10));
        assert!(!occupancy.has_room(slot(1), 10));
        assert!(!occupancy.is_count_due(slot(1), 10, 1, start + COUNT_EVERY));
        assert!(occupancy.is_count_due(slot(1), 10, 1, start + 2 * COUNT_EVERY));
        assert!(!occupancy.is_count_due(slot(1), 10, 1, start + 3 * COUNT_EVERY));
        assert!(
            occupancy.is_count_due(slot(1), 10, 1, start + 2 * COUNT_EVERY + PATIENCE),
            "no answer"
        );
        occupancy.counted(slot(1), AppId(7), &aggregate(9));
        assert!(occupancy.has_room(slot(1), 10));
    }

    #[test]
    fn app_far_below_its_quota_is_not_counted() {
        let (mut occupancy, start) = (Occupancy::default(), Instant::now());
        assert!(occupancy.is_count_due(slot(0), 100, 1, start));
        occupancy.counted(slot(0), AppId(7), &aggregate(0));
        let later = start + PATIENCE;
        let counts = (0..101).filter(|_| occupancy.is_count_due(slot(0), 100, 1, later)).count();
        assert_eq!(counts, 1, "when there may be a hundred");
        occupancy.counted(slot(0), AppId(7), &aggregate(0));
        let later = later + PATIENCE;
        assert!(!occupancy.is_count_due(slot(0), 100, 64, later));
        assert!(occupancy.is_count_due(slot(0), 100, 64, later), "each add of one moment counts");
    }

    #[test]
    fn flows_of_all_parts_are_counted_by_owner() {
        assert!(matches!(count(Version::V1_0, AppId(7)), MultipartRequest::Flow(_)));
        let MultipartRequest::Aggregate(asked) = count(Version::V1_3, AppId(7)) else {
            panic!("of the app's alone")
        };
        assert_eq!((asked.cookie, asked.cookie_mask), (7 << 48, 0xffff << 48));
        let flow = |cookie| openflow::FlowStats {
            table_id: 0,
            duration: Duration::ZERO,
            priority: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            importance: 0,
            flags: openflow::FlowModFlags::default(),
            cookie,
            packet_count: 0,
            byte_count: 0,
            match_: Match::new(),
            instructions: openflow::Instructions::default(),
        };
        let mut occupancy = Occupancy::default();
        occupancy.is_count_due(slot(1), 3, 1, Instant::now());
        for more in [true, false] {
            let flows = vec![flow(7 << 48 | 1), flow(8 << 48), flow(7 << 48)];
            let body = openflow::ReplyBody::Flow(flows);
            occupancy.counted(slot(1), AppId(7), &MultipartReply { more, body });
            assert_eq!(occupancy.has_room(slot(1), 4), more);
        }
        assert!(occupancy.has_room(slot(1), 5));
    }
}
