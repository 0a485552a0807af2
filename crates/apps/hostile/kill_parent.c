/* Signals its parent, by every call there is for that. */
#include "hostile.h"

static void attack(void) {
    long pidfd = syscall(SYS_pidfd_open, getppid(), 0);
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_code = SI_QUEUE;
    tell("kill of the parent", kill(getppid(), 0));
    tell("tgkill of the parent", syscall(SYS_tgkill, getppid(), getppid(), 0));
    tell("rt_sigqueueinfo to the parent", syscall(SYS_rt_sigqueueinfo, getppid(), 0, &info));
    tell("pidfd_send_signal to the parent", syscall(SYS_pidfd_send_signal, pidfd, 0, 0, 0));
}
