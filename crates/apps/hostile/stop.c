/* Stops its own process: then it answers nobody, and does not end. */
#include "hostile.h"

static void attack(void) {
    static const struct {
        int number;
        const char *name;
    } signals[] = {{SIGTSTP, "SIGTSTP"}, {SIGTTIN, "SIGTTIN"}, {SIGTTOU, "SIGTTOU"}, {SIGSTOP, "SIGSTOP"}};
    int freed = 0;
    size_t i;
    /* Without a terminal the first three do nothing. Where they can be sent, the last one could be, too. */
    for (i = 0; i < sizeof signals / sizeof *signals && !(freed && signals[i].number == SIGSTOP); i++) {
        char what[64];
        snprintf(what, sizeof what, "%s to itself by kill", signals[i].name);
        freed |= kill(getpid(), signals[i].number) == 0;
        tell(what, freed ? 0 : -1);
        snprintf(what, sizeof what, "%s to itself by tgkill", signals[i].name);
        tell(what, syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signals[i].number));
    }
}
