/*
 * The actions of Open vSwitch, for apps with the capability `experimenter:nicira`. A flow has any number of them, among outputs:
 *
 *     struct rosemary_nx_flow to;
 *     struct rosemary_flow flow = {0};
 *
 *     flow.match.in_port = 1;
 *     if (rosemary_nx_open_flow(host, record, &flow, 0, NULL, 0, &to) != 0)
 *         return ROSEMARY_FULL;
 *     rosemary_nx_load(&to.to, rosemary_nx_bits(ROSEMARY_NXM_REG(0), 0, 32), 2);
 *     rosemary_nx_resubmit_table(&to.to, ROSEMARY_NX_IN_PORT, 1, 0);
 *     return rosemary_nx_close_flow(host, record, &to);
 *
 * Each function appends an action. A value that does not fit makes an action that the kernel refuses. Ports are those of
 * OpenFlow 1.0, with 16 bits. Source: Open vSwitch, lib/ofp-actions.c.
 */
#ifndef ROSEMARY_NICIRA_H
#define ROSEMARY_NICIRA_H

#include "rosemary_messages.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The header of a field: class, number in it, and size of a value in bytes. */
#define ROSEMARY_NXM(class_, number, size) ((uint32_t)(class_) << 16 | (uint32_t)(number) << 9 | (uint32_t)(size))

#define ROSEMARY_NXM_IN_PORT ROSEMARY_NXM(0, 0, 2)
#define ROSEMARY_NXM_ETH_DST ROSEMARY_NXM(0, 1, 6)
#define ROSEMARY_NXM_ETH_SRC ROSEMARY_NXM(0, 2, 6)
#define ROSEMARY_NXM_REG(number) ROSEMARY_NXM(1, number, 4)
#define ROSEMARY_NXM_TUN_ID ROSEMARY_NXM(1, 16, 8)
#define ROSEMARY_NXM_PKT_MARK ROSEMARY_NXM(1, 33, 4)
#define ROSEMARY_NXM_CONJ_ID ROSEMARY_NXM(1, 37, 4)
#define ROSEMARY_NXM_CT_STATE ROSEMARY_NXM(1, 105, 4)
#define ROSEMARY_NXM_CT_ZONE ROSEMARY_NXM(1, 106, 2)
#define ROSEMARY_NXM_CT_MARK ROSEMARY_NXM(1, 107, 4)
#define ROSEMARY_NXM_XXREG(number) ROSEMARY_NXM(1, 111 + (number), 16)
#define ROSEMARY_NXM_XREG(number) ROSEMARY_NXM(0x8001, number, 8)

/* `in_port` of a resubmit without another in-port; `table` of a resubmit in the same table. */
#define ROSEMARY_NX_IN_PORT 0xfff8u
#define ROSEMARY_NX_SAME_TABLE 0xffu
/* `table` of rosemary_nx_ct_open whose packet does not come back to the tables. */
#define ROSEMARY_NX_NO_TABLE 0xffu

/* Bits of a field. */
struct rosemary_nx_bits {
    uint32_t field; /* its header */
    uint16_t offset, count;
};

static inline struct rosemary_nx_bits rosemary_nx_bits(uint32_t field, uint16_t offset, uint16_t count) {
    struct rosemary_nx_bits bits;
    bits.field = field;
    bits.offset = offset;
    bits.count = count;
    return bits;
}

/* A match field of at most 8 bytes; `mask` 0 stands for no mask. */
struct rosemary_nx_field {
    uint32_t field; /* its header */
    uint64_t value, mask;
};

/* A flow that is written. */
struct rosemary_nx_flow {
    struct rosemary_builder to;
    uint32_t instruction; /* where the instruction begins; 0 in OpenFlow 1.0, which has none */
};

static inline void rosemary_nx_add_value(struct rosemary_builder *to, uint64_t value, uint32_t size) {
    uint8_t bytes[8];

    rosemary_put32(bytes, (uint32_t)(value >> 32));
    rosemary_put32(bytes + 4, (uint32_t)value);
    rosemary_add(to, bytes + 8 - (size < 8 ? size : 8), size < 8 ? size : 8);
}

/* Begins a flow in a table, with the match of `flow` and these fields, in ascending order of their headers. The `output` of `flow`
 * is not looked at. OpenFlow 1.0 has table 0 only, and no such fields. */
