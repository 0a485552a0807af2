/*
 * Clients of services for apps in C: connections through the broker, drains of switches, counters and limits of other apps,
 * and the counters of switches.
 *
 *     int64_t request = rosemary_connect(app->host, "collector.example", 2055);
 *     ...
 *     if (rosemary_answers(record, ROSEMARY_SERVICE_BROKER, request) && rosemary_connected(record) == 0)
 *         socket = app->host->take(app->host, (uint64_t)request);
 *
 * The operator names each service in `services` and grants its capability, as the header of each function says. A request
 * returns its number, which is above 0, or ROSEMARY_ASK_*. The answer is a ROSEMARY_SERVICE record with this number in
 * `cookie`. ROSEMARY_SERVICE_UNAVAILABLE in `table_id` ends a request without an answer.
 */
#ifndef ROSEMARY_SERVICES_H
#define ROSEMARY_SERVICES_H

#include "rosemary_tables.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Longest name of a host, and longest reason of a limit, in bytes. */
enum { ROSEMARY_LONGEST_HOST = 253, ROSEMARY_MOST_WHY = 400, ROSEMARY_LONGEST_APP = 255 };

/* The service of app counters, beside those in rosemary_app.h. */
enum { ROSEMARY_SERVICE_APPS = 6 };

/* A request that is being written; numbers are little endian. */
struct rosemary_ask {
    uint8_t bytes[1024];
    uint32_t size;
};

static inline void rosemary_ask_number(struct rosemary_ask *to, uint64_t number, uint32_t size) {
    for (uint32_t i = 0; i < size && to->size < sizeof to->bytes; i++)
        to->bytes[to->size++] = (uint8_t)(number >> (8 * i));
}

/* Adds a text of at most `most` bytes. 0, or -1 if it is longer. */
static inline int rosemary_ask_text(struct rosemary_ask *to, const char *text, uint32_t most) {
    const size_t size = strlen(text);

    if (size > most || to->size + 2 + size > sizeof to->bytes)
        return -1;
    rosemary_ask_number(to, size, 2);
    memcpy(to->bytes + to->size, text, size);
    to->size += (uint32_t)size;
    return 0;
}

/* Whether the record answers the request with this number to a service. */
static inline int rosemary_answers(const struct rosemary_record *record, uint32_t service, int64_t request) {
    return record->kind == ROSEMARY_SERVICE && record->reason == service &&
           record->table_id == ROSEMARY_SERVICE_ANSWERED && request > 0 && record->cookie == (uint64_t)request;
}

/* Requests a TCP connection to a host and port, exactly as the operator has granted them: net.connect:HOST:PORT. */
static inline int64_t rosemary_connect(const struct rosemary_host *host, const char *name, uint16_t port) {
    struct rosemary_ask ask;

    ask.size = 0;
    if (rosemary_ask_text(&ask, name, ROSEMARY_LONGEST_HOST) != 0)
        return ROSEMARY_ASK_TOO_LONG;
    rosemary_ask_number(&ask, port, 2);
    return host->ask(host, ROSEMARY_SERVICE_BROKER, ask.bytes, ask.size);
}

/* Why the broker opened no connection. */
enum {
    ROSEMARY_CONNECT_FAILED = 1,      /* rosemary_refusal has the reason */
    ROSEMARY_CONNECT_NOT_GRANTED = 2,
    ROSEMARY_CONNECT_REFUSED = 3      /* malformed, or too many requests */
};

/* The answer of the broker: 0 if the connection is open, for `take`; otherwise ROSEMARY_CONNECT_*. */
static inline int rosemary_connected(const struct rosemary_record *record) {
    return record->body_size ? rosemary_body(record)[0] : (int)ROSEMARY_CONNECT_REFUSED;
}

/* The text of a refusal (first byte 1) of the broker or of the service `apps`, without a NUL; NULL if there is none. */
static inline const char *rosemary_refusal(const struct rosemary_record *record, uint32_t *size) {
    const uint8_t *answer = rosemary_body(record);

    if (record->body_size < 3 || answer[0] != 1)
        return NULL;
    *size = answer[1] | (uint32_t)answer[2] << 8;
    return *size <= record->body_size - 3u ? (const char *)answer + 3 : NULL;
}

