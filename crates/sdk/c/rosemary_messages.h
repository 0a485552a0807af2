/*
 * Messages that an app in C sends: flow-mods, packet-outs and requests for statistics in OpenFlow 1.0 to 1.5, and requests to
 * the storage. ROSEMARY_EXPORT makes an app of one function:
 *
 *     struct hub { const struct rosemary_host *host; };
 *
 *     static int32_t on_record(struct hub *hub, const struct rosemary_record *record, struct rosemary_turn *turn) {
 *         (void)turn;
 *         if (record && record->kind == ROSEMARY_PACKET_IN)
 *             return rosemary_packet_out(hub->host, record, ROSEMARY_FLOOD);
 *         return 0;
 *     }
 *
 *     ROSEMARY_EXPORT("hub", "0.1.0", struct hub, on_record)
 *
 * A function that sends takes a record of the switch that it sends to. It returns 0, or ROSEMARY_FULL if there is no room for the
 * message now, or ROSEMARY_WRONG, after it has logged why, if the message cannot be sent at all. `on_record` may return these
 * results, and ROSEMARY_BROKEN if the app cannot continue: then Rosemary restarts it, and no message of the batch is sent.
 */
#ifndef ROSEMARY_MESSAGES_H
#define ROSEMARY_MESSAGES_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "rosemary_app.h"
#include "rosemary_packet.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Results of functions that send, and of `on_record`. */
enum { ROSEMARY_FULL = -1, ROSEMARY_WRONG = -2, ROSEMARY_BROKEN = -3 };

/* Ports with a meaning; in 32-bit numbering in every version. */
#define ROSEMARY_IN_PORT 0xfffffff8u
#define ROSEMARY_FLOOD 0xfffffffbu
#define ROSEMARY_ALL 0xfffffffcu
/* `output` of a flow that drops its packets. */
#define ROSEMARY_DROP 0u

/* The fields that select the packets of a flow. A field that is 0 or NULL is not compared, so start with a zeroed structure. A
 * switch compares the fields of IP only if eth_type is 0x0800, and ports only if ip_proto is TCP or UDP. */
struct rosemary_match {
    uint32_t in_port;
    const uint8_t *eth_dst; /* 6 bytes */
    const uint8_t *eth_src;
    uint16_t eth_type;
    uint8_t ip_proto;
    const uint8_t *ipv4_src; /* 4 bytes */
    const uint8_t *ipv4_dst;
    uint16_t src_port;
    uint16_t dst_port;
};

/* A flow. */
struct rosemary_flow {
    struct rosemary_match match;
    uint16_t priority;     /* counted from the lowest of the app's band */
    uint16_t idle_timeout; /* in seconds; 0: none */
    uint16_t hard_timeout;
    uint32_t output;       /* a port, or ROSEMARY_DROP */
    uint64_t cookie;       /* 48 bits that the app chooses */
};

/* Formats a line for the operator's log; text beyond 255 bytes is left out. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static inline void rosemary_logf(const struct rosemary_host *host, uint32_t level, const char *format, ...) {
    char text[256];
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (size > 0)
        host->log(host, level, text, size < (int)sizeof text ? (uint32_t)size : (uint32_t)sizeof text - 1);
}

/* The versions of OpenFlow, as in `version` of a record. */
enum { ROSEMARY_V1_0 = 1, ROSEMARY_V1_1, ROSEMARY_V1_2, ROSEMARY_V1_3, ROSEMARY_V1_4, ROSEMARY_V1_5 };

/* Begins a message of OpenFlow in the room of the host. */
static inline int32_t rosemary_open(const struct rosemary_host *host, const struct rosemary_record *record,
                                    struct rosemary_builder *to, uint8_t kind, uint32_t room) {
    void *bytes = room > 0xffff ? NULL : host->reserve(host, room);
    uint8_t *header;

    if (!bytes)
        return ROSEMARY_FULL;
    rosemary_build(to, bytes, room);
    header = rosemary_add_zeros(to, 8);
    header[0] = record->version;
    header[1] = kind;
    return 0;
}

