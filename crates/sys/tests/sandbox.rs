//! Confines a process, tries what a sandbox must refuse, and checks what the monitor learns of it.
//!
//! The process is this test program, started like a zone, with the name of an ignored test. The tests run it as root
//! and as an ordinary user, who gets the same by a user namespace.

#![expect(clippy::print_stdout, reason = "skipped tests print the reason")]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![expect(unsafe_code, reason = "it makes system calls that have no safe wrapper")]

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rosemary_sys::channel::{Channel, ChannelError};
use rosemary_sys::process::{Child, PidNamespace, is_root, split_off_init};
use rosemary_sys::sandbox::notifications::{Listener, Target, TargetReader};
use rosemary_sys::sandbox::seccomp::Profile;
use rosemary_sys::sandbox::{Limits, Mechanism, Report, Sandbox, Tmp};
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

/// The variable with the path of a granted directory below `/tmp`.
const BELOW: &str = "ROSEMARY_TEST_BELOW";

/// Tells the process which user to become; only processes of these tests have it.
const RUN_AS: &str = "ROSEMARY_TEST_SANDBOX";

const TMP: Tmp = Tmp { size: 1 << 20, inodes: 16 };

/// The report of the process, with the result of each attempt by its name.
#[derive(Debug, Serialize, Deserialize)]
struct Said {
    report: Report,
    found: BTreeMap<String, String>,
}

#[test]
#[ignore = "the other tests start it to be confined"]
fn play() {
    let Ok(as_user) = std::env::var(RUN_AS) else { return };
    if as_user.is_empty() {
        // Only a process with one thread can enter a user namespace. The child of a test's thread has one.
        // SAFETY: the code in the child needs no lock that another thread may hold.
        let child = unsafe { libc::fork() };
        if child > 0 {
            // SAFETY: the status is not requested, and there is nothing to clean up.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            // SAFETY: as above.
            unsafe { libc::_exit(0) };
        }
    }
    split_off_init().unwrap();
    let control = Channel::from_stdin().unwrap();
    let object = rosemary_sys::shm::sealed_copy("object", b"an object").unwrap();
    let granted = PathBuf::from("/etc/hostname");
    let below = PathBuf::from(std::env::var_os(BELOW).unwrap());
    let limits = Limits { descriptors: 64, threads: 8, file_size: 1 << 20, memory: None };
    let sandbox = Sandbox {
        run_as: as_user.parse().ok(),
        objects: &[object.as_fd()],
        read: &[granted, below.clone()],
        tmp: Some(TMP),
        ..Sandbox::new(Profile::Zone, control.as_fd(), limits)
    };
    let mut confined = sandbox.confine().unwrap();
    drop(object);
    let listener = confined.listener.take();
    let fds: Vec<_> = listener.iter().map(OwnedFd::as_fd).collect();
    let outlet = confined.outlet;
    let number = outlet.as_fd().as_raw_fd();
    outlet.send(&"confined", &fds).unwrap();
    drop(fds);
    drop(listener);
    drop(outlet);
    let object = confined.objects.first().unwrap_or_else(|| panic!("{:?}", confined.report));
    let mut found = try_all(object, &below);
    found.extend(try_to_pass_descriptors(&control, number));
    control.send(&Said { report: confined.report, found }, &[]).unwrap();
    // SAFETY: there is nothing to clean up.
    unsafe { libc::_exit(0) }
}