static inline int32_t rosemary_nx_open_flow(const struct rosemary_host *host, const struct rosemary_record *record,
                                            const struct rosemary_flow *flow, uint8_t table,
                                            const struct rosemary_nx_field *fields, uint32_t count,
                                            struct rosemary_nx_flow *open) {
    struct rosemary_flow plain = *flow;
    struct rosemary_builder *to = &open->to;
    uint32_t length;

    plain.output = ROSEMARY_DROP;
    open->instruction = 0;
    if (record->version == 1 && (table != 0 || count != 0)) {
        rosemary_logf(host, ROSEMARY_LOG_ERROR, "OpenFlow 1.0 has no tables and no fields of Open vSwitch");
        return ROSEMARY_WRONG;
    }
    if (rosemary_open(host, record, to, 14, 4096) != 0)
        return ROSEMARY_FULL;
    rosemary_add_flow_mod(to, record->version, &plain, (uint32_t)host->lowest_priority + flow->priority, 0);
    if (record->version == 1 || to->full)
        return 0;
    to->bytes[24] = table;
    length = rosemary_get16(to->bytes + 50);
    to->size = 48 + length; /* without padding */
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t size = fields[i].field & 0xff;
        const uint32_t has_mask = fields[i].mask ? 1 : 0;
        rosemary_add32(to, (fields[i].field & ~0xffu) | has_mask << 8 | size << has_mask);
        rosemary_nx_add_value(to, fields[i].value, size);
        if (has_mask)
            rosemary_nx_add_value(to, fields[i].mask, size);
    }
    length = to->size - 48;
    if (!to->full)
        rosemary_put16(to->bytes + 50, length);
    rosemary_add_zeros(to, (8 - length % 8) % 8);
    open->instruction = to->size;
    rosemary_add32(to, 4u << 16); /* OFPIT_APPLY_ACTIONS */
    rosemary_add32(to, 0);
    return 0;
}

/* Sends the flow. */
static inline int32_t rosemary_nx_close_flow(const struct rosemary_host *host, const struct rosemary_record *record,
                                             struct rosemary_nx_flow *open) {
    if (!open->to.full && open->instruction != 0)
        rosemary_put16(open->to.bytes + open->instruction + 2, open->to.size - open->instruction);
    return rosemary_close(host, record, &open->to, 0);
}

/* Begins an action; the result is for rosemary_nx_end. */
static inline uint32_t rosemary_nx_begin(struct rosemary_builder *to, uint16_t subtype) {
    const uint32_t start = to->size;

    rosemary_add32(to, 0xffff0000u);
    rosemary_add32(to, 0x00002320u);
    rosemary_add16(to, subtype);
    return start;
}

/* Ends an action: pads it, and writes its length. */
static inline void rosemary_nx_end(struct rosemary_builder *to, uint32_t start) {
    rosemary_add_zeros(to, (8 - (to->size - start) % 8) % 8);
    if (!to->full)
        rosemary_put16(to->bytes + start + 2, to->size - start);
}

/* Bits as some actions have them: the offset, and the count less 1. */
static inline uint16_t rosemary_nx_packed(struct rosemary_nx_bits bits) {
    return (uint16_t)(bits.offset << 6 | ((bits.count - 1) & 0x3f));
}

/* An action with one number of 16 bits. */
static inline void rosemary_nx_add_narrow(struct rosemary_builder *to, uint16_t subtype, uint32_t value) {
    const uint32_t start = rosemary_nx_begin(to, subtype);
    rosemary_add16(to, value);
    rosemary_nx_end(to, start);
}

/* Looks the packet up again in the present table, as from this port. */
static inline void rosemary_nx_resubmit(struct rosemary_builder *to, uint16_t in_port) {
    rosemary_nx_add_narrow(to, 1, in_port);
}

/* Looks the packet up in a table, and continues behind the actions found there. `ct` compares the tracked connection. */
static inline void rosemary_nx_resubmit_table(struct rosemary_builder *to, uint16_t in_port, uint8_t table, int ct) {
    const uint32_t start = rosemary_nx_begin(to, ct ? 44 : 14);
    rosemary_add16(to, in_port);
    rosemary_add(to, &table, 1);
    rosemary_nx_end(to, start);
}

/* Sets the tunnel id, 32 bits. */
static inline void rosemary_nx_set_tunnel(struct rosemary_builder *to, uint32_t tunnel_id) {
    const uint32_t start = rosemary_nx_begin(to, 2);
    rosemary_add16(to, 0);
    rosemary_add32(to, tunnel_id);
    rosemary_nx_end(to, start);
}

