/*
 * The C ABI of a Rosemary application.
 *
 * An application is a function from a batch of records, and the time, to messages, and the time at
 * which it wants to be woken. It needs no thread, socket or clock of its own. It is a shared object
 * that exports one constant, `rosemary_app`; the same object runs in an App Zone or in the kernel.
 *
 *     static int32_t on_batch(void *app, const struct rosemary_batch *batch,
 *                             struct rosemary_answer *answer) { ... }
 *
 *     const struct rosemary_app rosemary_app = {
 *         .abi = ROSEMARY_ABI, .size = sizeof(struct rosemary_app),
 *         .name = "my-app", .version = "0.1.0",
 *         .create = create, .on_batch = on_batch, .destroy = destroy,
 *     };
 *
 * All calls to an instance come from one thread, one at a time. In the kernel there is an instance for
 * each of its threads, which knows the switches of that thread: state belongs into what `create`
 * returns, as `static` variables are shared by all of them.
 *
 * Integers are in the machine's byte order, which is little endian; inside OpenFlow messages and packets
 * they are in network order.
 */
#ifndef ROSEMARY_APP_H
#define ROSEMARY_APP_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ROSEMARY_ABI 1

/* Most records in a batch. */
#define ROSEMARY_MAX_BATCH 64

/* What a record is about. Kinds that an application does not know are to be ignored. */
enum {
    /* Forget all that you knew of switches and ports: what follows is all there is.
     * The first record of every start, and of every kernel. */
    ROSEMARY_SNAPSHOT_BEGIN = 1,
    /* The snapshot is complete. */
    ROSEMARY_SNAPSHOT_END = 2,
    /* A switch is connected, or its state is told anew; its ports follow as ROSEMARY_PORT. */
    ROSEMARY_SWITCH_UP = 3,
    /* A switch is gone. */
    ROSEMARY_SWITCH_DOWN = 4,
    /* A port appeared, changed or went, as `reason` says (OFPPR_*); body: struct rosemary_port. */
    ROSEMARY_PORT = 5,
    /* A packet-in; body: the OpenFlow message as the switch sent it. */
    ROSEMARY_PACKET_IN = 6,
    /* A message of this application was not sent; `reason` is ROSEMARY_REFUSED_*,
     * body: its first bytes, at most 64. */
    ROSEMARY_REFUSED = 7,
    /* The snapshot goes on: what one of the kernel's threads knows has been told. For the host. */
    ROSEMARY_SNAPSHOT_PART = 8,
    /* A switch answered a request of this application, or a part of an answer came; body: the
     * OpenFlow message (multipart, barrier, configuration or queue configuration reply, or an
     * experimenter's message) with the request's transaction id. Of flows, groups and meters
     * it has this application's own, unless flow.read is granted. */
    ROSEMARY_REPLY = 9,
    /* A switch could not do what this application sent; body: the OpenFlow error with that message's
     * transaction id. The message that it quotes is as this application sent it. */
    ROSEMARY_ERROR = 10,
    /* A flow of this application is gone; `cookie`, `reason` (OFPRR_*), `table_id`; body: the OpenFlow
     * message. */
    ROSEMARY_FLOW_REMOVED = 11,
    /* Replies, errors and flow-removed messages that did not reach this application, for want of room or
     * because it was away or the switch did not answer; body: how many, as a uint64_t. About no switch. */
    ROSEMARY_LOST = 12,
    /* This application uses more than its soft limit of something, or as much as its hard one; `reason` is
     * ROSEMARY_LIMIT_*, body: struct rosemary_alert. About no switch. Told once, and again at the earliest
     * after ten seconds, if it used less meanwhile. Not told to an application in the kernel. */
    ROSEMARY_ALERT = 13,
    /* From a service, `reason` is which (ROSEMARY_SERVICE_*). `table_id` is ROSEMARY_SERVICE_ANSWERED: `cookie`
     * is the request, body the answer; a request may be answered several times, as its service says;
     * ..._UNAVAILABLE: the request in `cookie` is over, and may or may not have been done; ..._UP: the service
     * is there, for the first time or anew. About no switch. */
    ROSEMARY_SERVICE = 14
};

/* Services. What they are asked and answer, all numbers little endian, stands in sdk/src/services. */
enum {
    ROSEMARY_SERVICE_STORAGE = 1, /* values under keys, durable */
    ROSEMARY_SERVICE_BROKER = 2   /* connections to hosts */
};