/* Begins or ends the drain of a switch; needs topology.drain. */
static inline int64_t rosemary_drain(const struct rosemary_host *host, uint64_t dpid, int on) {
    struct rosemary_ask ask;

    ask.size = 0;
    rosemary_ask_number(&ask, 1, 1); /* a request of an app */
    rosemary_ask_number(&ask, 1, 1);
    rosemary_ask_number(&ask, dpid, 8);
    rosemary_ask_number(&ask, on != 0, 1);
    return host->ask(host, ROSEMARY_SERVICE_TOPOLOGY, ask.bytes, ask.size);
}

/* Why a drain was refused. */
enum {
    ROSEMARY_DRAIN_MALFORMED = 1,
    ROSEMARY_DRAIN_NOT_GRANTED = 2,
    ROSEMARY_DRAIN_NOT_STORED = 3,
    ROSEMARY_DRAIN_TOO_MANY = 4
};

/* The answer to rosemary_drain: 0, or ROSEMARY_DRAIN_*. */
static inline int rosemary_drained(const struct rosemary_record *record) {
    return record->body_size == 1 ? rosemary_body(record)[0] : (int)ROSEMARY_DRAIN_MALFORMED;
}

/* Requests the counters of all apps; needs apps.read. The answers: rosemary_next_app, then rosemary_next_sender until one has no
 * more. */
static inline int64_t rosemary_app_counters(const struct rosemary_host *host) {
    static const uint8_t request[2] = {1, 1};

    return host->ask(host, ROSEMARY_SERVICE_APPS, request, sizeof request);
}

/* Limits an app to `pace` flow-mods per second for each switch, or suspends it with `pace` 0, for 1 to 3600 seconds; needs
 * apps.limit:NAME. `why` is for the operator's incident. */
static inline int64_t rosemary_limit_app(const struct rosemary_host *host, const char *app, uint32_t pace,
                                         uint16_t seconds, const char *why) {
    struct rosemary_ask ask;

    ask.size = 0;
    rosemary_ask_number(&ask, 1, 1); /* a request of an app */
    rosemary_ask_number(&ask, 2, 1);
    rosemary_ask_number(&ask, pace, 4);
    rosemary_ask_number(&ask, seconds, 2);
    if (rosemary_ask_text(&ask, app, ROSEMARY_LONGEST_APP) != 0 || rosemary_ask_text(&ask, why, ROSEMARY_MOST_WHY) != 0)
        return ROSEMARY_ASK_TOO_LONG;
    return host->ask(host, ROSEMARY_SERVICE_APPS, ask.bytes, ask.size);
}

/* Ends the limit of an app; needs apps.limit:NAME. */
static inline int64_t rosemary_release_app(const struct rosemary_host *host, const char *app) {
    struct rosemary_ask ask;

    ask.size = 0;
    rosemary_ask_number(&ask, 1, 1); /* a request of an app */
    rosemary_ask_number(&ask, 3, 1);
    if (rosemary_ask_text(&ask, app, ROSEMARY_LONGEST_APP) != 0)
        return ROSEMARY_ASK_TOO_LONG;
    return host->ask(host, ROSEMARY_SERVICE_APPS, ask.bytes, ask.size);
}

/* `limited` of an app. */
enum { ROSEMARY_NOT_LIMITED = 0, ROSEMARY_THROTTLED = 1, ROSEMARY_SUSPENDED = 2 };

/* Counters of an app, since the kernel started. */
struct rosemary_app_counters {
    uint16_t number;         /* never changes */
    uint8_t limited;         /* ROSEMARY_NOT_LIMITED, ... */
    uint32_t pace;           /* flow-mods per second for each switch, of a throttled app */
    uint64_t delivered;      /* packet-ins that it received */
    uint64_t flow_mods;      /* messages that change switches, which the kernel admitted */
    uint64_t refused;        /* its messages that the kernel refused */
    uint64_t delayed;        /* its flow-mods that waited because of its pace */
    const char *name;        /* `name_size` bytes without a NUL, in the record */
    uint16_t name_size;
};

