// Preloaded into a process: its calendar jumps by years, forward and back, at every look. The other clocks go on as
// they do, which is all that a program that measures time may count on.

#define _GNU_SOURCE

#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t jump(void) {
  static atomic_uint looks;
  static const int years[] = {0, 30, -50, 1, 10, -2};
  const unsigned look = atomic_fetch_add(&looks, 1);
  return (time_t)years[look % 6] * 365 * 24 * 3600;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    now->tv_sec += jump();
  }
  return result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  struct timespec precise;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* also) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (also != NULL) {
    *also = precise.tv_sec;
  }
  return precise.tv_sec;
}