/* Sets the tunnel id, 64 bits. */
static inline void rosemary_nx_set_tunnel64(struct rosemary_builder *to, uint64_t tunnel_id) {
    const uint32_t start = rosemary_nx_begin(to, 9);
    rosemary_add_zeros(to, 6);
    rosemary_nx_add_value(to, tunnel_id, 8);
    rosemary_nx_end(to, start);
}

/* Gives outputs the queue that they had at first. */
static inline void rosemary_nx_pop_queue(struct rosemary_builder *to) { rosemary_nx_add_narrow(to, 5, 0); }

/* Copies bits of a field to another, which has as many. */
static inline void rosemary_nx_move(struct rosemary_builder *to, struct rosemary_nx_bits source,
                                    struct rosemary_nx_bits target) {
    const uint32_t start = rosemary_nx_begin(to, 6);
    rosemary_add16(to, source.count);
    rosemary_add16(to, source.offset);
    rosemary_add16(to, target.offset);
    rosemary_add32(to, source.field);
    rosemary_add32(to, target.field);
    rosemary_nx_end(to, start);
}

/* Writes a number into at most 64 bits of a field. */
static inline void rosemary_nx_load(struct rosemary_builder *to, struct rosemary_nx_bits target, uint64_t value) {
    const uint32_t start = rosemary_nx_begin(to, 7);
    rosemary_add16(to, rosemary_nx_packed(target));
    rosemary_add32(to, target.field);
    rosemary_nx_add_value(to, value, 8);
    rosemary_nx_end(to, start);
}

/* Writes a field, or the bits of it that the mask has. */
static inline void rosemary_nx_load_field(struct rosemary_builder *to, struct rosemary_nx_field field) {
    const uint32_t start = rosemary_nx_begin(to, 33), size = field.field & 0xff, has_mask = field.mask ? 1 : 0;
    rosemary_add32(to, (field.field & ~0xffu) | has_mask << 8 | size << has_mask);
    rosemary_nx_add_value(to, field.value, size);
    if (has_mask)
        rosemary_nx_add_value(to, field.mask, size);
    rosemary_nx_end(to, start);
}

/* Does nothing; the data is for readers of flows. */
static inline void rosemary_nx_note(struct rosemary_builder *to, const void *data, uint32_t size) {
    const uint32_t start = rosemary_nx_begin(to, 8);
    rosemary_add(to, data, size);
    rosemary_nx_end(to, start);
}

/* Fields to hash, and algorithms. */
enum { ROSEMARY_NX_ETH_SRC, ROSEMARY_NX_L4, ROSEMARY_NX_L3L4, ROSEMARY_NX_L3L4_UDP };
enum { ROSEMARY_NX_MODULO_N, ROSEMARY_NX_HASH_THRESHOLD, ROSEMARY_NX_HRW, ROSEMARY_NX_ITER_HASH };
enum { ROSEMARY_NX_BUNDLE_ACTIVE_BACKUP, ROSEMARY_NX_BUNDLE_HRW };

/* Writes the number of a link, 0 to `max_link`, chosen by a hash, into a field. */
static inline void rosemary_nx_multipath(struct rosemary_builder *to, struct rosemary_nx_bits target, uint16_t max_link,
                                         uint16_t fields, uint16_t algorithm) {
    const uint32_t start = rosemary_nx_begin(to, 10);
    rosemary_add16(to, fields);
    rosemary_add32(to, 0);
    rosemary_add16(to, algorithm);
    rosemary_add16(to, max_link);
    rosemary_add32(to, 0);
    rosemary_add16(to, 0);
    rosemary_add16(to, rosemary_nx_packed(target));
    rosemary_add32(to, target.field);
    rosemary_nx_end(to, start);
}

/* Outputs to one of several ports; with `target`, only writes its number into that field. */
static inline void rosemary_nx_bundle(struct rosemary_builder *to, const uint16_t *members, uint16_t count,
                                      uint16_t fields, uint16_t algorithm, const struct rosemary_nx_bits *target) {
    const uint32_t start = rosemary_nx_begin(to, target ? 13 : 12);
    rosemary_add16(to, algorithm);
    rosemary_add16(to, fields);
    rosemary_add16(to, 0);
    rosemary_add32(to, ROSEMARY_NXM_IN_PORT);
    rosemary_add16(to, count);
    rosemary_add16(to, target ? rosemary_nx_packed(*target) : 0);
    rosemary_add32(to, target ? target->field : 0);
    rosemary_add32(to, 0);
    for (uint32_t i = 0; i < count; i++)
        rosemary_add16(to, members[i]);
    rosemary_nx_end(to, start);
}

