/* Fills /tmp with bytes: 64 MiB are enough to show it. */
#include "hostile.h"

static void attack(void) {
    static char block[1 << 20];
    int fd = open("/tmp/rosemary-hostile", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    int i;
    signal(SIGXFSZ, SIG_IGN);
    for (i = 0; i < 64; i++) {
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block)
            break;
    }
    unlink("/tmp/rosemary-hostile");
    say("wrote %d MiB", i);
    tell_strictly("64 MiB of /tmp", i == 64 ? 0 : -1);
}
