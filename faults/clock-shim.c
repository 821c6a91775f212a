/* Loaded in front of the C library: moves the calendar of one process and nothing else.
 * The offset, in nanoseconds, is the first eight bytes of the file named by HOLDFAST_CLOCK_OFFSET. The file is mapped, so
 * whoever writes to it moves the clock of the running process. Monotonic and boot clocks must never be touched.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL

static const _Atomic int64_t *shared_offset;

__attribute__((constructor)) static void map_offset(void) {
  const char *path = getenv("HOLDFAST_CLOCK_OFFSET");
  if (path == NULL) return;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) _exit(97);
  void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) _exit(97);
  close(file);
  shared_offset = page;
}

static int64_t offset_ns(void) {
  return shared_offset == NULL ? 0 : atomic_load_explicit(shared_offset, memory_order_relaxed);
}

/* Whatever the sign of the offset, the nanoseconds stay within their second. */
static void move(struct timespec *at) {
  int64_t offset = offset_ns();
  int64_t ns = (int64_t)at->tv_nsec + offset % NS_PER_S;
  int64_t carry = ns >= NS_PER_S ? 1 : ns < 0 ? -1 : 0;
  at->tv_sec += offset / NS_PER_S + carry;
  at->tv_nsec = ns - carry * NS_PER_S;
}

static int is_calendar(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

/* The kernel is asked directly: looking up the next clock_gettime could itself ask for the time. */
int clock_gettime(clockid_t clock, struct timespec *at) {
  long answer = syscall(SYS_clock_gettime, clock, at);
  if (answer == 0 && is_calendar(clock)) move(at);
  return (int)answer;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
  if (at != NULL) *at = now.tv_sec;
  return now.tv_sec;
}

int timespec_get(struct timespec *at, int base) {
  if (base != TIME_UTC || clock_gettime(CLOCK_REALTIME, at) != 0) return 0;
  return base;
}
