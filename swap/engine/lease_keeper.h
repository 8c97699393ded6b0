#pragma once

namespace penstock {

class LeaseToken;

/// Where leases come from, and what their ends are said to. Thread-safe.
class LeaseKeeper {
 public:
  /// The last copy of a lease has gone.
  virtual void lease_ended(LeaseToken& token) noexcept = 0;
  /// Its holder changes nothing any more.
  virtual void update_ended(LeaseToken& token) noexcept = 0;

 protected:
  ~LeaseKeeper() = default;
};

}  // namespace penstock
