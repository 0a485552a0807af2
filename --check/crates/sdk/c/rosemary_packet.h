/*
 * Reads and builds packets in C: Ethernet, VLAN, ARP, IPv4, IPv6, ICMP, TCP, UDP, LLDP and DHCP.
 *
 *     struct rosemary_headers packet;
 *     if (rosemary_parse(data, size, &packet) == 0 && packet.ip_version == 4)
 *         ... packet.ip_dst, packet.dst_port ...
 *
 * A packet-in may contain only the beginning of a packet, and anyone can send any bytes. Each function checks the bounds of what
 * it reads and writes, and none allocates memory. A field of a part that is missing or malformed is 0 or NULL. Type,
 * addresses, protocol and ports are those that a switch compares with a match.
 */
#ifndef ROSEMARY_PACKET_H
#define ROSEMARY_PACKET_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ethertypes. */
enum {
    ROSEMARY_ETH_IPV4 = 0x0800,
    ROSEMARY_ETH_ARP = 0x0806,
    ROSEMARY_ETH_VLAN = 0x8100,
    ROSEMARY_ETH_IPV6 = 0x86dd,
    ROSEMARY_ETH_LLDP = 0x88cc
};

/* Protocols behind IP. */
enum { ROSEMARY_ICMP = 1, ROSEMARY_TCP = 6, ROSEMARY_UDP = 17, ROSEMARY_ICMPV6 = 58, ROSEMARY_SCTP = 132 };

/* Flags of TCP. */
enum { ROSEMARY_TCP_FIN = 1, ROSEMARY_TCP_SYN = 2, ROSEMARY_TCP_RST = 4, ROSEMARY_TCP_ACK = 16 };

/* `vlan` of a packet without a tag. */
#define ROSEMARY_NO_VLAN 0xffff

/* The headers of a packet. Pointers point into the packet. */
struct rosemary_headers {
    const uint8_t *eth_dst;   /* 6 bytes each */
    const uint8_t *eth_src;
    uint16_t vlan;            /* the VLAN identifier of the outermost tag, or ROSEMARY_NO_VLAN */
    uint16_t eth_type;        /* behind VLAN tags and SNAP */
    const uint8_t *payload;   /* behind that type */
    uint32_t payload_size;
    const uint8_t *arp;       /* an ARP packet for Ethernet and IPv4, 28 bytes, or NULL */
    uint8_t ip_version;       /* 4, 6, or 0: it is not IP */
    uint8_t has_proto;        /* whether ip_proto is known: not if IPv6 is cut off in its extension headers */
    uint8_t ip_proto;
    uint8_t is_fragment;
    const uint8_t *ip_src;    /* 4 or 16 bytes each */
    const uint8_t *ip_dst;
    const uint8_t *transport; /* behind the headers of IP, with the padding of a short frame; empty for a later fragment */
    uint32_t transport_size;
    uint8_t has_ports;        /* whether the ports of TCP, UDP or SCTP are known */
    uint16_t src_port;
    uint16_t dst_port;
    uint8_t tcp_flags;        /* ROSEMARY_TCP_*; 0 if it is not TCP or a fragment */
    uint8_t has_icmp;         /* whether type and code of ICMP, of either version, are known */
    uint8_t icmp_type;
    uint8_t icmp_code;
};

static inline uint16_t rosemary_get16(const uint8_t *from) {
    return (uint16_t)(from[0] << 8 | from[1]);
}

static inline uint32_t rosemary_get32(const uint8_t *from) {
    return (uint32_t)rosemary_get16(from) << 16 | rosemary_get16(from + 2);
}

static inline uint64_t rosemary_get64(const uint8_t *from) {
    return (uint64_t)rosemary_get32(from) << 32 | rosemary_get32(from + 4);
}

static inline void rosemary_put16(uint8_t *to, uint32_t value) {
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
}

static inline void rosemary_put32(uint8_t *to, uint32_t value) {
    rosemary_put16(to, value >> 16);
    rosemary_put16(to + 2, value);
}

/* An Ethernet address as a number, for tables. */
static inline uint64_t rosemary_mac(const uint8_t *from) {
    return (uint64_t)rosemary_get16(from) << 32 | rosemary_get32(from + 2);
}

static inline int rosemary_is_vlan_tag(uint16_t type) {
    return type == 0x8100 || type == 0x88a8 || type == 0x9100 || type == 0x9200 || type == 0x9300;
}

