#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// What an engine warns of. docs/TUNING.md has a table of them, against which a test holds these.
enum class WarningCode : std::uint8_t {
  kOverflow,             ///< pinned memory was too little
  kNoPinnedBuffers,      ///< the plan's pinned memory could not be had
  kUnregisteredBuffers,  ///< the I/O engine takes no buffers for good
  kLoopCores,            ///< the I/O thread is not near its drives
  kThroughHostMemory,    ///< direct storage was asked for and cannot be
  kKeptInRam,            ///< its drive was full
  kDriveMissing,         ///< tensors of a durable store cannot be read
  kTraceIncomplete,      ///< PENSTOCK_TRACE
  kLogFile,              ///< PENSTOCK_LOG_FILE cannot be written
  kLogLines,             ///< lines of the log were dropped
  kCallbackThrew,        ///< a ticket's callback
  kUnreadKey,            ///< a setting stands where nothing reads it
  kBeyondMemory,         ///< the plan keeps more in RAM than the machine has
};

/// All of them.
std::span<const WarningCode> warning_codes() noexcept;
/// Words joined by hyphens; stays the same from version to version.
std::string_view warning_code_name(WarningCode code) noexcept;

/// A condition that a user should know of and can act on; the work continues.
struct Warning {
  WarningCode code{};
  std::string text;  ///< a whole sentence

  /// `[code] text`
  std::string line() const;
};

}  // namespace penstock
