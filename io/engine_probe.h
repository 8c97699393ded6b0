#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"
#include "io/io_engine.h"

namespace penstock {

enum class EngineKind : std::uint8_t { kAuto, kUring, kAio, kThreads, kNull };

/// `auto`, `uring`, `aio`, `threads`, `null` (also fio's `io_uring`, `libaio`, `psync`, `pvsync`).
Result<EngineKind> parse_engine_kind(std::string_view text);
/// The first of those names.
std::string_view engine_kind_name(EngineKind kind) noexcept;
/// False for kNull, which loses what is written: for measuring, never for data.
constexpr bool moves_bytes(EngineKind kind) noexcept {
  return kind != EngineKind::kNull;
}

struct EngineCandidate {
  std::string name;
  bool usable = false;
  std::string reason;                 ///< why not, with the remedy; empty where usable
  std::vector<std::string> features;  ///< what the kernel granted: single_issuer, defer_taskrun, …
};

/// Tries every engine that kAuto would, in the order of preference (uring, aio, threads), and keeps
/// each refusal. Makes and drops a ring.
std::vector<EngineCandidate> probe_engines();

/// The engine asked for, or for kAuto the first that can be made and moves bytes; `refusals` (may
/// be null) gets one entry for each that could not. Errors: the one asked for cannot be made, with
/// its reason; for kAuto, none can, with every reason.
Result<std::unique_ptr<IoEngine>> make_engine(EngineKind kind, const IoEngineOptions& options,
                                              std::vector<EngineCandidate>* refusals = nullptr);

}  // namespace penstock
