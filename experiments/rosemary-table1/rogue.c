/* An app that deletes all flows of the switch with every packet. The kernel restricts each deletion to the app's own flows. */
#include "rosemary_messages.h"

struct rogue {
    const struct rosemary_host *host;
};

static int32_t on_record(struct rogue *rogue, const struct rosemary_record *record, struct rosemary_turn *turn) {
    static const struct rosemary_match all;
    (void)turn;
    if (record && record->kind == ROSEMARY_PACKET_IN)
        return rosemary_delete_flows(rogue->host, record, &all);
    return 0;
}

ROSEMARY_EXPORT("rogue", "0.1.0", struct rogue, on_record)