/* Messages of an app to a switch, on the switch's present connection. */
struct rosemary_sender {
    uint64_t dpid;
    uint32_t epoch;
    uint16_t app;            /* its number */
    uint64_t flow_mods;      /* messages that change the switch, which the kernel admitted */
};

/* Reads a number of `size` bytes at `*at`, and moves `*at` behind it. 0, or -1 if the answer ends before. */
static inline int rosemary_answer_number(const struct rosemary_record *record, uint32_t *at, uint32_t size,
                                         uint64_t *number) {
    *number = 0;
    if (*at + size > record->body_size)
        return -1;
    for (uint32_t i = 0; i < size; i++)
        *number |= (uint64_t)rosemary_body(record)[*at + i] << (8 * i);
    *at += size;
    return 0;
}

/* Reads the next app of an answer to rosemary_app_counters. `*at` is 0 at first. 1, or 0 if there is none. */
static inline int rosemary_next_app(const struct rosemary_record *record, uint32_t *at,
                                    struct rosemary_app_counters *to) {
    static const uint8_t sizes[8] = {2, 8, 8, 8, 8, 1, 4, 2};
    uint64_t values[8];

    if (record->body_size < 3 || rosemary_body(record)[0] != 2)
        return 0;
    if (*at == 0)
        *at = 3; /* the kind and the number of apps */
    for (int i = 0; i < 8; i++)
        if (rosemary_answer_number(record, at, sizes[i], &values[i]) != 0)
            return 0;
    if (*at + values[7] > record->body_size)
        return 0;
    to->number = (uint16_t)values[0];
    to->delivered = values[1];
    to->flow_mods = values[2];
    to->refused = values[3];
    to->delayed = values[4];
    to->limited = (uint8_t)values[5];
    to->pace = (uint32_t)values[6];
    to->name_size = (uint16_t)values[7];
    to->name = (const char *)rosemary_body(record) + *at;
    *at += (uint32_t)values[7];
    return 1;
}

/* Reads the next pair of an answer to rosemary_app_counters. `*at` is 0 at first. 1, or 0 if there is none; then `*more` says
 * whether another answer follows. */
static inline int rosemary_next_sender(const struct rosemary_record *record, uint32_t *at, struct rosemary_sender *to,
                                       int *more) {
    static const uint8_t sizes[4] = {8, 4, 2, 8};
    uint64_t values[4];

    *more = 0;
    if (record->body_size < 4 || rosemary_body(record)[0] != 3)
        return 0;
    *more = rosemary_body(record)[1] != 0;
    if (*at == 0)
        *at = 4; /* the kind, more, and the number of pairs */
    for (int i = 0; i < 4; i++)
        if (rosemary_answer_number(record, at, sizes[i], &values[i]) != 0)
            return 0;
    to->dpid = values[0];
    to->epoch = (uint32_t)values[1];
    to->app = (uint16_t)values[2];
    to->flow_mods = values[3];
    return 1;
}

/* Kinds of records in the table of stats: the lowest byte of the first word. */
enum {
    ROSEMARY_RECORD_SWITCH_STATS = 1,
    ROSEMARY_RECORD_PORT_COUNTERS = 2,
    ROSEMARY_RECORD_PORT_RATES = 3
};

/* A counter or rate that is not known. Half a word has ROSEMARY_UNKNOWN32. */
#define ROSEMARY_UNKNOWN UINT64_MAX
#define ROSEMARY_UNKNOWN32 UINT32_MAX

/* Sums of a switch's flows. */
struct rosemary_switch_stats {
    uint32_t is_stale;       /* whether the switch did not answer the last polls */
    uint32_t is_implausible; /* whether the last answer contradicts the one before */
    uint32_t flows;          /* of all apps, or ROSEMARY_UNKNOWN32 */
    uint32_t unanswered;     /* polls in sequence without an answer */
    uint64_t packets;        /* packets that matched present flows; this and the next are ROSEMARY_UNKNOWN if not known */
    uint64_t bytes;
    uint64_t answer_us;      /* time from the last request to its answer */
    uint64_t read_ms;        /* when the figures were read, monotonic clock */
};

