#include "swap/device/cufile_storage.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <utility>

#include "swap/device/cuda_current.h"
#include "swap/device/cuda_device.h"
#include "swap/device/cufile_library.h"

namespace penstock {
namespace {

constexpr std::array kNames{"libcufile.so.0", "libcufile.so"};

using Library = std::shared_ptr<const CufileLibrary>;

/// A device's primary context, which torch and the CUDA runtime use too, while it lives.
class PrimaryContext {
 public:
  static Result<std::unique_ptr<const PrimaryContext>> retain(std::uint32_t number) {
    const Result<std::shared_ptr<const CudaDriver>> driver = CudaDriver::load();
    PENSTOCK_TRY(driver);
    const std::string doing = fmt::format("CUDA cannot open device {}", number);
    CUdevice device = 0;
    PENSTOCK_TRY(
        (*driver)->check((*driver)->cuDeviceGet(&device, static_cast<int>(number)), doing));
    CUcontext context = nullptr;
    PENSTOCK_TRY((*driver)->check((*driver)->cuDevicePrimaryCtxRetain(&context, device), doing));
    return std::make_unique<const PrimaryContext>(*driver, device, context);
  }
  PrimaryContext(std::shared_ptr<const CudaDriver> driver, CUdevice device, CUcontext context)
      : driver_(std::move(driver)), device_(device), context_(context) {}
  ~PrimaryContext() { (void)driver_->cuDevicePrimaryCtxRelease(device_); }
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  template <class Call>
  Result<void> run(Call call) const {
    const CUresult result = CudaCurrent(*driver_, context_).run([&] {
      call();
      return CUDA_SUCCESS;
    });
    return driver_->check(result, "CUDA cannot make a device current");
  }

 private:
  const std::shared_ptr<const CudaDriver> driver_;
  const CUdevice device_;
  const CUcontext context_;
};

class CufileStorage final : public DirectStorage {
 public:
  /// Without a context the calling thread's own is used.
  CufileStorage(Library cufile, std::unique_ptr<const PrimaryContext> context)
      : cufile_(std::move(cufile)), context_(std::move(context)) {}

  std::string_view library() const noexcept override { return "cuFile"; }

 private:
  Result<void*> add(int descriptor, const std::string& path) override {
    CUfileDescr_t described{};
    described.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    described.handle.fd = descriptor;
    CUfileHandle_t handle = nullptr;
    CUfileError_t result{};
    PENSTOCK_TRY(in_context([&] { result = cufile_->cuFileHandleRegister(&handle, &described); }));
    if (result.err != CU_FILE_SUCCESS) {
      Error error = cufile_->error(result, "cuFile cannot use " + path);
      error.path = path;
      return error;
    }
    return handle;
  }
  void remove(void* handle) noexcept override {
    (void)in_context([&] { cufile_->cuFileHandleDeregister(handle); });
  }

  Result<Step> step(Direction direction, void* handle, std::uint64_t offset,
                    DeviceSpan memory) override {
    Step taken;
    PENSTOCK_TRY(in_context([&] {
      void* const address = reinterpret_cast<void*>(memory.address);
      const auto at = static_cast<off_t>(offset);
      errno = 0;
      taken.moved = direction == Direction::kRead
                        ? cufile_->cuFileRead(handle, address, memory.bytes, at, 0)
                        : cufile_->cuFileWrite(handle, address, memory.bytes, at, 0);
      taken.error_number = errno;  // before anything else is called
    }));
    return taken;
  }
  Error refusal(std::int64_t number, const std::string& doing) const override {
    if (number <= CUFILEOP_BASE_ERR || number >= CUFILEOP_BASE_ERR + 1000) {
      return fault(Fault::kUnsupported, fmt::format("{}: error {}", doing, number));
    }
    return cufile_->error({static_cast<CUfileOpError>(number), CUDA_SUCCESS}, doing);
  }

  template <class Call>
  Result<void> in_context(Call call) const {
    if (context_ != nullptr) {
      return context_->run(call);
    }
    call();
    return {};
  }

  const Library cufile_;
  const std::unique_ptr<const PrimaryContext> context_;
};

struct Found {
  DirectStorageFacts facts;
  Library library;  // null: not present
};

/// Why no device could be served; empty where one could.
std::string no_device() {
  const Result<std::vector<DeviceFacts>> devices = list_cuda_devices();
  return devices.has_error() ? devices.error().message
         : devices->empty()  ? "CUDA shows this process no device"
                             : "";
}

Found examine(std::span<const char* const> names, std::string (*missing_device)()) {
  Found found;
  found.facts.runtime = "cuda";
  found.facts.library = "cuFile";
  Result<Library> library = CufileLibrary::load(names);
  if (library.has_error()) {
    found.facts.reason = library.error().message;
    return found;
  }
  found.library = *library;
  found.facts.is_present = true;
  found.facts.version = found.library->version();
  found.facts.reason = missing_device != nullptr ? missing_device() : "";
  if (found.facts.reason.empty()) {
    const Result<void> begun = found.library->begin_direct();
    found.facts.is_direct = begun.has_value();
    found.facts.reason = begun.has_error() ? begun.error().message : "";
  }
  return found;
}

const Found& of_this_process() {
  static const Found found = examine(kNames, no_device);
  return found;
}

Error not_direct(const DirectStorageFacts& facts) {
  return fault(Fault::kUnsupported, facts.reason);
}

}  // namespace

DirectStorageFacts look_for_cufile() {
  return of_this_process().facts;
}

Result<std::shared_ptr<DirectStorage>> open_cufile(std::uint32_t device) {
  const Found& found = of_this_process();
  if (!found.facts.is_direct) {
    return not_direct(found.facts);
  }
  Result<std::unique_ptr<const PrimaryContext>> context = PrimaryContext::retain(device);
  PENSTOCK_TRY(context);
  return std::make_shared<CufileStorage>(found.library, std::move(*context));
}

DirectStorageFacts look_for_cufile(std::span<const char* const> libraries) {
  return examine(libraries, nullptr).facts;
}

Result<std::shared_ptr<DirectStorage>> open_cufile(std::span<const char* const> libraries) {
  const Found found = examine(libraries, nullptr);
  if (!found.facts.is_direct) {
    return not_direct(found.facts);
  }
  return std::make_shared<CufileStorage>(found.library, nullptr);
}

}  // namespace penstock
