#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"
#include "swap/plan/inventory.h"

namespace penstock {

/// What a caller of a swap engine did, as a trace names it.
enum class TraceOp : std::uint8_t {
  kOpenNamespace,
  kCloseNamespace,
  kDeclare,
  kForget,
  kRename,
  kPlan,
  kAllocate,  ///< a lease was given for a new content
  kCommit,
  kPut,
  kGet,
  kLease,  ///< the lease of a get was taken, after waiting for it
  kGetInto,
  kRelease,  ///< the last copy of a lease ended
  kPrefetch,
  kFlush,
};
inline constexpr std::array<std::string_view, 15> kTraceOpNames = {
    "open_namespace", "close_namespace", "declare", "forget",   "rename",
    "plan",           "allocate",        "commit",  "put",      "get",
    "lease",          "get_into",        "release", "prefetch", "flush",
};
constexpr std::string_view trace_op_name(TraceOp op) noexcept {
  return kTraceOpNames[static_cast<std::size_t>(op)];
}

inline constexpr std::string_view kTraceSchema = "penstock.trace/1";

struct TraceEvent {
  TraceOp op = TraceOp::kGet;
  std::uint64_t at_ns = 0;      ///< since the engine was opened, when the call was done
  std::uint64_t waited_ns = 0;  ///< of this time, what callers had spent waiting in the engine
  std::uint64_t tensor = 0;     ///< a number of the trace's own; unused where none is concerned
  std::uint32_t space = 0;      ///< likewise a namespace
  bool update = false;          ///< kGet: Access::kUpdate
  bool stored = false;          ///< kDeclare: the store had its content already
  std::string name;             ///< kOpenNamespace, kRename
  TensorInfo info;              ///< kDeclare
  std::vector<std::uint64_t> tensors;  ///< kPrefetch
};

/// The uses of one engine in the order in which they came (docs/BENCH.md, "Traces").
struct RecordedTrace {
  std::vector<TraceEvent> events;
};

/// Reads what PENSTOCK_TRACE saved. A last line without its end is left out: the process was
/// killed. Errors: the world's with path; Fault::kInvalidArgument for what is no such trace, with
/// the line: another version, unknown operations, tensors that were not declared, times that go
/// back.
Result<RecordedTrace> load_trace(const std::string& path);
/// The same from memory; `origin` names it in errors.
Result<RecordedTrace> parse_trace(std::string_view text, const std::string& origin);

/// The tensors in the order of their first use (get, get_into, allocate, put), with those that were
/// only declared behind them: an inventory whose order is that of the run. Names that several
/// namespaces have are told apart by the namespace's.
Inventory traced_inventory(const RecordedTrace& trace);
/// Puts an inventory's tensors in the order in which `traced` has those of their names; the others
/// stay behind them, in their order.
void sort_by_use(Inventory& inventory, const Inventory& traced);

}  // namespace penstock
