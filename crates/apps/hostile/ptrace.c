/* Traces its parent. */
#include "hostile.h"

#include <sys/ptrace.h>
#include <sys/wait.h>

static void attack(void) {
    pid_t parent = getppid(), child = fork();
    int status = 0;
    if (child < 0) {
        tell("ptrace of the parent", ptrace(PTRACE_SEIZE, parent, 0, 0));
        return;
    }
    /* In a child, which lets go of it by ending: the parent must not stop for good. */
    if (child == 0)
        _exit(ptrace(PTRACE_SEIZE, parent, 0, 0) < 0 ? errno : 0);
    waitpid(child, &status, 0);
    errno = WEXITSTATUS(status);
    tell("ptrace of the parent", errno ? -1 : 0);
}
