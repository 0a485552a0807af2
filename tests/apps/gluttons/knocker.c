/* Makes a refused system call with a long path, 50 times per second. */
#define STEP_MS 20
#include <fcntl.h>

#include "glutton.h"

static int take(void) {
    static char path[200];
    memset(path, 'x', sizeof path - 1);
    path[0] = '/';
    (void)!open(path, O_WRONLY | O_CREAT, 0600);
    return 0;
}
