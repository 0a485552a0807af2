/* Allocates 10 MiB of private memory per second. */
#define STEP_MS 100
#include "glutton.h"

static int take(void) {
    char *more = malloc(1 << 20);
    if (!more)
        return errno;
    memset(more, 1, 1 << 20);
    return 0;
}