/* Sends the message with a transaction id, which its answers repeat. */
static inline int32_t rosemary_close(const struct rosemary_host *host, const struct rosemary_record *record,
                                     struct rosemary_builder *to, uint32_t xid) {
    if (to->full)
        return ROSEMARY_WRONG;
    rosemary_put16(to->bytes + 2, to->size);
    rosemary_put32(to->bytes + 4, xid);
    return host->commit(host, record->dpid, record->epoch, to->size) == 0 ? 0 : ROSEMARY_FULL;
}

static inline void rosemary_add_output(struct rosemary_builder *to, uint8_t version, uint32_t port) {
    if (version == ROSEMARY_V1_0) {
        rosemary_add32(to, 8); /* OFPAT_OUTPUT, 8 bytes */
        rosemary_add16(to, port);
        rosemary_add16(to, 0xffff); /* to the controller: the whole packet */
    } else {
        rosemary_add32(to, 16); /* OFPAT_OUTPUT, 16 bytes */
        rosemary_add32(to, port);
        rosemary_add32(to, 0xffff0000u);
        rosemary_add32(to, 0);
    }
}

/* Sends the packet of a packet-in out of a port: the switch's copy of it if the switch kept one. */
static inline int32_t rosemary_packet_out(const struct rosemary_host *host, const struct rosemary_record *record,
                                          uint32_t port) {
    const uint32_t data = record->buffer_id == ROSEMARY_NO_BUFFER ? record->data_size : 0;
    struct rosemary_builder to;

    if (rosemary_open(host, record, &to, 13, 48 + data) != 0)
        return ROSEMARY_FULL;
    rosemary_add32(&to, record->buffer_id);
    if (record->version == ROSEMARY_V1_0) {
        rosemary_add16(&to, record->in_port);
        rosemary_add16(&to, 8); /* bytes of actions */
    } else if (record->version == ROSEMARY_V1_5) {
        rosemary_add32(&to, 16u << 16);
        rosemary_add32(&to, 1u << 16 | 12); /* a match with the in-port, padded to 16 bytes */
        rosemary_add32(&to, 0x80000004u);
        rosemary_add32(&to, record->in_port);
        rosemary_add32(&to, 0);
    } else {
        rosemary_add32(&to, record->in_port);
        rosemary_add16(&to, 16);
        rosemary_add32(&to, 0);
        rosemary_add16(&to, 0);
    }
    rosemary_add_output(&to, record->version, port);
    rosemary_add(&to, rosemary_packet(record), data);
    return rosemary_close(host, record, &to, 0);
}

/* The match of OpenFlow 1.0, 40 bytes. */
static inline void rosemary_add_match_v1_0(struct rosemary_builder *to, const struct rosemary_match *match) {
    uint32_t wildcards = 0x003820ff;
    uint8_t *at = rosemary_add_zeros(to, 40);

    if (!at)
        return;
    if (match->in_port)
        wildcards &= ~0x1u;
    if (match->eth_src)
        wildcards &= ~0x4u;
    if (match->eth_dst)
        wildcards &= ~0x8u;
    if (match->eth_type)
        wildcards &= ~0x10u;
    if (match->ip_proto)
        wildcards &= ~0x20u;
    if (match->src_port)
        wildcards &= ~0x40u;
    if (match->dst_port)
        wildcards &= ~0x80u;
    if (match->ipv4_src)
        wildcards &= ~0x2000u;
    if (match->ipv4_dst)
        wildcards &= ~0x80000u;
    rosemary_put32(at, wildcards);
    rosemary_put16(at + 4, match->in_port);
    if (match->eth_src)
        memcpy(at + 6, match->eth_src, 6);
    if (match->eth_dst)
        memcpy(at + 12, match->eth_dst, 6);
    rosemary_put16(at + 22, match->eth_type);
    at[25] = match->ip_proto;
    if (match->ipv4_src)
        memcpy(at + 28, match->ipv4_src, 4);
    if (match->ipv4_dst)
        memcpy(at + 32, match->ipv4_dst, 4);
    rosemary_put16(at + 36, match->src_port);
    rosemary_put16(at + 38, match->dst_port);
}

