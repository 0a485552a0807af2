//! Decides when the kernel charges memory to the calls of its apps, and which app a leak is charged to.
//!
//! A charge costs two system calls for each call of an app, so calls are charged only while the kernel's memory rises. An app
//! is charged with the leak if the memory that its calls took since then is at least half of the kernel's growth, and no
//! other app's is. A charge includes memory that the app has returned since, so two such apps name neither.

use control::app::AppId;
use control::flight::Charges;
use names::Limit;

/// The memory of a kernel and the charges when it began to charge its calls.
#[derive(Debug, Default)]
pub struct ChargeWatch {
    begin: Option<(u64, Charges)>,
}

/// An app to which the growth of the kernel is charged. All amounts are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charged {
    /// The app.
    pub app: AppId,
    /// The memory that its calls took.
    pub taken: u64,
    /// The growth of the kernel in the same time.
    pub growth: u64,
}

impl Charged {
    /// The evidence as a phrase, with the app's name.
    pub fn phrase(&self, name: &str) -> String {
        let (taken, growth) = (Limit::Memory.shown(self.taken), Limit::Memory.shown(self.growth));
        format!("calls of its app {name} took {taken} while the kernel grew by {growth}")
    }
}

impl ChargeWatch {
    /// A new process runs, which charges nothing.
    pub fn restart(&mut self) {
        self.begin = None;
    }

    /// Takes a measurement. `is_rising` says whether the kernel's memory rises, `charges` reads the present charges. Returns
    /// whether the kernel must charge its calls from now on, if that changes.
    pub fn measure(
        &mut self,
        is_rising: bool,
        memory: u64,
        charges: impl FnOnce() -> Charges,
    ) -> Option<bool> {
        if is_rising == self.begin.is_some() {
            return None;
        }
        self.begin = is_rising.then(|| (memory, charges()));
        Some(is_rising)
    }

    /// The app to which the growth is charged, with the kernel's present memory and charges.
    pub fn charged(&self, memory: u64, charges: &Charges) -> Option<Charged> {
        let (before, charged_before) = self.begin.as_ref()?;
        let growth = memory.checked_sub(*before).filter(|growth| *growth > 0)?;
        let charges = charges.since(charged_before);
        let mut large = charges.apps().filter(|(_, taken)| *taken >= growth.div_ceil(2));
        let (app, taken) = large.next()?;
        large.next().is_none().then_some(Charged { app, taken, growth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// The app to which a growth from 10 MiB to 20 MiB is charged. Each app has MiB before and after.
    fn charged(apps: &[(u16, u64, u64)]) -> Option<u16> {
        let charges = |of: fn(&(u16, u64, u64)) -> u64| {
            Charges::of(apps.iter().map(|app| (AppId(app.0), of(app) * MIB)))
        };
        let mut watch = ChargeWatch::default();
        assert_eq!(watch.measure(true, 10 * MIB, || charges(|app| app.1)), Some(true));
        watch.charged(20 * MIB, &charges(|app| app.2)).map(|it| it.app.0)
    }

    #[test]
    fn growth_is_charged_to_the_app_whose_calls_took_it() {
        assert_eq!(charged(&[(1, 0, 9), (2, 50, 52)]), Some(1));
        assert_eq!(charged(&[(1, 0, 4), (2, 0, 4)]), None, "neither took half");
        assert_eq!(charged(&[(1, 0, 9), (2, 0, 300)]), None, "both took half");
        assert_eq!(charged(&[(1, 90, 91)]), None, "it took that before");
        assert_eq!(charged(&[]), None);
    }

    #[test]
    fn calls_are_charged_only_while_memory_rises() {
        let mut watch = ChargeWatch::default();
        let charges = || Charges::of([(AppId(1), 5 * MIB)]);
        let mut measure = |is_rising| watch.measure(is_rising, 10 * MIB, charges);
        let switched = [false, true, true, false, true].map(&mut measure);
        assert_eq!(switched, [None, Some(true), None, Some(false), Some(true)]);
        watch.restart();
        assert_eq!(watch.charged(99 * MIB, &charges()), None);
    }

    #[test]
    fn kernel_that_shrank_charges_no_app() {
        let mut watch = ChargeWatch::default();
        watch.measure(true, 10 * MIB, Charges::default);
        assert_eq!(watch.charged(9 * MIB, &Charges::of([(AppId(1), 9 * MIB)])), None);
    }

    #[test]
    fn evidence_names_app_and_amounts() {
        let charged = Charged { app: AppId(1), taken: 3 * MIB, growth: 4 * MIB };
        let phrase = charged.phrase("moody");
        assert_eq!(phrase, "calls of its app moody took 3 MiB while the kernel grew by 4 MiB");
    }
}
