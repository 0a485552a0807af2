/*
 * Makes the system call of every number and logs which of them the sandbox lets through. The arguments have no effect:
 * pointers to nowhere, descriptors that are not open. It leaves out calls that would end or stop the process with any
 * arguments, and logs them.
 *
 * Logs `MADE n n n ...` in several lines, then `LEFT n n ...`, then `SUITED n n ...`: calls that the sandbox judges by
 * their arguments, with allowed arguments, and `DONE`.
 */
#include "../hostile.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define MOST 700

/* The process or thread ends, or goes on with what it did long ago (a poll into memory that is something
 * else by now), whatever the arguments. */
static int ends(long number) {
#if defined(__x86_64__)
    /* uretprobe and uprobe: Linux lets them past every filter, and kills who was not told to make them. */
    if (number == 335 || number == 336)
        return 1;
#endif
    return number == SYS_exit || number == SYS_exit_group || number == SYS_rt_sigreturn ||
           number == SYS_restart_syscall;
}

/* Whether the call was let through: what the kernel itself says to these arguments is another error. */
static int is_made(long number, long a, long b, long c) {
    errno = 0;
    return syscall(number, a, b, c, -1, -1, -1) >= 0 || (errno != EPERM && errno != ENOSYS);
}

static int try_all(long number) {
    switch (number) {
    /* Would do something with -1. */
    case SYS_brk:
    case SYS_sched_yield:
    case SYS_rt_sigaction:
        return is_made(number, 0, 0, 0);
    case SYS_umask: {
        mode_t mask;
        errno = 0;
        mask = umask(077);
        umask(mask);
        return errno != EPERM;
    }
    /* Says ENOSYS itself to an operation that it does not know. FUTEX_WAKE. */
    case SYS_futex: {
        int word = 0;
        return is_made(number, (long)&word, 1, 0);
    }
    case SYS_membarrier:
        return is_made(number, 0, 0, 0);
    default:
        return is_made(number, -1, -1, -1);
    }
}

static void *nothing(void *it) {
    return it;
}

/* Those that were refused above for their arguments alone, as they are meant. */
static void try_suited(unsigned char *made) {
    char space[64];
    struct rlimit most;
    pthread_t thread;
    long process = getpid();
    void *page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    made[SYS_mmap] = page != MAP_FAILED;
    made[SYS_madvise] = (unsigned char)is_made(SYS_madvise, (long)page, 4096, MADV_NORMAL);
    made[SYS_clone] = pthread_create(&thread, 0, nothing, 0) == 0 && pthread_join(thread, 0) == 0;
    made[SYS_fcntl] = (unsigned char)is_made(SYS_fcntl, 0, F_GETFD, 0);
    made[SYS_kill] = (unsigned char)is_made(SYS_kill, process, 0, 0);
    made[SYS_tgkill] = (unsigned char)is_made(SYS_tgkill, process, process, 0);
    made[SYS_prlimit64] = (unsigned char)is_made(SYS_prlimit64, process, -1, 0);
    made[SYS_prctl] = (unsigned char)is_made(SYS_prctl, PR_GET_NAME, (long)space, 0);
    /* By the number of the outlet, which no descriptor can have. */
    getrlimit(RLIMIT_NOFILE, &most);
    made[SYS_sendmsg] = (unsigned char)is_made(SYS_sendmsg, (long)most.rlim_max, 0, 0);
    made[SYS_sendto] = syscall(SYS_sendto, -1, 0, 0, 0, 0, 0) < 0 && errno == EBADF;
    made[SYS_openat] = (unsigned char)is_made(SYS_openat, AT_FDCWD, (long)"/", O_RDONLY | O_CLOEXEC);
#if defined(__x86_64__)
    made[SYS_arch_prctl] = (unsigned char)is_made(SYS_arch_prctl, 0x1003 /* ARCH_GET_FS */, (long)space, 0);
    made[SYS_open] = (unsigned char)is_made(SYS_open, (long)"/", O_RDONLY | O_CLOEXEC, 0);
#endif
}

static void tell_numbers(const char *what, const unsigned char *which) {
    char text[200] = "";
    size_t size = 0;
    int number;
    for (number = 0; number < MOST; number++) {
        if (which[number])
            size += (size_t)snprintf(text + size, sizeof text - size, " %d", number);
        if (size > sizeof text - 8 || (number == MOST - 1 && size > 0)) {
            say("%s%s", what, text);
            size = 0;
        }
    }
}

static void attack(void) {
    static unsigned char made[MOST], left[MOST], suited[MOST];
    long number;
    for (number = 0; number < MOST; number++) {
        if (ends(number))
            left[number] = 1;
        else
            made[number] = (unsigned char)(try_all(number) != 0);
    }
    tell_numbers("MADE", made);
    tell_numbers("LEFT", left);
    try_suited(suited);
    tell_numbers("SUITED", suited);
}