fn try_all(object: &Path, below: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut note = |name: &str, what: String| drop(found.insert(name.to_owned(), what));
    let said = |result: std::io::Result<()>| match result {
        Ok(()) => "GOT".to_owned(),
        Err(error) => error.kind().to_string(),
    };
    let there = |path: &&str| fs::symlink_metadata(path).is_ok();
    let paths = ["/app", "/dev", "/etc/passwd", "/home", "/proc", "/root", "/run", "/sys", "/tmp"];
    let root: Vec<&str> = paths.into_iter().filter(there).collect();
    note("root", root.join(" "));
    note("list /", said(fs::read_dir("/").map(drop)));
    note("object", fs::read_to_string(object).unwrap());
    note("change the object", said(fs::write(object, "other")));
    note("read /etc/passwd", said(fs::read("/etc/passwd").map(drop)));
    note("read /etc/hostname", said(fs::read("/etc/hostname").map(drop)));
    note("write /etc/hostname", said(fs::write("/etc/hostname", "x")));
    note("read below /tmp", said(fs::read(below.join("file")).map(drop)));
    note("write below /tmp", said(fs::write(below.join("other"), "x")));
    note("write /usr/lib", said(fs::write("/usr/lib/rosemary-test", "x")));
    note("write /", said(fs::write("/rosemary-test", "x")));
    note("write /tmp", said(fs::write("/tmp/file", "x")));
    note("write a relative path", said(fs::write("relative", "x")));
    note("relative file in /tmp", fs::exists("/tmp/relative").unwrap().to_string());
    note("relative way out", said(fs::write("../rosemary-test", "x")));
    note("way out of /tmp", said(fs::write("/tmp/../rosemary-test", "x")));
    let filled = fs::File::create("/tmp/big")
        .and_then(|mut big| (0..1024).try_for_each(|_| big.write_all(&[0; 4096])));
    note("fill /tmp", said(filled));
    let _ = fs::remove_file("/tmp/big");
    let many = (0..64).try_for_each(|i| fs::write(format!("/tmp/{i}"), ""));
    note("many in /tmp", said(many));
    note("execute", said(Command::new("/bin/true").stdin(Stdio::inherit()).output().map(drop)));
    note("connect", said(std::net::TcpStream::connect("127.0.0.1:6653").map(drop)));
    note("kill the others", call(libc::SYS_kill, [-1, 0, 0]));
    note("mount", call(libc::SYS_mount, [0, 0, 0]));
    note("watched execve", {
        let path = CString::new("/bin/true").unwrap();
        call(libc::SYS_execve, [path.as_ptr() as i64, 0, 0])
    });
    note("x32", call(0x4000_0000 + libc::SYS_getpid, [0; 3]));
    note("absent", call(libc::SYS_clone3, [0; 3]));
    let library = fs::read_dir("/usr/lib").unwrap().flatten().next().unwrap().path();
    let library = fs::File::open(library).unwrap();
    note("sync a library", said(library.sync_all()));
    note("lock a library", call(libc::SYS_flock, [library.as_raw_fd().into(), 2, 0]));
    drop(library);
    note("huge pages", {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
        // SAFETY: the memory is new, so nothing else uses it.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), 1 << 21, 3, flags, -1, 0) };
        let error = std::io::Error::last_os_error().raw_os_error();
        if memory == libc::MAP_FAILED { error.unwrap_or(0).to_string() } else { "GOT".into() }
    });
    note("environment", std::env::vars_os().count().to_string());
    let open = (3..64).filter(|fd| call(libc::SYS_fcntl, [*fd, 1, 0]) == "GOT").count();
    note("descriptors", open.to_string());
    note("threads", {
        let started: Vec<_> = (0..32)
            .map_while(|_| std::thread::Builder::new().spawn(std::thread::park).ok())
            .collect();
        (started.len() < 16 && started.len() > 1).to_string()
    });
    note(
        "core",
        rustix::process::getrlimit(rustix::process::Resource::Core).maximum.unwrap().to_string(),
    );
    found
}

/// Tries to send a descriptor to the monitor: by the control socket, and by a duplicate with the outlet's number.
fn try_to_pass_descriptors(control: &Channel, outlet: i32) -> Vec<(String, String)> {
    let said = |result: Result<(), ChannelError>| match result {
        Ok(()) => "GOT".to_owned(),
        Err(error) => error.to_string(),
    };
    let own = control.as_fd().as_raw_fd();
    vec![
        ("pass a descriptor".into(), said(control.send(&"take it", &[control.as_fd()]))),
        ("reuse the outlet".into(), call(libc::SYS_dup3, [own.into(), outlet.into(), 0])),
        (
            "reuse the outlet by fcntl".into(),
            call(libc::SYS_fcntl, [own.into(), libc::F_DUPFD.into(), outlet.into()]),
        ),
    ]
}

fn call(number: i64, arguments: [i64; 3]) -> String {
    let [a, b, c] = arguments;
    // SAFETY: these calls are refused, or read and write no memory of ours.
    if unsafe { libc::syscall(number, a, b, c) } >= 0 {
        return "GOT".into();
    }
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0).to_string()
}

