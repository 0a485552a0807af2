//! `rosemary completions`: prints completion scripts, which also know the names of apps and switches.
//!
//! `clap_complete` makes the script from the options; it completes files where an option takes one. For bash and fish a few
//! lines are added that run the hidden command `rosemary complete` for the names that only a running Rosemary knows.

use clap::{Command, ValueEnum};
use clap_complete::Shell;
use config::Config;
use monitor::installation::Installation;
use monitor::options::InstancePaths;
use openflow::Dpid;

use crate::client::{ClientError, Monitor};
use crate::say;

/// Added to the script for bash. A word that begins with a hyphen, or follows an option, is completed as before.
const BASH: &str = r#"
_rosemary_with_names() {
    local words=("${COMP_WORDS[@]:1:COMP_CWORD-1}") current="${COMP_WORDS[COMP_CWORD]}" kind=
    local previous="${COMP_WORDS[COMP_CWORD-1]}"
    case "${words[*]}" in
        flows | ports | switches) kind=switches ;;
        apps | logs | "app logs" | "app remove" | "app start" | "app stop" | "app restart") kind=apps ;;
    esac
    [[ "$previous" == --app ]] && kind=apps
    if [[ -n "$kind" && "$current" != -* ]]; then
        COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" complete "$kind" 2>/dev/null)" -- "$current"))
    else
        _rosemary "$@"
    fi
}
complete -F _rosemary_with_names -o nosort -o bashdefault -o default rosemary 2>/dev/null ||
    complete -F _rosemary_with_names -o bashdefault -o default rosemary
"#;

/// Added to the script for fish.
const FISH: &str = "
complete -c rosemary -n '__fish_seen_subcommand_from flows ports switches' -f -a '(rosemary complete switches 2>/dev/null)'
complete -c rosemary -n '__fish_seen_subcommand_from apps logs' -f -a '(rosemary complete apps 2>/dev/null)'
complete -c rosemary -n '__fish_seen_subcommand_from app; and __fish_seen_subcommand_from logs remove start stop restart' \
-f -a '(rosemary complete apps 2>/dev/null)'
complete -c rosemary -n '__fish_seen_subcommand_from up' -l app -x -a '(rosemary complete apps 2>/dev/null)'
";

/// The names that a word can be completed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Names {
    /// Datapath ids of the connected switches.
    Switches,
    /// Apps that run, and apps that could.
    Apps,
}

/// Prints the completion script of `command` for `shell`.
///
/// # Errors
/// It cannot be written.
pub fn script(shell: Shell, command: &mut Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "rosemary", &mut script);
    let more = match shell {
        Shell::Bash => BASH,
        Shell::Fish => FISH,
        _ => "",
    };
    say::data(format_args!("{}{more}", String::from_utf8_lossy(&script)))
}

/// Prints names, one per line, for the scripts. Switches need a running Rosemary.
///
/// # Errors
/// Rosemary does not answer, or the output cannot be written.
pub fn names(kind: Names) -> anyhow::Result<()> {
    let mut names = match kind {
        Names::Switches => switches()?,
        Names::Apps => apps(),
    };
    names.sort();
    names.dedup();
    say::data(names.iter().flat_map(|name| [name, "\n"]).collect::<String>())
}

/// Returns the datapath ids in the form with 16 digits, as bash takes a colon for the end of a word.
fn switches() -> Result<Vec<String>, ClientError> {
    let switches = Monitor::connect(&InstancePaths::default())?.kernel()?.switches()?;
    let number = |text: &str| text.parse::<Dpid>().ok().map(|dpid| format!("{:016x}", dpid.0));
    Ok(switches.iter().filter_map(|switch| number(&switch.dpid)).collect())
}

/// Returns the apps that run, those of the configuration, and those that come with Rosemary. A source that is missing adds
/// none.
fn apps() -> Vec<String> {
    let running = Monitor::connect(&InstancePaths::default()).and_then(|monitor| monitor.status());
    let running = running.into_iter().flat_map(|status| status.apps).map(|app| app.name);
    let config = Config::load(None).unwrap_or_default();
    let configured = config.apps.into_iter().flatten().map(|app| app.name);
    // A build directory also has the apps of the tests.
    let shipped = Installation::find().map(|it| it.app_names());
    running.chain(configured).chain(shipped.unwrap_or_default()).collect()
}
