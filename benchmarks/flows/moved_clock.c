/* A clock that programs preload: what they ask the time of day, they hear it later by an offset.

   The offset is a number of seconds, eight bytes, in the file that MOVED_CLOCK names. It is mapped, so that
   whoever writes it moves the clock of all programs at once. Waits and measured spans stay what they are:
   they ask the monotonic clock. libfaketime does the same, but its sleeps fail now and then under Python. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *offset;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void map_offset(void)
{
    const char *file = getenv("MOVED_CLOCK");
    int descriptor = file == NULL ? -1 : open(file, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (mapped != MAP_FAILED)
        offset = mapped;
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    if (real == NULL)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, now);
    if (status == 0 && offset != NULL && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        now->tv_sec += *offset;
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec moment;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &moment) != 0)
        return -1;
    now->tv_sec = moment.tv_sec;
    now->tv_usec = moment.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now)
{
    struct timespec moment;
    if (clock_gettime(CLOCK_REALTIME, &moment) != 0)
        return (time_t)-1;
    if (now != NULL)
        *now = moment.tv_sec;
    return moment.tv_sec;
}
