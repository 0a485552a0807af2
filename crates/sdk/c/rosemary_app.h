/*
 * The C ABI of a Rosemary application.
 *
 * An application turns a batch of records and the time into messages and the time of its next timer. It needs
 * no thread, socket or clock of its own. It is a shared object that exports one constant, `rosemary_app`; the
 * same object runs in an App Zone or in the kernel.
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
 * All calls to an instance come from one thread, one at a time. In the kernel each thread has an instance, which
 * knows the switches of that thread. An application keeps its state in the instance that `create` returns, because
 * all instances share `static` variables.
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

/* The kind of a record. An application ignores kinds that it does not know. */
enum {
    /* A snapshot begins: the records up to ROSEMARY_SNAPSHOT_END list all switches and ports, and the application
     * forgets those that it knew. The first record of every start, and of every kernel. */
    ROSEMARY_SNAPSHOT_BEGIN = 1,
    /* The snapshot is complete. */
    ROSEMARY_SNAPSHOT_END = 2,
    /* A switch is connected, or its state is repeated; its ports follow as ROSEMARY_PORT. Body: its features reply. */
    ROSEMARY_SWITCH_UP = 3,
    /* A switch has disconnected. It answers no earlier request any more. */
    ROSEMARY_SWITCH_DOWN = 4,
    /* A port was added, changed or deleted, as `reason` says (OFPPR_*); body: struct rosemary_port. */
    ROSEMARY_PORT = 5,
    /* A packet-in; body: the OpenFlow message as the switch sent it. */
    ROSEMARY_PACKET_IN = 6,
    /* The kernel refused a message of this application; `reason` is ROSEMARY_REFUSED_*, body: its first bytes, at most
     * 64. If `data_offset` is not 0, the message ends there, and `data_size` bytes of text follow, without a NUL: what
     * the message is, the missing capability, and the line of the configuration that grants it. */
    ROSEMARY_REFUSED = 7,
    /* The part of the snapshot that one of the kernel's threads sends is complete. For the host. */
    ROSEMARY_SNAPSHOT_PART = 8,
    /* A reply, or a part of one, to a request of this application; body: the
     * OpenFlow message (multipart, barrier, configuration or queue configuration reply, or an
     * experimenter's message) with the request's transaction id. It lists
     * this application's flows, groups and meters, and those of others if flow.read is granted. */
    ROSEMARY_REPLY = 9,
    /* A switch answered a message of this application with an error; body: the OpenFlow error with that message's
     * transaction id. It quotes the message as this application sent it. */
    ROSEMARY_ERROR = 10,
    /* A switch removed a flow of this application; `cookie`, `reason` (OFPRR_*), `table_id`; body: the OpenFlow
     * message. */
    ROSEMARY_FLOW_REMOVED = 11,
    /* Replies, errors and flow-removed messages were lost: there was no room, the application was restarting, or the
     * switch did not answer; body: how many, as a uint64_t. About no switch. */
    ROSEMARY_LOST = 12,
    /* This application exceeds a soft limit or has reached a hard one; `reason` is ROSEMARY_LIMIT_*, body: struct
     * rosemary_alert. About no switch. It comes once, and again after ten seconds at the earliest, if the
     * application has used less meanwhile. An application in the kernel gets none. */
    ROSEMARY_ALERT = 13,
    /* From the service in `reason` (ROSEMARY_SERVICE_*). If `table_id` is ROSEMARY_SERVICE_ANSWERED, `cookie` is the
     * request and the body an answer; some requests have several answers. ..._UNAVAILABLE: the request in `cookie`
     * has ended, and may or may not have been done. ..._UP: the service has started or restarted. About no switch. */
    ROSEMARY_SERVICE = 14,
    /* The switch has lost flows, most likely all: someone deleted them. An application that needs its flows there adds
     * them again. Guards get it first. The kernel refuses flows of the others (ROSEMARY_REFUSED_HEALING) until the
     * guards have handled this record, or for a second; then the others get it. */
    ROSEMARY_FLOWS_MISSING = 15,
    /* Flows of this application that a switch has, some time after the switch, the application or the kernel has
     * started; body: a multipart reply with flow statistics, without those of others. More records about the switch
     * follow while its flag OFPMPF_REPLY_MORE is set; the last one lists no flows. There `reason` is 0 if all were
     * delivered, and 1 if the list is incomplete. Only for applications with flow.write and stats.read. */
    ROSEMARY_FLOWS_KEPT = 16,
    /* The kernel was restarted before this application handled the last part of the reply: the request is not answered
     * any more. The switch may or may not have received it. Each request that was not answered gets one such record, after
     * the new kernel's snapshot; `epoch` is that of the earlier connection; body: the request's OpenFlow header. */
    ROSEMARY_REQUEST_LOST = 17,
    /* From a client of the service that this application provides; `dpid` is the client, `epoch` the number of its
     * application, 0 for an operator. `reason` is ROSEMARY_CLIENT_CONNECTED (body: a byte with the size of its name,
     * the name, its capabilities that concern the service, separated by spaces), ..._REQUEST (`cookie` is the request,
     * body: its content; see `answer`) or ..._DISCONNECTED. */
    ROSEMARY_CLIENT = 18,
    /* About the table of the service in `reason`; `table_id` is ROSEMARY_TABLE_*. About no switch. */
    ROSEMARY_TABLE = 19,
    /* An HTTP request to this application, which has the capability http.serve; `dpid` and `cookie` number the request for
     * `answer`. rosemary_http.h reads the body, and writes the answer. */
    ROSEMARY_HTTP = 20,
    /* The outcome of a change set of this application (`commit_series`); `cookie` is its number, `reason` is ROSEMARY_SET_*.
     * None comes if the switch disconnects or the kernel ends before. */
    ROSEMARY_COMMITTED = 21,
    /* A switch without packet-ins has learned a host by itself, repeats that, or (with `reason` 1) has forgotten the host.
     * `in_port` is the host's port. Body: its Ethernet address (6 bytes), its VLAN (uint16_t, 0 for none), its IP address
     * (16 bytes, IPv4 as ::ffff:a.b.c.d, all 0 for none). Only for applications that receive packet-ins of the switch. */
    ROSEMARY_HOST = 22
};

