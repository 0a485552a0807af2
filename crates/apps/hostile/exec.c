/* Executes programs, set-user-id ones too. */
#include "hostile.h"

#include <sys/wait.h>

static void attack(void) {
    char *const nothing[] = {0};
    char *const su[] = {"su", "--version", 0};
    pid_t child = fork();
    int status = -1;
    if (child == 0) {
        execve("/usr/bin/su", su, nothing);
        _exit(errno == ENOENT ? 0 : 1);
    }
    tell("fork", child);
    if (child > 0)
        waitpid(child, &status, 0);
    tell_strictly("a set-user-id program", child > 0 && status == 0 ? 0 : (errno = EPERM, -1));
    tell("execve", execve("/nowhere", nothing, nothing));
    tell("execveat", syscall(SYS_execveat, -1, "", nothing, nothing, AT_EMPTY_PATH));
}