/* The match of OpenFlow 1.1, 88 bytes. A bit of a mask that is set is not compared. */
static inline void rosemary_add_match_v1_1(struct rosemary_builder *to, const struct rosemary_match *match) {
    uint32_t wildcards = 0x3ff;
    uint8_t *at = rosemary_add_zeros(to, 88);

    if (!at)
        return;
    if (match->in_port)
        wildcards &= ~0x1u;
    if (match->eth_type)
        wildcards &= ~0x8u;
    if (match->ip_proto)
        wildcards &= ~0x20u;
    if (match->src_port)
        wildcards &= ~0x40u;
    if (match->dst_port)
        wildcards &= ~0x80u;
    rosemary_put16(at + 2, 88);
    rosemary_put32(at + 4, match->in_port);
    rosemary_put32(at + 8, wildcards);
    memset(at + 18, match->eth_src ? 0 : 0xff, 6);
    memset(at + 30, match->eth_dst ? 0 : 0xff, 6);
    memset(at + 48, match->ipv4_src ? 0 : 0xff, 4);
    memset(at + 56, match->ipv4_dst ? 0 : 0xff, 4);
    memset(at + 80, 0xff, 8); /* the mask of the metadata */
    if (match->eth_src)
        memcpy(at + 12, match->eth_src, 6);
    if (match->eth_dst)
        memcpy(at + 24, match->eth_dst, 6);
    rosemary_put16(at + 40, match->eth_type);
    at[43] = match->ip_proto;
    if (match->ipv4_src)
        memcpy(at + 44, match->ipv4_src, 4);
    if (match->ipv4_dst)
        memcpy(at + 52, match->ipv4_dst, 4);
    rosemary_put16(at + 60, match->src_port);
    rosemary_put16(at + 62, match->dst_port);
}

/* A field of a match since OpenFlow 1.2. */
static inline void rosemary_add_oxm(struct rosemary_builder *to, uint32_t field, const void *value, uint32_t size) {
    rosemary_add32(to, 0x80000000u | field << 9 | size);
    rosemary_add(to, value, size);
}

/* The match since OpenFlow 1.2: fields in the order of their numbers, padded to 8 bytes. */
static inline void rosemary_add_match_v1_2(struct rosemary_builder *to, const struct rosemary_match *match) {
    const uint32_t start = to->size;
    const uint32_t ports = match->ip_proto == ROSEMARY_UDP ? 15 : 13;
    uint8_t number[4];

    rosemary_add16(to, 1);
    rosemary_add16(to, 0);
    rosemary_put32(number, match->in_port);
    if (match->in_port)
        rosemary_add_oxm(to, 0, number, 4);
    if (match->eth_dst)
        rosemary_add_oxm(to, 3, match->eth_dst, 6);
    if (match->eth_src)
        rosemary_add_oxm(to, 4, match->eth_src, 6);
    rosemary_put16(number, match->eth_type);
    if (match->eth_type)
        rosemary_add_oxm(to, 5, number, 2);
    if (match->ip_proto)
        rosemary_add_oxm(to, 10, &match->ip_proto, 1);
    if (match->ipv4_src)
        rosemary_add_oxm(to, 11, match->ipv4_src, 4);
    if (match->ipv4_dst)
        rosemary_add_oxm(to, 12, match->ipv4_dst, 4);
    rosemary_put16(number, match->src_port);
    if (match->src_port)
        rosemary_add_oxm(to, ports, number, 2);
    rosemary_put16(number, match->dst_port);
    if (match->dst_port)
        rosemary_add_oxm(to, ports + 1, number, 2);
    if (to->full)
        return;
    rosemary_put16(to->bytes + start + 2, to->size - start);
    rosemary_add_zeros(to, (8 - (to->size - start) % 8) % 8);
}