/* `reason` of ROSEMARY_COMMITTED. */
enum {
    /* The switch has applied the set in one step; `in_port` is the number of changes that it applied before or after this
     * step, since it takes such changes in no bundle. */
    ROSEMARY_SET_ATOMIC = 0,
    /* The switch has applied the set change by change. */
    ROSEMARY_SET_ORDERED = 1,
    /* The kernel refused change `in_port` of the set, counted from 0, for the reason in `table_id` (ROSEMARY_REFUSED_*).
     * Nothing was sent. Body: what would admit the change, as text, or nothing. */
    ROSEMARY_SET_REFUSED = 2,
    /* The switch refused change `in_port`, or with UINT32_MAX the set as a whole; body: the OpenFlow error without data.
     * `table_id` is 1 if other changes of the set may have been applied, else 0. */
    ROSEMARY_SET_FAILED = 3,
    /* The switch did not answer. `table_id` is 1 if changes of the set may have been applied, else 0. */
    ROSEMARY_SET_UNANSWERED = 4
};

/* The `count` of `commit_series` that sends a change set, and the most changes and bytes of a set. */
#define ROSEMARY_CHANGE_SET 0xffffffffu
#define ROSEMARY_MAX_CHANGES 2048
#define ROSEMARY_MAX_CHANGE_SET 196608

/* `reason` of ROSEMARY_CLIENT. */
enum { ROSEMARY_CLIENT_CONNECTED = 0, ROSEMARY_CLIENT_REQUEST = 1, ROSEMARY_CLIENT_DISCONNECTED = 2 };

/* `table_id` of ROSEMARY_TABLE. */
enum {
    /* The table can be read (`read_table`). Its records are unrelated to those of an earlier one. */
    ROSEMARY_TABLE_ATTACHED = 0,
    /* Records changed; body: an array of struct rosemary_change. */
    ROSEMARY_TABLE_CHANGED = 1,
    /* Records changed, and the list was too long: read the table again. */
    ROSEMARY_TABLE_RESCAN = 2,
    /* The service has ended. */
    ROSEMARY_TABLE_GONE = 3
};