/* Counters of a port, each ROSEMARY_UNKNOWN if not known. */
struct rosemary_port_counters {
    uint32_t is_stale;
    uint32_t is_implausible;
    uint64_t rx_packets;
    uint64_t tx_packets;
    uint64_t rx_bytes;
    uint64_t tx_bytes;
    uint64_t read_ms;        /* when the figures were read, monotonic clock */
};

/* Rates of a port between the last two polls, and its rarer counters; ROSEMARY_UNKNOWN or ROSEMARY_UNKNOWN32 if not known. */
struct rosemary_port_rates {
    uint32_t is_stale;
    uint32_t is_implausible;
    uint64_t rx_bps;
    uint64_t tx_bps;
    uint32_t rx_pps;
    uint32_t tx_pps;
    uint32_t rx_dropped;
    uint32_t tx_dropped;
    uint32_t rx_errors;
    uint32_t tx_errors;
};

/* Finds a record of the service `stats`; needs stats.read. 0, or -1 if there is none. */
static inline int rosemary_find_stats(const struct rosemary_host *host, uint8_t kind, uint64_t dpid, uint32_t port,
                                      uint64_t record[ROSEMARY_RECORD_WORDS]) {
    const uint64_t name[3] = {kind | (uint64_t)port << 32, dpid, 0};
    const uint64_t mask[3] = {~(uint64_t)0xff00, UINT64_MAX, 0};

    return rosemary_table_find(host, ROSEMARY_SERVICE_STATS, name, mask, record);
}

/* Finds the sums of a switch's flows. 0, or -1 if they are not known. */
static inline int rosemary_find_switch_stats(const struct rosemary_host *host, uint64_t dpid,
                                             struct rosemary_switch_stats *out) {
    uint64_t record[ROSEMARY_RECORD_WORDS];

    if (rosemary_find_stats(host, ROSEMARY_RECORD_SWITCH_STATS, dpid, 0, record) != 0)
        return -1;
    out->is_stale = record[0] >> 8 & 1;
    out->is_implausible = record[0] >> 9 & 1;
    out->flows = (uint32_t)record[2];
    out->unanswered = (uint32_t)(record[2] >> 32);
    out->packets = record[3];
    out->bytes = record[4];
    out->answer_us = record[5];
    out->read_ms = record[6];
    return 0;
}

/* Finds the counters of a port. 0, or -1 if they are not known. */
static inline int rosemary_find_port_counters(const struct rosemary_host *host, uint64_t dpid, uint32_t port,
                                              struct rosemary_port_counters *out) {
    uint64_t record[ROSEMARY_RECORD_WORDS];

    if (rosemary_find_stats(host, ROSEMARY_RECORD_PORT_COUNTERS, dpid, port, record) != 0)
        return -1;
    out->is_stale = record[0] >> 8 & 1;
    out->is_implausible = record[0] >> 9 & 1;
    out->rx_packets = record[2];
    out->tx_packets = record[3];
    out->rx_bytes = record[4];
    out->tx_bytes = record[5];
    out->read_ms = record[6];
    return 0;
}

/* Finds the rates of a port. 0, or -1 if they are not known. */
static inline int rosemary_find_port_rates(const struct rosemary_host *host, uint64_t dpid, uint32_t port,
                                           struct rosemary_port_rates *out) {
    uint64_t record[ROSEMARY_RECORD_WORDS];

    if (rosemary_find_stats(host, ROSEMARY_RECORD_PORT_RATES, dpid, port, record) != 0)
        return -1;
    out->is_stale = record[0] >> 8 & 1;
    out->is_implausible = record[0] >> 9 & 1;
    out->rx_bps = record[2];
    out->tx_bps = record[3];
    out->rx_pps = (uint32_t)record[4];
    out->tx_pps = (uint32_t)(record[4] >> 32);
    out->rx_dropped = (uint32_t)record[5];
    out->tx_dropped = (uint32_t)(record[5] >> 32);
    out->rx_errors = (uint32_t)record[6];
    out->tx_errors = (uint32_t)(record[6] >> 32);
    return 0;
}

#ifdef __cplusplus
}
#endif
#endif