/* Skips the extension headers of IPv6, at most 8. */
static inline void rosemary_parse_ipv6(struct rosemary_headers *to, uint8_t next, const uint8_t *rest, uint32_t size) {
    for (int i = 0; i < 8; i++) {
        uint32_t skip;
        if (next == 0 || next == 43 || next == 60) { /* options for hops, routing, options for the destination */
            if (size < 2)
                return;
            skip = 8 + 8 * (uint32_t)rest[1];
        } else if (next == 44) {
            skip = 8;
        } else {
            to->has_proto = 1;
            to->ip_proto = next;
            to->transport = rest;
            to->transport_size = size;
            return;
        }
        if (size < skip)
            return;
        if (next == 44) {
            const uint16_t offset_and_more = rosemary_get16(rest + 2);
            if (offset_and_more >> 3 || offset_and_more & 1)
                to->is_fragment = 1;
            if (offset_and_more >> 3) {
                to->has_proto = 1;
                to->ip_proto = rest[0];
                return; /* a later fragment has no header of the transport */
            }
        }
        next = rest[0];
        rest += skip;
        size -= skip;
    }
}

static inline void rosemary_parse_ip(struct rosemary_headers *to) {
    const uint8_t *ip = to->payload;
    const uint32_t size = to->payload_size;

    if (to->eth_type == ROSEMARY_ETH_IPV4 && size >= 20 && ip[0] >> 4 == 4) {
        const uint32_t head = (ip[0] & 15u) * 4;
        const uint16_t offset = rosemary_get16(ip + 6) & 0x1fff;
        to->ip_version = 4;
        to->ip_src = ip + 12;
        to->ip_dst = ip + 16;
        to->has_proto = 1;
        to->ip_proto = ip[9];
        to->is_fragment = offset || ip[6] & 0x20;
        if (!offset && head >= 20 && head <= size) {
            to->transport = ip + head;
            to->transport_size = size - head;
        }
    } else if (to->eth_type == ROSEMARY_ETH_IPV6 && size >= 40 && ip[0] >> 4 == 6) {
        to->ip_version = 6;
        to->ip_src = ip + 8;
        to->ip_dst = ip + 24;
        rosemary_parse_ipv6(to, ip[6], ip + 40, size - 40);
    }
}

/* Reads a packet from its Ethernet header on. 0, or -1 if it is shorter than that header. */
static inline int rosemary_parse(const uint8_t *data, uint32_t size, struct rosemary_headers *to) {
    static const uint8_t ARP[6] = {0, 1, 8, 0, 6, 4}; /* Ethernet and IPv4, with the sizes of their addresses */
    uint32_t at = 12;

    memset(to, 0, sizeof *to);
    to->vlan = ROSEMARY_NO_VLAN;
    if (size < 14)
        return -1;
    to->eth_dst = data;
    to->eth_src = data + 6;
    to->eth_type = rosemary_get16(data + 12);
    if (rosemary_is_vlan_tag(to->eth_type) && size >= 16)
        to->vlan = rosemary_get16(data + 14) & 0x0fff;
    for (;;) {
        const uint8_t *behind = data + at + 2;
        const uint32_t left = size - at - 2;
        uint32_t skip;
        if (rosemary_is_vlan_tag(to->eth_type))
            skip = 2;
        else if (to->eth_type < 0x0600 && left >= 6 && memcmp(behind, "\xaa\xaa\x03\0\0", 5) == 0 &&
                 (behind[5] == 0 || behind[5] == 0xf8))
            skip = 6;
        else
            break;
        if (left < skip + 2)
            break;
        at += 2 + skip;
        to->eth_type = rosemary_get16(data + at);
    }
    to->payload = data + at + 2;
    to->payload_size = size - at - 2;
    if (to->eth_type == ROSEMARY_ETH_ARP && to->payload_size >= 28 && memcmp(to->payload, ARP, 6) == 0)
        to->arp = to->payload;
    rosemary_parse_ip(to);
    if (to->has_proto && to->transport_size >= 4 &&
        (to->ip_proto == ROSEMARY_TCP || to->ip_proto == ROSEMARY_UDP || to->ip_proto == ROSEMARY_SCTP)) {
        to->has_ports = 1;
        to->src_port = rosemary_get16(to->transport);
        to->dst_port = rosemary_get16(to->transport + 2);
    }
    if (to->is_fragment || !to->has_proto)
        return 0;
    if (to->ip_proto == ROSEMARY_TCP && to->transport_size >= 14)
        to->tcp_flags = to->transport[13];
    if (to->transport_size >= 8 && to->ip_proto == (to->ip_version == 4 ? ROSEMARY_ICMP : ROSEMARY_ICMPV6)) {
        to->has_icmp = 1;
        to->icmp_type = to->transport[0];
        to->icmp_code = to->transport[1];
    }
    return 0;
}

