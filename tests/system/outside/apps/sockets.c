/* An app inside the kernel that spoils each socket of the kernel for the next one, and then ends the kernel. It begins with the first
 * packet of port 3. */
#define BEGIN_PORT 3
#include "../../../../crates/apps/hostile/hostile.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static void attack(void) {
    int fd, value = 1, sockets = 0;
    struct stat stat;
    for (fd = 3; fd < 4096; fd++) {
        if (fstat(fd, &stat) != 0 || !S_ISSOCK(stat.st_mode))
            continue;
        sockets++;
        value = 1;
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, sizeof value);
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, sizeof value);
        value = 0x7fffffff;
        setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &value, sizeof value);
        setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &value, sizeof value);
        setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof value);
        fcntl(fd, F_SETFL, O_ASYNC);
        fcntl(fd, F_SETOWN, 1);
        listen(fd, 0);
        shutdown(fd, SHUT_RDWR);
        send(fd, "\xff\xff\xff\xff noise", 10, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    say("SPOILT %d sockets", sockets);
    for (fd = 0; fd < 4096; fd++)
        close(fd);
    abort();
}
