#include "swap/device/cuda_device.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "alloc/bytes.h"
#include "swap/device/cuda_current.h"
#include "swap/device/cuda_driver.h"
#include "swap/device/pci_locality.h"

namespace penstock {
namespace {

using Driver = std::shared_ptr<const CudaDriver>;

CUstream handle(StreamId stream) {
  return reinterpret_cast<CUstream>(static_cast<std::uintptr_t>(stream));
}

CUevent handle(EventId event) {
  return reinterpret_cast<CUevent>(static_cast<std::uintptr_t>(event));
}

class CudaDevice final : public Device {
 public:
  CudaDevice(Driver driver, CUdevice device, CUcontext context, DeviceFacts facts)
      : Device(std::move(facts)), driver_(std::move(driver)), device_(device), context_(context) {}
  ~CudaDevice() override { (void)driver_->cuDevicePrimaryCtxRelease(device_); }

  std::string_view runtime() const noexcept override { return "cuda"; }

  Result<void> pin(std::span<std::byte> memory) override {
    const CUresult result = in_context([&] {
      return driver_->cuMemHostRegister(memory.data(), memory.size(), CU_MEMHOSTREGISTER_PORTABLE);
    });
    return result == CUDA_SUCCESS
               ? Result<void>()
               : driver_->error(result, "CUDA cannot pin " + format_bytes(memory.size()));
  }
  void unpin(std::span<std::byte> memory) noexcept override {
    (void)in_context([&] { return driver_->cuMemHostUnregister(memory.data()); });
  }

  Result<DeviceSpan> allocate(std::uint64_t bytes) override {
    CUdeviceptr address = 0;
    const CUresult result = in_context([&] { return driver_->cuMemAlloc(&address, bytes); });
    if (result != CUDA_SUCCESS) {
      return driver_->error(result, "CUDA cannot allocate " + format_bytes(bytes));
    }
    return DeviceSpan{static_cast<std::uintptr_t>(address), bytes};
  }
  void release(DeviceSpan memory) noexcept override {
    (void)in_context([&] { return driver_->cuMemFree(memory.address); });
  }

  Result<StreamId> make_stream() override {
    CUstream stream = nullptr;
    const CUresult result =
        in_context([&] { return driver_->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING); });
    PENSTOCK_TRY(driver_->check(result, "CUDA cannot make a stream"));
    return StreamId{reinterpret_cast<std::uintptr_t>(stream)};
  }
  void destroy_stream(StreamId stream) noexcept override {
    (void)in_context([&] { return driver_->cuStreamDestroy(handle(stream)); });
  }

  Result<void> copy_in(DeviceSpan target, std::span<const std::byte> source,
                       StreamId stream) override {
    PENSTOCK_TRY(check_sizes(target, source.size()));
    const CUresult result = in_context([&] {
      return driver_->cuMemcpyHtoDAsync(target.address, source.data(), source.size(),
                                        handle(stream));
    });
    return driver_->check(result, "CUDA cannot copy to the device");
  }
  Result<void> copy_out(std::span<std::byte> target, DeviceSpan source, StreamId stream) override {
    PENSTOCK_TRY(check_sizes(source, target.size()));
    const CUresult result = in_context([&] {
      return driver_->cuMemcpyDtoHAsync(target.data(), source.address, source.bytes,
                                        handle(stream));
    });
    return driver_->check(result, "CUDA cannot copy from the device");
  }

