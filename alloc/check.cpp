#include "alloc/check.h"

#include <cstdio>
#include <cstdlib>

namespace penstock::detail {

void check_failed(const char* file, int line, const char* condition, const std::string& values) {
  // One write of one line: other threads may be printing, and nothing below may allocate or lock.
  std::fprintf(stderr, "%s:%d: penstock invariant broken: %s (%s)\n", file, line, condition,
               values.c_str());
  std::abort();
}

}  // namespace penstock::detail
