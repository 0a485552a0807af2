//! Compiles a list of system calls into a filter for seccomp(2): classic BPF over `struct seccomp_data`.
//!
//! ```text
//! another architecture --------------> EPERM
//! for each call of the list:  another number --------------> the next call
//!                             its condition does not hold --> watched? notify : EPERM
//!                             allow
//! watched ---------------------------> notify
//! emulated --------------------------> its result
//! all others, and those of x32 ------> EPERM
//! ```

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW,
    SECCOMP_RET_ERRNO, SECCOMP_RET_TRACE, SECCOMP_RET_USER_NOTIF, sock_filter,
};

use super::Further;
use super::lists::{Condition, EMULATED, Profile, SHARED, STOPS, UNCOUNTED, watched};

/// `AUDIT_ARCH_*`, `linux/audit.h`: the machine, 64 bits, little endian.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;

/// The offset of the lower (`half` 0) or upper (1) half of an argument on a little-endian machine.
fn argument(index: u8, half: u32) -> u32 {
    16 + 8 * u32::from(index) + 4 * half
}

/// Facts about the confined process that conditions depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own {
    /// Its process number.
    pub(super) pid: u32,
    /// The number of its outlet, see [`Condition::Outlet`].
    pub(super) outlet: u32,
    /// Whether it has no private root directory, and therefore the machine's `/proc`.
    pub(super) has_proc: bool,
    /// Whether a cgroup counts its memory, so that setrlimit(2) does not bound it.
    pub(super) is_counted: bool,
}

/// Compiles the filter of `profile`. `notifies`: a listener answers watched calls.
pub(super) fn compile(profile: Profile, own: Own, notifies: bool) -> Vec<sock_filter> {
    let refuse = match profile {
        Profile::Zone
        | Profile::Wasm
        | Profile::Python
        | Profile::Security
        | Profile::Kernel
        | Profile::Log
        | Profile::Storage
        | Profile::History
        | Profile::Northbound
        | Profile::Ovsdb
        | Profile::Broker => SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs(),
        // The monitor's children inherit this filter and add one. The system takes the stricter of two results. An
        // error is stricter than a notification, so it would suppress the child's; this one is weaker. Without a
        // tracer, the call fails with ENOSYS.
        Profile::Monitor => SECCOMP_RET_TRACE,
    };
    let report = if notifies { SECCOMP_RET_USER_NOTIF } else { refuse };
    let mut program =
        vec![load(ARCH), jump_if_equal(ARCHITECTURE, 1, 0), return_value(refuse), load(NUMBER)];
    for entry in profile.allowed() {
        // The monitor's children inherit its list, and the arguments of their calls are not known here.
        let condition =
            if profile == Profile::Monitor { Condition::Always } else { entry.condition };
        let is_watched = watched().any(|it| it.number == entry.number);
        let otherwise = if is_watched { report } else { refuse };
        let body = match condition {
            Condition::Always => vec![return_value(SECCOMP_RET_ALLOW)],
            // Without a listener, the private root directory decides which files can be written.
            Condition::ToRead(_) if !notifies && !own.has_proc => {
                vec![return_value(SECCOMP_RET_ALLOW)]
            }
            condition => tested(condition, own, otherwise),
        };
        let over = u8::try_from(body.len()).expect("the code of a condition is short");
        program.push(jump_if_equal(number(entry.number), 0, over));
        program.extend(body);
    }
    let rest = watched().map(|it| (it.number, report)).chain(
        EMULATED
            .iter()
            .map(|(_, number, error)| (*number, SECCOMP_RET_ERRNO | error.unsigned_abs())),
    );
    for (call, value) in rest {
        program.push(jump_if_equal(number(call), 0, 1));
        program.push(return_value(value));
    }
    program.push(return_value(refuse));
    program
}