  Result<EventId> make_event() override {
    CUevent event = nullptr;
    const CUresult result = in_context([&] {
      return driver_->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
    });
    PENSTOCK_TRY(driver_->check(result, "CUDA cannot make an event"));
    return EventId{reinterpret_cast<std::uintptr_t>(event)};
  }
  void destroy_event(EventId event) noexcept override {
    (void)in_context([&] { return driver_->cuEventDestroy(handle(event)); });
  }
  Result<void> record(EventId event, StreamId stream) override {
    const CUresult result =
        in_context([&] { return driver_->cuEventRecord(handle(event), handle(stream)); });
    return driver_->check(result, "CUDA cannot record an event");
  }
  Result<bool> happened(EventId event) override {
    const CUresult result = in_context([&] { return driver_->cuEventQuery(handle(event)); });
    if (result == CUDA_ERROR_NOT_READY) {
      return false;
    }
    PENSTOCK_TRY(driver_->check(result, "work on the CUDA device failed"));
    return true;
  }
  Result<void> wait(EventId event) override {
    const CUresult result = in_context([&] { return driver_->cuEventSynchronize(handle(event)); });
    return driver_->check(result, "work on the CUDA device failed");
  }
  Result<void> hold(StreamId stream, EventId event) override {
    const CUresult result =
        in_context([&] { return driver_->cuStreamWaitEvent(handle(stream), handle(event), 0); });
    return driver_->check(result, "CUDA cannot let a stream wait");
  }

 private:
  template <class Call>
  CUresult in_context(Call call) const {
    return CudaCurrent(*driver_, context_).run(call);
  }

  const Driver driver_;
  const CUdevice device_;
  const CUcontext context_;
};

Result<CUdevice> device_of(const CudaDriver& driver, std::uint32_t number) {
  CUdevice device = 0;
  PENSTOCK_TRY(driver.check(driver.cuDeviceGet(&device, static_cast<int>(number)),
                            fmt::format("CUDA cannot open device {}", number)));
  return device;
}

Result<DeviceFacts> read_facts(const CudaDriver& driver, std::uint32_t number) {
  const Result<CUdevice> device = device_of(driver, number);
  PENSTOCK_TRY(device);
  DeviceFacts facts;
  facts.number = number;
  std::array<char, 256> text{};
  constexpr int kTextMax = static_cast<int>(text.size());
  PENSTOCK_TRY(driver.check(driver.cuDeviceGetName(text.data(), kTextMax, *device),
                            "CUDA cannot tell a device's name"));
  facts.name = text.data();
  std::size_t bytes = 0;
  PENSTOCK_TRY(
      driver.check(driver.cuDeviceTotalMem(&bytes, *device), "CUDA cannot tell a device's memory"));
  facts.memory_bytes = bytes;
  if (driver.cuDeviceGetPCIBusId(text.data(), kTextMax, *device) == CUDA_SUCCESS) {
    facts.pci_address = text.data();
    facts.numa_node = numa_node_of_pci(facts.pci_address);
  }
  return facts;
}

}  // namespace

Result<std::vector<DeviceFacts>> list_cuda_devices() {
  const Result<Driver> driver = CudaDriver::load();
  PENSTOCK_TRY(driver);
  int count = 0;
  PENSTOCK_TRY((*driver)->check((*driver)->cuDeviceGetCount(&count), "CUDA cannot count devices"));
  std::vector<DeviceFacts> devices;
  for (int number = 0; number < count; ++number) {
    Result<DeviceFacts> facts = read_facts(**driver, static_cast<std::uint32_t>(number));
    PENSTOCK_TRY(facts);
    devices.push_back(std::move(*facts));
  }
  return devices;
}

Result<std::shared_ptr<Device>> open_cuda_device(std::uint32_t number) {
  const Result<Driver> driver = CudaDriver::load();
  PENSTOCK_TRY(driver);
  Result<DeviceFacts> facts = read_facts(**driver, number);
  PENSTOCK_TRY(facts);
  const Result<CUdevice> device = device_of(**driver, number);
  PENSTOCK_TRY(device);
  CUcontext context = nullptr;
  PENSTOCK_TRY((*driver)->check((*driver)->cuDevicePrimaryCtxRetain(&context, *device),
                                fmt::format("CUDA cannot open device {}", number)));
  return std::make_shared<CudaDevice>(*driver, *device, context, std::move(*facts));
}

}  // namespace penstock
