/* Prints what rosemary_tables.h finds in a table from standard input: its number of slots and its records, then hosts and
 * addresses to look up. */
#include <stdio.h>
#include <stdlib.h>

#include "rosemary_tables.h"

static uint64_t *table;
static uint64_t slots;

static int64_t read_table(const struct rosemary_host *host, uint32_t service, uint32_t first, uint32_t count,
                          uint64_t *records) {
    (void)host;
    if (service != ROSEMARY_SERVICE_HOSTS)
        return -1;
    memset(records, 0, count * sizeof(uint64_t) * ROSEMARY_RECORD_WORDS);
    for (uint32_t i = 0; i < count && first + i < slots; i++)
        memcpy(records + i * ROSEMARY_RECORD_WORDS, table + (first + i) * ROSEMARY_RECORD_WORDS,
               sizeof(uint64_t) * ROSEMARY_RECORD_WORDS);
    return 1;
}

static uint8_t bytes[17];

static int take(uint32_t size) {
    return fread(bytes, 1, size, stdin) == size;
}

static void hex(const uint8_t *from, int size) {
    for (int i = 0; i < size; i++)
        printf("%02x", from[i]);
}

int main(void) {
    struct rosemary_host host = {.read_table = read_table};
    uint8_t kind;

    if (fread(&slots, sizeof slots, 1, stdin) != 1)
        return 1;
    table = calloc(slots, sizeof(uint64_t) * ROSEMARY_RECORD_WORDS);
    if (!table || fread(table, sizeof(uint64_t) * ROSEMARY_RECORD_WORDS, slots, stdin) != slots)
        return 1;
    while (fread(&kind, 1, 1, stdin) == 1) {
        uint16_t vlan;
        if (fread(&vlan, sizeof vlan, 1, stdin) != 1 || !take(kind == 0 ? 6 : kind == 4 ? 4 : 16))
            return 1;
        if (kind == 0) {
            struct rosemary_known_host it;
            if (rosemary_find_host(&host, bytes, vlan, &it) != 0) {
                puts("none");
                continue;
            }
            hex(it.mac, 6);
            printf(" %u %llu %u %u %u %llu %llu\n", it.vlan, (unsigned long long)it.dpid, it.port, it.is_contested,
                   it.is_doubted, (unsigned long long)it.first_seen_s, (unsigned long long)it.last_seen_s);
        } else {
            struct rosemary_known_address it;
            if (rosemary_find_address(&host, kind, bytes, vlan, &it) != 0) {
                puts("none");
                continue;
            }
            hex(it.ip, it.ip_version == 4 ? 4 : 16);
            printf(" %u ", it.vlan);
            hex(it.mac, 6);
            printf(" %llu\n", (unsigned long long)it.last_seen_s);
        }
    }
    free(table);
    return 0;
}
