#include "swap/device/hipfile_storage.h"

#include <strings.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "swap/device/hip_current.h"
#include "swap/device/hip_device.h"
#include "swap/device/hipfile_library.h"

namespace penstock {
namespace {

using Library = std::shared_ptr<const HipfileLibrary>;
using Runtime = std::shared_ptr<const HipRuntime>;

class HipfileStorage final : public DirectStorage {
 public:
  HipfileStorage(Library hipfile, Runtime hip, std::uint32_t device)
      : hipfile_(std::move(hipfile)), hip_(std::move(hip)), device_(static_cast<int>(device)) {}

  std::string_view library() const noexcept override { return "hipFile"; }

 private:
  Result<void*> add(int descriptor, const std::string& path) override {
    hipFileDescr_t described{};
    described.type = hipFileHandleTypeOpaqueFD;
    described.handle.fd = descriptor;
    hipFileHandle_t handle = nullptr;
    hipFileOpError_t result = hipFileSuccess;
    hipError_t of_hip = hipSuccess;
    PENSTOCK_TRY(on_device([&] {
      const hipFileError_t added = hipfile_->hipFileHandleRegister(&handle, &described);
      result = added.err;
      of_hip = added.hip_drv_err;
    }));
    if (result != hipFileSuccess) {
      const std::string doing = "hipFile cannot use " + path;
      Error error = result == hipFileHipDriverError ? hip_->error(of_hip, doing)
                                                    : hipfile_->error(result, doing);
      error.path = path;
      return error;
    }
    return handle;
  }
  void remove(void* handle) noexcept override {
    (void)on_device([&] { hipfile_->hipFileHandleDeregister(handle); });
  }

  Result<Step> step(Direction direction, void* handle, std::uint64_t offset,
                    DeviceSpan memory) override {
    Step taken;
    PENSTOCK_TRY(on_device([&] {
      void* const address = reinterpret_cast<void*>(memory.address);
      const auto at = static_cast<hoff_t>(offset);
      errno = 0;
      taken.moved = direction == Direction::kRead
                        ? hipfile_->hipFileRead(handle, address, memory.bytes, at, 0)
                        : hipfile_->hipFileWrite(handle, address, memory.bytes, at, 0);
      taken.error_number = errno;  // before anything else is called
    }));
    return taken;
  }
  Error refusal(std::int64_t number, const std::string& doing) const override {
    return hipfile_->error(static_cast<int>(number), doing);
  }

  template <class Call>
  Result<void> on_device(Call call) const {
    const hipError_t result = HipCurrent(*hip_, device_).run([&] {
      call();
      return hipSuccess;
    });
    return hip_->check(result, "HIP cannot make a device current");
  }

  const Library hipfile_;
  const Runtime hip_;
  const int device_;
};

struct Found {
  DirectStorageFacts facts;
  Library library;  // null: not present
};

bool kernel_has_direct_way() {
  std::ifstream symbols("/proc/kallsyms");
  for (std::string line; std::getline(symbols, line);) {
    if (line.find("kfd_ais_rw_file") != std::string::npos) {
      return true;
    }
  }
  return false;
}

/// Why nothing is direct; empty where it is.
std::string obstacle(const HipfileLibrary& hipfile) {
  const Result<std::vector<DeviceFacts>> devices = list_hip_devices();
  if (devices.has_error() || devices->empty()) {
    return devices.has_error() ? devices.error().message : "HIP shows this process no device";
  }
  const char* const allowed = std::getenv("HIPFILE_ALLOW_COMPAT_MODE");
  if (allowed == nullptr || ::strcasecmp(allowed, "false") != 0) {
    return "it copies through host memory without saying so unless HIPFILE_ALLOW_COMPAT_MODE is "
           "false";
  }
  if (!kernel_has_direct_way()) {
    return "the kernel's amdgpu driver has no direct storage (kfd_ais_rw_file in /proc/kallsyms)";
  }
  const hipFileOpError_t begun = hipfile.hipFileDriverOpen().err;
  return begun == hipFileSuccess ? "" : hipfile.error(begun, "hipFile cannot begin").message;
}

Found examine() {
  Found found;
  found.facts.runtime = "hip";
  found.facts.library = "hipFile";
  Result<Library> library = HipfileLibrary::load();
  if (library.has_error()) {
    found.facts.reason = library.error().message;
    return found;
  }
  found.library = *library;
  found.facts.is_present = true;
  found.facts.version = found.library->version();
  found.facts.reason = obstacle(*found.library);
  found.facts.is_direct = found.facts.reason.empty();
  return found;
}

const Found& of_this_process() {
  static const Found found = examine();
  return found;
}

}  // namespace

DirectStorageFacts look_for_hipfile() {
  return of_this_process().facts;
}

Result<std::shared_ptr<DirectStorage>> open_hipfile(std::uint32_t device) {
  const Found& found = of_this_process();
  if (!found.facts.is_direct) {
    return fault(Fault::kUnsupported, found.facts.reason);
  }
  const Result<Runtime> hip = HipRuntime::load();
  PENSTOCK_TRY(hip);
  return std::make_shared<HipfileStorage>(found.library, *hip, device);
}

}  // namespace penstock