/* What became of a request. */
enum {
    ROSEMARY_SERVICE_ANSWERED = 0,
    ROSEMARY_SERVICE_UNAVAILABLE = 1,
    ROSEMARY_SERVICE_UP = 2
};

/* Why a message was refused. */
enum {
    /* No such switch is connected. */
    ROSEMARY_REFUSED_NO_SWITCH = 1,
    /* The switch has been connected anew since: the message was for a past epoch. */
    ROSEMARY_REFUSED_EPOCH = 2,
    /* It is not a well-formed OpenFlow message of the switch's version. */
    ROSEMARY_REFUSED_SHAPE = 3,
    /* It is well-formed, and of a kind that applications may not send. */
    ROSEMARY_REFUSED_KIND = 4,
    /* The switch does not read what is sent to it. */
    ROSEMARY_REFUSED_FULL = 5,
    /* The operator has not granted what it takes. */
    ROSEMARY_REFUSED_CAPABILITY = 6,
    /* Its priority is outside the application's band, or, in OpenFlow 1.0, its match has no wildcards
     * and so has priority 65535. */
    ROSEMARY_REFUSED_PRIORITY = 7,
    /* Its cookie or cookie mask has bits above the 48 that are the application's. */
    ROSEMARY_REFUSED_COOKIE = 8,
    /* It could modify or delete flows of others. */
    ROSEMARY_REFUSED_FOREIGN = 9,
    /* A group or meter that is not the application's own. */
    ROSEMARY_REFUSED_ID = 10,
    /* A buffer that the application was not given. */
    ROSEMARY_REFUSED_BUFFER = 11,
    /* An action, instruction, field or meter band that may not be used, or whose experimenter is not
     * granted. */
    ROSEMARY_REFUSED_ACTION = 12,
    /* More messages in this second than the operator allows. */
    ROSEMARY_REFUSED_QUOTA = 13,
    /* Too many requests of this application wait for this switch's answer. */
    ROSEMARY_REFUSED_UNANSWERED = 14,
    /* This application has as many flows in this switch as the operator allows. */
    ROSEMARY_REFUSED_FLOWS = 15
};

/* What an application may use so much of and no more, with its unit. */
enum {
    ROSEMARY_LIMIT_MEMORY = 1,      /* bytes */
    ROSEMARY_LIMIT_CPU = 2,         /* thousandths of a processor */
    ROSEMARY_LIMIT_DESCRIPTORS = 3, /* open at once */
    ROSEMARY_LIMIT_THREADS = 4,     /* at once */
    ROSEMARY_LIMIT_FLOW_MODS = 5,   /* and group-, meter-, port- and table-mods, in a second */
    ROSEMARY_LIMIT_PACKET_OUTS = 6, /* in a second */
    ROSEMARY_LIMIT_REQUESTS = 7,    /* for answers of switches, in a second */
    ROSEMARY_LIMIT_LOG = 8,         /* bytes in a second */
    ROSEMARY_LIMIT_QUEUE = 9        /* bytes of records that wait */
};

/* `reason` of ROSEMARY_PORT, as in OpenFlow. */
enum { ROSEMARY_PORT_ADD = 0, ROSEMARY_PORT_DELETE = 1, ROSEMARY_PORT_MODIFY = 2 };

/* `flags`: an application that died may have seen this record already. */
#define ROSEMARY_REPEATED 0x01

/* No buffer: the packet is whole in the record. */
#define ROSEMARY_NO_BUFFER 0xffffffffu

/* The head of every record; the body of `body_size` bytes follows it. 48 bytes. */
struct rosemary_record {
    uint32_t size;        /* bytes of head and body */
    uint16_t kind;        /* ROSEMARY_* above */
    uint8_t  version;     /* the switch's OpenFlow version on the wire: 1 is 1.0, 4 is 1.3 */
    uint8_t  flags;       /* ROSEMARY_REPEATED */
    uint64_t dpid;        /* datapath identifier */
    uint32_t epoch;       /* which connection of it, counted from 1 */
    uint32_t in_port;     /* where the packet came in; 32-bit numbering in every version. It may be a reserved port:
                             hosts are behind ports 1 to 0xffffff00 and LOCAL (0xfffffffe) only, so learn from these */
    uint32_t buffer_id;   /* the switch's copy of the packet, or ROSEMARY_NO_BUFFER */
    uint16_t data_offset; /* where in the body the packet begins */
    uint16_t data_size;   /* bytes of the packet that are here */
    uint64_t cookie;      /* of this application's flow that sent it or is gone, 48 bits; else all ones */
    uint8_t  reason;      /* of the packet-in (OFPR_*), the port event, the refusal, the flow's going */
    uint8_t  table_id;    /* table that sent it; 0 if the version has none */
    uint16_t body_size;   /* bytes of the body */
    uint16_t total_len;   /* bytes the packet had at the switch */
    uint16_t reserved;
};