/* Outputs to the port whose number a field has. */
static inline void rosemary_nx_output_reg(struct rosemary_builder *to, struct rosemary_nx_bits source, uint16_t max_len) {
    const uint32_t start = rosemary_nx_begin(to, 15);
    rosemary_add16(to, rosemary_nx_packed(source));
    rosemary_add32(to, source.field);
    rosemary_add16(to, max_len);
    rosemary_nx_end(to, start);
}

/* Ends the processing of the packet. */
static inline void rosemary_nx_exit(struct rosemary_builder *to) { rosemary_nx_add_narrow(to, 17, 0); }

/* Decrements the TTL, and sends packets whose TTL is over to the controllers with these ids. */
static inline void rosemary_nx_dec_ttl_controllers(struct rosemary_builder *to, const uint16_t *ids, uint16_t count) {
    const uint32_t start = rosemary_nx_begin(to, 21);
    rosemary_add16(to, count);
    rosemary_add32(to, 0);
    for (uint32_t i = 0; i < count; i++)
        rosemary_add16(to, ids[i]);
    rosemary_nx_end(to, start);
}

/* Shortens the timeouts of this flow when a TCP connection ends, in seconds; 0 leaves one. */
static inline void rosemary_nx_fin_timeout(struct rosemary_builder *to, uint16_t idle, uint16_t hard) {
    const uint32_t start = rosemary_nx_begin(to, 19);
    rosemary_add16(to, idle);
    rosemary_add16(to, hard);
    rosemary_nx_end(to, start);
}

/* Sends the packet to the controller with an id; 0 is the usual one, and reason 1 is "action". */
static inline void rosemary_nx_controller(struct rosemary_builder *to, uint16_t max_len, uint16_t controller_id,
                                          uint8_t reason) {
    const uint32_t start = rosemary_nx_begin(to, 20);
    rosemary_add16(to, max_len);
    rosemary_add16(to, controller_id);
    rosemary_add(to, &reason, 1);
    rosemary_nx_end(to, start);
}

/* Sends the packet to the controller, with data of the flow's. */
static inline void rosemary_nx_controller2(struct rosemary_builder *to, const void *userdata, uint16_t size) {
    const uint32_t start = rosemary_nx_begin(to, 37);
    rosemary_add_zeros(to, 6);
    rosemary_add16(to, 3); /* NXAC2PT_USERDATA */
    rosemary_add16(to, size + 4u);
    rosemary_add(to, userdata, size);
    rosemary_nx_end(to, start);
}

/* Writes the bits of the metadata that the mask has. */
static inline void rosemary_nx_write_metadata(struct rosemary_builder *to, uint64_t value, uint64_t mask) {
    const uint32_t start = rosemary_nx_begin(to, 22);
    rosemary_add_zeros(to, 6);
    rosemary_nx_add_value(to, value, 8);
    rosemary_nx_add_value(to, mask, 8);
    rosemary_nx_end(to, start);
}

static inline void rosemary_nx_add_stack(struct rosemary_builder *to, uint16_t subtype, struct rosemary_nx_bits bits) {
    const uint32_t start = rosemary_nx_begin(to, subtype);
    rosemary_add16(to, bits.offset);
    rosemary_add32(to, bits.field);
    rosemary_add16(to, bits.count);
    rosemary_add_zeros(to, 6);
    rosemary_nx_end(to, start);
}

/* Pushes bits of a field on the stack of the packet. */
static inline void rosemary_nx_push(struct rosemary_builder *to, struct rosemary_nx_bits source) {
    rosemary_nx_add_stack(to, 27, source);
}

/* Pops bits from the stack of the packet into a field. */
static inline void rosemary_nx_pop(struct rosemary_builder *to, struct rosemary_nx_bits target) {
    rosemary_nx_add_stack(to, 28, target);
}

/* Makes the flow one dimension, from 0 on, of a conjunctive match. */
static inline void rosemary_nx_conjunction(struct rosemary_builder *to, uint32_t id, uint8_t clause, uint8_t n_clauses) {
    const uint32_t start = rosemary_nx_begin(to, 34);
    rosemary_add(to, &clause, 1);
    rosemary_add(to, &n_clauses, 1);
    rosemary_add32(to, id);
    rosemary_nx_end(to, start);
}

