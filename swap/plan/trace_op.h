#pragma once

#include <array>
#include <cstdint>
#include <string_view>

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

}  // namespace penstock
