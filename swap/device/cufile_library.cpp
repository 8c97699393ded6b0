#include "swap/device/cufile_library.h"

#include <fmt/format.h>

namespace penstock {
namespace {

// CUfileFeatureFlags' CU_FILE_P2P_SUPPORTED, which headers before 1.15 do not name.
constexpr unsigned kP2pFeature = 4;

const char* name_of(CUfileOpError error) {
  switch (error) {
#define CUFILE_OP(code, name, string) \
  case name:                          \
    return #name;
    CUFILEOP_STATUS_ENTRIES
#undef CUFILE_OP
  }
  return "newer than penstock";
}

bool has(unsigned flags, unsigned bit) {
  return (flags >> bit & 1U) != 0;
}

}  // namespace

std::string CufileLibrary::version() const {
  int number = 0;  // 1150 is 1.15.0
  return get_version(&number).err == CU_FILE_SUCCESS
             ? fmt::format("{}.{}", number / 1000, number % 1000 / 10)
             : std::string();
}

Result<void> CufileLibrary::begin_direct() const {
  bool may_copy = false;
  const CUfileError_t forbidden = set_parameter(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, false);
  if (forbidden.err == CU_FILE_DRIVER_ALREADY_OPEN) {
    // Another part of this process has opened the driver: its settings hold.
    PENSTOCK_TRY(check(get_parameter(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, &may_copy),
                       "cuFile does not say whether it may copy through host memory"));
    if (may_copy) {
      return fault(
          Fault::kUnsupported,
          "another part of this process has opened cuFile so that it may copy through host "
          "memory (allow_compat_mode)");
    }
  } else {
    PENSTOCK_TRY(check(forbidden, "cuFile cannot be kept from copying through host memory"));
  }
  const CUfileError_t begun = open_driver();
  if (begun.err == CU_FILE_DRIVER_NOT_INITIALIZED) {
    return fault(Fault::kUnsupported,
                 "nvidia-fs is not loaded, and the kernel or the configuration gives no PCI P2PDMA "
                 "(CU_FILE_DRIVER_NOT_INITIALIZED, 5001)");
  }
  if (begun.err != CU_FILE_DRIVER_ALREADY_OPEN) {
    PENSTOCK_TRY(check(begun, "cuFile cannot begin"));
  }
  bool copies = false;
  PENSTOCK_TRY(check(get_parameter(CUFILE_PARAM_FORCE_COMPAT_MODE, &copies),
                     "cuFile does not say whether it copies through host memory"));
  if (copies) {
    return fault(Fault::kUnsupported,
                 "cuFile is configured to copy through host memory (force_compat_mode)");
  }
  CUfileDrvProps_t found{};
  PENSTOCK_TRY(check(get_properties(&found), "cuFile does not report its properties"));
  const bool has_nvidia_fs = found.nvfs.major_version != 0 || found.nvfs.minor_version != 0;
  const bool has_p2p =
      has(found.fflags, kP2pFeature) || has(found.nvfs.dstatusflags, CU_FILE_NVME_P2P_SUPPORTED);
  return has_nvidia_fs || has_p2p
             ? Result<void>()
             : fault(Fault::kUnsupported, "nvidia-fs is not loaded, and there is no PCI P2PDMA");
}

Error CufileLibrary::error(Status result, const std::string& doing) const {
  std::string text = fmt::format("{}: {} ({}, {}", doing, cufileop_status_error(result.err),
                                 name_of(result.err), static_cast<int>(result.err));
  text += result.err == CU_FILE_CUDA_DRIVER_ERROR
              ? fmt::format(", CUDA error {})", static_cast<int>(result.cu_err))
              : std::string(")");
  return fault(
      result.err == CU_FILE_GPU_MEMORY_PINNING_FAILED ? Fault::kExhausted : Fault::kUnsupported,
      std::move(text));
}

Error CufileLibrary::refusal(std::int64_t number, const std::string& doing) const {
  if (number <= CUFILEOP_BASE_ERR || number >= CUFILEOP_BASE_ERR + 1000) {
    return fault(Fault::kUnsupported, fmt::format("{}: error {}", doing, number));
  }
  return error({static_cast<CUfileOpError>(number), CUDA_SUCCESS}, doing);
}

}  // namespace penstock
