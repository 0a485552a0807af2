/* Rings the kernel's doorbells, with nothing behind it, as fast as it can, for some seconds: each ring wakes a worker. */
#define GOES_ON
#include "network.h"

#define MOST_BELLS 64

static int bells[MOST_BELLS];
static int bell_count;

static void attack(void) {
    int fd;
    for (fd = 3; fd < 1024 && bell_count < MOST_BELLS; fd++) {
        struct stat stat;
        int flags = fcntl(fd, F_GETFL);
        if (fstat(fd, &stat) == 0 && S_ISFIFO(stat.st_mode) && (flags & O_ACCMODE) == O_WRONLY && (flags & O_NONBLOCK))
            bells[bell_count++] = fd;
    }
    say("found %d doorbells", bell_count);
}

static void go_on(void) {
    int i;
    for (i = 0; i < 2000 && bell_count > 0; i++)
        if (write(bells[i % bell_count], "", 1) < 0 && errno != EAGAIN)
            return;
}
