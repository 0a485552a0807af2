/* Writes and reads flows of tables that its grants do not name: it has table 1. */
#include "network.h"

enum { MODIFY = 1, MODIFY_STRICT = 2, DELETE_STRICT = 4 };

static uint8_t message[100];

/* A flow-mod about a table, and about no flow that exists: its cookie is none of another's. */
static uint32_t about(uint8_t table, uint8_t command) {
    uint32_t size = flow_mod(message, command, host->lowest_priority, 0, 0);
    message[24] = table;
    if (command != ADD) {
        put32(message + 12, 0x4242); /* cookie and mask */
        put32(message + 20, 0xffffffff);
    }
    return size;
}

/* A request for flows of a table (OpenFlow 1.3.5 section 7.3.5.2), or for their sum. */
static void ask(const char *what, uint8_t type, uint8_t table) {
    memset(message, 0, sizeof message);
    message[1] = 18;
    message[9] = type;
    message[16] = table;
    put32(message + 20, 0xffffffff);
    put32(message + 24, 0xffffffff);
    put16(message + 48, 1);
    put16(message + 50, 4);
    forbidden(what, message, 56);
}

static void attack(void) {
    allowed("a flow in its own table", message, about(1, ADD));
    forbidden("a flow in another table", message, about(2, ADD));
    forbidden("a modify in another table", message, about(2, MODIFY));
    forbidden("a strict modify in another table", message, about(2, MODIFY_STRICT));
    forbidden("a delete in another table", message, about(2, DELETE));
    forbidden("a strict delete in another table", message, about(2, DELETE_STRICT));
    forbidden("a delete in all tables", message, about(0xff, DELETE));
    ask("flows of another table", 1, 0);
    ask("the sum of another table", 2, 0);
    memset(message, 0, sizeof message);
    message[1] = 18;
    message[9] = 7;
    forbidden("groups of others", message, 16);
}
