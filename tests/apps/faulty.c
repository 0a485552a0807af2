/* An observer that fails in one way when it sees a ping request: WAY is 1 for a trap, 2 for an endless loop, 3 for memory without end,
 * 4 for a call stack without end. */

#include "rosemary_messages.h"

static const struct rosemary_host *host;

static uint32_t deep(volatile uint32_t *number) {
    volatile uint32_t here[64] = {*number};
    *number = here[0] + 1;
    return deep(here) + here[1];
}

static void fail(void) {
    volatile uint32_t number = 0;
    switch (WAY) {
    case 1:
        abort();
    case 2:
        for (;;)
            number++;
    case 3:
        for (;;) {
            char *volatile block = malloc(1 << 20); /* the compiler would omit an allocation that nothing reads */
            if (!block)
                abort();
            memset(block, 1, 1 << 20);
        }
    case 4:
        deep(&number);
    }
}

static void *create(const struct rosemary_host *given) {
    host = given;
    return &host;
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch, struct rosemary_answer *answer) {
    (void)app, (void)answer;
    for (uint32_t i = 0; i < batch->count; i++) {
        const uint8_t *packet = rosemary_packet(batch->records[i]);
        if (batch->records[i]->kind == ROSEMARY_PACKET_IN && batch->records[i]->data_size > 34 && packet[12] == 8 && packet[23] == 1 && packet[34] == 8)
            fail();
    }
    return 0;
}

static void destroy(void *app) {
    (void)app;
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "faulty",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};
