/* Fills /tmp with files: 4096 are enough to show it. */
#include "hostile.h"

static void attack(void) {
    char path[40];
    int i, made;
    for (made = 0; made < 4096; made++) {
        int fd;
        snprintf(path, sizeof path, "/tmp/rosemary-hostile-%d", made);
        fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0)
            break;
        close(fd);
    }
    say("made %d files", made);
    tell_strictly("4096 files in /tmp", made == 4096 ? 0 : -1);
    for (i = 0; i < made; i++) {
        snprintf(path, sizeof path, "/tmp/rosemary-hostile-%d", i);
        unlink(path);
    }
}
