//! `rosemary completions`: prints completion scripts, which also know the names of apps and switches.
//!
//! `clap_complete` makes the script from the options; it completes files where an option takes one. For bash, zsh and fish a
//! few lines are added that run the hidden command `rosemary complete` for the names that only a running Rosemary knows.

use clap::{Command, ValueEnum};
use clap_complete::Shell;
use config::instance::InstancePaths;
use config::{Config, SHIPPED};
use openflow::Dpid;

use crate::client;
use crate::say;

/// Added to the script for bash. A word that begins with a hyphen, or is the value of an option, is completed as before. For
/// a file there is no answer: bash then completes files itself.
const BASH: &str = r#"
_rosemary_with_names() {
    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" kind= word option= commands=() instance=()
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        if [[ -n "$option" && "$word" == = ]]; then
            : # bash makes three words of --option=value
        elif [[ -n "$option" ]]; then
            instance+=("$option" "${word/#\~\//$HOME/}") option=
        elif [[ "$word" == --runtime-dir || "$word" == --config ]]; then
            option="$word"
        elif [[ "$word" != -* ]]; then
            commands+=("$word")
        fi
    done
    case "${commands[*]}" in
        flows | ports | stats | switches | trace | "switch drain" | "switch undrain") kind=switches ;;
        apps | logs | "logs "*) kind=apps ;;
        "app disable" | "app enable" | "app log-level" | "app logs" | "app promote" | "app remove") kind=apps ;;
        "app restart" | "app rollback" | "app start" | "app stop") kind=apps ;;
        "app build" | "app install" | "app sign" | "app upgrade" | "app verify") kind=files ;;
        "ofp check" | "ofp decode") kind=files ;;
    esac
    case "$previous" in
        --app) kind=shipped-apps ;;
        --follow | -f | --json | --wide | --yes | -y) ;;
        -*) kind= ;;
    esac
    if [[ -z "$kind" || "$current" == -* ]]; then
        _rosemary "$@"
    elif [[ "$kind" == files ]]; then
        COMPREPLY=()
    else
        COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" complete "$kind" "${instance[@]}" 2>/dev/null)" -- "$current"))
    fi
}
complete -F _rosemary_with_names -o nosort -o bashdefault -o default rosemary 2>/dev/null ||
    complete -F _rosemary_with_names -o bashdefault -o default rosemary
"#;

/// Added to the script for zsh, in place of its last lines, which register the function of `clap_complete`. A word that begins
/// with a hyphen, or is the value of an option, is completed as before.
const ZSH: &str = r#"_rosemary_with_names() {
    local kind= word option= commands=() instance=()
    for word in "${(@Q)words[2,CURRENT-1]}"; do
        if [[ -n "$option" ]]; then
            instance+=("$option" "${word/#\~\//$HOME/}") option=
        elif [[ "$word" == --runtime-dir || "$word" == --config ]]; then
            option="$word"
        elif [[ "$word" == --runtime-dir=* || "$word" == --config=* ]]; then
            instance+=("$word")
        elif [[ "$word" != -* ]]; then
            commands+=("$word")
        fi
    done
    case "${(j: :)commands}" in
        flows | ports | stats | switches | trace | "switch drain" | "switch undrain") kind=switches ;;
        apps | logs | "logs "* | "app "(disable|enable|log-level|logs|promote|remove|restart|rollback|start|stop)) kind=apps ;;
    esac
    case "$words[CURRENT-1]" in
        --app) kind=shipped-apps ;;
        --follow | -f | --json | --wide | --yes | -y | --*=*) ;;
        -*) kind= ;;
    esac
    if [[ -n "$kind" && "$words[CURRENT]" != -* ]]; then
        compadd -- ${(f)"$("$words[1]" complete "$kind" "${instance[@]}" 2>/dev/null)"}
    else
        _rosemary "$@"
    fi
}

if [ "$funcstack[1]" = "_rosemary" ]; then
    _rosemary_with_names "$@"
else
    compdef _rosemary_with_names rosemary
fi
"#;

/// The beginning of those lines.
const ZSH_END: &str = "if [ \"$funcstack[1]\" = \"_rosemary\" ]";

