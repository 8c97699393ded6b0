#include "io/small_thread.h"

#include <cstddef>
#include <utility>

namespace penstock {
namespace {

constexpr std::size_t kStackBytes = std::size_t{512} << 10U;

}  // namespace

Result<SmallThread> SmallThread::start(std::function<void()> work) {
  SmallThread thread(std::move(work));
  pthread_attr_t attributes;
  if (const int error = ::pthread_attr_init(&attributes); error != 0) {
    thread.work_.reset();
    return system_error(error, "cannot start a thread");
  }
  // Where so little is refused, it is the usual stack.
  (void)::pthread_attr_setstacksize(&attributes, kStackBytes);
  const int error = ::pthread_create(
      &thread.thread_, &attributes,
      [](void* function) -> void* {
        (*static_cast<std::function<void()>*>(function))();
        return nullptr;
      },
      thread.work_.get());
  (void)::pthread_attr_destroy(&attributes);
  if (error != 0) {
    thread.work_.reset();
    return system_error(error, "cannot start a thread (`ulimit -u` limits threads)");
  }
  return thread;
}

SmallThread::~SmallThread() {
  if (work_) {
    (void)::pthread_join(thread_, nullptr);
  }
}

}  // namespace penstock