/* ARP: the operation (1 request, 2 reply), and addresses of sender and target: 6 bytes, 4 bytes. */
static inline uint16_t rosemary_arp_operation(const uint8_t *arp) { return rosemary_get16(arp + 6); }
static inline const uint8_t *rosemary_arp_sender_mac(const uint8_t *arp) { return arp + 8; }
static inline const uint8_t *rosemary_arp_sender_ip(const uint8_t *arp) { return arp + 14; }
static inline const uint8_t *rosemary_arp_target_mac(const uint8_t *arp) { return arp + 18; }
static inline const uint8_t *rosemary_arp_target_ip(const uint8_t *arp) { return arp + 24; }

/* Finds the first value of this type (1 chassis, 2 port, 3 time to live, ...) in an LLDP packet; NULL if there is none. The first
 * byte of a chassis or a port is the subtype of its name. */
static inline const uint8_t *rosemary_lldp(const struct rosemary_headers *packet, uint8_t type, uint32_t *value_size) {
    const uint8_t *at = packet->payload;
    uint32_t left = packet->eth_type == ROSEMARY_ETH_LLDP ? packet->payload_size : 0;

    while (left >= 2) {
        const uint16_t head = rosemary_get16(at);
        const uint32_t size = head & 0x1ff;
        if (head >> 9 == 0 || left - 2 < size)
            return NULL;
        if (head >> 9 == type) {
            *value_size = size;
            return at + 2;
        }
        at += 2 + size;
        left -= 2 + size;
    }
    return NULL;
}

/* The DHCP message of a packet, 240 bytes or more from `op` on; NULL if there is none. */
static inline const uint8_t *rosemary_dhcp(const struct rosemary_headers *packet, uint32_t *size) {
    const uint8_t *message = packet->transport ? packet->transport + 8 : NULL;
    const int ports = packet->has_ports && (packet->src_port == 67 || packet->src_port == 68) &&
                      (packet->dst_port == 67 || packet->dst_port == 68);

    if (packet->ip_version != 4 || packet->ip_proto != ROSEMARY_UDP || packet->is_fragment || !ports ||
        packet->transport_size < 8 + 240 || message[1] != 1 || message[2] != 6 ||
        memcmp(message + 236, "\x63\x82\x53\x63", 4) != 0)
        return NULL;
    *size = packet->transport_size - 8;
    return message;
}

/* Finds the first option with this code (53 message type, 50 requested address, ...); NULL if there is none. */
static inline const uint8_t *rosemary_dhcp_option(const struct rosemary_headers *packet, uint8_t code,
                                                  uint32_t *value_size) {
    uint32_t size = 0, at = 240;
    const uint8_t *message = rosemary_dhcp(packet, &size);

    while (message && at + 2 <= size && message[at] != 255) {
        if (message[at] == 0) { /* padding */
            at++;
            continue;
        }
        if (size - at - 2 < message[at + 1])
            return NULL;
        if (message[at] == code) {
            *value_size = message[at + 1];
            return message + at + 2;
        }
        at += 2 + (uint32_t)message[at + 1];
    }
    return NULL;
}

/* Builds a packet from the outside to the inside in memory of the caller:
 *
 *     struct rosemary_builder packet;
 *     rosemary_build(&packet, bytes, sizeof bytes);
 *     rosemary_add_ethernet(&packet, dst, src, ROSEMARY_ETH_IPV4);
 *     rosemary_add_ipv4(&packet, ip_src, ip_dst, ROSEMARY_UDP, 64);
 *     rosemary_add_udp(&packet, 1000, 53);
 *     rosemary_add(&packet, "query", 5);
 *     size = rosemary_finish(&packet);     // fills in lengths and checksums; 0: no room
 */
