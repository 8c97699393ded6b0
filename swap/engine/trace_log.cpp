#include "swap/engine/trace_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "swap/rank.h"

namespace penstock {
namespace {

constexpr std::size_t kGatherBytes = kMiB;
constexpr int kNamesMax = 100;  // tries to find one that is free
constexpr mode_t kFileMode = 0600;

std::string quoted(const std::string& text) {
  // Bytes that are no UTF-8 may be in a name, and may not in JSON.
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Result<std::shared_ptr<TraceLog>> TraceLog::open(const std::string& target, Watch watch,
                                                 std::function<void(const std::string&)> warn) {
  const std::string process = std::to_string(::getpid());
  const std::string wanted = process_path(target);
  std::string path = wanted;
  for (int name = 0; name < kNamesMax; ++name) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode);
    if (fd >= 0) {
      return std::shared_ptr<TraceLog>(
          new TraceLog(fd, std::move(path), std::move(watch), std::move(warn)));
    }
    if (errno != EEXIST) {
      break;
    }
    path = name == 0 ? fmt::format("{}.{}", wanted, process)
                     : fmt::format("{}.{}.{}", wanted, process, name + 1);
  }
  return system_error(errno, fmt::format("cannot save a trace in {} (PENSTOCK_TRACE)", path), path);
}

TraceLog::TraceLog(int fd, std::string path, Watch watch,
                   std::function<void(const std::string&)> warn)
    : path_(std::move(path)), watch_(std::move(watch)), warn_(std::move(warn)), fd_(fd) {
  began_ns_ = watch_().now_ns;
  gathered_ = fmt::format("{{\"schema\":\"{}\",\"pid\":{},\"rank\":{}}}\n", kTraceSchema,
                          ::getpid(), quoted(process_rank()));
}

TraceLog::~TraceLog() {
  if (!process_.elsewhere()) {  // a forked child's copy would say everything twice
    close();
  }
}

/// `details` begin with a comma or are empty.
void TraceLog::add(TraceOp op, const std::string& details) {
  const MutexLock lock(mutex_);
  if (fd_ < 0) {
    return;
  }
  const Moment moment = watch_();  // under the lock: lines are in the order of time
  fmt::format_to(std::back_inserter(gathered_), "{{\"t\":{},\"w\":{},\"op\":\"{}\"{}}}\n",
                 moment.now_ns - began_ns_, moment.waited_ns, trace_op_name(op), details);
  if (gathered_.size() >= kGatherBytes) {
    write_out();
  }
}

void TraceLog::write_out() {
  std::string_view left = gathered_;
  while (!left.empty()) {
    const ssize_t written = ::write(fd_, left.data(), left.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      const int error = written == 0 ? EIO : errno;
      ::close(std::exchange(fd_, -1));
      warn_(system_error(error, fmt::format("the trace {} ends here", path_)).message);
      break;
    }
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  gathered_.clear();
}

void TraceLog::close() {
  const MutexLock lock(mutex_);
  if (fd_ < 0) {
    return;
  }
  write_out();
  if (fd_ >= 0 && ::close(std::exchange(fd_, -1)) != 0) {
    warn_(system_error(errno, fmt::format("the trace {} may not be whole", path_)).message);
  }
}

void TraceLog::open_namespace(NamespaceId space, const std::string& name) {
  add(TraceOp::kOpenNamespace,
      fmt::format(",\"space\":{},\"name\":{}", to_number(space), quoted(name)));
}

void TraceLog::close_namespace(NamespaceId space) {
  add(TraceOp::kCloseNamespace, fmt::format(",\"space\":{}", to_number(space)));
}

void TraceLog::declare(TensorId tensor, NamespaceId space, const TensorInfo& info, bool stored) {
  add(TraceOp::kDeclare,
      fmt::format(",\"tensor\":{},\"space\":{},\"name\":{},\"dtype\":\"{}\",\"shape\":[{}],"
                  "\"bytes\":{},\"role\":\"{}\"{}",
                  to_number(tensor), to_number(space), quoted(info.name), dtype_name(info.dtype),
                  fmt::join(info.shape, ","), info.bytes(), role_name(info.role),
                  stored ? ",\"stored\":true" : ""));
}

void TraceLog::rename(TensorId tensor, const std::string& name) {
  add(TraceOp::kRename, fmt::format(",\"tensor\":{},\"name\":{}", to_number(tensor), quoted(name)));
}

void TraceLog::prefetch(std::span<const TensorId> tensors) {
  std::vector<std::uint64_t> numbers;
  std::ranges::transform(tensors, std::back_inserter(numbers),
                         [](TensorId tensor) { return to_number(tensor); });
  add(TraceOp::kPrefetch, fmt::format(",\"tensors\":[{}]", fmt::join(numbers, ",")));
}

void TraceLog::use(TraceOp op, TensorId tensor, Access access) {
  add(op, fmt::format(",\"tensor\":{}{}", to_number(tensor),
                      access == Access::kUpdate ? ",\"update\":true" : ""));
}

void TraceLog::note(TraceOp op) {
  add(op, {});
}

}  // namespace penstock
