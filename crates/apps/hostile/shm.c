/* Leaves something where others find it. */
#include "hostile.h"

#include <sys/ipc.h>
#include <sys/shm.h>

static void attack(void) {
    int fd = open("/dev/shm/rosemary-hostile", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    int id;
    tell_strictly("a file in /dev/shm", fd);
    unlink("/dev/shm/rosemary-hostile");
    id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    tell("System V shared memory", id);
    if (id >= 0)
        shmctl(id, IPC_RMID, 0);
    tell("a message queue", syscall(SYS_mq_open, "rosemary-hostile", O_RDONLY, 0, 0) < 0 && errno == ENOENT ? 0 : -1);
}