struct rosemary_builder {
    uint8_t *bytes;
    uint32_t room, size;
    uint32_t ip, transport; /* where they begin; 0: none */
    uint8_t ip_version, proto, full;
};

static inline void rosemary_build(struct rosemary_builder *to, void *bytes, uint32_t room) {
    memset(to, 0, sizeof *to);
    to->bytes = (uint8_t *)bytes;
    to->room = room;
}

/* Adds `size` zeros and returns them, or NULL if there is no room. */
static inline uint8_t *rosemary_add_zeros(struct rosemary_builder *to, uint32_t size) {
    uint8_t *at = to->bytes + to->size;

    if (to->full || to->room - to->size < size) {
        to->full = 1;
        return NULL;
    }
    memset(at, 0, size);
    to->size += size;
    return at;
}

static inline void rosemary_add(struct rosemary_builder *to, const void *bytes, uint32_t size) {
    uint8_t *at = rosemary_add_zeros(to, size);
    if (at && size)
        memcpy(at, bytes, size);
}

static inline void rosemary_add16(struct rosemary_builder *to, uint32_t value) {
    uint8_t *at = rosemary_add_zeros(to, 2);
    if (at)
        rosemary_put16(at, value);
}

static inline void rosemary_add32(struct rosemary_builder *to, uint32_t value) {
    uint8_t *at = rosemary_add_zeros(to, 4);
    if (at)
        rosemary_put32(at, value);
}

static inline void rosemary_add_ethernet(struct rosemary_builder *to, const uint8_t *dst, const uint8_t *src,
                                         uint16_t type) {
    rosemary_add(to, dst, 6);
    rosemary_add(to, src, 6);
    rosemary_add16(to, type);
}

/* A tag: behind the type ROSEMARY_ETH_VLAN; `type` is the one inside. */
static inline void rosemary_add_vlan(struct rosemary_builder *to, uint16_t id, uint16_t type) {
    rosemary_add16(to, id);
    rosemary_add16(to, type);
}

static inline void rosemary_add_arp(struct rosemary_builder *to, uint16_t operation, const uint8_t *sender_mac,
                                    const uint8_t *sender_ip, const uint8_t *target_mac, const uint8_t *target_ip) {
    static const uint8_t HEAD[6] = {0, 1, 8, 0, 6, 4};
    rosemary_add(to, HEAD, 6);
    rosemary_add16(to, operation);
    rosemary_add(to, sender_mac, 6);
    rosemary_add(to, sender_ip, 4);
    rosemary_add(to, target_mac, 6);
    rosemary_add(to, target_ip, 4);
}

static inline void rosemary_add_ipv4(struct rosemary_builder *to, const uint8_t *src, const uint8_t *dst, uint8_t proto,
                                     uint8_t ttl) {
    const uint32_t start = to->size;
    uint8_t *at = rosemary_add_zeros(to, 20);
    if (!at)
        return;
    at[0] = 0x45;
    at[6] = 0x40; /* no fragments */
    at[8] = ttl;
    at[9] = proto;
    memcpy(at + 12, src, 4);
    memcpy(at + 16, dst, 4);
    to->ip = start;
    to->ip_version = 4;
    to->proto = proto;
}

static inline void rosemary_add_ipv6(struct rosemary_builder *to, const uint8_t *src, const uint8_t *dst, uint8_t proto,
                                     uint8_t hop_limit) {
    const uint32_t start = to->size;
    uint8_t *at = rosemary_add_zeros(to, 40);
    if (!at)
        return;
    at[0] = 0x60;
    at[6] = proto;
    at[7] = hop_limit;
    memcpy(at + 8, src, 16);
    memcpy(at + 24, dst, 16);
    to->ip = start;
    to->ip_version = 6;
    to->proto = proto;
}

static inline void rosemary_add_udp(struct rosemary_builder *to, uint16_t src_port, uint16_t dst_port) {
    to->transport = to->size;
    rosemary_add16(to, src_port);
    rosemary_add16(to, dst_port);
    rosemary_add32(to, 0); /* length and checksum */
}

static inline void rosemary_add_tcp(struct rosemary_builder *to, uint16_t src_port, uint16_t dst_port, uint32_t seq,
                                    uint32_t ack, uint8_t flags, uint16_t window) {
    to->transport = to->size;
    rosemary_add16(to, src_port);
    rosemary_add16(to, dst_port);
    rosemary_add32(to, seq);
    rosemary_add32(to, ack);
    rosemary_add16(to, 0x5000u | flags);
    rosemary_add16(to, window);
    rosemary_add32(to, 0); /* checksum, no urgent data */
}

