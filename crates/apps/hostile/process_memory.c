/* Reads and writes the memory of its parent. */
#include "hostile.h"

#include <sys/uio.h>

static void attack(void) {
    char byte;
    struct iovec ours = {&byte, 1}, theirs = {(void *)1, 1};
    tell("process_vm_readv of the parent", process_vm_readv(getppid(), &ours, 1, &theirs, 1, 0));
    tell("process_vm_writev of the parent", process_vm_writev(getppid(), &ours, 1, &theirs, 1, 0));
}
