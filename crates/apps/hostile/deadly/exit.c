/* Ends its process as if all were well. */
#include "../hostile.h"

static void attack(void) {
    exit(7);
}
