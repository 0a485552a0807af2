//! Charges the use of all programs to the accounts of sessions.
//!
//! | source | charged to |
//! | --- | --- |
//! | processor time and memory of a zone | the app, in its session |
//! | processor time and memory of the kernel, the services, the HTTP interface, the monitor | the program, in `system` |
//! | messages of an app in the kernel's flight recorder | the app, in its session |

use std::time::{Duration, Instant};

use control::app::AppId;
use control::flight::Traffic;
use control::session::SYSTEM;

use super::Programs;
use crate::accounts::{Accounts, Member, Usage};
use crate::app::App;
use crate::effects::ProgramId;
use crate::program::{NORTHBOUND, Program};
use crate::system::System;
use crate::usage::meter::{Meter, Sample};

impl From<&Sample> for Usage {
    fn from(sample: &Sample) -> Self {
        Self { cpu: sample.cpu, memory: sample.memory }
    }
}

impl Programs {
    /// The accounts.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// The accounts, to set the time and to store them.
    pub fn accounts_mut(&mut self) -> &mut Accounts {
        &mut self.accounts
    }

    /// Charges what the last measurement of each program found, and the messages of apps.
    pub(super) fn account(&mut self, system: &dyn System, now: Instant) {
        let used = self.used(|_, meter| meter.sample().copied());
        self.charge(used, system, now);
    }

    /// Charges what all programs have used until now. It reads the use of each from the system.
    pub fn account_now(&mut self, system: &dyn System, now: Instant) {
        let used = self.used(|program, _| system.sample(program));
        self.charge(used, system, now);
    }

    fn charge(&mut self, used: Vec<(ProgramId, Member, Usage)>, system: &dyn System, now: Instant) {
        for (program, member, used) in used {
            self.accounts.used(program, &member, used, now);
        }
        let lives = self.accounted_programs();
        self.accounts.forget_others(|program| lives.contains(&program));
        let traffic = system.traffic(self.kernel.program.id());
        self.count_messages(traffic);
    }

    /// The programs that have a process, and the monitor.
    fn accounted_programs(&self) -> Vec<ProgramId> {
        let has_process = |(program, ..): &(&Program, Member, &Meter)| program.pid().is_some();
        let programs = self.metered().filter(has_process).map(|(program, ..)| program.id());
        programs.chain([ProgramId::MONITOR]).collect()
    }

    /// Charges what a process used until its end.
    pub(super) fn account_for_end(
        &mut self,
        program: ProgramId,
        cpu: Option<Duration>,
        traffic: Traffic,
        now: Instant,
    ) {
        let Some(member) = self.member_of(program) else { return };
        self.accounts.ended(program, &member, cpu, now);
        if program == self.kernel.program.id() {
            self.count_messages(traffic);
            self.accounts.kernel_ended();
        }
    }

    /// Charges what the monitor itself has used.
    pub fn account_for_monitor(&mut self, sample: &Sample, now: Instant) {
        self.accounts.used(ProgramId::MONITOR, &of_system("monitor"), sample.into(), now);
    }

    fn count_messages(&mut self, traffic: Traffic) {
        let apps = self.apps.iter().filter(|app| app.role().serves());
        let members: Vec<(AppId, Member)> =
            apps.map(|app| (app.id, self.member_of_app(app))).collect();
        self.accounts.counted(traffic, members);
    }

    /// All programs with their members and measurements.
    fn metered(&self) -> impl Iterator<Item = (&Program, Member, &Meter)> {
        let zones = self.apps.iter();
        let zones =
            zones.filter_map(|app| Some((app.program()?, self.member_of_app(app), app.meter())));
        let services = self.services.meters();
        let services =
            services.map(|(program, kind, meter)| (program, of_system(kind.name()), meter));
        let northbound = self.northbound.iter();
        let northbound = northbound.map(|it| (it.program(), of_system(NORTHBOUND), it.meter()));
        let kernel = (&self.kernel.program, of_system("kernel"), self.kernel.meter());
        zones.chain(services).chain(northbound).chain([kernel])
    }

    /// The programs that have a process, with the result of `sample`.
    fn used(
        &self,
        sample: impl Fn(ProgramId, &Meter) -> Option<Sample>,
    ) -> Vec<(ProgramId, Member, Usage)> {
        let used = |(program, member, meter): (&Program, Member, &Meter)| {
            program.pid()?;
            Some((program.id(), member, Usage::from(&sample(program.id(), meter)?)))
        };
        self.metered().filter_map(used).collect()
    }

    fn member_of(&self, program: ProgramId) -> Option<Member> {
        let mut all = self.metered();
        all.find(|(it, ..)| it.id() == program).map(|(_, member, _)| member)
    }

    fn member_of_app(&self, app: &App) -> Member {
        let session = self.sessions().row(app.spec().policy.session).name.clone();
        Member { session, name: app.name.clone() }
    }
}

fn of_system(name: &str) -> Member {
    Member { session: SYSTEM.to_owned(), name: name.to_owned() }
}
