#pragma once

#include <cstdint>
#include <optional>

#include "io/io_op.h"

namespace penstock::bench {

/// One request within a file.
struct Request {
  IoKind kind = IoKind::kRead;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  bool operator==(const Request&) const = default;
};

/// What a thread of a job does next.
class RequestFeed {
 public:
  virtual ~RequestFeed() = default;
  RequestFeed() = default;
  RequestFeed(const RequestFeed&) = delete;
  RequestFeed& operator=(const RequestFeed&) = delete;

  /// Nothing: all is done.
  virtual std::optional<Request> next() = 0;
};

}  // namespace penstock::bench