/* A port; body of ROSEMARY_PORT. 48 bytes. Numbers and bits as in OpenFlow 1.3 in every version. */
struct rosemary_port {
    uint32_t port_no;
    uint32_t config;      /* OFPPC_* */
    uint32_t state;       /* OFPPS_* */
    uint8_t  hw_addr[6];
    uint8_t  reserved[2];
    char     name[16];    /* ends with a NUL unless it has all 16 bytes */
    uint32_t curr_speed;  /* kbit/s; 0 if not known */
    uint32_t reserved2[2];
};

/* The body of ROSEMARY_ALERT, in the unit of the limit. 24 bytes. */
struct rosemary_alert {
    uint64_t value;       /* how much it uses */
    uint64_t soft;        /* above this it is told */
    uint64_t hard;        /* more than this there is not: a call fails, a message is refused, or the
                             application is ended; UINT64_MAX: no limit */
};

/* The body of a record. */
static inline const uint8_t *rosemary_body(const struct rosemary_record *record) {
    return (const uint8_t *)(record + 1);
}

/* The packet of a ROSEMARY_PACKET_IN, from its Ethernet header on. */
static inline const uint8_t *rosemary_packet(const struct rosemary_record *record) {
    return rosemary_body(record) + record->data_offset;
}

/* The number of a ROSEMARY_LOST. */
static inline uint64_t rosemary_lost(const struct rosemary_record *record) {
    uint64_t count;
    memcpy(&count, rosemary_body(record), sizeof count);
    return count;
}

enum { ROSEMARY_LOG_ERROR = 1, ROSEMARY_LOG_WARN = 2, ROSEMARY_LOG_INFO = 3, ROSEMARY_LOG_DEBUG = 4 };

/* What an application can call; nothing else reaches outside. Valid until `destroy` returns; `log`
 * from `create` on, the others during `on_batch` only. */
struct rosemary_host {
    uint32_t abi;
    uint32_t size;        /* sizeof(struct rosemary_host) */
    void    *context;
    /* The band of priorities that the operator gave: on the switch, this app's lowest and highest.
     * The kernel refuses a flow outside of it. The Rust SDK adds the lowest by itself. */
    uint16_t lowest_priority;
    uint16_t highest_priority;
    uint32_t reserved;
    /* Room for a message of up to `size` bytes, or NULL if there is none now. */
    void    *(*reserve)(const struct rosemary_host *host, uint32_t size);
    /* Sends the first `size` bytes of that room, an OpenFlow message of the switch's version, to a
     * switch, when the batch is done. 0, or -1 if no such room was given. */
    int32_t  (*commit)(const struct rosemary_host *host, uint64_t dpid, uint32_t epoch, uint32_t size);
    /* Bytes of messages for which there is room now; a message needs 24 bytes more than its size,
     * and up to its own size again where it would cross the ring's end. */
    uint32_t (*room)(const struct rosemary_host *host);
    /* Record `number` of this batch is not for the applications behind this one. Said again it is
     * the same; of a record that is not handled in this batch it is forgotten. */
    void     (*stop)(const struct rosemary_host *host, uint32_t number);
    /* Tells the operator something: ROSEMARY_LOG_*, UTF-8 text of `size` bytes. */
    void     (*log)(const struct rosemary_host *host, uint32_t level, const char *text, uint32_t size);
    /* The numbers on the switch of the groups and meters that are this app's. The kernel refuses others.
     * The Rust SDK adds the first by itself. */
    uint32_t first_group;
    uint32_t last_group;
    uint32_t first_meter;
    uint32_t last_meter;
    /* The configuration that the operator wrote for this app, as it is in its file: `config_size` bytes, at
     * most 65536, no NUL behind them; 0 if there is none. An app that cannot work with it says why with
     * ROSEMARY_LOG_ERROR and returns NULL from `create`; one that takes none does so if there is one. */
    const char *config;
    uint32_t config_size;
    uint32_t reserved2;
    /* Asks a service, when the batch is done; the number of the request, which is above 0, or
     * ROSEMARY_ASK_*. A request has 40960 bytes at most. */
    int64_t  (*ask)(const struct rosemary_host *host, uint32_t service, const void *request, uint32_t size);
    /* The descriptor that came with the answer to a request, which is in the batch in hand: it is the
     * app's from now on. -1 if there is none. One that is not taken when the answer is handled is closed. */
    int32_t  (*take)(const struct rosemary_host *host, uint64_t request);
    /* As `commit`, for a series of `count` flow-mods, at most ROSEMARY_MAX_SERIES, that differ in a pair of hosts
     * and their ports alone. The first `size` bytes of the room are one flow-mod that adds a flow whose match is
     * in-port, destination and source, in this order in OpenFlow 1.3, without masks, and whose only action is
     * to output, in 1.3 applied: 80 bytes in 1.0, 104 in 1.3. Behind it stand the blanks of each: for each
     * it is sent with those in place of its own ports, addresses and buffer. Its transaction id is that of the
     * first message; those of the others count up. It takes the kernel a fraction of the time of as many messages.
     * A series may also answer packet-ins that came whole: then there stand behind the blanks of each the size of its
     * packet, a uint32_t, and the packet, at most 65495 bytes, with no padding. It goes out behind its flow-mod, in a
     * packet-out by the same ports with the next transaction id; none goes where the size is 0.
     * What is none of the two is refused once, as a whole, with ROSEMARY_REFUSED_SHAPE: if `size` is not what `count`
     * and the packets make it, or the flow-mod is another one. In 1.0 its wildcards are 0x003820f2, all of them but
     * those three. */
    int32_t  (*commit_series)(const struct rosemary_host *host, uint64_t dpid, uint32_t epoch, uint32_t size,
                              uint32_t count);
};

