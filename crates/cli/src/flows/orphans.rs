//! `rosemary flows --orphans`: shows or removes what apps that do not run any more own in the switches, and flows of others.

use anyhow::{Context as _, bail};
use control::app::AppId;
use control::query::{Orphan, Orphans};

use openflow::Dpid;

use super::{FlowsArgs, OrphansAction};
use crate::client::Kernel;
use crate::say;
use crate::switch_name::not_connected;
use crate::table::{Table, output_width};

/// Reads the switches and prints.
///
/// # Errors
/// The kernel does not reply, the switch is not connected, or a switch did not answer.
pub(super) fn run(
    kernel: &Kernel,
    action: OrphansAction,
    switch: Option<Dpid>,
    args: &FlowsArgs,
) -> anyhow::Result<()> {
    let dpid = switch.map(|switch| switch.0);
    let read = |remove| -> anyhow::Result<Orphans> {
        let orphans = kernel.orphans(dpid, remove).context("cannot read the switches")?;
        match (orphans, switch) {
            (Some(orphans), _) => Ok(orphans),
            (None, Some(switch)) => Err(not_connected(kernel, switch)),
            (None, None) => Ok(Orphans::default()),
        }
    };
    let before = read(false)?;
    let (shown, last) = match action {
        OrphansAction::Show => (before.found.clone(), before),
        OrphansAction::Remove if !is_removable(&before, switch) => (Vec::new(), before),
        OrphansAction::Remove => {
            let after = read(true)?;
            (without(before.found, &after.found), after)
        }
    };
    if args.json {
        let json = serde_json::to_string(&shown).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))?;
    } else if shown.is_empty() {
        say::note(match action {
            OrphansAction::Show => {
                "apps that do not run any more, and others, own nothing in the switches"
            }
            OrphansAction::Remove => "there is nothing to remove",
        });
    } else {
        if action == OrphansAction::Remove {
            say::note("removed:");
        }
        say::table(&table(&shown).format(output_width(args.wide)))?;
    }
    let silent = last.awaited + last.failed;
    if silent > 0 {
        bail!("{silent} switches did not report their flows; try again in a minute");
    }
    if action == OrphansAction::Remove {
        if is_removable(&last, switch) {
            bail!("the switches still have some of them; try again");
        }
        let others = last.found.iter().filter(|orphan| orphan.app == AppId::OTHER).count();
        if others > 0 {
            say::note(format_args!(
                "{others} switches have flows of others, which stay; `rosemary flows SWITCH --orphans remove` removes those of one switch"
            ));
        }
    }
    Ok(())
}

/// Whether some of this is removed: flows of others only from a switch that was named.
fn is_removable(orphans: &Orphans, switch: Option<Dpid>) -> bool {
    orphans.found.iter().any(|orphan| orphan.app != AppId::OTHER || switch.is_some())
}

/// The entries of `before` without those that are still there.
fn without(mut before: Vec<Orphan>, after: &[Orphan]) -> Vec<Orphan> {
    let is_there = |it: &Orphan| after.iter().any(|now| (&now.dpid, now.app) == (&it.dpid, it.app));
    before.retain(|orphan| !is_there(orphan));
    before
}

/// Formats one line per app and switch.
fn table(orphans: &[Orphan]) -> Table<6> {
    let mut table = Table::new(["SWITCH", "OWNER", "NUMBER", "FLOWS", "GROUPS", "METERS"]);
    for Orphan { dpid, app, owner, flows, groups, meters } in orphans {
        table.row([
            dpid,
            owner,
            &if *app == AppId::OTHER { "-".into() } else { app.0.to_string() },
            &flows.to_string(),
            &groups.to_string(),
            &meters.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_entries_are_those_that_are_gone() {
        let orphan = |dpid: &str, app| Orphan {
            dpid: dpid.into(),
            app: AppId(app),
            owner: "firewall".into(),
            flows: 4,
            groups: 0,
            meters: 1,
        };
        let before = vec![orphan("1", 2), orphan("1", 3), orphan("2", 2)];
        let removed = without(before, &[orphan("1", 3)]);
        assert_eq!(removed, [orphan("1", 2), orphan("2", 2)]);
        assert_eq!(
            table(&removed[..1]).text(),
            "\
SWITCH  OWNER     NUMBER  FLOWS  GROUPS  METERS
1       firewall  2       4      0       1
"
        );
    }

    #[test]
    fn flows_of_others_are_removed_from_a_named_switch_only() {
        let other = |app| Orphan {
            dpid: "1".into(),
            app,
            owner: "other".into(),
            flows: 4,
            groups: 0,
            meters: 0,
        };
        let found = |app| Orphans { found: vec![other(app)], ..Orphans::default() };
        assert!(!is_removable(&found(AppId::OTHER), None));
        assert!(is_removable(&found(AppId::OTHER), Some(Dpid(1))));
        assert!(is_removable(&found(AppId(7)), None));
        assert!(
            table(&[other(AppId::OTHER)])
                .text()
                .ends_with("1       other  -       4      0       0\n")
        );
    }
}
