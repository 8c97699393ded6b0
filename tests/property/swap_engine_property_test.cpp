#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "alloc/bytes.h"
#include "swap/swap_engine.h"
#include "tests/io/temp_directory.h"
#include "tests/property/step.h"

namespace penstock {
namespace {

enum Kind : std::uint32_t {
  kPut,
  kCommit,
  kUpdate,
  kAbandon,
  kGet,
  kGetInto,
  kHold,
  kDrop,
  kPrefetch,
  kPlan,
  kForget
};

constexpr std::size_t kTensors = 8;
constexpr std::uint64_t kLargest = 700 * kKiB;

/// The engine beside what it must know: for every tensor the byte that fills
/// its newest content.
class Played {
 public:
  Played(std::uint64_t max_pinned_bytes, std::uint64_t ram_bytes,
         const std::vector<std::uint64_t>& sizes) {
    SwapEngineOptions options;
    Budgets budgets;
    budgets.max_pinned_bytes = max_pinned_bytes_ = max_pinned_bytes;
    budgets.ram_bytes = ram_bytes_ = ram_bytes;
    budgets.max_pinned_given = budgets.ram_given = true;
    budgets.quarter_bytes = kGiB;
    options.budgets = budgets;
    options.io.depth = 8;
    options.warn = [](const Warning&) {};
    engine_ = SwapEngine::open(std::move(options)).value();
    space_ =
        engine_->open_namespace("p", {{directory_.path(), std::nullopt, std::nullopt}}).value();
    for (const std::uint64_t bytes : sizes) {
      tensors_.push_back({declare(bytes), bytes, 0});
    }
  }

  void act(const Step& step) {
    Tensor& tensor = tensors_[step.pick % tensors_.size()];
    const auto fill = static_cast<unsigned char>(step.amount % 255 + 1);
    switch (step.kind) {
      case kPut:
        return put(tensor, fill);
      case kCommit:
        return commit(tensor, engine_->allocate(tensor.id).value(), fill);
      case kForget:
        return forget(tensor);
      case kDrop:
        return drop_leases();
      case kPlan:
        RC_ASSERT(engine_->plan().has_value());
        return;
      case kPrefetch:
        return engine_->prefetch(std::vector<TensorId>{tensor.id, tensors_.front().id});
      default:
        return tensor.fill == 0 ? expect_no_content(tensor) : use(tensor, step.kind, fill);
    }
  }

  void check_bounds() {
    const SwapStats stats = engine_->stats();
    RC_ASSERT(stats.pool.pinned_bytes <= max_pinned_bytes_);
    RC_ASSERT(stats.resident_bytes_max <= ram_bytes_);
    RC_ASSERT(stats.write_failures == 0U);
  }

  void check_end() {
    drop_leases();
    for (Tensor& tensor : tensors_) {
      if (tensor.fill != 0) {
        use(tensor, kGet, 0);
      }
    }
    RC_ASSERT(engine_->flush().has_value());
    check_bounds();
    std::uint64_t most = 0;  // one extent each: older ones are given up
    for (const Tensor& tensor : tensors_) {
      most += align_up(tensor.bytes, kBlockBytes) + kBlockBytes;
    }
    RC_ASSERT(eventually([&] { return engine_->stats().drive_bytes <= most; }));
    for (const Tensor& tensor : tensors_) {
      RC_ASSERT(engine_->forget(tensor.id).has_value());
    }
    RC_ASSERT(eventually([this] { return kept_bytes() == 0; }));
  }

 private:
  struct Tensor {
    TensorId id{};
    std::uint64_t bytes = 0;
    unsigned char fill = 0;  // 0: no content yet
  };
  struct Held {
    Lease lease;
    unsigned char fill = 0;
  };

  /// The I/O thread releases what it holds a moment after it has reported the end.
  template <class Condition>
  static bool eventually(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    return condition();
  }

  std::uint64_t kept_bytes() const {
    const SwapStats stats = engine_->stats();
    return stats.drive_bytes + stats.pool.slot_bytes_live + stats.pool.overflow_bytes +
           stats.resident_bytes;
  }

