/* Finds the processes around it by trying their numbers, and reaches for each: monitor, kernel and the
 * zones of others have numbers near its own. */
#include "hostile.h"

#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define NEAR 64

/* In a child, which lets go of it by ending: what is traced must not stop for good. */
static int is_traced(pid_t pid) {
    pid_t child = fork();
    int status = 0;
    if (child < 0)
        return ptrace(PTRACE_SEIZE, pid, 0, 0) == 0;
    if (child == 0)
        _exit(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static void attack(void) {
    int found = 0, traced = 0, read = 0, opened = 0, taken = 0, slowed = 0, limited = 0;
    pid_t own = getpid(), pid = own > NEAR ? own - NEAR : 1;
    char byte;
    for (; pid < own + NEAR; pid++) {
        struct iovec ours = {&byte, 1}, theirs = {(void *)(uintptr_t)&byte, 1};
        struct rlimit *none = 0;
        long pidfd, copy;
        if (pid == own || kill(pid, 0) != 0)
            continue;
        found++;
        traced += is_traced(pid);
        /* A page that does not exist differs from a process that may not be read. */
        read += process_vm_readv(pid, &ours, 1, &theirs, 1, 0) > 0 || errno == EFAULT;
        limited += syscall(SYS_prlimit64, pid, 7, none, none) == 0;
        slowed += getpriority(PRIO_PROCESS, (id_t)pid) > -21 && setpriority(PRIO_PROCESS, (id_t)pid, getpriority(PRIO_PROCESS, (id_t)pid)) == 0;
        pidfd = syscall(SYS_pidfd_open, pid, 0);
        if (pidfd < 0)
            continue;
        opened++;
        copy = syscall(SYS_pidfd_getfd, pidfd, 0, 0);
        if (copy >= 0) {
            taken++;
            close((int)copy);
        }
        close((int)pidfd);
    }
    say("found %d processes", found);
    errno = EPERM;
    tell_strictly("signalling others", found ? 0 : -1);
    tell_strictly("tracing others", traced ? 0 : -1);
    tell_strictly("reading the memory of others", read ? 0 : -1);
    tell_strictly("opening others", opened ? 0 : -1);
    tell_strictly("taking descriptors of others", taken ? 0 : -1);
    tell_strictly("the priority of others", slowed ? 0 : -1);
    tell_strictly("the limits of others", limited ? 0 : -1);
}
