/* Prints the records of a table that it reads from standard input, eight bytes for each word, lowest byte first. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "rosemary_topology.h"

static uint64_t *table;
static size_t slots;

static int64_t read_table(const struct rosemary_host *host, uint32_t service, uint32_t first, uint32_t count,
                          uint64_t *records) {
    (void)host;
    if (service != ROSEMARY_SERVICE_TOPOLOGY)
        return -1;
    for (uint32_t at = 0; at < count; at++)
        for (unsigned word = 0; word < ROSEMARY_RECORD_WORDS; word++)
            records[at * ROSEMARY_RECORD_WORDS + word] =
                first + at < slots ? table[(first + at) * ROSEMARY_RECORD_WORDS + word] : 0;
    return 7;
}

static void print(void *context, const struct rosemary_topology_record *it) {
    ++*(unsigned *)context;
    printf("%u %u %" PRIx64 " %x", it->kind, it->flags & 7u, it->dpid, it->port);
    printf(" %x %x %" PRIx64 " ", it->epoch, it->ports, it->speed_kbps);
    for (unsigned at = 0; at < 6; at++)
        printf("%02x", it->hw_addr[at]);
    for (unsigned at = 0; at < 16; at++)
        printf("%02x", (unsigned char)it->name[at]);
    printf(" %" PRIx64 " %x %x %" PRIx64, it->to_dpid, it->to_port, it->metric, it->latency_ns);
    printf(" %x %" PRIx64 "\n", it->why, it->since_ns);
}

int main(void) {
    struct rosemary_host host;
    unsigned count = 0;
    uint64_t word;

    table = calloc(ROSEMARY_TOPOLOGY_SLOTS, ROSEMARY_RECORD_WORDS * sizeof *table);
    if (table == NULL)
        return 1;
    for (size_t at = 0; fread(&word, sizeof word, 1, stdin) == 1; at++) {
        if (at / ROSEMARY_RECORD_WORDS >= ROSEMARY_TOPOLOGY_SLOTS)
            return 2;
        table[at] = word;
        slots = at / ROSEMARY_RECORD_WORDS + 1;
    }
    memset(&host, 0, sizeof host);
    host.read_table = read_table;
    if (rosemary_topology_each(&host, print, &count) != 7)
        return 3;
    printf("%u\n", count);
    free(table);
    return 0;
}
