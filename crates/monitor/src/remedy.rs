//! Says what the operator or the author of an app can do about a refused system call.
//!
//! The keys are those of `docs/configuration.md`.

use rustix::net::AddressFamily;
use sys::sandbox::notifications::WatchedCall;

/// For a call that makes or changes a file.
const WRITE: &str = "an app can write only below /tmp; these files are private and gone when the app ends. \
                     What it prints or logs stays in `rosemary app logs`";

const CONNECT: &str = "an app has no network; apps in Rust, C and Python connect through the broker, with the capability \
                       `net.connect:HOST:PORT`. Apps of Ryu cannot connect";

const LISTEN: &str = "an app in Python or of Ryu gets its listening sockets from Rosemary: add the address to its `listen`, \
                      as in listen = [\"NAME=127.0.0.1:PORT\"]";

const PROGRAM: &str = "an app starts no programs and no processes; it may start threads";

/// The remedy for a call of an app; `None` if there is none.
pub(crate) fn of(call: &WatchedCall) -> Option<String> {
    let own_text = |text: &str| Some(text.to_owned());
    match call.call {
        "open" | "openat" | "creat" => own_text(WRITE),
        "mknod" | "mknodat" | "link" | "linkat" | "symlink" | "symlinkat" => {
            own_text("an app makes only plain files and directories, below /tmp")
        }
        "socket" if is_internet(call.arguments[0]) => {
            Some(format!("{CONNECT}. To listen: {LISTEN}"))
        }
        "socketpair" => own_text(
            "an app makes no sockets, and asyncio needs a pair of them: use the timers and threads of the app's framework",
        ),
        "connect" => own_text(CONNECT),
        "bind" | "listen" => own_text(LISTEN),
        "flock" => own_text("use fcntl.lockf(): flock() is not possible in a zone"),
        "fcntl" if is_lock_of_open_file(call.arguments[1]) => {
            own_text("use fcntl.lockf(): locks of open files are not possible in a zone")
        }
        "execve" | "execveat" | "fork" | "vfork" | "clone" => own_text(PROGRAM),
        _ => None,
    }
}

/// Whether this command of fcntl(2) is `F_OFD_GETLK`, `F_OFD_SETLK` or `F_OFD_SETLKW`.
fn is_lock_of_open_file(command: u64) -> bool {
    (36..=38).contains(&(command & u64::from(u32::MAX)))
}

/// Whether this is the address family of IPv4 or IPv6. Linux uses the lower half of the argument.
fn is_internet(family: u64) -> bool {
    let family = family & u64::from(u32::MAX);
    [AddressFamily::INET, AddressFamily::INET6].iter().any(|it| u64::from(it.as_raw()) == family)
}

#[cfg(test)]
mod tests {
    use sys::sandbox::notifications::Target;

    use super::*;

    fn remedy(call: &'static str, first: u64) -> Option<String> {
        let arguments = [first, 0, 0, 0, 0, 0];
        of(&WatchedCall { call, arguments, target: Target::None, continued: false })
    }

    #[test]
    fn refused_calls_name_the_key() {
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            let text = remedy("socket", u64::from(family.as_raw())).unwrap();
            assert!(
                text.contains("`net.connect:HOST:PORT`") && text.contains("`listen`"),
                "{text}"
            );
        }
        assert_eq!(remedy("socket", u64::from(AddressFamily::NETLINK.as_raw())), None);
        assert!(remedy("openat", 0).unwrap().contains("only below /tmp"));
        assert!(remedy("bind", 3).unwrap().contains("listen = ["));
        assert!(remedy("connect", 3).unwrap().contains("net.connect:"));
        for call in ["execve", "fork", "clone"] {
            assert!(remedy(call, 0).unwrap().contains("no programs"), "{call}");
        }
        assert_eq!(remedy("bpf", 0), None);
    }
}
