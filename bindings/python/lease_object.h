#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "alloc/result.h"
#include "swap/lease.h"
#include "swap/plan/inventory.h"
#include "swap/tensor.h"

namespace penstock::python {

/// Ends a lease's update with the last that holds this: a future gives its lease as often as it is
/// asked, and each may change and commit.
struct UpdateEnd {
  explicit UpdateEnd(Lease held) : lease(std::move(held)) {}
  UpdateEnd(const UpdateEnd&) = delete;
  UpdateEnd& operator=(const UpdateEnd&) = delete;
  ~UpdateEnd() { lease.end_update(); }

  Lease lease;
  bool is_committed = false;  // it is to read only from then on: other readers share the memory
};

/// A lease with the shape and dtype that Python wants to see.
struct LeaseObject {
  LeaseObject(Lease held, std::shared_ptr<const TensorInfo> what, Access wanted, const void* from,
              std::shared_ptr<UpdateEnd> shared = nullptr)
      : lease(std::move(held)),
        info(std::move(what)),
        access(wanted),
        giver(from),
        update(std::move(shared)) {
    if (!update && access != Access::kRead) {
      update = std::make_shared<UpdateEnd>(lease);
    }
  }
  LeaseObject(LeaseObject&&) noexcept = default;
  LeaseObject& operator=(LeaseObject&&) = delete;
  ~LeaseObject() { release(); }

  Lease lease;
  std::shared_ptr<const TensorInfo> info;
  Access access;                      // kRead: its views are to read only
  const void* giver = nullptr;        // the engine object; compared, never followed
  std::shared_ptr<UpdateEnd> update;  // null: its views are to read only

  /// Raises what Lease::check_held() gives.
  void expect_held() const;
  bool read_only() const noexcept { return !update || update->is_committed; }
  /// Views live on, and change nothing that could still be committed.
  void release() noexcept {
    update.reset();
    lease.release();
  }
};

void bind_lease(nanobind::module_& module);

}  // namespace penstock::python