  TensorId declare(std::uint64_t bytes) {
    const std::string name = "t" + std::to_string(named_++);
    return engine_->declare(space_, {name, DType::kU8, {bytes}, Role::kParam}).value();
  }

  static bool is_filled(std::span<const std::byte> bytes, unsigned char fill) {
    return std::ranges::all_of(bytes, [fill](std::byte b) { return b == std::byte{fill}; });
  }

  void put(Tensor& tensor, unsigned char fill) {
    const std::vector<std::byte> source(tensor.bytes, std::byte{fill});
    RC_ASSERT(engine_->put(tensor.id, source).wait().has_value());
    tensor.fill = fill;
  }

  void commit(Tensor& tensor, Lease lease, unsigned char fill) {
    std::memset(lease.data(), fill, lease.bytes());
    (void)engine_->commit(lease);
    tensor.fill = fill;
  }

  void forget(Tensor& tensor) {
    RC_ASSERT(engine_->forget(tensor.id).has_value());
    tensor = {declare(tensor.bytes), tensor.bytes, 0};
  }

  void expect_no_content(const Tensor& tensor) {
    const Result<Lease> lease = engine_->get(tensor.id).lease();
    RC_ASSERT(lease.has_error());
    RC_ASSERT(lease.error().code == make_error_code(Fault::kInvalidArgument));
  }

  void use(Tensor& tensor, std::uint32_t kind, unsigned char fill) {
    if (kind == kGetInto) {
      std::vector<std::byte> target(tensor.bytes + 1);
      const std::span<std::byte> unaligned = std::span(target).subspan(1);
      RC_ASSERT(engine_->get_into(tensor.id, unaligned).wait().has_value());
      RC_ASSERT(is_filled(unaligned, tensor.fill));
      return;
    }
    const bool changes = kind == kUpdate || kind == kAbandon;
    if (changes) {
      drop_leases();  // they share the memory that is about to change
    }
    Lease lease =
        engine_->get(tensor.id, changes ? Access::kUpdate : Access::kRead).lease().value();
    RC_ASSERT(lease.bytes() == tensor.bytes);
    RC_ASSERT(is_filled(lease.span(), tensor.fill));
    if (kind == kUpdate) {
      commit(tensor, std::move(lease), fill);
    } else if (kind == kAbandon && !engine_->state(tensor.id).value().resident) {
      std::memset(lease.data(), 0,
                  lease.bytes());  // a resident on no drive would stay so
    } else if (kind == kHold) {
      held_.push_back({std::move(lease), tensor.fill});
    }
  }

  /// Whatever has become of the tensors, what was lent is as it was.
  void drop_leases() {
    for (const Held& held : held_) {
      RC_ASSERT(is_filled(held.lease.span(), held.fill));
    }
    held_.clear();
  }

  TempDirectory directory_;
  std::uint64_t max_pinned_bytes_ = 0;
  std::uint64_t ram_bytes_ = 0;
  std::size_t named_ = 0;
  std::unique_ptr<SwapEngine> engine_;
  NamespaceId space_{};
  std::vector<Tensor> tensors_;
  std::vector<Held> held_;
};

RC_GTEST_PROP(SwapEngineProperty, GivesBackWhatWasPutWithinItsBudgets, ()) {
  const std::uint64_t max_pinned = *rc::gen::inRange<std::uint64_t>(4, 13) * kMiB;
  const std::uint64_t ram = *any_magnitude(2 * kMiB);
  const auto sizes = *rc::gen::container<std::vector<std::uint64_t>>(
      kTensors, rc::gen::map(any_magnitude(kLargest), [](std::uint64_t b) { return b + 1; }));
  Played played(max_pinned, ram, sizes);
  for (const Step& step : *steps({kPut, kCommit, kUpdate, kAbandon, kGet, kGet, kGetInto, kHold,
                                  kDrop, kPrefetch, kPlan, kForget},
                                 rc::gen::inRange<std::uint64_t>(0, 1000))) {
    played.act(step);
    played.check_bounds();
  }
  played.check_end();
}

}  // namespace
}  // namespace penstock