/* Connection tracking. */
struct rosemary_nx_ct {
    int commit, force;
    uint16_t zone;
    uint8_t table; /* in which the packet continues, or ROSEMARY_NX_NO_TABLE */
    uint16_t alg;  /* the port of a protocol with further connections, as 21 of FTP, or 0 */
};

/* Sends the packet through connection tracking. Actions up to rosemary_nx_end(to, result) are about the connection. */
static inline uint32_t rosemary_nx_ct(struct rosemary_builder *to, const struct rosemary_nx_ct *ct) {
    const uint32_t start = rosemary_nx_begin(to, 35);
    rosemary_add16(to, (ct->commit ? 1u : 0u) | (ct->force ? 2u : 0u));
    rosemary_add32(to, 0);
    rosemary_add16(to, ct->zone);
    rosemary_add32(to, (uint32_t)ct->table << 24);
    rosemary_add16(to, ct->alg);
    return start;
}

/* The new address and port of a connection, of IPv4. */
struct rosemary_nx_nat {
    int src, dst;           /* one of them, or none to translate as the connection is */
    const uint8_t *min;     /* 4 bytes; NULL leaves the choice to the switch */
    const uint8_t *max;     /* 4 bytes, or NULL */
    uint16_t min_port, max_port; /* or 0 */
};

/* Translates addresses and ports, in rosemary_nx_ct only. */
static inline void rosemary_nx_nat(struct rosemary_builder *to, const struct rosemary_nx_nat *nat) {
    const uint32_t start = rosemary_nx_begin(to, 36);
    rosemary_add16(to, 0);
    rosemary_add16(to, (nat->src ? 1u : 0u) | (nat->dst ? 2u : 0u));
    rosemary_add16(to, (nat->min ? 1u : 0u) | (nat->max ? 2u : 0u) | (nat->min_port ? 16u : 0u) | (nat->max_port ? 32u : 0u));
    if (nat->min)
        rosemary_add(to, nat->min, 4);
    if (nat->max)
        rosemary_add(to, nat->max, 4);
    if (nat->min_port)
        rosemary_add16(to, nat->min_port);
    if (nat->max_port)
        rosemary_add16(to, nat->max_port);
    rosemary_nx_end(to, start);
}

/* Removes the state of connection tracking from the packet. */
static inline void rosemary_nx_ct_clear(struct rosemary_builder *to) { rosemary_nx_add_narrow(to, 43, 0); }

/* Outputs the first bytes of the packet, at least 14, to a port. */
static inline void rosemary_nx_output_trunc(struct rosemary_builder *to, uint16_t port, uint32_t max_len) {
    const uint32_t start = rosemary_nx_begin(to, 39);
    rosemary_add16(to, port);
    rosemary_add32(to, max_len);
    rosemary_nx_end(to, start);
}

/* Applies the actions up to rosemary_nx_end(to, result) to a copy of the packet. */
static inline uint32_t rosemary_nx_clone(struct rosemary_builder *to) {
    const uint32_t start = rosemary_nx_begin(to, 42);
    rosemary_add_zeros(to, 6);
    return start;
}

/* Decrements the TTL of the network service header. */
static inline void rosemary_nx_dec_nsh_ttl(struct rosemary_builder *to) { rosemary_nx_add_narrow(to, 48, 0); }

/* Writes a bit: whether the packet is longer than this. */
static inline void rosemary_nx_check_pkt_larger(struct rosemary_builder *to, uint16_t pkt_len, uint32_t field,
                                                uint16_t bit) {
    const uint32_t start = rosemary_nx_begin(to, 49);
    rosemary_add16(to, pkt_len);
    rosemary_add16(to, bit);
    rosemary_add32(to, field);
    rosemary_add_zeros(to, 6);
    rosemary_nx_end(to, start);
}

/* Removes a field of tunnel metadata, 0 to 63. */
static inline void rosemary_nx_delete_field(struct rosemary_builder *to, uint8_t number) {
    const uint32_t start = rosemary_nx_begin(to, 50);
    rosemary_add32(to, ROSEMARY_NXM(1, 40 + number, 124));
    rosemary_add_zeros(to, 10);
    rosemary_nx_end(to, start);
}

#ifdef __cplusplus
}
#endif
#endif
