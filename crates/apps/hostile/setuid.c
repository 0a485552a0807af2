/* Makes itself a set-user-id program, and looks whether there are some. */
#include "hostile.h"

#include <sys/statvfs.h>

static void attack(void) {
    struct statvfs libraries, own;
    int fd = open("/tmp/rosemary-hostile-program", O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
    memset(&libraries, 0, sizeof libraries);
    memset(&own, 0, sizeof own);
    errno = EPERM;
    tell_strictly("set-user-id programs among the libraries",
                  statvfs("/usr/lib", &libraries) == 0 && libraries.f_flag & ST_NOSUID ? -1 : 0);
    tell_strictly("programs in /tmp", statvfs("/tmp", &own) == 0 && own.f_flag & ST_NOEXEC ? -1 : 0);
    tell("a set-user-id program of its own", fchmod(fd, 04755));
    tell("a program's capabilities", syscall(SYS_fsetxattr, fd, "security.capability", "", 0, 0));
    if (fd >= 0)
        close(fd);
    unlink("/tmp/rosemary-hostile-program");
}
