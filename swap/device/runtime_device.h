#pragma once

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/result.h"
#include "swap/device/device.h"
#include "swap/device/pci_locality.h"

// What CUDA and HIP have in common. `Api` is CudaDriver or HipRuntime: it has the library's
// functions under names that are the same in both, its types and constants, error(), which says
// what a status means, and Context, which calls something with a device made current.

namespace penstock {

/// Opens the library and begins. Errors (kUnsupported): no such library, one that lacks a function,
/// or no device that it can use.
template <class Api>
Result<std::shared_ptr<const Api>> load_runtime() {
  auto api = std::make_shared<Api>();
  PENSTOCK_TRY(api->load(Api::kLibraries));
  if (const auto begun = api->begin(0); begun != Api::kSuccess) {
    return fault(Fault::kUnsupported, api->error(begun, Api::kCannotBegin).message);
  }
  return api;
}

/// A device of a runtime, through its library.
template <class Api>
class RuntimeDevice final : public Device {
 public:
  using Context = typename Api::Context;
  using Status = typename Api::Status;

  RuntimeDevice(std::shared_ptr<const Api> api, std::unique_ptr<const Context> context,
                DeviceFacts facts)
      : Device(std::move(facts)), api_(std::move(api)), context_(std::move(context)) {}

  std::string_view runtime() const noexcept override { return Api::kRuntime; }

  Result<void> pin(std::span<std::byte> memory) override {
    return call("pin " + format_bytes(memory.size()),
                [&] { return api_->pin(memory.data(), memory.size(), Api::kPinFlags); });
  }
  void unpin(std::span<std::byte> memory) noexcept override {
    (void)context_->run([&] { return api_->unpin(memory.data()); });
  }

  Result<DeviceSpan> allocate(std::uint64_t bytes) override {
    typename Api::Address address{};
    PENSTOCK_TRY(
        call("allocate " + format_bytes(bytes), [&] { return api_->allocate(&address, bytes); }));
    return DeviceSpan{std::bit_cast<std::uintptr_t>(address), bytes};
  }
  void release(DeviceSpan memory) noexcept override {
    (void)context_->run([&] { return api_->release(address_of(memory)); });
  }

  Result<StreamId> make_stream() override {
    typename Api::Stream stream{};
    PENSTOCK_TRY(
        call("make a stream", [&] { return api_->make_stream(&stream, Api::kStreamFlags); }));
    return std::bit_cast<StreamId>(stream);
  }
  void destroy_stream(StreamId stream) noexcept override {
    (void)context_->run([&] { return api_->destroy_stream(handle(stream)); });
  }

  Result<void> copy_in(DeviceSpan target, std::span<const std::byte> source,
                       StreamId stream) override {
    PENSTOCK_TRY(check_sizes(target, source.size()));
    return call("copy to the device", [&] {
      return api_->copy_in(address_of(target), source.data(), source.size(), handle(stream));
    });
  }
  Result<void> copy_out(std::span<std::byte> target, DeviceSpan source, StreamId stream) override {
    PENSTOCK_TRY(check_sizes(source, target.size()));
    return call("copy from the device", [&] {
      return api_->copy_out(target.data(), address_of(source), source.bytes, handle(stream));
    });
  }

  Result<EventId> make_event() override {
    typename Api::Event event{};
    PENSTOCK_TRY(call("make an event", [&] { return api_->make_event(&event, Api::kEventFlags); }));
    return std::bit_cast<EventId>(event);
  }
  void destroy_event(EventId event) noexcept override {
    (void)context_->run([&] { return api_->destroy_event(handle(event)); });
  }
  Result<void> record(EventId event, StreamId stream) override {
    return call("record an event", [&] { return api_->record(handle(event), handle(stream)); });
  }
  Result<bool> happened(EventId event) override {
    const Status result = context_->run([&] { return api_->query(handle(event)); });
    if (result == Api::kNotReady) {
      return false;
    }
    PENSTOCK_TRY(check_work(result));
    return true;
  }
  Result<void> wait(EventId event) override {
    return check_work(context_->run([&] { return api_->synchronize(handle(event)); }));
  }
  Result<void> hold(StreamId stream, EventId event) override {
    return call("let a stream wait", [&] { return api_->hold(handle(stream), handle(event), 0); });
  }

 private:
  static typename Api::Stream handle(StreamId stream) {
    return std::bit_cast<typename Api::Stream>(stream);
  }
  static typename Api::Event handle(EventId event) {
    return std::bit_cast<typename Api::Event>(event);
  }
  static typename Api::Address address_of(DeviceSpan memory) {
    return std::bit_cast<typename Api::Address>(memory.address);
  }

  template <class Call>
  Result<void> call(std::string_view doing, Call function) const {
    const Status result = context_->run(function);
    return result == Api::kSuccess
               ? Result<void>()
               : api_->error(result, fmt::format("{} cannot {}", Api::kTitle, doing));
  }
  Result<void> check_work(Status result) const {
    return result == Api::kSuccess
               ? Result<void>()
               : api_->error(result, fmt::format("work on the {} device failed", Api::kTitle));
  }

  const std::shared_ptr<const Api> api_;
  const std::unique_ptr<const Context> context_;
};

template <class Api>
Result<DeviceFacts> read_facts(const Api& api, std::uint32_t number) {
  const Result<int> device = api.device_of(number);
  PENSTOCK_TRY(device);
  DeviceFacts facts;
  facts.number = number;
  std::array<char, 256> text{};
  constexpr int kTextMax = static_cast<int>(text.size());
  PENSTOCK_TRY(api.check(api.name(text.data(), kTextMax, *device),
                         fmt::format("{} cannot open device {}", Api::kTitle, number)));
  facts.name = text.data();
  std::size_t bytes = 0;
  PENSTOCK_TRY(api.check(api.total_memory(&bytes, *device),
                         fmt::format("{} cannot report a device's memory", Api::kTitle)));
  facts.memory_bytes = bytes;
  if (api.pci_address(text.data(), kTextMax, *device) == Api::kSuccess) {
    facts.pci_address = text.data();
    facts.numa_node = numa_node_of_pci(facts.pci_address);
  }
  return facts;
}

template <class Api>
Result<std::vector<DeviceFacts>> list_devices() {
  const Result<std::shared_ptr<const Api>> api = load_runtime<Api>();
  PENSTOCK_TRY(api);
  int count = 0;
  PENSTOCK_TRY(
      (*api)->check((*api)->count(&count), fmt::format("{} cannot count devices", Api::kTitle)));
  std::vector<DeviceFacts> devices;
  for (int number = 0; number < count; ++number) {
    Result<DeviceFacts> facts = read_facts(**api, static_cast<std::uint32_t>(number));
    PENSTOCK_TRY(facts);
    devices.push_back(std::move(*facts));
  }
  return devices;
}

template <class Api>
Result<std::shared_ptr<Device>> open_runtime_device(std::uint32_t number) {
  const Result<std::shared_ptr<const Api>> api = load_runtime<Api>();
  PENSTOCK_TRY(api);
  Result<DeviceFacts> facts = read_facts(**api, number);
  PENSTOCK_TRY(facts);
  Result<std::unique_ptr<const typename Api::Context>> context = Api::Context::retain(*api, number);
  PENSTOCK_TRY(context);
  return std::make_shared<RuntimeDevice<Api>>(*api, std::move(*context), std::move(*facts));
}

}  // namespace penstock