/// Added to the script for fish.
const FISH: &str = "
function __rosemary_complete
    set -l instance
    set -l option
    for word in (commandline -opc)
        if test -n \"$option\"
            set -a instance $option (string replace -r '^~/' \"$HOME/\" -- $word)
            set option
        else if contains -- $word --runtime-dir --config
            set option $word
        else if string match -q -r -- '^--(runtime-dir|config)=' $word
            set -a instance $word
        end
    end
    rosemary complete $argv $instance 2>/dev/null
end
complete -c rosemary -n '__fish_seen_subcommand_from flows ports stats switches trace drain undrain' -f -a '(__rosemary_complete switches)'
complete -c rosemary -n '__fish_seen_subcommand_from apps logs' -f -a '(__rosemary_complete apps)'
complete -c rosemary -n '__fish_seen_subcommand_from app; and __fish_seen_subcommand_from disable enable log-level logs promote \
remove restart rollback start stop' -f -a '(__rosemary_complete apps)'
complete -c rosemary -n '__fish_seen_subcommand_from up' -l app -x -a '(__rosemary_complete shipped-apps)'
";

/// The names that a word can be completed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Names {
    /// Datapath ids and names of the connected switches.
    Switches,
    /// Apps that run, are installed or configured.
    Apps,
    /// The same, and those that ship with Rosemary.
    ShippedApps,
}

/// Prints the completion script of `command` for `shell`.
///
/// # Errors
/// It cannot be written.
pub fn script(shell: Shell, command: &Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut without_hidden(command), "rosemary", &mut script);
    say::data(with_names(shell, String::from_utf8_lossy(&script).into_owned()))
}

/// Returns the command without its hidden subcommands, which the scripts would offer.
fn without_hidden(command: &Command) -> Command {
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set()).cloned();
    Command::new("rosemary").version(env!("CARGO_PKG_VERSION")).subcommands(shown)
}

/// Returns the script with the lines for the names that only a running Rosemary knows.
fn with_names(shell: Shell, mut script: String) -> String {
    match shell {
        Shell::Bash => script.push_str(BASH),
        Shell::Fish => script.push_str(FISH),
        Shell::Zsh => {
            script.truncate(script.rfind(ZSH_END).unwrap_or(script.len()));
            script.push_str(ZSH);
        }
        _ => {}
    }
    script
}

/// Prints names, one per line, for the scripts. Switches need a running Rosemary.
///
/// # Errors
/// Rosemary does not answer, or the output cannot be written.
pub fn names(kind: Names, instance: &InstancePaths) -> anyhow::Result<()> {
    let mut names = match kind {
        Names::Switches => switches(instance)?,
        Names::Apps => known_apps(instance),
        Names::ShippedApps => {
            known_apps(instance).into_iter().chain(SHIPPED.map(ToOwned::to_owned)).collect()
        }
    };
    names.sort();
    names.dedup();
    say::data(names.iter().flat_map(|name| [name, "\n"]).collect::<String>())
}

/// Returns the datapath ids in the form with 16 digits, as bash takes a colon for the end of a word, and the names.
fn switches(instance: &InstancePaths) -> anyhow::Result<Vec<String>> {
    let switches = client::connect(instance)?.kernel()?.switches()?;
    let number = |text: &str| text.parse::<Dpid>().ok().map(|dpid| format!("{:016x}", dpid.0));
    let numbers: Vec<String> = switches.iter().filter_map(|it| number(&it.dpid)).collect();
    // The shells would interpret other characters.
    let is_plain =
        |name: &String| name.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.".contains(&it));
    let names = switches.into_iter().filter_map(|it| it.name).filter(is_plain);
    Ok(numbers.into_iter().chain(names).collect())
}

/// Returns the apps that run or are installed, and those of the configuration. A source that is missing adds none.
fn known_apps(instance: &InstancePaths) -> Vec<String> {
    let status = client::connect(instance).ok().and_then(|monitor| monitor.status().ok());
    let (running, inactive) = status.map(|it| (it.apps, it.inactive)).unwrap_or_default();
    let config = Config::load(instance.config.as_deref()).unwrap_or_default();
    let configured = config.apps.into_iter().flatten().map(|app| app.name);
    let running = running.into_iter().map(|app| app.name);
    running.chain(inactive.into_iter().map(|app| app.name)).chain(configured).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zsh_script_registers_one_function() {
        let (mut command, mut script) = (Command::new("rosemary"), Vec::new());
        clap_complete::generate(Shell::Zsh, &mut command, "rosemary", &mut script);
        let script = with_names(Shell::Zsh, String::from_utf8(script).unwrap());
        assert!(script.starts_with("#compdef rosemary"), "{script}");
        assert_eq!(script.matches("compdef _rosemary").count(), 1, "{script}");
        assert_eq!(script.matches(ZSH_END).count(), 1, "{script}");
    }
}