/* Most flow-mods in a series. */
#define ROSEMARY_MAX_SERIES 64

/* What is filled into a flow-mod of a series. 24 bytes; behind packets at any address. */
struct rosemary_blanks {
    uint32_t in_port;     /* of the match; ports in 32-bit numbering in every version */
    uint32_t output;      /* of the action */
    uint32_t buffer_id;   /* or ROSEMARY_NO_BUFFER */
    uint8_t  eth_dst[6];
    uint8_t  eth_src[6];
};

/* Why a service was not asked. */
enum {
    /* The operator did not name it for this app, or the app runs in the kernel. */
    ROSEMARY_ASK_NOT_NAMED = -1,
    /* 64 requests wait for its answers. */
    ROSEMARY_ASK_TOO_MANY = -2,
    ROSEMARY_ASK_TOO_LONG = -3
};

/* What an application is called with. */
struct rosemary_batch {
    uint64_t now_ns;      /* monotonic time in nanoseconds */
    uint32_t count;       /* records; 0 if it is a wake-up */
    uint32_t reserved;
    const struct rosemary_record *const *records; /* oldest first; valid until on_batch returns */
};

/* What an application answers; both fields are set to the values in brackets before the call. */
struct rosemary_answer {
    uint32_t handled;     /* how many of the records are handled (all); what was sent is kept, and
                             the others come again when there is more room for messages */
    uint32_t reserved;
    uint64_t wake_at_ns;  /* when to be called at the latest (UINT64_MAX: no need) */
};

/* on_batch: the application cannot go on and is not called again; nothing of this batch is sent. */
#define ROSEMARY_FAILED (-1)

/* The application; exported under the name `rosemary_app`. */
struct rosemary_app {
    uint32_t    abi;      /* ROSEMARY_ABI */
    uint32_t    size;     /* sizeof(struct rosemary_app) */
    const char *name;
    const char *version;
    /* Makes an instance; NULL if that fails: what it said last with ROSEMARY_LOG_ERROR is why. It is not
     * tried again until the object or its configuration has changed. */
    void   *(*create)(const struct rosemary_host *host);
    /* 0 or ROSEMARY_FAILED. */
    int32_t (*on_batch)(void *app, const struct rosemary_batch *batch, struct rosemary_answer *answer);
    void    (*destroy)(void *app);
};

#ifdef __cplusplus
extern "C" const struct rosemary_app rosemary_app;
#else
extern const struct rosemary_app rosemary_app;
#endif

/* Sends an OpenFlow message of `size` bytes. 0, or -1 if there is no room now. */
static inline int32_t rosemary_send(const struct rosemary_host *host, uint64_t dpid, uint32_t epoch,
                                    const void *message, uint32_t size) {
    void *room = host->reserve(host, size);
    if (!room)
        return -1;
    memcpy(room, message, size);
    return host->commit(host, dpid, epoch, size);
}

#ifdef __cplusplus
}
#endif
#endif
