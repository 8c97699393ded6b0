#include "swap/device/hip_device.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "alloc/bytes.h"
#include "swap/device/hip_current.h"
#include "swap/device/hip_runtime.h"
#include "swap/device/pci_locality.h"

namespace penstock {
namespace {

using Runtime = std::shared_ptr<const HipRuntime>;

hipStream_t handle(StreamId stream) {
  return reinterpret_cast<hipStream_t>(static_cast<std::uintptr_t>(stream));
}

hipEvent_t handle(EventId event) {
  return reinterpret_cast<hipEvent_t>(static_cast<std::uintptr_t>(event));
}

class HipDevice final : public Device {
 public:
  HipDevice(Runtime hip, DeviceFacts facts) : Device(std::move(facts)), hip_(std::move(hip)) {}

  std::string_view runtime() const noexcept override { return "hip"; }

  Result<void> pin(std::span<std::byte> memory) override {
    const hipError_t result = on_device([&] {
      return hip_->hipHostRegister(memory.data(), memory.size(), hipHostRegisterPortable);
    });
    return result == hipSuccess
               ? Result<void>()
               : hip_->error(result, "HIP cannot pin " + format_bytes(memory.size()));
  }
  void unpin(std::span<std::byte> memory) noexcept override {
    (void)on_device([&] { return hip_->hipHostUnregister(memory.data()); });
  }

  Result<DeviceSpan> allocate(std::uint64_t bytes) override {
    void* address = nullptr;
    const hipError_t result = on_device([&] { return hip_->hipMalloc(&address, bytes); });
    if (result != hipSuccess) {
      return hip_->error(result, "HIP cannot allocate " + format_bytes(bytes));
    }
    return DeviceSpan{reinterpret_cast<std::uintptr_t>(address), bytes};
  }
  void release(DeviceSpan memory) noexcept override {
    (void)on_device([&] { return hip_->hipFree(reinterpret_cast<void*>(memory.address)); });
  }

  Result<StreamId> make_stream() override {
    hipStream_t stream = nullptr;
    const hipError_t result =
        on_device([&] { return hip_->hipStreamCreateWithFlags(&stream, hipStreamNonBlocking); });
    PENSTOCK_TRY(hip_->check(result, "HIP cannot make a stream"));
    return StreamId{reinterpret_cast<std::uintptr_t>(stream)};
  }
  void destroy_stream(StreamId stream) noexcept override {
    (void)on_device([&] { return hip_->hipStreamDestroy(handle(stream)); });
  }

  Result<void> copy_in(DeviceSpan target, std::span<const std::byte> source,
                       StreamId stream) override {
    PENSTOCK_TRY(check_sizes(target, source.size()));
    const hipError_t result = on_device([&] {
      return hip_->hipMemcpyAsync(reinterpret_cast<void*>(target.address), source.data(),
                                  source.size(), hipMemcpyHostToDevice, handle(stream));
    });
    return hip_->check(result, "HIP cannot copy to the device");
  }
  Result<void> copy_out(std::span<std::byte> target, DeviceSpan source, StreamId stream) override {
    PENSTOCK_TRY(check_sizes(source, target.size()));
    const hipError_t result = on_device([&] {
      return hip_->hipMemcpyAsync(target.data(), reinterpret_cast<const void*>(source.address),
                                  source.bytes, hipMemcpyDeviceToHost, handle(stream));
    });
    return hip_->check(result, "HIP cannot copy from the device");
  }

  Result<EventId> make_event() override {
    hipEvent_t event = nullptr;
    const hipError_t result = on_device([&] {
      return hip_->hipEventCreateWithFlags(&event, hipEventDisableTiming | hipEventBlockingSync);
    });
    PENSTOCK_TRY(hip_->check(result, "HIP cannot make an event"));
    return EventId{reinterpret_cast<std::uintptr_t>(event)};
  }
  void destroy_event(EventId event) noexcept override {
    (void)on_device([&] { return hip_->hipEventDestroy(handle(event)); });
  }
  Result<void> record(EventId event, StreamId stream) override {
    const hipError_t result =
        on_device([&] { return hip_->hipEventRecord(handle(event), handle(stream)); });
    return hip_->check(result, "HIP cannot record an event");
  }
  Result<bool> happened(EventId event) override {
    const hipError_t result = on_device([&] { return hip_->hipEventQuery(handle(event)); });
    if (result == hipErrorNotReady) {
      return false;
    }
    PENSTOCK_TRY(hip_->check(result, "work on the HIP device failed"));
    return true;
  }
  Result<void> wait(EventId event) override {
    const hipError_t result = on_device([&] { return hip_->hipEventSynchronize(handle(event)); });
    return hip_->check(result, "work on the HIP device failed");
  }
  Result<void> hold(StreamId stream, EventId event) override {
    const hipError_t result =
        on_device([&] { return hip_->hipStreamWaitEvent(handle(stream), handle(event), 0); });
    return hip_->check(result, "HIP cannot let a stream wait");
  }

 private:
  template <class Call>
  hipError_t on_device(Call call) const {
    return HipCurrent(*hip_, static_cast<int>(facts().number)).run(call);
  }

  const Runtime hip_;
};

Result<DeviceFacts> read_facts(const HipRuntime& hip, std::uint32_t number) {
  const int device = static_cast<int>(number);
  DeviceFacts facts;
  facts.number = number;
  std::array<char, 256> text{};
  constexpr int kTextMax = static_cast<int>(text.size());
  PENSTOCK_TRY(hip.check(hip.hipDeviceGetName(text.data(), kTextMax, device),
                         fmt::format("HIP cannot open device {}", number)));
  facts.name = text.data();
  std::size_t bytes = 0;
  PENSTOCK_TRY(
      hip.check(hip.hipDeviceTotalMem(&bytes, device), "HIP cannot tell a device's memory"));
  facts.memory_bytes = bytes;
  if (hip.hipDeviceGetPCIBusId(text.data(), kTextMax, device) == hipSuccess) {
    facts.pci_address = text.data();
    facts.numa_node = numa_node_of_pci(facts.pci_address);
  }
  return facts;
}

}  // namespace

Result<std::vector<DeviceFacts>> list_hip_devices() {
  const Result<Runtime> hip = HipRuntime::load();
  PENSTOCK_TRY(hip);
  int count = 0;
  PENSTOCK_TRY((*hip)->check((*hip)->hipGetDeviceCount(&count), "HIP cannot count devices"));
  std::vector<DeviceFacts> devices;
  for (int number = 0; number < count; ++number) {
    Result<DeviceFacts> facts = read_facts(**hip, static_cast<std::uint32_t>(number));
    PENSTOCK_TRY(facts);
    devices.push_back(std::move(*facts));
  }
  return devices;
}

Result<std::shared_ptr<Device>> open_hip_device(std::uint32_t number) {
  const Result<Runtime> hip = HipRuntime::load();
  PENSTOCK_TRY(hip);
  Result<DeviceFacts> facts = read_facts(**hip, number);
  PENSTOCK_TRY(facts);
  return std::make_shared<HipDevice>(*hip, std::move(*facts));
}

}  // namespace penstock
