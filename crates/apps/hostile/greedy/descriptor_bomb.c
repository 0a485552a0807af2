/* Opens descriptors until none is left. */
#include "../hostile.h"

#define MOST 4096

static void attack(void) {
    static int held[MOST];
    int count = 0, error;
    while (count < MOST && (held[count] = dup(0)) >= 0)
        count++;
    error = errno;
    say("held %d descriptors", count);
    sleep(2); /* so that it is seen */
    errno = error;
    tell_strictly("thousands of descriptors", count == MOST ? 0 : -1);
    while (count > 0)
        close(held[--count]);
}
