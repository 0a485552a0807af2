/* Looks for the other processes in /proc, and at what they hold. */
#include "hostile.h"

#include <dirent.h>

static void attack(void) {
    DIR *proc = opendir("/proc");
    char path[64];
    tell_strictly("listing /proc", proc ? 0 : -1);
    if (proc)
        closedir(proc);
    tell_strictly("/proc/self/maps", open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    snprintf(path, sizeof path, "/proc/%d/status", getppid());
    tell_strictly("the parent's entry in /proc", open(path, O_RDONLY | O_CLOEXEC));
    tell_strictly("/proc/sys/kernel/core_pattern", open("/proc/sys/kernel/core_pattern", O_WRONLY | O_CLOEXEC));
    tell_strictly("/sys", open("/sys/kernel", O_RDONLY | O_CLOEXEC));
}