/// Compiles a filter that refuses calls that make memory executable, and further filters unless they are allowed. It allows all others, as another filter
/// decides about them.
pub(super) fn without_new_code(further: Further) -> Vec<sock_filter> {
    let refuse = SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    let mut program =
        vec![load(ARCH), jump_if_equal(ARCHITECTURE, 1, 0), return_value(refuse), load(NUMBER)];
    for call in [libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_pkey_mprotect] {
        let body = masked(2, libc::PROT_EXEC.cast_unsigned(), 0, refuse);
        program.push(jump_if_equal(number(call), 0, 5));
        program.extend(body);
    }
    let filter = (further == Further::Refused).then_some(libc::SYS_seccomp);
    for call in [libc::SYS_shmat, libc::SYS_execve, libc::SYS_execveat].into_iter().chain(filter) {
        program.extend([jump_if_equal(number(call), 0, 1), return_value(refuse)]);
    }
    program.push(return_value(SECCOMP_RET_ALLOW));
    program
}

/// Allows the call if the condition holds, and returns `otherwise` if not. The code never continues behind its end:
/// the number of the call is no longer loaded there.
fn tested(condition: Condition, own: Own, otherwise: u32) -> Vec<sock_filter> {
    let mut body = Vec::new();
    match condition {
        Condition::OwnRoot if own.has_proc => body.push(return_value(otherwise)),
        Condition::Counted if !own.is_counted => body.push(return_value(otherwise)),
        Condition::Always | Condition::OwnRoot | Condition::Counted => {
            body.push(return_value(SECCOMP_RET_ALLOW));
        }
        Condition::OneOfOrWithProc(index, values, more) if own.has_proc => {
            body.extend(one_of(index, &[values, more].concat(), otherwise));
        }
        Condition::OneOfOrDone(index, values, done) => {
            if !own.has_proc {
                body.push(load(argument(index, 0)));
                for value in done {
                    body.push(jump_if_equal(*value, 0, 1));
                    body.push(return_value(SECCOMP_RET_ERRNO)); // error 0: success
                }
            }
            body.extend(one_of(index, values, otherwise));
        }
        Condition::OneOf(index, values) | Condition::OneOfOrWithProc(index, values, _) => {
            body.extend(one_of(index, values, otherwise));
        }
        Condition::OwnSignal(process, signal) => {
            body.extend(own_signal(process, signal, own, otherwise));
        }
        Condition::Outlet => body.extend([
            load(argument(0, 0)),
            jump_if_equal(own.outlet, 0, 3),
            load(argument(2, 0)),
            statement(BPF_ALU | BPF_AND | BPF_K, libc::MSG_FASTOPEN.cast_unsigned()),
            jump_if_equal(0, 1, 0),
            return_value(otherwise),
            return_value(SECCOMP_RET_ALLOW),
        ]),
        Condition::SocketOption(options) => body.extend(socket_option(options, otherwise)),
        Condition::Bits(index, mask, value) => {
            body.extend(masked(index, mask, value, otherwise));
        }
        Condition::ToRead(index) => body.extend(masked(index, WRITES, 0, otherwise)),
        Condition::CountedFlags(index) => {
            if !own.is_counted {
                body.extend([
                    load(argument(index, 0)),
                    statement(BPF_ALU | BPF_AND | BPF_K, SHARED),
                    jump_if_equal(SHARED, 0, 1),
                    return_value(otherwise),
                ]);
            }
            body.extend(masked(index, UNCOUNTED, 0, otherwise));
        }
        Condition::Null(index) => body.extend([
            load(argument(index, 0)),
            jump_if_equal(0, 0, 2),
            load(argument(index, 1)),
            jump_if_equal(0, 1, 0),
            return_value(otherwise),
            return_value(SECCOMP_RET_ALLOW),
        ]),
    }
    body
}

/// See [`Condition::OneOf`].
fn one_of(index: u8, values: &[u32], otherwise: u32) -> Vec<sock_filter> {
    let mut body = vec![load(argument(index, 0))];
    for (i, value) in values.iter().enumerate() {
        // Jumps over the other values and the refusal.
        let over = u8::try_from(values.len() - i).expect("few values");
        body.push(jump_if_equal(*value, over, 0));
    }
    body.extend([return_value(otherwise), return_value(SECCOMP_RET_ALLOW)]);
    body
}

