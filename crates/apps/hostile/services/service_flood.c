/* Floods a service that it may ask: with requests that carry a descriptor each, with requests whose answers it does
 * not read, and with packets of many descriptors. The filter lets it send no descriptors; at the end it sends what is no request. */
#include "services.h"

#define MOST_DESCRIPTORS 16
#define TIMES 5000

/* Reads what has been answered, and what comes within 100 ms. */
static int drain(int fd) {
    static uint8_t packet[64 * 1024];
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    int count = 0;
    while (poll(&wait, 1, 100) > 0 && recv(fd, packet, sizeof packet, MSG_DONTWAIT) > 0)
        count++;
    return count;
}

/* Sends `packet` again and again, with copies of its own socket; how often. */
static int descriptors(int to, void *packet, uint32_t size, int count) {
    char space[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))] = {0};
    struct iovec part = {packet, size};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space};
    struct cmsghdr *first = (struct cmsghdr *)(void *)space;
    int i, fds[MOST_DESCRIPTORS];
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
    header.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
    for (i = 0; i < count; i++)
        fds[i] = to;
    memcpy(CMSG_DATA(first), fds, (size_t)count * sizeof(int));
    for (i = 0; i < TIMES; i++) {
        if (sendmsg(to, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            continue;
        if (errno != EAGAIN || drain(to) == 0)
            break;
    }
    return i;
}

static void attack(void) {
    uint8_t packet[64] = {0};
    uint32_t size = 8 + storage_request(packet + 8, LIST, "", 0);
    int fd, i;
    if (sockets(&fd, 1) == 0)
        return refused("a flood", "there is no socket");
    say("sent %d requests with a descriptor", descriptors(fd, packet, size, 1));
    drain(fd);
    for (i = 0; i < TIMES && (send(fd, packet, size, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno == EAGAIN); i++)
        ;
    say("sent %d requests, and had %d answers then", i, drain(fd));
    say("sent %d packets with many descriptors", descriptors(fd, packet, size, MOST_DESCRIPTORS));
    drain(fd);
    say("sent a packet that is no request: %zd", send(fd, packet, 3, MSG_NOSIGNAL | MSG_DONTWAIT));
}
