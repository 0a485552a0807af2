/* Reads and writes what is not its own. */
#include "hostile.h"

static void attack(void) {
    static const char *const secrets[] = {"/etc/shadow", "/etc/passwd", "/root", "/home",
                                          "/var/lib/rosemary/apps.json", "/dev/null"};
    static const char *const places[] = {"/usr/lib/rosemary-hostile", "/etc/rosemary-hostile",
                                         "/rosemary-hostile", "/var/tmp/rosemary-hostile"};
    char what[80];
    size_t i;
    for (i = 0; i < sizeof secrets / sizeof *secrets; i++) {
        snprintf(what, sizeof what, "reading %s", secrets[i]);
        tell_strictly(what, open(secrets[i], O_RDONLY | O_CLOEXEC));
    }
    for (i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(what, sizeof what, "writing %s", places[i]);
        tell_strictly(what, open(places[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        unlink(places[i]);
    }
    tell_strictly("changing its own object", open("/app/0.so", O_WRONLY | O_CLOEXEC));
    tell("mknod", mknod("/tmp/rosemary-hostile", S_IFCHR | 0600, 0x103));
    unlink("/tmp/rosemary-hostile");
}
