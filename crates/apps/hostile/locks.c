/* Takes what is shared with all others and no file of its own: locks, leases, the disk's time, huge pages. */
#include "hostile.h"

#include <sys/file.h>

static void attack(void) {
    int library = open("/usr/lib", O_RDONLY | O_CLOEXEC);
    void *pages;
    tell("a lock on the libraries", flock(library, LOCK_EX | LOCK_NB));
    tell("a lease on the libraries", fcntl(library, F_SETLEASE, F_RDLCK));
    tell("signals when they change", fcntl(library, F_NOTIFY, DN_MODIFY));
    if (library >= 0)
        close(library);
    pages = mmap(0, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    tell("the machine's huge pages", pages == MAP_FAILED ? -1 : 0);
    if (pages != MAP_FAILED)
        munmap(pages, 2 << 20);
}
