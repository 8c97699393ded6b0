#include "tests/io/submit_script.h"

#include <libaio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace penstock {
namespace {

thread_local std::vector<long> answers_left;

}  // namespace

void script_submit(std::vector<long> answers) {
  answers_left = std::move(answers);
}

std::size_t scripted_submits_left() {
  return answers_left.size();
}

}  // namespace penstock

// Stands before libaio's, since a program's own functions do.
extern "C" int io_submit(io_context_t context, long count, iocb** requests) {
  if (!penstock::answers_left.empty()) {
    const long answer = penstock::answers_left.front();
    penstock::answers_left.erase(penstock::answers_left.begin());
    if (answer <= 0) {
      return static_cast<int>(answer);
    }
    count = std::min(count, answer);
  }
  const long taken = ::syscall(SYS_io_submit, context, count, requests);
  return taken < 0 ? -errno : static_cast<int>(taken);
}