/// See [`Condition::SocketOption`].
fn socket_option(options: &[(libc::c_int, libc::c_int)], otherwise: u32) -> Vec<sock_filter> {
    let mut body = Vec::new();
    for (level, option) in options {
        body.extend([
            load(argument(1, 0)),
            jump_if_equal(level.cast_unsigned(), 0, 3), // to the next pair
            load(argument(2, 0)),
            jump_if_equal(option.cast_unsigned(), 0, 1),
            return_value(SECCOMP_RET_ALLOW),
        ]);
    }
    body.push(return_value(otherwise));
    body
}

/// See [`Condition::OwnSignal`].
fn own_signal(process: u8, signal: u8, own: Own, otherwise: u32) -> Vec<sock_filter> {
    let count = u8::try_from(STOPS.len()).expect("there are four");
    let mut body = vec![
        load(argument(process, 0)),
        jump_if_equal(own.pid, 0, count + 2), // to the refusal at the end
        load(argument(signal, 0)),
    ];
    body.extend((0..count).rev().zip(STOPS).map(|(left, stop)| jump_if_equal(stop, left + 1, 0)));
    body.extend([return_value(SECCOMP_RET_ALLOW), return_value(otherwise)]);
    body
}

/// The flags of open(2) with which a file can be made or changed.
const WRITES: u32 =
    (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND).cast_unsigned();

fn masked(index: u8, mask: u32, value: u32, otherwise: u32) -> [sock_filter; 5] {
    [
        load(argument(index, 0)),
        statement(BPF_ALU | BPF_AND | BPF_K, mask),
        jump_if_equal(value, 1, 0),
        return_value(otherwise),
        return_value(SECCOMP_RET_ALLOW),
    ]
}

fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).expect("numbers of calls are small")
}

fn load(offset: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset)
}

fn return_value(value: u32) -> sock_filter {
    statement(BPF_RET | BPF_K, value)
}

fn jump_if_equal(k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { jt, jf, ..statement(BPF_JMP | BPF_JEQ | BPF_K, k) }
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: u16::try_from(code).expect("codes are short"), jt: 0, jf: 0, k }
}

#[cfg(test)]
mod tests {
    use super::super::lists::LISTENER_OPTIONS;
    use super::*;

    const OWN: Own = Own { pid: 2, outlet: 3, has_proc: false, is_counted: true };
    const REFUSED: u32 = SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();

    /// Runs `program` on a call in the same way as Linux.
    fn run(program: &[sock_filter], call: libc::c_long, arguments: [u64; 6]) -> u32 {
        let mut data = vec![0; 16];
        data[..4].copy_from_slice(&number(call).to_le_bytes());
        data[4..8].copy_from_slice(&ARCHITECTURE.to_le_bytes());
        data.extend(arguments.iter().flat_map(|argument| argument.to_le_bytes()));
        let (mut at, mut value) = (0, 0);
        loop {
            let it = program[at];
            at += 1;
            match u32::from(it.code) {
                code if code == BPF_LD | BPF_W | BPF_ABS => {
                    let from = it.k as usize;
                    value = u32::from_le_bytes(data[from..from + 4].try_into().unwrap());
                }
                code if code == BPF_ALU | BPF_AND | BPF_K => value &= it.k,
                code if code == BPF_JMP | BPF_JEQ | BPF_K => {
                    at += usize::from(if value == it.k { it.jt } else { it.jf });
                }
                code if code == BPF_RET | BPF_K => return it.k,
                code => panic!("{code:#x} is not used"),
            }
        }
    }

    #[test]
    fn zone_without_a_private_root_changes_no_file() {
        let with_proc = Own { has_proc: true, ..OWN };
        let write = [0, 0, u64::from(libc::O_WRONLY.cast_unsigned()), 0, 0, 0];
        for notifies in [true, false] {
            let (own, others) = (
                compile(Profile::Zone, OWN, notifies),
                compile(Profile::Zone, with_proc, notifies),
            );
            for call in [libc::SYS_unlinkat, libc::SYS_renameat2, libc::SYS_ftruncate] {
                assert_eq!(run(&own, call, [0; 6]), SECCOMP_RET_ALLOW);
                assert_eq!(run(&others, call, [0; 6]), REFUSED);
            }
            let reported = if notifies { SECCOMP_RET_USER_NOTIF } else { REFUSED };
            assert_eq!(run(&others, libc::SYS_openat, write), reported);
            assert_eq!(run(&others, libc::SYS_openat, [0; 6]), SECCOMP_RET_ALLOW, "to read");
        }
    }