/* Writes a flow-mod behind its header; `command` is 0 to add and 3 to delete. */
static inline void rosemary_add_flow_mod(struct rosemary_builder *to, uint8_t version, const struct rosemary_flow *flow,
                                         uint32_t priority, uint8_t command) {
    if (version == ROSEMARY_V1_0) {
        rosemary_add_match_v1_0(to, &flow->match);
        rosemary_add32(to, (uint32_t)(flow->cookie >> 32));
        rosemary_add32(to, (uint32_t)flow->cookie);
        rosemary_add16(to, command);
    } else {
        rosemary_add32(to, (uint32_t)(flow->cookie >> 32));
        rosemary_add32(to, (uint32_t)flow->cookie);
        rosemary_add_zeros(to, 8); /* mask of the cookie */
        rosemary_add16(to, command); /* in table 0 */
    }
    rosemary_add16(to, flow->idle_timeout);
    rosemary_add16(to, flow->hard_timeout);
    rosemary_add16(to, priority);
    rosemary_add32(to, ROSEMARY_NO_BUFFER);
    if (version == ROSEMARY_V1_0) {
        rosemary_add16(to, 0xffff); /* to delete: flows to any port */
        rosemary_add16(to, 0);
    } else {
        rosemary_add32(to, 0xffffffffu); /* any port, any group */
        rosemary_add32(to, 0xffffffffu);
        rosemary_add32(to, 0);
        if (version == ROSEMARY_V1_1)
            rosemary_add_match_v1_1(to, &flow->match);
        else
            rosemary_add_match_v1_2(to, &flow->match);
    }
    if (command == 0 && flow->output != ROSEMARY_DROP) {
        if (version != ROSEMARY_V1_0) {
            rosemary_add16(to, 4); /* OFPIT_APPLY_ACTIONS, 24 bytes */
            rosemary_add16(to, 24);
            rosemary_add32(to, 0);
        }
        rosemary_add_output(to, version, flow->output);
    }
}

/* A flow-mod; `command` is 0 to add and 3 to delete. */
static inline int32_t rosemary_flow_mod(const struct rosemary_host *host, const struct rosemary_record *record,
                                        const struct rosemary_flow *flow, uint8_t command) {
    const uint32_t priority = (uint32_t)host->lowest_priority + flow->priority;
    struct rosemary_builder to;

    /* Without flow.write there is no band; the kernel's refusal names the missing capability. */
    if (priority > host->highest_priority && host->highest_priority != 0) {
        rosemary_logf(host, ROSEMARY_LOG_ERROR, "priority %u: the operator gave this app 0 to %u", flow->priority,
                      (unsigned)host->highest_priority - host->lowest_priority);
        return ROSEMARY_WRONG;
    }
    if (rosemary_open(host, record, &to, 14, 256) != 0)
        return ROSEMARY_FULL;
    rosemary_add_flow_mod(&to, record->version, flow, priority, command);
    return rosemary_close(host, record, &to, 0);
}

/* Adds a flow to table 0 of the switch of `record`. */
static inline int32_t rosemary_add_flow(const struct rosemary_host *host, const struct rosemary_record *record,
                                        const struct rosemary_flow *flow) {
    return rosemary_flow_mod(host, record, flow, 0);
}

/* Deletes the flows of this app in table 0 that the match covers. */
static inline int32_t rosemary_delete_flows(const struct rosemary_host *host, const struct rosemary_record *record,
                                            const struct rosemary_match *match) {
    struct rosemary_flow flow;
    memset(&flow, 0, sizeof flow);
    flow.match = *match;
    return rosemary_flow_mod(host, record, &flow, 3);
}

/* Requests the counters of all ports. A ROSEMARY_REPLY with this transaction id answers, in one part or several. */
static inline int32_t rosemary_request_port_stats(const struct rosemary_host *host, const struct rosemary_record *record,
                                                  uint32_t xid) {
    struct rosemary_builder to;

    if (rosemary_open(host, record, &to, record->version == ROSEMARY_V1_0 ? 16 : 18, 24) != 0)
        return ROSEMARY_FULL;
    rosemary_add32(&to, 4u << 16); /* OFPST_PORT, OFPMP_PORT_STATS */
    if (record->version == ROSEMARY_V1_0) {
        rosemary_add16(&to, 0xffff);
        rosemary_add16(&to, 0);
        rosemary_add32(&to, 0);
    } else {
        rosemary_add32(&to, 0);
        rosemary_add32(&to, 0xffffffffu);
        rosemary_add32(&to, 0);
    }
    return rosemary_close(host, record, &to, xid);
}

/* The counters of a port. */
struct rosemary_port_stats {
    uint32_t port_no;
    uint64_t rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped, tx_dropped, rx_errors, tx_errors;
};

