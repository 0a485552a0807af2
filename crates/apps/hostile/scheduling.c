/* Slows others down, and itself up. */
#include "hostile.h"

#include <sched.h>
#include <sys/resource.h>

static void attack(void) {
    struct sched_param idle = {0}, first = {1};
    cpu_set_t all;
    CPU_ZERO(&all);
    sched_getaffinity(getppid(), sizeof all, &all);
    tell("the parent's affinity", sched_setaffinity(getppid(), sizeof all, &all));
    tell("the parent's scheduling", sched_setscheduler(getppid(), SCHED_OTHER, &idle));
    tell("the parent's priority", setpriority(PRIO_PROCESS, (id_t)getppid(), getpriority(PRIO_PROCESS, (id_t)getppid())));
    tell("its own real-time scheduling", sched_setscheduler(0, SCHED_FIFO, &first));
    sched_setscheduler(0, SCHED_OTHER, &idle);
    tell("its own priority", setpriority(PRIO_PROCESS, 0, -1));
}
