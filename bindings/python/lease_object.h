#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "alloc/result.h"
#include "swap/lease.h"
#include "swap/plan/inventory.h"
#include "swap/tensor.h"

namespace penstock::python {

/// A lease with the shape and dtype that Python wants to see.
struct LeaseObject {
  LeaseObject(Lease held, std::shared_ptr<const TensorInfo> what, Access wanted, const void* from)
      : lease(std::move(held)), info(std::move(what)), access(wanted), giver(from) {}
  LeaseObject(LeaseObject&&) noexcept = default;
  LeaseObject& operator=(LeaseObject&&) = delete;
  ~LeaseObject() { release(); }

  Lease lease;
  std::shared_ptr<const TensorInfo> info;
  Access access;                // kRead: its views are to read only
  const void* giver = nullptr;  // the engine object; compared, never followed

  /// Raises what Lease::check_held() gives.
  void expect_held() const;
  bool read_only() const noexcept { return access == Access::kRead; }
  /// Views live on, and change nothing that could still be committed.
  void release() noexcept {
    lease.end_update();
    lease.release();
  }
};

void bind_lease(nanobind::module_& module);

}  // namespace penstock::python