/* Reads the next port of a reply to rosemary_request_port_stats; `*at` is 0 at first. 0 if there is none. */
static inline int rosemary_next_port_stats(const struct rosemary_record *record, uint32_t *at,
                                           struct rosemary_port_stats *to) {
    const uint8_t *message = rosemary_body(record);
    const int v1_0 = record->version == ROSEMARY_V1_0;
    /* Since 1.4 an entry begins with its length, and properties follow the counters. */
    const int has_length = record->version >= ROSEMARY_V1_4;
    const uint32_t first = v1_0 ? 12 : 16, counters = has_length ? 16 : 8;
    const uint32_t least = has_length ? 80 : record->version == ROSEMARY_V1_3 ? 112 : 104;
    const uint32_t start = *at ? *at : first;
    uint32_t size = least;
    uint64_t values[8];

    if (record->kind != ROSEMARY_REPLY || record->body_size < first || message[1] != (v1_0 ? 17 : 19) ||
        rosemary_get16(message + 8) != 4 || start > record->body_size || record->body_size - start < least)
        return 0;
    if (has_length)
        size = rosemary_get16(message + start);
    if (size < least || size > record->body_size - start)
        return 0;
    to->port_no = v1_0 ? rosemary_get16(message + start) : rosemary_get32(message + start + (has_length ? 4 : 0));
    for (uint32_t i = 0; i < 8; i++)
        values[i] = rosemary_get64(message + start + counters + 8 * i);
    to->rx_packets = values[0];
    to->tx_packets = values[1];
    to->rx_bytes = values[2];
    to->tx_bytes = values[3];
    to->rx_dropped = values[4];
    to->tx_dropped = values[5];
    to->rx_errors = values[6];
    to->tx_errors = values[7];
    *at = start + size;
    return 1;
}

/* Numbers of requests and answers of services are little endian, as the machine's. */
static inline int64_t rosemary_storage_request(const struct rosemary_host *host, uint8_t what, const void *key,
                                               uint16_t key_size, const void *value, uint32_t value_size) {
    uint8_t request[1024];
    uint32_t size = 5;
    const uint64_t anything = 0; /* whatever the present value is */

    if (key_size > 512 || value_size > 256)
        return ROSEMARY_ASK_TOO_LONG;
    request[0] = what;
    memset(request + 1, 0, 2); /* the app's own namespace */
    memcpy(request + 3, &key_size, 2);
    memcpy(request + size, key, key_size);
    size += key_size;
    if (what == 2) {
        memcpy(request + size, &anything, 8);
        memcpy(request + size + 8, &value_size, 4);
        if (value_size)
            memcpy(request + size + 12, value, value_size);
        size += 12 + value_size;
    }
    return host->ask(host, ROSEMARY_SERVICE_STORAGE, request, size);
}

/* Writes a value of at most 256 bytes under a key of at most 512. Returns the number of the request, or ROSEMARY_ASK_*. The
 * value is on the disk when a ROSEMARY_SERVICE record with this number in `cookie` arrives. */
static inline int64_t rosemary_storage_put(const struct rosemary_host *host, const void *key, uint16_t key_size,
                                           const void *value, uint32_t value_size) {
    return rosemary_storage_request(host, 2, key, key_size, value, value_size);
}

/* Reads the value under a key; rosemary_storage_value reads the answer. */
static inline int64_t rosemary_storage_get(const struct rosemary_host *host, const void *key, uint16_t key_size) {
    return rosemary_storage_request(host, 1, key, key_size, NULL, 0);
}

/* Whether the service of this record has started or restarted. */
static inline int rosemary_storage_is_up(const struct rosemary_record *record) {
    return record->kind == ROSEMARY_SERVICE && record->reason == ROSEMARY_SERVICE_STORAGE &&
           record->table_id == ROSEMARY_SERVICE_UP;
}

/* Whether the storage answered the request with this number. */
static inline int rosemary_storage_answers(const struct rosemary_record *record, int64_t request) {
    return record->kind == ROSEMARY_SERVICE && record->reason == ROSEMARY_SERVICE_STORAGE &&
           record->table_id == ROSEMARY_SERVICE_ANSWERED && request > 0 && record->cookie == (uint64_t)request;
}

/* The value in an answer; NULL if there is none under the key. */
static inline const uint8_t *rosemary_storage_value(const struct rosemary_record *record, uint32_t *size) {
    const uint8_t *answer = rosemary_body(record);

    if (record->body_size < 13 || answer[0] != 1)
        return NULL;
    memcpy(size, answer + 9, 4);
    return *size <= record->body_size - 13u ? answer + 13 : NULL;
}

/* A call of the app for one record. */
struct rosemary_turn {
    uint64_t now_ns;      /* monotonic time in nanoseconds */
    uint64_t *wake_at_ns; /* set it to be called at this time at the latest; each batch clears it */
    uint32_t number;      /* of the record in its batch */
};