/* Words of a record in a table; the first is the kind and not 0, unless the slot is empty. */
#define ROSEMARY_RECORD_WORDS 7

/* Services. sdk/src/services documents their requests and answers, in which numbers are little endian. */
enum {
    ROSEMARY_SERVICE_STORAGE = 1, /* values under keys, durable */
    ROSEMARY_SERVICE_BROKER = 2,  /* connections to hosts */
    /* These publish tables of 131072, 524288 and 131072 slots. */
    ROSEMARY_SERVICE_TOPOLOGY = 3, /* switches, ports and links */
    ROSEMARY_SERVICE_HOSTS = 4,    /* hosts, their addresses and where they are attached */
    ROSEMARY_SERVICE_STATS = 5     /* counters and rates of switches */
};

/* The outcome of a request. */
enum {
    ROSEMARY_SERVICE_ANSWERED = 0,
    ROSEMARY_SERVICE_UNAVAILABLE = 1,
    ROSEMARY_SERVICE_UP = 2
};

/* Why the kernel refused a message. */
enum {
    /* The switch is not connected. */
    ROSEMARY_REFUSED_NO_SWITCH = 1,
    /* The message was for an earlier epoch: the switch has reconnected since. */
    ROSEMARY_REFUSED_EPOCH = 2,
    /* It is not a well-formed OpenFlow message of the switch's version. */
    ROSEMARY_REFUSED_SHAPE = 3,
    /* Applications may not send this kind of message. */
    ROSEMARY_REFUSED_KIND = 4,
    /* Too many messages wait to be sent: the switch does not read them, or the application exceeds its pace. */
    ROSEMARY_REFUSED_FULL = 5,
    /* The operator has not granted the capability that it needs. */
    ROSEMARY_REFUSED_CAPABILITY = 6,
    /* Its priority is outside the application's band, or, in OpenFlow 1.0, its match has no wildcards
     * and so has priority 65535. */
    ROSEMARY_REFUSED_PRIORITY = 7,
    /* Its cookie or cookie mask has bits above the 48 that are the application's. */
    ROSEMARY_REFUSED_COOKIE = 8,
    /* It could modify or delete flows of others. */
    ROSEMARY_REFUSED_FOREIGN = 9,
    /* It names a group or meter outside of the application's range. */
    ROSEMARY_REFUSED_ID = 10,
    /* It names a buffer, and the application got no packet-in with it. */
    ROSEMARY_REFUSED_BUFFER = 11,
    /* It has an action, instruction, field or meter band that is not allowed, or whose experimenter is not
     * granted. */
    ROSEMARY_REFUSED_ACTION = 12,
    /* The application exceeds its messages per second. */
    ROSEMARY_REFUSED_QUOTA = 13,
    /* Too many requests of this application wait for this switch's replies. */
    ROSEMARY_REFUSED_UNANSWERED = 14,
    /* The application has reached its limit of flows in this switch. */
    ROSEMARY_REFUSED_FLOWS = 15,
    /* The switch has lost its flows, and those of guards are put back first. */
    ROSEMARY_REFUSED_HEALING = 16
};

/* A resource that the operator limits for an application, with its unit. */
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

/* In `flags`: an instance that died may have handled this record. */
#define ROSEMARY_REPEATED 0x01

/* No buffer: the packet is whole in the record. */
#define ROSEMARY_NO_BUFFER 0xffffffffu

/* The head of every record; the body of `body_size` bytes follows it. 48 bytes. */
struct rosemary_record {
    uint32_t size;        /* bytes of head and body */
    uint16_t kind;        /* ROSEMARY_* above */
    uint8_t  version;     /* the switch's OpenFlow version on the wire: 1 is 1.0, 4 is 1.3, 6 is 1.5 */
    uint8_t  flags;       /* ROSEMARY_REPEATED */
    uint64_t dpid;        /* datapath identifier */
    uint32_t epoch;       /* which connection of it, counted from 1 */
    uint32_t in_port;     /* where the packet came in; 32-bit numbering in every version. It may be a reserved port:
                             hosts are behind ports 1 to 0xffffff00 and LOCAL (0xfffffffe) only, so learn from these */
    uint32_t buffer_id;   /* the switch's copy of the packet, or ROSEMARY_NO_BUFFER */
    uint16_t data_offset; /* where in the body the packet, or a refusal's text, begins */
    uint16_t data_size;   /* bytes of it that are here */
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
    uint64_t soft;        /* an alert is sent above this */
    uint64_t hard;        /* this cannot be exceeded: a call fails, a message is refused, or the
                             application is ended; UINT64_MAX: no limit */
};

