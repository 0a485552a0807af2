/* Mounts over what others see. */
#include "hostile.h"

#include <sys/mount.h>

static void attack(void) {
    tell("mount", mount("none", "/nowhere", "tmpfs", 0, 0));
    tell("umount", umount("/nowhere"));
    tell("fsopen", syscall(SYS_fsopen, "tmpfs", 1));
    tell("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
}
