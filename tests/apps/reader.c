/* An app that reads its granted directory (GRANTED, with a file `data` in it). It then tries to write there
 * and to read other files, and logs the results as hostile apps do. */
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
