#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"
#include "io/io_engine.h"

namespace penstock {

enum class EngineKind : std::uint8_t { kAuto, kUring, kThreads };

/// `auto`, `uring`, `threads` (also fio's `io_uring`, `psync`, `pvsync`).
Result<EngineKind> parse_engine_kind(std::string_view text);

struct EngineCandidate {
  std::string name;
  bool usable = false;
  std::string reason;                 ///< why not, with the remedy; empty where usable
  std::vector<std::string> features;  ///< what the kernel granted: single_issuer, defer_taskrun, …
};

/// Tries every engine in the order of preference and keeps each refusal. Makes and drops a ring.
std::vector<EngineCandidate> probe_engines();

/// The engine asked for, or for kAuto the first that can be made; `refusals` (may be null) gets one
/// entry for each that could not. Errors: the one asked for cannot be made, with its reason.
Result<std::unique_ptr<IoEngine>> make_engine(EngineKind kind, const IoEngineOptions& options,
                                              std::vector<EngineCandidate>* refusals = nullptr);

}  // namespace penstock
