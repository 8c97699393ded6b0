#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"
#include "swap/plan/inventory.h"
#include "swap/plan/trace_op.h"

namespace penstock {

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
/// namespaces have get the namespace's name before them.
Inventory traced_inventory(const RecordedTrace& trace);
/// Places of an inventory's tensors in the order in which `traced` has those of their names. What
/// it lacks comes behind the tensor that the inventory has before it.
std::vector<std::size_t> order_of_use(const Inventory& inventory, const Inventory& traced);

}  // namespace penstock
