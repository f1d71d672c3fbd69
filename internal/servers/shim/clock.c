/*
 * Preloaded into a server, this moves the wall clock that the server sees by an offset that a test sets while it
 * runs: the nanoseconds in the first eight bytes of the file named by HOLDFAST_CLOCK_FILE. Clocks that cannot be
 * set, such as CLOCK_MONOTONIC, are left alone.
 *
 * The kernel is asked directly. To look up the C library's own functions would allocate memory, and an allocator
 * that reads the clock while it starts (jemalloc does) would come back here for ever.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BILLION 1000000000LL

static const int64_t *offset; /* shared with the test; NULL until it is mapped */

__attribute__((constructor)) static void map_offset(void)
{
	const char *path = getenv("HOLDFAST_CLOCK_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *page = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED) {
		/* A server that silently keeps the true time would let every test of clocks pass. */
		perror("clock shim: HOLDFAST_CLOCK_FILE");
		_exit(127);
	}
	close(fd);
	offset = page;
}

static struct timespec shifted(struct timespec ts)
{
	int64_t by = offset ? __atomic_load_n(offset, __ATOMIC_RELAXED) : 0;
	int64_t nsec = ts.tv_nsec + by % BILLION;

	ts.tv_sec += by / BILLION;
	if (nsec < 0) {
		nsec += BILLION;
		ts.tv_sec--;
	} else if (nsec >= BILLION) {
		nsec -= BILLION;
		ts.tv_sec++;
	}
	ts.tv_nsec = nsec;
	return ts;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int result = syscall(SYS_clock_gettime, id, ts);

	if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_TAI))
		*ts = shifted(*ts);
	return result;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	struct timespec ts;

	(void)tz; /* obsolete, and no server asks for it */
	if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
		return -1;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
		return (time_t)-1;
	if (t != NULL)
		*t = ts.tv_sec;
	return ts.tv_sec;
}