/// Runs `play` as the user `run_as`, which needs root, or as the current user. Returns its report and the watched
/// calls.
fn run(mut command: Command, run_as: &str) -> (Said, Vec<String>) {
    let below = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(below.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(below.path().join("file"), "granted").unwrap();
    let (ours, theirs) = Channel::passing_pair().unwrap();
    command.env(BELOW, below.path());
    command.args(["--ignored", "--exact", "--nocapture", "play"]).env(RUN_AS, run_as);
    let apart = if run_as.is_empty() { PidNamespace::ByItself } else { PidNamespace::ByParent };
    let (_child, output) = Child::spawn_with(apart, &mut command, theirs).unwrap();
    drop(command); // it keeps the other end open
    let mut listener: Option<Listener> = None;
    let (mut refused, mut reader) =
        (Vec::new(), TargetReader::with_budget(Duration::from_secs(10)));
    loop {
        let mut fds = vec![PollFd::new(&ours, PollFlags::IN)];
        fds.extend(listener.iter().map(|it| PollFd::new(it, PollFlags::IN)));
        poll(&mut fds, None).unwrap();
        if let Some(it) = &mut listener {
            while let Ok(Some(one)) = it.answer_next(&mut reader) {
                let target = match one.target {
                    Target::None => String::new(),
                    Target::Unreadable | Target::NotRead => "unread".into(),
                    Target::Text(text) => format!("{text:?}"),
                };
                let call = one.call;
                refused.push(format!(
                    "{call} {target}{}",
                    if one.continued { " went on" } else { "" }
                ));
            }
        }
        if listener.is_none() {
            match ours.receive::<String>() {
                Ok((_, fds)) => {
                    let fd = fds.into_iter().next().expect("it was confined with a listener");
                    listener = Some(Listener::new(fd, true).unwrap());
                }
                Err(ChannelError::WouldBlock) => {}
                Err(error) => panic!("{error}: {}", text_of(&output.stderr)),
            }
            continue;
        }
        match ours.receive::<Said>() {
            Ok((said, _)) => return (said, refused),
            Err(ChannelError::WouldBlock) => {}
            Err(error) => panic!("{error}: {} {refused:?}", text_of(&output.stderr)),
        }
    }
}

fn text_of(output: &OwnedFd) -> String {
    let mut text = vec![0; 4096];
    let size = rustix::io::read(output, &mut text).unwrap_or(0);
    String::from_utf8_lossy(&text[..size]).into_owned()
}

fn check(said: &Said) {
    let gaps = said.report.gaps();
    assert!(gaps.is_empty(), "{gaps:?}");
    let found = |name: &str| said.found[name].as_str();
    println!("{:#?}", said.found);
    assert_eq!(found("root"), "/app /tmp");
    assert_eq!(found("object"), "an object");
    assert_eq!(found("read /etc/hostname"), "GOT", "it was granted");
    assert_eq!(found("read below /tmp"), "GOT", "it was granted");
    assert_eq!(found("write below /tmp"), "read-only filesystem or storage medium");
    assert_eq!(found("read /etc/passwd"), "entity not found");
    assert_eq!(found("write /tmp"), "GOT");
    assert_eq!(found("write a relative path"), "GOT");
    assert_eq!(found("relative file in /tmp"), "true");
    for refused in [
        "list /",
        "change the object",
        "write /etc/hostname",
        "write /usr/lib",
        "write /",
        "way out of /tmp",
        "relative way out",
        "execute",
        "connect",
    ] {
        assert_eq!(found(refused), "permission denied", "{refused}");
    }
    let eperm = libc::EPERM.to_string();
    for refused in
        ["kill the others", "mount", "watched execve", "x32", "lock a library", "huge pages"]
    {
        assert_eq!(found(refused), eperm, "{refused}");
    }
    assert!(found("pass a descriptor").contains("not permitted"), "{}", found("pass a descriptor"));
    assert_eq!(found("reuse the outlet"), libc::EBADF.to_string());
    assert_eq!(found("reuse the outlet by fcntl"), libc::EINVAL.to_string());
    assert_eq!(found("sync a library"), "GOT", "it is emulated");
    assert_eq!(found("absent"), libc::ENOSYS.to_string());
    for full in ["fill /tmp", "many in /tmp"] {
        assert!(
            found(full).contains("no storage space") || found(full).contains("too large"),
            "{}",
            found(full)
        );
    }
    assert_eq!(found("environment"), "0");
    assert_eq!(found("descriptors"), "1", "its control socket");
    assert_eq!(found("threads"), "true");
    assert_eq!(found("core"), "0");
}

#[test]
fn process_of_root_is_confined_and_reported() {
    if !is_root() {
        println!("SKIPPED: this needs root");
        return;
    }
    let (said, refused) = run(Command::new(std::env::current_exe().unwrap()), "1879113727");
    check(&said);
    assert!(said.report.is_on(Mechanism::User) && said.report.is_on(Mechanism::UserNamespace));
    println!("{refused:#?}");
    for line in [
        "openat \"/app/0.so\"",
        "openat \"/tmp/../rosemary-test\"",
        "execve \"/bin/true\"",
        "kill ",
        "socket ",
        "openat \"/tmp/file\" went on",
        "openat \"relative\" went on",
        "openat \"../rosemary-test\"",
    ] {
        assert!(refused.iter().any(|it| it == line), "{line}");
    }
}

#[test]
fn process_without_root_is_confined_too() {
    // If root runs the tests, the process gets another user.
    let test = std::env::current_exe().unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "61234", "--regid", "61234", "--clear-groups"]).arg(&test);
    let own = Command::new(&test);
    let (said, refused) = run(if is_root() { command } else { own }, "");
    check(&said);
    assert!(!said.report.is_on(Mechanism::User) && said.report.is_on(Mechanism::UserNamespace));
    // Without root the listener cannot read its memory. It may write to /tmp all the same.
    let (program, file) =
        if is_root() { ("\"/bin/true\"", "\"/tmp/file\"") } else { ("unread", "unread") };
    for line in [format!("execve {program}"), format!("openat {file} went on")] {
        assert!(refused.contains(&line), "{line}: {refused:?}");
    }
}
