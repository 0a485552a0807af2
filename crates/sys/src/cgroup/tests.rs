use std::sync::OnceLock;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;

use super::*;
use crate::channel::Channel;
use crate::process::{Child, Exit, Outputs};

/// A directory with a group's files, each with a content.
fn fake(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("rosemary-cgroup-{}-{name}", own()));
    fs::create_dir_all(&dir).unwrap();
    for (file, text) in files {
        fs::write(dir.join(file), text).unwrap();
    }
    dir
}

const SOME: Bounds = Bounds { memory: Some(64 << 20), cpu: Some(250), tasks: Some(9), weight: 200 };

#[test]
fn limits_of_version_2_are_written() {
    let files = ["memory.max", "memory.swap.max", "cpu.max", "cpu.weight", "pids.max"];
    let dir = fake("limits", &files.map(|file| (file, "")));
    let text = |file: &str| fs::read_to_string(dir.join(file)).unwrap();
    let set = |bounds: &Bounds| {
        for controller in Controller::ALL {
            files::limit(Version::V2, controller, &dir, bounds).unwrap();
        }
        files.map(text)
    };
    assert_eq!(set(&SOME), ["67108864", "0", "2500 10000", "200", "9"]);
    assert_eq!(set(&Bounds::default()), ["max", "max", "max 10000", "100", "max"]);
    let little = Bounds { cpu: Some(1), ..SOME };
    assert_eq!(set(&little)[2], "1000 10000", "the system takes no less");
    fs::remove_file(dir.join("memory.swap.max")).unwrap(); // a machine that does not count swap
    files::limit(Version::V2, Controller::Memory, &dir, &SOME).unwrap();
    fs::remove_file(dir.join("memory.max")).unwrap();
    let error = files::limit(Version::V2, Controller::Memory, &dir, &SOME).unwrap_err();
    assert!(error.to_string().starts_with("memory.max: "), "{error}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn usage_of_version_2_is_read() {
    let files = [
        ("memory.current", "5242880\n"),
        ("memory.events", "low 0\nhigh 3\nmax 12\noom 2\noom_kill 1\noom_group_kill 0\n"),
        ("cpu.stat", "usage_usec 1500000\nuser_usec 1\nnr_throttled 7\n"),
        ("pids.events", "max 4\n"),
    ];
    let dir = fake("accounts", &files);
    let controllers = Controller::ALL.map(|controller| ControllerDir {
        controller,
        version: Version::V2,
        dir: dir.clone(),
        times: None,
    });
    let group = Group { dirs: Vec::new(), controllers: controllers.to_vec(), lower: Vec::new() };
    let expected = GroupUsage {
        memory: Some(5 << 20),
        cpu: Some(Duration::from_millis(1_500)),
        memory_kills: 1,
        refused_tasks: 4,
    };
    assert_eq!(group.usage().unwrap(), expected);
    for (file, text) in files {
        for nonsense in ["", "x\n", "-1\n", "max\n", "usage_usec\n", "99999999999999999999\n"] {
            fs::write(dir.join(file), nonsense).unwrap();
            let error = group.usage().unwrap_err();
            assert!(error.to_string().contains(file), "{nonsense:?}: {error}");
        }
        fs::write(dir.join(file), text).unwrap();
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn version_2_delegates_each_controller_once() {
    let dir = fake("hand-on", &[("cgroup.subtree_control", "cpu\n")]);
    let text = || fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap();
    files::delegate(&dir, Controller::ALL.into_iter()).unwrap();
    assert_eq!(text(), "+memory +pids");
    fs::write(dir.join("cgroup.subtree_control"), "memory cpu pids\n").unwrap();
    files::delegate(&dir, Controller::ALL.into_iter()).unwrap();
    assert_eq!(text(), "memory cpu pids\n");
    fs::remove_dir_all(dir).unwrap();
}

/// The groups of this machine. Returns `None` and prints the reason without that controller. All tests share one tree,
/// because its end removes the groups of all.
fn tree(controller: Controller) -> Option<&'static Tree> {
    static TREE: OnceLock<Tree> = OnceLock::new();
    let tree = TREE.get_or_init(Tree::find);
    if tree.has(controller) {
        return Some(tree);
    }
    println!("SKIPPED: no groups with {}: {:?}", controller.name(), tree.missing());
    None
}

fn shell(group: &Group, script: &str) -> (Child, Channel, Outputs) {
    let (ours, theirs) = Channel::passing_pair().unwrap();
    let mut command = Command::new("sh");
    group.start_in(command.args(["-c", script])).unwrap();
    let (child, output) = Child::spawn(&mut command, theirs).unwrap();
    (child, ours, output)
}

fn wait(child: &mut Child) -> Exit {
    poll(&mut [PollFd::new(&*child, PollFlags::IN)], None).unwrap();
    child.try_reap().unwrap().expect("readable pidfd means it has ended")
}

#[test]
fn program_beyond_its_memory_limit_is_killed() {
    let Some(tree) = tree(Controller::Memory) else { return };
    let bounds = Bounds { memory: Some(16 << 20), ..Bounds::default() };
    let group = tree.group("test-memory", &bounds).unwrap();
    let (mut child, _control, _output) =
        shell(&group, "exec dd if=/dev/zero of=/dev/null bs=64M count=1");
    assert_eq!(wait(&mut child), Exit::Signal(Signal::KILL.as_raw()));
    assert_eq!(group.usage().unwrap().memory_kills, 1);
    let dirs = group.dirs.clone();
    assert!(dirs.iter().all(|dir| dir.is_dir()));
    drop(group);
    assert!(!dirs.iter().any(|dir| dir.exists()), "it is removed with its program");
}

#[test]
fn removed_group_is_told_apart_from_other_errors() {
    let Some(tree) = tree(Controller::Pids) else { return };
    let group = tree.group("test-removed", &Bounds::default()).unwrap();
    let mut command = Command::new("true");
    group.start_in(&mut command).unwrap();
    drop(group);
    let (_ours, theirs) = Channel::passing_pair().unwrap();
    let error = Child::spawn(&mut command, theirs).unwrap_err();
    assert!(Group::is_removed(&error), "{error:?}");
    assert!(!Group::is_removed(&io::ErrorKind::OutOfMemory.into()));
}

#[test]
fn processes_beyond_the_limit_are_refused() {
    let Some(tree) = tree(Controller::Pids) else { return };
    let bounds = Bounds { tasks: Some(3), ..Bounds::default() };
    let group = tree.group("test-pids", &bounds).unwrap();
    let (mut child, _control, _output) = shell(&group, "sleep 9 & sleep 9 & sleep 9 & sleep 9");
    assert!(matches!(wait(&mut child), Exit::Code(1..)), "a shell that cannot fork gives up");
    assert!(group.usage().unwrap().refused_tasks > 0);
    let dirs = group.dirs.clone();
    drop(group);
    // Those that it could fork were killed, and end a moment later.
    let give_up = Instant::now() + Duration::from_secs(15);
    for dir in dirs {
        while fs::remove_dir(&dir).is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
            assert!(Instant::now() < give_up, "{} is still in use", dir.display());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn program_joins_a_group_of_version_2() {
    let mounts = fs::read_to_string(MOUNTS).unwrap();
    let line = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let Some(at) = line.and_then(|line| line.split(' ').nth(4)) else {
        return println!("SKIPPED: no cgroups of version 2 are mounted");
    };
    let dir = Path::new(at).join(name("test-joins"));
    if let Err(error) = make(&dir) {
        return println!("SKIPPED: {}: {error}", dir.display());
    }
    let group = Group { dirs: vec![dir], controllers: Vec::new(), lower: Vec::new() };
    let (mut child, _control, output) = shell(&group, "exec grep ^0:: /proc/self/cgroup");
    assert_eq!(wait(&mut child), Exit::Code(0));
    let mut text = [0; 256];
    let size = rustix::io::read(&output.stdout, &mut text).unwrap();
    let text = String::from_utf8_lossy(&text[..size]).into_owned();
    assert!(text.trim().ends_with(&name("test-joins")), "{text}");
}

#[test]
fn usage_starts_at_zero_for_each_run() {
    let Some(tree) = tree(Controller::Cpu) else { return };
    let bounds = Bounds { cpu: Some(500), ..Bounds::default() };
    let mut used = Vec::new();
    for _ in 0..2 {
        let group = tree.group("test-cpu", &bounds).unwrap();
        assert_eq!(group.usage().unwrap().cpu, Some(Duration::ZERO));
        let (mut child, _control, _output) = shell(&group, "exec true");
        assert_eq!(wait(&mut child), Exit::Code(0));
        used.push(group.usage().unwrap().cpu.unwrap());
    }
    assert!(used.iter().all(|used| *used > Duration::ZERO), "{used:?}");
}

#[test]
fn groups_of_killed_monitors_are_removed() {
    let Some(tree) = tree(Controller::Memory) else { return };
    let (_, dir) = tree.place(Controller::Memory).unwrap();
    let gone = (2..1 << 22).find(|pid| !Path::new(&format!("/proc/{pid}")).exists()).unwrap();
    let (stale, init) = (dir.join(format!("{PREFIX}{gone}-kernel")), dir.join("rosemary-1-kernel"));
    for left in [&stale, &init] {
        make(left).unwrap();
    }
    remove_stale(dir);
    let left = (stale.exists(), init.exists());
    fs::remove_dir(init).unwrap();
    assert_eq!(left, (false, true));
}

#[test]
fn lower_quota_of_a_group_above_is_reported() {
    let Some(tree) = tree(Controller::Cpu) else { return };
    let place = tree.dirs.iter().find(|place| place.controller == Controller::Cpu).unwrap();
    if place.version == Version::V2 {
        return println!("SKIPPED: in version 2 the system applies the lower one");
    }
    let above = place.dir.join(name("test-above"));
    make(&above).unwrap();
    files::write(&above, "cpu.cfs_quota_us", "30000").unwrap(); // of 100,000
    let place = ControllerDir { dir: above.clone(), times: None, ..place.clone() };
    let below = Tree::try_all(vec![(Controller::Cpu, Ok(place))]);
    assert!(below.has(Controller::Cpu), "{:?}", below.missing());
    let bounds = |cpu| Bounds { cpu: Some(cpu), ..Bounds::default() };
    let group = below.group("test-more", &bounds(500)).unwrap();
    let [(Controller::Cpu, why)] = group.lower() else { panic!("{:?}", group.lower()) };
    assert_eq!(*why, format!("{} has 0.300 processors for all that is in it", above.display()));
    let quota = |group: &Group| fs::read_to_string(group.dirs[0].join("cpu.cfs_quota_us")).unwrap();
    assert_eq!(quota(&group), "-1\n");
    let less = below.group("test-less", &bounds(200)).unwrap();
    assert_eq!((less.lower(), quota(&less)), (&[][..], "2000\n".to_owned()));
    drop((group, less, below));
    fs::remove_dir(above).unwrap();
}

#[test]
fn group_without_swap_limit_swaps_nothing() {
    let files = ["memory.limit_in_bytes", "memory.swappiness"];
    let dir = fake("swap", &files.map(|file| (file, "")));
    assert!(!files::counts_swap(Version::V1, &dir));
    files::limit(Version::V1, Controller::Memory, &dir, &SOME).unwrap();
    let text = |file: &str| fs::read_to_string(dir.join(file)).unwrap();
    assert_eq!(files.map(text), ["67108864", "0"]);
    fs::write(dir.join("memory.memsw.limit_in_bytes"), "").unwrap();
    fs::write(dir.join("memory.swappiness"), "60").unwrap();
    assert!(files::counts_swap(Version::V1, &dir));
    files::limit(Version::V1, Controller::Memory, &dir, &SOME).unwrap();
    assert_eq!(text("memory.memsw.limit_in_bytes"), "67108864");
    assert_eq!(text("memory.swappiness"), "60", "what is counted may be put there");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn group_of_version_1_can_be_kept_from_swapping() {
    let Some(tree) = tree(Controller::Memory) else { return };
    let (version, dir) = tree.place(Controller::Memory).unwrap();
    if version == 2 {
        return println!("SKIPPED: version 2 has another way");
    }
    let dir = dir.join(name("test-swappiness"));
    make(&dir).unwrap();
    let written = files::write(&dir, "memory.swappiness", "0");
    fs::remove_dir(dir).unwrap();
    written.unwrap();
}

#[test]
fn tree_without_groups_states_the_reason() {
    let tree = Tree::none("it was switched off");
    assert!(Controller::ALL.into_iter().all(|controller| !tree.has(controller)));
    assert!(tree.missing().iter().all(|(_, why)| why == "it was switched off"));
    let group = tree.group("kernel", &SOME).unwrap();
    assert_eq!(group.usage().unwrap(), GroupUsage::default());
}