/* The change of a slot. 120 bytes. */
struct rosemary_change {
    uint32_t slot;
    uint32_t reserved;
    uint64_t before[ROSEMARY_RECORD_WORDS];
    uint64_t after[ROSEMARY_RECORD_WORDS];
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

/* A level for apps that provide a service: the line is an audit record of a change that an operator has requested. In other apps it is
 * the same as ROSEMARY_LOG_INFO. */
enum { ROSEMARY_LOG_AUDIT = 5 };

/* The functions that an application can call; there is no other way to the outside. Valid until `destroy` returns.
 * `log` may be called from `create` on, the others only during `on_batch`. */
struct rosemary_host {
    uint32_t abi;
    uint32_t size;        /* sizeof(struct rosemary_host) */
    void    *context;
    /* The band of priorities that the operator gave: this app's lowest and highest on the switch.
     * Both are 0 if the app has no flow.write. The kernel refuses a flow outside of the band. The Rust SDK adds the lowest to each flow's priority. */
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
    /* Stops record `number` of this batch: the applications behind this one do not get it. A second call changes
     * nothing. It has no effect if the record is not handled in this batch. */
    void     (*stop)(const struct rosemary_host *host, uint32_t number);
    /* Writes a line to the operator's log: ROSEMARY_LOG_*, UTF-8 text of `size` bytes. */
    void     (*log)(const struct rosemary_host *host, uint32_t level, const char *text, uint32_t size);
    /* The ranges of this app's groups and meters on the switch. The kernel refuses others.
     * The Rust SDK adds the first to each number. */
    uint32_t first_group;
    uint32_t last_group;
    uint32_t first_meter;
    uint32_t last_meter;
    /* The content of this app's configuration file: `config_size` bytes, at most 65536, without a NUL; 0 if there is
     * no file. An app that cannot work with it logs why with ROSEMARY_LOG_ERROR and returns NULL from `create`. An
     * app that takes no configuration does the same if there is one. */
    const char *config;
    uint32_t config_size;
    uint32_t reserved2;
    /* Sends a request to a service when the batch is done. Returns the number of the request, which is above 0, or
     * ROSEMARY_ASK_*. A request has at most 40960 bytes. */
    int64_t  (*ask)(const struct rosemary_host *host, uint32_t service, const void *request, uint32_t size);
    /* Returns the descriptor that came with the answer to a request in this batch, which the app then owns, or -1 if
     * there is none. The host closes a descriptor that the app has not taken when the answer is handled. */
    int32_t  (*take)(const struct rosemary_host *host, uint64_t request);
    /* As `commit`, for a series of `count` flow-mods, at most ROSEMARY_MAX_SERIES, that differ in a pair of hosts
     * and their ports alone. The first `size` bytes of the room are one flow-mod that adds a flow whose match is
     * in-port, destination and source, in this order in OpenFlow 1.3, without masks, and whose only action is
     * to output, in 1.3 applied: 80 bytes in 1.0, 104 in 1.3. Behind it stand the blanks of each: for each
     * it is sent with those in place of its own ports, addresses and buffer. Its transaction id is that of the
     * first message; those of the others count up. It takes the kernel a fraction of the time of as many messages.
     * A series may also answer packet-ins that came whole: then there stand behind the blanks of each the size of its
     * packet, a uint32_t, and the packet, at most 65495 bytes, with no padding. The packets go out behind all flow-mods,
     * each in a packet-out with the ports of its flow-mod and the next transaction id, except where the size is 0.
     * The kernel refuses any other series once, as a whole, with ROSEMARY_REFUSED_SHAPE: if `size` does not follow from
     * `count` and the packets, or the flow-mod is a different one. In 1.0 its wildcards are 0x003820f2, all except
     * those three.
     * With the count ROSEMARY_CHANGE_SET the room holds a change set: 4 bytes that are 0, the number of the set as a uint32_t,
     * and flow-mods, group-mods and meter-mods for one switch, each at a multiple of 8 bytes. A switch with bundles applies
     * them wholly or not at all, in this order; a ROSEMARY_COMMITTED record has the outcome. Transaction ids and
     * buffers in a set have no meaning, so let these be 0 and ROSEMARY_NO_BUFFER. rosemary_changes.h writes sets. */
    int32_t  (*commit_series)(const struct rosemary_host *host, uint64_t dpid, uint32_t epoch, uint32_t size,
                              uint32_t count);
    /* Copies `count` records of a service's table, ROSEMARY_RECORD_WORDS words each, from slot `first` on; empty slots and
     * slots behind the end are zeroes. Returns the version of the table, which increases with each change, or -1 if
     * there is no table. With `count` 0 it only returns the version. It makes no system call. */
    int64_t  (*read_table)(const struct rosemary_host *host, uint32_t service, uint32_t first, uint32_t count,
                           uint64_t *records);
    /* Writes a record of the table that this application publishes. Readers see it at once; clients are notified when
     * the batch is done. 0, or -1 if there is no such slot, or this application provides no service. */
    int32_t  (*publish)(const struct rosemary_host *host, uint32_t slot, const uint64_t *record);
    /* Answers a request of a client; with `more`, a further answer follows. 0, or -1 if it is longer than 40960 bytes. */
    int32_t  (*answer)(const struct rosemary_host *host, uint64_t client, uint64_t request, uint32_t more,
                       const void *body, uint32_t size);
    /* Records an incident for the operator: what happened, and the evidence; UTF-8, at most 1024 bytes each. The monitor
     * accepts a few per minute and counts the others. */
    void     (*report_incident)(const struct rosemary_host *host, const char *summary, uint32_t summary_size,
                                const char *evidence, uint32_t evidence_size);
    /* States a problem that stops this app's work, as a phrase that says what to do; UTF-8, at most 1024 bytes. It is an
     * incident and a reason in the operator's status until the app states another, or none with `size` 0, or ends. In the
     * kernel the text is only logged. */
    void     (*set_problem)(const struct rosemary_host *host, const char *text, uint32_t size);
};

/* Most flow-mods in a series. */
#define ROSEMARY_MAX_SERIES 64

/* The values for one flow-mod of a series. 24 bytes; after packets at any address. */
struct rosemary_blanks {
    uint32_t in_port;     /* of the match; ports in 32-bit numbering in every version */
    uint32_t output;      /* of the action */
    uint32_t buffer_id;   /* or ROSEMARY_NO_BUFFER */
    uint8_t  eth_dst[6];
    uint8_t  eth_src[6];
};

/* Why a request was not sent. */
enum {
    /* The operator did not name the service for this app. */
    ROSEMARY_ASK_NOT_NAMED = -1,
    /* 64 requests wait for the service's answers. */
    ROSEMARY_ASK_TOO_MANY = -2,
    ROSEMARY_ASK_TOO_LONG = -3
};

/* The argument of `on_batch`. */
struct rosemary_batch {
    uint64_t now_ns;      /* monotonic time in nanoseconds */
    uint32_t count;       /* records; 0 if it is a wake-up */
    uint32_t reserved;
    const struct rosemary_record *const *records; /* oldest first; valid until on_batch returns */
};

/* The result of `on_batch`; the host sets both fields to the values in brackets before the call. */
struct rosemary_answer {
    uint32_t handled;     /* how many of the records the app handled (all); its messages are sent, and
                             the others come again when there is more room for messages */
    uint32_t reserved;
    uint64_t wake_at_ns;  /* when to be called at the latest (UINT64_MAX: no need) */
};

/* Returned by on_batch: the application cannot go on. It is not called again; no message of this batch is sent. */
#define ROSEMARY_FAILED (-1)

/* The application; exported under the name `rosemary_app`. */
struct rosemary_app {
    uint32_t    abi;      /* ROSEMARY_ABI */
    uint32_t    size;     /* sizeof(struct rosemary_app) */
    const char *name;
    const char *version;
    /* Makes an instance, or returns NULL after it has logged why with ROSEMARY_LOG_ERROR. The host tries again when
     * the object or its configuration has changed. */
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
