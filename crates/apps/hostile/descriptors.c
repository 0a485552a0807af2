/* Reaches for more through every descriptor it holds. The kernel's ring is sealed: that is refused
 * with and without a wall. */
#include "hostile.h"

#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#endif
#ifndef F_GET_SEALS
#define F_GET_SEALS 1034
#endif

static void attack(void) {
    char path[40];
    int fd, held = 0, reopened = 0, mapped = 0, resealed = 0, resized = 0;
    for (fd = 0; fd < 1024; fd++) {
        int seals = fcntl(fd, F_GET_SEALS);
        if (fcntl(fd, F_GETFD) < 0)
            continue;
        held++;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        reopened += open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK) >= 0;
        if (seals < 0)
            continue;
        resealed += fcntl(fd, F_ADD_SEALS, 1) == 0;
        resized += ftruncate(fd, 1) == 0;
        /* Sealed against future writing: the ring that only the kernel writes. */
        if (seals & 0x10)
            mapped += mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED;
    }
    say("holds %d descriptors", held);
    tell_strictly("opening its descriptors again", reopened ? 0 : (errno = EACCES, -1));
    tell_strictly("mapping the kernel's memory for writing", mapped ? 0 : (errno = EPERM, -1));
    tell_strictly("sealing shared memory", resealed ? 0 : (errno = EPERM, -1));
    tell_strictly("resizing shared memory", resized ? 0 : (errno = EPERM, -1));
    if (first_batch->count > 0) {
        uintptr_t page = (uintptr_t)first_batch->records[0] & ~(uintptr_t)4095;
        tell("making the kernel's records writable",
             mprotect((void *)page, 4096, PROT_READ | PROT_WRITE));
    }
}
