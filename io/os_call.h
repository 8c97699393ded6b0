#pragma once

#include <sys/types.h>

#include <cerrno>
#include <string>

#include "alloc/result.h"
#include "io/file.h"

namespace penstock {

/// Of the files that penstock makes: the owner's alone.
inline constexpr ::mode_t kFileMode = 0600;

/// What `call`, a system call, returns once no signal interrupts it.
template <class Call>
int retry_interrupted(Call call) {
  int result = -1;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

/// The same, with errors as -errno.
inline int result_of(int result) {
  return result < 0 ? -errno : result;
}

/// A descriptor of `name` below `directory` (or AT_FDCWD), opened without waiting, also where it is
/// a FIFO, and made to block afterwards; `flags` such as O_NOFOLLOW are added. `path` is what
/// errors name.
Result<int> os_open(int directory, const std::string& name, File::Access access,
                    const std::string& path, int flags = 0);

}  // namespace penstock