    #[test]
    fn no_memory_becomes_executable_after_the_last_filter() {
        let program = without_new_code(Further::Refused);
        let protection = |bits: libc::c_int| [0, 0, u64::from(bits.cast_unsigned()), 0, 0, 0];
        let writable = protection(libc::PROT_READ | libc::PROT_WRITE);
        let executable = protection(libc::PROT_READ | libc::PROT_EXEC);
        for call in [libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_pkey_mprotect] {
            assert_eq!(run(&program, call, writable), SECCOMP_RET_ALLOW);
            assert_eq!(run(&program, call, executable), REFUSED);
        }
        assert_eq!(run(&program, libc::SYS_seccomp, [1, 0, 0, 0, 0, 0]), REFUSED);
        let first = without_new_code(Further::Allowed);
        assert_eq!(run(&first, libc::SYS_mprotect, executable), REFUSED);
        assert_eq!(run(&first, libc::SYS_seccomp, [1, 0, 0, 0, 0, 0]), SECCOMP_RET_ALLOW);
        assert_eq!(run(&program, libc::SYS_read, [0; 6]), SECCOMP_RET_ALLOW);
        let before = compile(Profile::Wasm, OWN, true);
        let tsync = u64::from(u32::try_from(libc::SECCOMP_FILTER_FLAG_TSYNC).unwrap());
        assert_eq!(run(&before, libc::SYS_seccomp, [1, tsync, 0, 0, 0, 0]), SECCOMP_RET_ALLOW);
        let listener = u64::from(u32::try_from(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER).unwrap());
        assert_ne!(run(&before, libc::SYS_seccomp, [1, listener, 0, 0, 0, 0]), SECCOMP_RET_ALLOW);
        assert_ne!(
            run(&compile(Profile::Zone, OWN, true), libc::SYS_seccomp, [1, tsync, 0, 0, 0, 0]),
            SECCOMP_RET_ALLOW
        );
    }

