/* Looks for keys in the kernel's keyrings. */
#include "hostile.h"

static void attack(void) {
    tell("add_key", syscall(SYS_add_key, "user", "rosemary-hostile", "x", 1, -2));
    tell("keyctl", syscall(SYS_keyctl, 0, -3, 0));
    tell("request_key", syscall(SYS_request_key, "user", "rosemary-hostile", 0, -2));
}
