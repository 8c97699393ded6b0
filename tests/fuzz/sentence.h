#pragma once

#include <algorithm>
#include <string>

#include "alloc/check.h"
#include "alloc/excerpt.h"
#include "alloc/result.h"

namespace penstock {

/// What every error owes its reader, however broken the input: one line that fits a terminal's
/// page, of letters only. Stops the fuzzer where it is not so.
inline void expect_sentence(const Error& error) {
  constexpr std::size_t kBytesMax = 4096;
  const std::string& message = error.message;
  PENSTOCK_CHECK(!message.empty() && message.size() <= kBytesMax, "an error of {} bytes: {}",
                 message.size(), message.substr(0, kBytesMax));
  // What excerpt() would change must not be there.
  constexpr std::size_t kExcerptBytes = 100;
  for (std::size_t at = 0; at < message.size();) {
    std::size_t end = std::min(at + kExcerptBytes, message.size());
    while (end < message.size() && (static_cast<unsigned char>(message[end]) & 0xc0) == 0x80) {
      ++end;
    }
    const std::string part = message.substr(at, end - at);
    PENSTOCK_CHECK(excerpt(part) == part, "unfit for a message: {}", part);
    at = end;
  }
}

}  // namespace penstock
