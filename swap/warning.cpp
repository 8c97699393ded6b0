#include "swap/warning.h"

#include <fmt/format.h>

#include <array>

namespace penstock {
namespace {

constexpr std::array kCodes = {
    WarningCode::kOverflow,     WarningCode::kNoPinnedBuffers,   WarningCode::kUnregisteredBuffers,
    WarningCode::kLoopCores,    WarningCode::kThroughHostMemory, WarningCode::kKeptInRam,
    WarningCode::kDriveMissing, WarningCode::kTraceIncomplete,   WarningCode::kLogFile,
    WarningCode::kLogLines,     WarningCode::kCallbackThrew,     WarningCode::kUnreadKey,
    WarningCode::kBeyondMemory,
};

}  // namespace

std::span<const WarningCode> warning_codes() noexcept {
  return kCodes;
}

std::string_view warning_code_name(WarningCode code) noexcept {
  switch (code) {
    case WarningCode::kOverflow:
      return "overflow";
    case WarningCode::kNoPinnedBuffers:
      return "no-pinned-buffers";
    case WarningCode::kUnregisteredBuffers:
      return "unregistered-buffers";
    case WarningCode::kLoopCores:
      return "loop-cores";
    case WarningCode::kThroughHostMemory:
      return "through-host-memory";
    case WarningCode::kKeptInRam:
      return "kept-in-ram";
    case WarningCode::kDriveMissing:
      return "drive-missing";
    case WarningCode::kTraceIncomplete:
      return "trace-incomplete";
    case WarningCode::kLogFile:
      return "log-file";
    case WarningCode::kLogLines:
      return "log-lines";
    case WarningCode::kCallbackThrew:
      return "callback-threw";
    case WarningCode::kUnreadKey:
      return "unread-key";
    case WarningCode::kBeyondMemory:
      return "beyond-memory";
  }
  return "?";
}

std::string Warning::line() const {
  return fmt::format("[{}] {}", warning_code_name(code), text);
}

}  // namespace penstock
