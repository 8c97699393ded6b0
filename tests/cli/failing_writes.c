// What is written to files of a directory named `broken` fails with EIO, as on a drive that dies.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_broken(int fd) {
  char link[64];
  char path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  path[length < 0 ? 0 : length] = 0;
  return strstr(path, "/broken/") != NULL;
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  ssize_t (*const real)(int, const void*, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite");
  if (is_broken(fd)) {
    errno = EIO;
    return -1;
  }
  return real(fd, data, bytes, offset);
}

ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t offset) {
  return pwrite(fd, data, bytes, offset);
}
