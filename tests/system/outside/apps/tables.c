/* A client of `hosts` and `topology` that attacks their tables: by each of its descriptors, and by its mapping, which it looks for
 * around a mapping of its own. It begins with the first packet of port 3, when there are hosts. */
#define BEGIN_PORT 3
#include "../../../../crates/apps/hostile/hostile.h"

#define PAGE 4096ul
#define AROUND (1ul << 30)
#define RECORD (ROSEMARY_RECORD_WORDS * 8)

static void by_descriptor(int fd) {
    char name[64];
    void *writable = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    tell_strictly("mapping a table for writing", writable == MAP_FAILED ? -1 : 0);
    tell_strictly("writing into a table", pwrite(fd, "forged", 6, 2048));
    tell_strictly("resizing a table", ftruncate(fd, 0));
    tell_strictly("a hole in a table", fallocate(fd, 3, 0, PAGE));
    tell_strictly("other seals of a table", fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    tell_strictly("opening a table again", open(name, O_RDWR | O_CLOEXEC));
}

/* Whether the process can read there: the call looks at the set before it finds that the first argument is wrong. */
static int is_readable(const void *address) {
    return syscall(SYS_rt_sigprocmask, 99, address, 0, 8) != 0 && errno != EFAULT;
}

/* Looks for the record in a mapping, at its place in the page, and tries to write there. */
static int by_mapping(const uint64_t *record, uint32_t slot) {
    uint64_t place = ((uint64_t)slot + 1) * 128 + 8;
    char *mine = mmap(0, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *page = mine - AROUND;
    int found = 0;
    for (; page < mine + AROUND; page += PAGE) {
        char *at = page + place % PAGE;
        if (!is_readable(at) || memcmp(at, record, RECORD) != 0)
            continue;
        found++;
        if (mprotect(page, PAGE, PROT_READ | PROT_WRITE) != 0) {
            refused("writing to the mapping of a table", strerror(errno));
        } else {
            memset(at + 16, 0x66, 8);
            got("writing to the mapping of a table");
        }
        tell_strictly("removing pages of a table", madvise(page, PAGE, MADV_REMOVE));
    }
    return found;
}

static void attack(void) {
    static const uint32_t services[] = {ROSEMARY_SERVICE_HOSTS, ROSEMARY_SERVICE_TOPOLOGY};
    uint64_t record[ROSEMARY_RECORD_WORDS];
    uint8_t noise[4096];
    uint32_t slot, i, k, size, sent = 0, seed = 7;
    int fd, tables = 0, found = 0;
    for (fd = 3; fd < 1024; fd++)
        if (fcntl(fd, F_GET_SEALS) > 0) {
            by_descriptor(fd);
            tables++;
        }
    for (slot = 0; slot < 524288 && !found; slot++) {
        if (host->read_table(host, ROSEMARY_SERVICE_HOSTS, slot, 1, record) < 0 || record[0] == 0)
            continue;
        found = by_mapping(record, slot);
        break;
    }
    say("FOUND %d descriptors with seals, %d mappings of the record in slot %u", tables, found, slot);
    /* Malformed requests, and requests without the right for them, such as a drain of a switch. */
    for (i = 0; i < 2000; i++) {
        seed = seed * 1664525 + 1013904223;
        size = i % 3 == 0 ? seed % sizeof noise : seed % 24;
        for (k = 0; k < size; k++)
            noise[k] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
        if (size > 0)
            noise[0] %= 4;
        sent += host->ask(host, services[i % 2], noise, size) > 0;
    }
    say("SENT %u requests", sent);
}
