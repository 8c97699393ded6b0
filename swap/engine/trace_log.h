#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "alloc/mutex.h"
#include "alloc/process_mark.h"
#include "alloc/result.h"
#include "swap/plan/inventory.h"
#include "swap/plan/trace_op.h"
#include "swap/tensor.h"

namespace penstock {

/// Saves what callers do with an engine as lines of JSON (`penstock.trace/1`, docs/BENCH.md): what
/// `penstock replay` runs again. Lines gather in memory and go to the file by the MiB, so that a
/// use costs under a microsecond. A file that cannot be written any more ends the trace with one
/// warning, never the run. Thread-safe.
class TraceLog {
 public:
  /// Where a run stands when something happens.
  struct Moment {
    std::uint64_t now_ns = 0;     ///< of the engine's clock
    std::uint64_t waited_ns = 0;  ///< by callers, in the engine, so far
  };
  using Watch = std::function<Moment()>;

  /// `target` as process_path() takes it. Nothing is
  /// ever overwritten: where the file exists, the process's number is put behind its name, then
  /// .2, .3 and so on. Errors: errno and path.
  static Result<std::shared_ptr<TraceLog>> open(const std::string& target, Watch watch,
                                                std::function<void(const std::string&)> warn);
  ~TraceLog();
  TraceLog(const TraceLog&) = delete;
  TraceLog& operator=(const TraceLog&) = delete;

  void open_namespace(NamespaceId space, const std::string& name);
  void close_namespace(NamespaceId space);
  void declare(TensorId tensor, NamespaceId space, const TensorInfo& info, bool stored);
  void rename(TensorId tensor, const std::string& name);
  void prefetch(std::span<const TensorId> tensors);
  /// kForget, kAllocate, kCommit, kPut, kGetInto. Of kGet, kLease and kRelease `access` says which
  /// of a tensor's leases it is.
  void use(TraceOp op, TensorId tensor, Access access = Access::kRead);
  /// kPlan, kFlush.
  void note(TraceOp op);

  /// What was gathered is in the file; later uses are not recorded. Idempotent.
  void close();
  const std::string& path() const noexcept { return path_; }

 private:
  TraceLog(int fd, std::string path, Watch watch, std::function<void(const std::string&)> warn);
  void add(TraceOp op, const std::string& details);
  void write_out() PENSTOCK_REQUIRES(mutex_);

  const std::string path_;
  const Watch watch_;
  const std::function<void(const std::string&)> warn_;
  Mutex mutex_;
  int fd_ PENSTOCK_GUARDED_BY(mutex_) = -1;  // -1: closed
  std::uint64_t began_ns_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  std::string gathered_ PENSTOCK_GUARDED_BY(mutex_);
  ProcessMark process_;
};

}  // namespace penstock
