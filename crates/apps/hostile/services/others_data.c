/* Reads, changes and watches what another app keeps: by its name and by names that might be taken for it,
 * through its host and past it. */
#include "services.h"

static void attack(void) {
    static const struct {
        const char *what, *name;
        uint8_t size;
    } names[] = {
        {"the namespace behind a dot-dot", "../" VICTIM, 8},
        {"the namespace behind a slash", "/" VICTIM, 6},
        {"the namespace before a slash", VICTIM "/", 6},
        {"the namespace before a NUL", VICTIM "\0x", 7},
        {"the namespace behind a NUL", "\0" VICTIM, 6},
        {"the namespace of everybody", "*", 1},
        {"the namespace of the number 1", "1", 1},
        {"the namespace of the bytes 1 and 0", "\1\0", 2},
    };
    uint8_t request[128], answer[128];
    uint32_t size;
    int fd, count = sockets(&fd, 1);
    size_t i;
    /* Past the host, which knows no such request and hears none of the answers. */
    size = storage_request(request, GET, VICTIM, sizeof VICTIM - 1);
    if (count == 0)
        refused("a forged request", "there is no socket");
    else {
        tell_answer("a forged request", answer, exchange(fd, request, size, answer, sizeof answer));
        request[1] = 200; /* a name longer than the packet */
        tell_answer("a forged request whose name is longer than it", answer,
                    exchange(fd, request, size, answer, sizeof answer));
        request[1] = 0; /* its own namespace, and the rest behind the end */
        tell_answer("a forged request with another behind it", answer,
                    exchange(fd, request, size, answer, sizeof answer));
    }
    for (i = 0; i < sizeof names / sizeof *names; i++)
        ask(names[i].what, ROSEMARY_SERVICE_STORAGE, request,
            storage_request(request, GET, names[i].name, names[i].size));
    ask("what another app keeps", ROSEMARY_SERVICE_STORAGE, request,
        storage_request(request, GET, VICTIM, sizeof VICTIM - 1));
    ask("the names of what another app keeps", ROSEMARY_SERVICE_STORAGE, request,
        storage_request(request, LIST, VICTIM, sizeof VICTIM - 1));
    ask("a watch on what another app keeps", ROSEMARY_SERVICE_STORAGE, request,
        storage_request(request, WATCH, VICTIM, sizeof VICTIM - 1));
    ask("writing over what another app keeps", ROSEMARY_SERVICE_STORAGE, request,
        storage_request(request, PUT, VICTIM, sizeof VICTIM - 1));
    ask("deleting what another app keeps", ROSEMARY_SERVICE_STORAGE, request,
        storage_request(request, DELETE, VICTIM, sizeof VICTIM - 1));
}