/* A message of ICMP for the version of IP before it; `rest` is the second half of its header, as identifier and sequence number
 * of an echo. */
static inline void rosemary_add_icmp(struct rosemary_builder *to, uint8_t type, uint8_t code, uint32_t rest) {
    to->transport = to->size;
    rosemary_add16(to, (uint32_t)type << 8 | code);
    rosemary_add16(to, 0);
    rosemary_add32(to, rest);
}

/* A value of LLDP, at most 511 bytes; the last one has the type 0 and no bytes. */
static inline void rosemary_add_lldp(struct rosemary_builder *to, uint8_t type, const void *value, uint32_t size) {
    if (type > 127 || size > 0x1ff) {
        to->full = 1;
        return;
    }
    rosemary_add16(to, (uint32_t)type << 9 | size);
    rosemary_add(to, value, size);
}

/* The fixed part of a DHCP message behind UDP: `op` is 1 from a client, 2 from a server. */
static inline void rosemary_add_dhcp(struct rosemary_builder *to, uint8_t op, uint32_t xid, const uint8_t *your_ip,
                                     const uint8_t *client_mac) {
    uint8_t *at = rosemary_add_zeros(to, 240);
    if (!at)
        return;
    at[0] = op;
    at[1] = 1;
    at[2] = 6;
    rosemary_put32(at + 4, xid);
    memcpy(at + 16, your_ip, 4);
    memcpy(at + 28, client_mac, 6);
    memcpy(at + 236, "\x63\x82\x53\x63", 4);
}

/* An option of DHCP; the last one has the code 255 and no bytes. */
static inline void rosemary_add_dhcp_option(struct rosemary_builder *to, uint8_t code, const void *value, uint8_t size) {
    rosemary_add(to, &code, 1);
    if (code != 0 && code != 255) {
        rosemary_add(to, &size, 1);
        rosemary_add(to, value, size);
    }
}

/* Adds `size` bytes to a sum of 16-bit words (RFC 1071). */
static inline uint32_t rosemary_sum(uint32_t sum, const uint8_t *bytes, uint32_t size) {
    for (uint32_t i = 0; i + 1 < size; i += 2) {
        sum += rosemary_get16(bytes + i);
        sum = (sum & 0xffff) + (sum >> 16);
    }
    if (size & 1) {
        sum += (uint32_t)bytes[size - 1] << 8;
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}

/* Fills in lengths and checksums. Returns the size of the packet, or 0 if there was no room for it. */
static inline uint32_t rosemary_finish(struct rosemary_builder *to) {
    uint8_t *ip = to->bytes + to->ip, *transport = to->bytes + to->transport;
    const uint32_t size = to->size - to->transport; /* of the transport's segment */
    uint32_t sum = 0, place = 0;

    if (to->full || to->size - to->ip > 0xffff)
        return 0;
    if (to->ip_version == 4) {
        rosemary_put16(ip + 2, to->size - to->ip);
        rosemary_put16(ip + 10, ~rosemary_sum(0, ip, 20));
    } else if (to->ip_version == 6) {
        rosemary_put16(ip + 4, to->size - to->ip - 40);
    }
    if (!to->ip_version || !to->transport)
        return to->size;
    if (to->proto != ROSEMARY_ICMP) { /* the pseudo-header */
        sum = to->ip_version == 4 ? rosemary_sum(sum, ip + 12, 8) : rosemary_sum(sum, ip + 8, 32);
        sum += to->proto + size;
        sum = (sum & 0xffff) + (sum >> 16);
    }
    if (to->proto == ROSEMARY_UDP) {
        rosemary_put16(transport + 4, size);
        place = 6;
    } else if (to->proto == ROSEMARY_TCP) {
        place = 16;
    } else if (to->proto == ROSEMARY_ICMP || to->proto == ROSEMARY_ICMPV6) {
        place = 2;
    }
    if (place) {
        sum = ~rosemary_sum(sum, transport, size) & 0xffff;
        rosemary_put16(transport + place, sum == 0 && to->proto == ROSEMARY_UDP ? 0xffff : sum); /* 0: no checksum */
    }
    return to->size;
}

#ifdef __cplusplus
}
#endif
#endif
