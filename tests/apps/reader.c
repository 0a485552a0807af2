/* An app that reads what it was granted (GRANTED, a directory with a file `data` in it), and tries to do
 * more with it, and to read what it was not granted. It says what came of it as hostile apps do. */
#include "../../crates/apps/hostile/hostile.h"

static void attack(void) {
    char text[16] = "";
    int fd = open(GRANTED "/data", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, text, sizeof text - 1) < 0)
        text[0] = 0;
    say("READ %s", text);
    tell_strictly("writing what it may read", open(GRANTED "/data", O_WRONLY | O_CLOEXEC));
    tell_strictly("a new file beside it", open(GRANTED "/new", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    tell_strictly("deleting it", unlink(GRANTED "/data"));
    tell_strictly("its mode", fchmod(fd, 0777));
    tell_strictly("a lock on it", syscall(SYS_flock, fd, 2));
    tell_strictly("what is beside it", open(GRANTED "/../secret", O_RDONLY | O_CLOEXEC));
    tell_strictly("where a link in it leads", open(GRANTED "/link", O_RDONLY | O_CLOEXEC));
}