    #[test]
    fn calls_that_affect_others_are_refused_or_emulated() {
        let zone = compile(Profile::Zone, OWN, true);
        assert_eq!(run(&zone, libc::SYS_flock, [0; 6]), SECCOMP_RET_USER_NOTIF);
        assert_eq!(run(&zone, libc::SYS_fsync, [0; 6]), SECCOMP_RET_ERRNO, "without an error");
        for uncounted in [libc::MAP_HUGETLB, libc::MAP_GROWSDOWN] {
            let flags = u64::from((uncounted | libc::MAP_PRIVATE).cast_unsigned());
            assert_eq!(run(&zone, libc::SYS_mmap, [0, 0, 0, flags, 0, 0]), REFUSED);
        }
        let stack = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let stack = [0, 0, 0, u64::from(stack.cast_unsigned()), 0, 0];
        assert_eq!(run(&zone, libc::SYS_mmap, stack), SECCOMP_RET_ALLOW);
        assert_eq!(run(&zone, libc::SYS_mremap, [0; 6]), SECCOMP_RET_ALLOW);
        let without_groups = compile(Profile::Zone, Own { is_counted: false, ..OWN }, true);
        assert_eq!(run(&without_groups, libc::SYS_mremap, [0; 6]), REFUSED);
        assert_eq!(run(&without_groups, libc::SYS_mmap, stack), SECCOMP_RET_ALLOW);
        let map = |flags: libc::c_int| [0, 0, 0, u64::from(flags.cast_unsigned()), 0, 0];
        for shared in [libc::MAP_SHARED, libc::MAP_SHARED_VALIDATE] {
            let of_a_file = map(shared);
            let of_none = map(shared | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
            assert_eq!(run(&without_groups, libc::SYS_mmap, of_a_file), SECCOMP_RET_ALLOW);
            assert_eq!(run(&without_groups, libc::SYS_mmap, of_none), REFUSED);
            assert_eq!(run(&zone, libc::SYS_mmap, of_none), SECCOMP_RET_ALLOW);
        }
        let huge = map(libc::MAP_PRIVATE | libc::MAP_HUGETLB);
        assert_eq!(run(&without_groups, libc::SYS_mmap, huge), REFUSED);
    }

    /// Whether the process makes its sockets itself. The others share listening sockets.
    fn makes_sockets(profile: Profile) -> bool {
        matches!(profile, Profile::Broker | Profile::Ovsdb)
    }

    #[test]
    fn only_three_programs_pass_descriptors_after_their_report() {
        let by = |socket: u32| [u64::from(socket), 0, 0, 0, 0, 0];
        for profile in Profile::CONFINED {
            let program = compile(profile, OWN, true);
            let passes = run(&program, libc::SYS_sendmsg, by(4)) == SECCOMP_RET_ALLOW;
            assert_eq!(passes, profile.passes_descriptors(), "{profile:?}");
            assert_eq!(run(&program, libc::SYS_sendmsg, by(OWN.outlet)), SECCOMP_RET_ALLOW);
            let many = run(&program, libc::SYS_sendmmsg, by(OWN.outlet)) == SECCOMP_RET_ALLOW;
            // Name servers are asked with it.
            assert_eq!(many, makes_sockets(profile), "{profile:?}");
        }
    }

    #[test]
    fn no_program_makes_sockets_linger() {
        let set = |level: libc::c_int, option: libc::c_int| {
            [0, u64::from(level.cast_unsigned()), u64::from(option.cast_unsigned()), 0, 0, 0]
        };
        let (socket, tcp) = (libc::SOL_SOCKET, libc::IPPROTO_TCP);
        for profile in Profile::CONFINED {
            let program = compile(profile, OWN, true);
            for (level, option) in [
                (socket, libc::SO_LINGER),
                (socket, libc::SO_ATTACH_FILTER),
                (socket, libc::SO_LOCK_FILTER),
                (socket, 83), // SO_PASSRIGHTS
                (tcp, libc::TCP_DEFER_ACCEPT),
                (tcp, libc::TCP_SYNCNT),
                (tcp, libc::TCP_LINGER2),
                (tcp, libc::TCP_CONGESTION), // has the number of SO_LINGER
            ] {
                let result = run(&program, libc::SYS_setsockopt, set(level, option));
                assert_eq!(result, REFUSED, "{profile:?}: {level} {option}");
            }
            // Programs that share a listening socket set no option that the monitor does not restore.
            let may_set = profile.allowed().filter_map(|it| match it.condition {
                Condition::SocketOption(options) if !makes_sockets(profile) => Some(options),
                _ => None,
            });
            assert!(may_set.flatten().all(|it| LISTENER_OPTIONS.contains(it)), "{profile:?}");
            let nodelay = run(&program, libc::SYS_setsockopt, set(tcp, libc::TCP_NODELAY));
            let has_some = profile.allowed().any(|it| it.number == libc::SYS_setsockopt);
            assert_eq!(nodelay == SECCOMP_RET_ALLOW, has_some, "{profile:?}");
        }
    }

    #[test]
    fn locks_of_python_succeed_without_an_effect() {
        let fcntl = |command: libc::c_int| [0, u64::from(command.cast_unsigned()), 0, 0, 0, 0];
        let python = compile(Profile::Python, OWN, true);
        for command in [libc::F_SETLK, libc::F_SETLKW] {
            let done = run(&python, libc::SYS_fcntl, fcntl(command));
            assert_eq!(done, SECCOMP_RET_ERRNO, "without an error, and without the call");
            let zone = compile(Profile::Zone, OWN, true);
            assert_eq!(run(&zone, libc::SYS_fcntl, fcntl(command)), SECCOMP_RET_USER_NOTIF);
            // The machine's /tmp is shared with other processes.
            let others = compile(Profile::Python, Own { has_proc: true, ..OWN }, true);
            assert_eq!(run(&others, libc::SYS_fcntl, fcntl(command)), SECCOMP_RET_USER_NOTIF);
        }
        for command in [libc::F_GETFD, libc::F_SETFL, libc::F_DUPFD_CLOEXEC, libc::F_GETLK] {
            assert_eq!(run(&python, libc::SYS_fcntl, fcntl(command)), SECCOMP_RET_ALLOW);
        }
        for command in [libc::F_OFD_SETLK, libc::F_SETLEASE, libc::F_SETPIPE_SZ, libc::F_SETOWN] {
            assert_eq!(run(&python, libc::SYS_fcntl, fcntl(command)), SECCOMP_RET_USER_NOTIF);
        }
        for call in [libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_utimensat] {
            assert_eq!(run(&python, call, [0; 6]), SECCOMP_RET_ALLOW);
            let others = compile(Profile::Python, Own { has_proc: true, ..OWN }, true);
            assert_eq!(run(&others, call, [0; 6]), SECCOMP_RET_USER_NOTIF);
        }
    }

    #[test]
    fn memory_that_no_limit_counts_is_refused() {
        for profile in [Profile::Zone, Profile::Kernel, Profile::Log] {
            let program = compile(profile, OWN, true);
            let advise = |advice: libc::c_int| {
                let advice = u64::from(advice.cast_unsigned());
                run(&program, libc::SYS_madvise, [0, 0, advice, 0, 0, 0])
            };
            for needed in [libc::MADV_DONTNEED, libc::MADV_FREE, libc::MADV_WIPEONFORK] {
                assert_eq!(advise(needed), SECCOMP_RET_ALLOW);
            }
            let others = [libc::MADV_MERGEABLE, libc::MADV_POPULATE_READ, libc::MADV_HWPOISON];
            assert!(others.into_iter().all(|advice| advise(advice) == REFUSED));
            #[cfg(target_arch = "x86_64")]
            {
                let shadow_stack = run(&program, libc::SYS_arch_prctl, [0x5001, 1, 0, 0, 0, 0]);
                assert_eq!(shadow_stack, REFUSED);
            }
        }
    }

    #[test]
    fn signals_and_messages_reach_no_other_process() {
        let zone = compile(Profile::Zone, OWN, true);
        assert_eq!(run(&zone, libc::SYS_kill, [2, 0, 0, 0, 0, 0]), SECCOMP_RET_ALLOW);
        for other in [0, 1, u64::MAX] {
            assert_eq!(run(&zone, libc::SYS_kill, [other, 0, 0, 0, 0, 0]), SECCOMP_RET_USER_NOTIF);
        }
        for signal in 0..65 {
            let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
            let stops = stops.iter().any(|it| u64::from(it.cast_unsigned()) == signal);
            let expected = if stops { SECCOMP_RET_USER_NOTIF } else { SECCOMP_RET_ALLOW };
            assert_eq!(run(&zone, libc::SYS_kill, [2, signal, 0, 0, 0, 0]), expected, "{signal}");
            assert_eq!(run(&zone, libc::SYS_tgkill, [2, 9, signal, 0, 0, 0]), expected, "{signal}");
        }
        assert_eq!(run(&zone, libc::SYS_tgkill, [3, 9, 6, 0, 0, 0]), SECCOMP_RET_USER_NOTIF);
        assert_eq!(run(&zone, libc::SYS_sendmsg, [3, 0, 0, 0, 0, 0]), SECCOMP_RET_ALLOW);
        assert_eq!(run(&zone, libc::SYS_sendmsg, [4, 0, 0, 0, 0, 0]), REFUSED);
        let and_connect = u64::from(libc::MSG_FASTOPEN.cast_unsigned());
        assert_eq!(run(&zone, libc::SYS_sendmsg, [3, 0, and_connect, 0, 0, 0]), REFUSED);
        let set_pipe_size = [0, 1031, 0, 0, 0, 0];
        assert_eq!(run(&zone, libc::SYS_fcntl, set_pipe_size), SECCOMP_RET_USER_NOTIF);
        let kernel = compile(Profile::Kernel, OWN, true);
        assert_eq!(run(&kernel, libc::SYS_fcntl, set_pipe_size), SECCOMP_RET_ALLOW);
    }
}