/* Stops the record: the apps behind this one do not get it. */
static inline void rosemary_stop(const struct rosemary_host *host, const struct rosemary_turn *turn) {
    host->stop(host, turn->number);
}

/* `create` and `destroy` of an app for ROSEMARY_TABLE_OF_APP; see ROSEMARY_EXPORT. `start` is called with the new instance. If it
 * does not return 0, after it has logged why, there is no app. `end` is called before an instance is freed. */
#define ROSEMARY_INSTANCE_WITH(type, start, end)                                                                 \
    static void *rosemary_create(const struct rosemary_host *host) {                                             \
        type *app = (type *)calloc(1, sizeof(type));                                                             \
        if (host->config_size) {                                                                                 \
            rosemary_logf(host, ROSEMARY_LOG_ERROR, "line 1: this app takes none; leave `config` out");          \
            free(app);                                                                                           \
            return NULL;                                                                                         \
        }                                                                                                        \
        if (!app) {                                                                                              \
            rosemary_logf(host, ROSEMARY_LOG_ERROR, "out of memory");                                            \
            return NULL;                                                                                         \
        }                                                                                                        \
        app->host = host;                                                                                        \
        if (start(app) == 0)                                                                                     \
            return app;                                                                                          \
        end(app);                                                                                                \
        free(app);                                                                                               \
        return NULL;                                                                                             \
    }                                                                                                            \
    static void rosemary_destroy(void *app) {                                                                    \
        end((type *)app);                                                                                        \
        free(app);                                                                                               \
    }

static inline int32_t rosemary_no_start(void *app) { return app ? 0 : ROSEMARY_WRONG; }
static inline void rosemary_no_end(void *app) { (void)app; }

/* The same without these calls. */
#define ROSEMARY_INSTANCE(type) ROSEMARY_INSTANCE_WITH(type, rosemary_no_start, rosemary_no_end)

/* `rosemary_on_batch`, which calls `on_record` for each record of a batch; see ROSEMARY_EXPORT. */
#define ROSEMARY_RECORDS(type, on_record)                                                                        \
    static int32_t rosemary_on_batch(void *app, const struct rosemary_batch *batch,                              \
                                     struct rosemary_answer *answer) {                                           \
        struct rosemary_turn turn = {batch->now_ns, &answer->wake_at_ns, 0};                                     \
        if (batch->count == 0)                                                                                   \
            return on_record((type *)app, NULL, &turn) == ROSEMARY_BROKEN ? ROSEMARY_FAILED : 0;                 \
        for (uint32_t i = 0; i < batch->count; i++) {                                                            \
            int32_t result;                                                                                      \
            turn.number = i;                                                                                     \
            result = on_record((type *)app, batch->records[i], &turn);                                           \
            if (result == ROSEMARY_BROKEN)                                                                       \
                return ROSEMARY_FAILED;                                                                          \
            if (result == ROSEMARY_FULL) {                                                                       \
                answer->handled = i;                                                                             \
                break;                                                                                           \
            }                                                                                                    \
        }                                                                                                        \
        return 0;                                                                                                \
    }

/* Exports an app with the functions of ROSEMARY_INSTANCE and this `on_batch`. */
#define ROSEMARY_TABLE_OF_APP(app_name, app_version, on_batch)                                                   \
    const struct rosemary_app rosemary_app = {                                                                   \
        ROSEMARY_ABI,    sizeof(struct rosemary_app), app_name, app_version,                                     \
        rosemary_create, on_batch,                    rosemary_destroy};

/* Exports an app. `type` is a structure whose first member is `const struct rosemary_host *host`; an instance is zeroed except for
 * that. `on_record` is called for each record, and with NULL for a wake-up. If it returns ROSEMARY_FULL, it gets the record again
 * when there is room. rosemary_timers.h has the same with timers. */
#define ROSEMARY_EXPORT(app_name, app_version, type, on_record)                                                  \
    ROSEMARY_INSTANCE(type)                                                                                      \
    ROSEMARY_RECORDS(type, on_record)                                                                            \
    ROSEMARY_TABLE_OF_APP(app_name, app_version, rosemary_on_batch)

#ifdef __cplusplus
}
#endif
#endif
