//! What each kind of incident means for an operator, and what to do about it. `docs/incidents.md` is made from this table.

use control::incident::Cause;

/// Returns the meaning of an incident with this cause, and the remedy, as sentences.
pub(super) fn explained(cause: &Cause) -> (&'static str, &'static str) {
    match cause {
        Cause::Signal { .. } => (
            "A signal ended the program: it crashed, or somebody killed it.",
            "Read the backtrace and the program's log; report a crash of an app to its developer. After a kill, find out who sent it.",
        ),
        Cause::Exit { .. } => (
            "The program ended itself.",
            "Read its last lines with `rosemary app logs NAME`, and correct the app or its configuration.",
        ),
        Cause::Panic => (
            "The app panicked, raised an exception, or returned a fatal error.",
            "The evidence has the message. Correct the app; Rosemary restarts it.",
        ),
        Cause::Hang => (
            "The program made no progress, was not ready in time, or did not end in time.",
            "Correct the call that the evidence names; `hang-seconds` allows an app longer calls.",
        ),
        Cause::Limit { .. } => (
            "The program exceeded a hard limit and was ended.",
            "Correct what the program uses too much of, or raise this key of `limits`.",
        ),
        Cause::Leak => (
            "The program's memory grew steadily past its bound.",
            "Correct the leak; for a program of Rosemary, report the incident with its evidence.",
        ),
        Cause::Protocol => (
            "The program sent a message that breaks a protocol of Rosemary.",
            "Treat an app that does so as hostile; for a program of Rosemary, report the incident.",
        ),
        Cause::Unfit => (
            "The app or the service cannot run with its present files.",
            "Correct what the evidence names. An app starts again when one of its files changes.",
        ),
        Cause::NotStarted => (
            "The program could not be executed.",
            "Install Rosemary again, or correct the permissions of the file that the evidence names.",
        ),
        Cause::TooManyRestarts => (
            "The program ended too often and is held.",
            "Correct the cause of its ends, the incidents before; then `rosemary app start NAME`.",
        ),
        Cause::MissingFlows { .. } => (
            "A switch lacks flows that an app or the kernel installed.",
            "Find out who deletes flows of this switch, such as another controller. The flows are installed again.",
        ),
        Cause::FailedMessage { .. } => (
            "A switch refuses or loses a message of the kernel or of a guard.",
            "The evidence has the reason: make room in the switch's tables, or update the switch. The message is sent again.",
        ),
        Cause::RefusedSwitch { .. } => (
            "A connection claimed a datapath that it may not have, or did not complete its handshake.",
            "Give each switch a datapath id of its own, and a certificate for it. Otherwise find the impostor at the address.",
        ),
        Cause::OtherController { .. } => (
            "Another controller commands a switch that is connected here.",
            "Remove the other controller from the switch, or give each controller switches of its own.",
        ),
        Cause::Reported { .. } => (
            "An app reported an event of the network.",
            "The evidence names the place. The table below lists the reports of the apps that come with Rosemary.",
        ),
        Cause::LimitedByApp { .. } => (
            "An app with the right to do so throttled or suspended the app.",
            "Correct the app that sends too much; `rosemary apps NAME` shows its rates.",
        ),
        Cause::DamagedFile { .. } => (
            "A file of the installation differs from the release.",
            "Find out who changed it; the reaction says whether it was replaced. If not, install Rosemary again.",
        ),
        Cause::Services => (
            "Several services failed within a short time, and all programs were restarted.",
            "Look for their common cause in the incidents before, such as a full disk or exhausted memory.",
        ),
        Cause::SafeMode => (
            "Rosemary entered safe mode and starts the apps one at a time.",
            "`rosemary safe-mode` shows the progress, and which app is to blame.",
        ),
        Cause::Rollback => (
            "An upgrade of the app failed, and its earlier version was restored.",
            "Correct the new version; the evidence has its error.",
        ),
        Cause::Operator => ("An operator asked for it.", "Nothing is to be done."),
        Cause::Unknown => (
            "The program ended while the monitor did not run, such as with the machine.",
            "Look into the system's journal at that time.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::net::Ipv4Addr;
    use std::path::Path;

    use super::*;

    /// One cause of each kind. A new kind fails to compile in [`explained`] first.
    fn causes() -> Vec<Cause> {
        vec![
            Cause::Signal { signal: 11 },
            Cause::Exit { code: 1 },
            Cause::Panic,
            Cause::Hang,
            Cause::Limit { limit: "memory".into() },
            Cause::Leak,
            Cause::Protocol,
            Cause::Unfit,
            Cause::NotStarted,
            Cause::TooManyRestarts,
            Cause::MissingFlows { switch: "00:00:00:00:00:00:00:01".into(), flows: 2 },
            Cause::FailedMessage {
                switch: "00:00:00:00:00:00:00:01".into(),
                message: "the table-miss entry".into(),
            },
            Cause::RefusedSwitch {
                switch: "00:00:00:00:00:00:00:01".into(),
                address: Ipv4Addr::new(192, 0, 2, 1).into(),
            },
            Cause::OtherController { switch: "00:00:00:00:00:00:00:01".into() },
            Cause::Reported { summary: "a host moved although its former port is up".into() },
            Cause::LimitedByApp { by: "protection".into(), pace: Some(100) },
            Cause::DamagedFile { file: "/usr/lib/rosemary/apps/forwarding.so".into() },
            Cause::Services,
            Cause::SafeMode,
            Cause::Rollback,
            Cause::Operator,
            Cause::Unknown,
        ]
    }

    /// The page, with the part about reports of apps as it is.
    fn page(reports: &str) -> String {
        let mut text = String::from(
            "# Incidents\n\nAn incident is a record of an event that disturbed a program or the network: `rosemary incidents` lists them, and\n\
             `rosemary incidents ID` shows one with its evidence and what to do. The first column is `cause.kind` in JSON.\n\n\
             | kind | shown, for example, as | meaning | remedy |\n| --- | --- | --- | --- |\n",
        );
        for cause in causes() {
            let (meaning, remedy) = explained(&cause);
            let kind = serde_json::to_value(&cause).unwrap()["kind"].as_str().unwrap().to_owned();
            writeln!(text, "| `{kind}` | {cause} | {meaning} | {remedy} |").unwrap();
        }
        text + reports
    }

    #[test]
    fn page_has_every_incident() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/incidents.md");
        let present = std::fs::read_to_string(&file).unwrap();
        let reports = present.find("\n## Reports of apps").expect("the page has this part");
        let made = page(&present[reports..]);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&file, &made).unwrap();
            return;
        }
        assert_eq!(present, made, "type: UPDATE_DOCS=1 cargo test -p rosemary-cli --lib page_has");
    }
}
