#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "tests/sim/swap_simulation.h"
#include "tests/sim/tensor_content.h"

namespace penstock {
namespace {

constexpr std::size_t kHeldMax = 8;

}  // namespace

void SwapSimulation::settle() {
  for (std::size_t i = 0; i < puts_.size();) {
    if (!puts_[i].ticket.done()) {
      ++i;
      continue;
    }
    const Result<void> ended = puts_[i].ticket.wait();
    count("put", ended);
    // Where a tensor may stay in RAM, the content that its drive refused is there all the same.
    const bool is_content =
        ended.has_value() ||
        ended.error().message.find("its content is still in memory") != std::string::npos;
    puts_[i].tensor->model.put_ended(puts_[i].version, is_content);
    puts_.erase(puts_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (std::size_t i = 0; i < gets_.size();) {
    if (!gets_[i].ticket.done()) {
      ++i;
      continue;
    }
    Get ended = std::move(gets_[i]);
    gets_.erase(gets_.begin() + static_cast<std::ptrdiff_t>(i));
    finish_get(ended);
  }
  while (held_.size() > kHeldMax) {
    end_lease();
  }
}

void SwapSimulation::finish_get(Get& get) {
  const Result<void> ended = get.ticket.wait();
  count(get.target ? "get_into" : "get", ended);
  if (ended.has_error()) {
    --get.tensor->readers;
    return;
  }
  if (get.target) {
    --get.tensor->readers;
    (void)version_in(*get.tensor,
                     std::span(*get.target).subspan(get.target_offset, get.tensor->bytes),
                     get.allowed);
    return;
  }
  Result<Lease> lease = get.ticket.lease();
  if (lease.has_error()) {
    violate(fmt::format("a get that succeeded has no lease: {}", lease.error().message));
    return;
  }
  const TensorModel::Version version = version_in(*get.tensor, lease.value().span(), get.allowed);
  held_.push_back({get.tensor, std::move(lease).value(), version});
}

/// Which of the allowed contents this is; a violation if it is none.
TensorModel::Version SwapSimulation::version_in(const Tensor& tensor,
                                                std::span<const std::byte> bytes,
                                                const TensorModel::Versions& allowed) {
  ++report_.contents_checked;
  report_.bytes_checked += bytes.size();
  for (const TensorModel::Version version : allowed) {
    if (TensorContent(tensor.key, version).equals(bytes)) {
      return version;
    }
  }
  for (TensorModel::Version version = tensor.model.newest(); version > 0; --version) {
    if (TensorContent(tensor.key, version).equals(bytes)) {
      violate(fmt::format("tensor '{}' ({} bytes) has content {} where only {} may be", tensor.name,
                          tensor.bytes, version, fmt::join(allowed, ", ")));
      return version;
    }
  }
  violate(fmt::format("tensor '{}' ({} bytes) has a content that it never had, {} may be",
                      tensor.name, tensor.bytes, fmt::join(allowed, ", ")));
  return 0;
}

void SwapSimulation::check_held(const Held& held) {
  ++report_.contents_checked;
  report_.bytes_checked += held.lease.bytes();
  if (!TensorContent(held.tensor->key, held.version).equals(held.lease.span())) {
    violate(fmt::format("the content under a lease of tensor '{}' has changed", held.tensor->name));
  }
}

/// With the faults gone, everything must be there; unless the power goes just now.
void SwapSimulation::verify_all() {
  calm();
  while (!gets_.empty() || !puts_.empty()) {
    (void)(gets_.empty() ? puts_.front().ticket : gets_.front().ticket).wait();
    settle();
  }
  while (!updates_.empty()) {
    end_update();
  }
  // The first reports what failed in the storm. What a failed sync has made doubtful has to be
  // put again.
  if (!flush() && !flush()) {
    put_all();
    const Result<void> flushed = flush();
    if (flushed.has_error() && !disk_->power_is_cut()) {
      violate(fmt::format("a drive without faults cannot be flushed: {}", flushed.error().message));
    }
  }
  for (const TensorPtr& tensor : tensors_) {
    verify(*tensor);
  }
}

/// Unless the power goes just now.
void SwapSimulation::verify(const Tensor& tensor) {
  const TensorModel::Versions allowed = tensor.model.readable();
  const Result<Lease> lease = read(tensor.id);
  if (lease.has_value()) {
    (void)version_in(tensor, lease->span(), allowed);
  } else if (!allowed.empty() && !disk_->power_is_cut()) {
    violate(fmt::format("tensor '{}' is lost: {}", tensor.name, lease.error().message));
  }
}

/// Where there are no faults.
Result<Lease> SwapSimulation::read(TensorId tensor) {
  Result<Lease> lease = engine_->get(tensor).lease();
  if (lease.has_error()) {  // of a read ahead that had begun in the storm
    lease = engine_->get(tensor).lease();
  }
  return lease;
}

void SwapSimulation::put_all() {
  for (const TensorPtr& tensor : tensors_) {
    begin_put(tensor);
    (void)puts_.back().ticket.wait();
    settle();
  }
}

void SwapSimulation::violate(const std::string& sentence) {
  if (report_.violation.empty()) {
    report_.violation =
        fmt::format("seed {}, operation {}: {}", options_.seed, report_.operations + 1, sentence);
  }
}

void SwapSimulation::count(const char* operation, const Result<void>& result) {
  if (result.has_value()) {
    ++report_.outcomes[fmt::format("{}: done", operation)];
    return;
  }
  ++report_.errors_reported;
  const Error& error = result.error();
  ++report_.outcomes[fmt::format("{}: {}", operation, error.code.message())];
}

}  // namespace penstock
