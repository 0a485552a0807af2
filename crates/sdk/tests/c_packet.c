/* Prints what rosemary_packet.h reads in packets from standard input, each behind its size in two bytes, big endian. A packet
 * lies before a page that cannot be read, so that a read beyond its end kills this program. With an argument, prints packets that
 * it builds. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rosemary_packet.h"

enum { ROOM = 65536 };

static void hex(const char *name, const uint8_t *bytes, uint32_t size) {
    printf(" %s=", name);
    for (uint32_t i = 0; bytes && i < size; i++)
        printf("%02x", bytes[i]);
}

static void print(const uint8_t *data, uint32_t size) {
    struct rosemary_headers it;
    uint32_t found = 0;
    const uint8_t *value;

    if (rosemary_parse(data, size, &it) != 0) {
        puts("none");
        return;
    }
    printf("vlan=%u type=%u payload=%u ip=%u", it.vlan, it.eth_type, it.payload_size, it.ip_version);
    if (it.ip_version) {
        hex("src", it.ip_src, it.ip_version == 4 ? 4 : 16);
        hex("dst", it.ip_dst, it.ip_version == 4 ? 4 : 16);
    }
    if (it.has_proto)
        printf(" proto=%u", it.ip_proto);
    if (it.has_ports)
        printf(" ports=%u,%u", it.src_port, it.dst_port);
    if (it.has_icmp)
        printf(" icmp=%u,%u", it.icmp_type, it.icmp_code);
    if (it.arp)
        hex("arp", it.arp, 28);
    value = rosemary_lldp(&it, 2, &found);
    if (value)
        hex("lldp", value, found);
    value = rosemary_dhcp_option(&it, 53, &found);
    if (value)
        hex("dhcp", value, found);
    putchar('\n');
}

static void built(struct rosemary_builder *packet) {
    const uint32_t size = rosemary_finish(packet);
    for (uint32_t i = 0; i < size; i++)
        printf("%02x", packet->bytes[i]);
    putchar('\n');
}

static void build(void) {
    static const uint8_t alice[6] = {2, 0, 0, 0, 0, 1}, bob[6] = {2, 0, 0, 0, 0, 2};
    static const uint8_t a[4] = {10, 0, 0, 1}, b[4] = {10, 0, 0, 2};
    uint8_t bytes[400], one[16], two[16], kind = 1;
    struct rosemary_builder it;

    memset(one, 1, 16);
    memset(two, 2, 16);
    rosemary_build(&it, bytes, sizeof bytes);
    rosemary_add_ethernet(&it, bob, alice, ROSEMARY_ETH_IPV4);
    rosemary_add_ipv4(&it, a, b, ROSEMARY_UDP, 64);
    rosemary_add_udp(&it, 1000, 53);
    rosemary_add(&it, "query", 5);
    built(&it);
    rosemary_build(&it, bytes, sizeof bytes);
    rosemary_add_ethernet(&it, bob, alice, ROSEMARY_ETH_IPV6);
    rosemary_add_ipv6(&it, one, two, ROSEMARY_TCP, 64);
    rosemary_add_tcp(&it, 1000, 80, 7, 0, ROSEMARY_TCP_SYN, 512);
    rosemary_add(&it, "get", 3);
    built(&it);
    rosemary_build(&it, bytes, sizeof bytes);
    rosemary_add_ethernet(&it, bob, alice, ROSEMARY_ETH_VLAN);
    rosemary_add_vlan(&it, 7, ROSEMARY_ETH_IPV4);
    rosemary_add_ipv4(&it, a, b, ROSEMARY_ICMP, 64);
    rosemary_add_icmp(&it, 8, 0, 0x00010002);
    rosemary_add(&it, "ping", 4);
    built(&it);
    rosemary_build(&it, bytes, sizeof bytes);
    rosemary_add_ethernet(&it, bob, alice, ROSEMARY_ETH_IPV6);
    rosemary_add_ipv6(&it, one, two, ROSEMARY_ICMPV6, 64);
    rosemary_add_icmp(&it, 128, 0, 0x00010002);
    rosemary_add(&it, "ping", 4);
    built(&it);
    rosemary_build(&it, bytes, sizeof bytes);
    rosemary_add_ethernet(&it, bob, alice, ROSEMARY_ETH_ARP);
    rosemary_add_arp(&it, 2, alice, a, bob, b);
    built(&it);
    rosemary_build(&it, bytes, sizeof bytes);
    rosemary_add_ethernet(&it, bob, alice, ROSEMARY_ETH_LLDP);
    rosemary_add_lldp(&it, 1, "\7c", 2);
    rosemary_add_lldp(&it, 2, "\7p", 2);
    rosemary_add_lldp(&it, 3, "\0\12", 2);
    rosemary_add_lldp(&it, 0, NULL, 0);
    built(&it);
    rosemary_build(&it, bytes, sizeof bytes);
    rosemary_add_ethernet(&it, bob, alice, ROSEMARY_ETH_IPV4);
    rosemary_add_ipv4(&it, a, b, ROSEMARY_UDP, 64);
    rosemary_add_udp(&it, 68, 67);
    rosemary_add_dhcp(&it, 1, 9, (const uint8_t *)"\0\0\0\0", alice);
    rosemary_add_dhcp_option(&it, 53, &kind, 1);
    rosemary_add_dhcp_option(&it, 255, NULL, 0);
    built(&it);
    rosemary_build(&it, bytes, 20);
    rosemary_add_ethernet(&it, bob, alice, ROSEMARY_ETH_IPV4);
    rosemary_add_ipv4(&it, a, b, ROSEMARY_UDP, 64);
    built(&it);
}

int main(int count, char **arguments) {
    uint8_t size[2], *room;

    (void)arguments;
    if (count > 1) {
        build();
        return 0;
    }
    room = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED || mprotect(room + ROOM, ROOM, PROT_NONE) != 0)
        return 1;
    while (fread(size, 2, 1, stdin) == 1) {
        const uint32_t bytes = rosemary_get16(size);
        if (bytes && fread(room + ROOM - bytes, bytes, 1, stdin) != 1)
            return 1;
        print(room + ROOM - bytes, bytes);
    }
    return 0;
}
