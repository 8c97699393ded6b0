#include "swap/engine/device_stagings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/counted.h"
#include "alloc/page_source.h"
#include "alloc/pinned_source.h"
#include "swap/log.h"
#include "swap/numa_choice.h"

namespace penstock {

Result<void> DeviceStagings::open(const std::vector<PinHook>& hooks,
                                  std::uint64_t max_pinned_bytes) {
  const std::size_t count = context_.options.devices.size();
  if (count == 0) {
    return {};
  }
  const ChunkShape chunks = device_chunks(max_pinned_bytes, count);
  if (chunks.chunk_bytes < 2 * kBlockBytes) {
    return fault(Fault::kConfiguration,
                 fmt::format("max_pinned_bytes is {}: with {} it must be {} at least",
                             format_bytes(max_pinned_bytes), counted(count, "device"),
                             format_bytes(pinned_bytes_for_devices(count))));
  }
  for (const std::shared_ptr<Device>& device : context_.options.devices) {
    const auto pages = PageSource::make(
        {.huge_pages = HugePages::kReserved, .numa = choose_numa_node(device->facts().numa_node)});
    Result<std::unique_ptr<DeviceStaging>> staging =
        DeviceStaging::open(*context_.queue, device, *PinnedSource::make(pages, hooks), chunks,
                            direct_storage_of(*device));
    PENSTOCK_TRY(staging);
    stagings_.push_back(std::move(*staging));
    bytes_ += chunks.bytes();
  }
  return {};
}

std::uint64_t DeviceStagings::bytes_of(std::uint64_t max_pinned_bytes) const {
  const std::size_t count = context_.options.devices.size();
  return device_chunks(max_pinned_bytes, count).bytes() * count;
}

/// Where a setting asks for it: null, with a warning that says why, where it cannot be.
std::shared_ptr<DirectStorage> DeviceStagings::direct_storage_of(const Device& device) const {
  const std::string& setting = context_.options.config.direct_storage_setting;
  if (setting.empty()) {
    return nullptr;
  }
  const std::string what =
      fmt::format("{}: contents go to and from {}:{} through host memory: ", setting,
                  device.runtime(), device.facts().number);
  if (context_.options.config.integrity != IntegrityLevel::kOff) {
    context_.warn(
        WarningCode::kThroughHostMemory,
        what + "checksums are of bytes that pass there (penstock.integrity 'off' does without)");
    return nullptr;
  }
  Result<std::shared_ptr<DirectStorage>> direct = open_direct_storage(device);
  if (direct.has_error()) {
    context_.warn(WarningCode::kThroughHostMemory, what + direct.error().message);
    return nullptr;
  }
  log_info(LogEvent::kNote, [&] {
    return fmt::format("contents go straight between drives and {}:{}, by {}", device.runtime(),
                       device.facts().number, (*direct)->library());
  });
  return std::move(*direct);
}

Result<DeviceStaging*> DeviceStagings::of(const DeviceTensor& tensor) const {
  const auto found =
      std::ranges::find(context_.options.devices, tensor.device, &std::shared_ptr<Device>::get);
  if (found == context_.options.devices.end()) {
    return fault(Fault::kInvalidArgument,
                 tensor.device == nullptr
                     ? std::string("no device is named for the tensor")
                     : fmt::format("the engine was not opened for {}:{}", tensor.device->runtime(),
                                   tensor.device->facts().number));
  }
  return stagings_[static_cast<std::size_t>(found - context_.options.devices.begin())].get();
}

bool DeviceStagings::on_own_thread() const {
  return context_.queue->on_loop_thread() ||
         std::ranges::any_of(stagings_, [](const auto& staging) { return staging->on_thread(); });
}

Result<DeviceStaging*> DeviceStagings::check(const TensorRecord& record,
                                             const DeviceTensor& tensor) const {
  PENSTOCK_TRY(check_device_tensor(*record.info, tensor));
  return of(tensor);
}

}  // namespace penstock
