#include "tests/device/cufile_double.h"

#include <cufile.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

// A library with cuFile's own interface that moves bytes between files and host memory, and fails
// as a test asks it to. Built twice: as it is, and without what releases before 1.14 had not
// (PENSTOCK_OLD_CUFILE).

extern "C" __attribute__((visibility("default"))) penstock::CufileDouble cufile_double;
penstock::CufileDouble cufile_double;

namespace {

std::mutex mutex;

CUfileError_t outcome(int number) {
  return {static_cast<CUfileOpError>(number), CUDA_SUCCESS};
}

// A handle is its descriptor and one, so that none is null.
CUfileHandle_t handle_of(int descriptor) {
  return reinterpret_cast<CUfileHandle_t>(static_cast<std::uintptr_t>(descriptor) + 1);
}

template <class Move>
ssize_t transfer(CUfileHandle_t handle, std::size_t size, Move move) {
  std::size_t most = size;
  {
    const std::lock_guard lock(mutex);
    ++cufile_double.transfers;
    if (cufile_double.interruptions > 0) {
      --cufile_double.interruptions;
      errno = EINTR;
      return -1;
    }
    if (cufile_double.transfer_errno != 0) {
      errno = cufile_double.transfer_errno;
      return -1;
    }
    if (cufile_double.transfer_error != 0) {
      return -cufile_double.transfer_error;
    }
    if (cufile_double.most_bytes >= 0) {
      most = std::min(size, static_cast<std::size_t>(cufile_double.most_bytes));
    }
  }
  const auto descriptor = static_cast<int>(reinterpret_cast<std::uintptr_t>(handle) - 1);
  const ssize_t moved = move(descriptor, most);
  return moved > 0 ? moved + cufile_double.too_many : moved;
}

}  // namespace

CUfileError_t cuFileGetVersion(int* version) {
  *version = 1150;
  return outcome(CU_FILE_SUCCESS);
}

#ifndef PENSTOCK_OLD_CUFILE
CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t param, bool* value) {
  *value = param == CUFILE_PARAM_FORCE_COMPAT_MODE ? cufile_double.copies_always
                                                   : cufile_double.may_copy;
  return outcome(CU_FILE_SUCCESS);
}

CUfileError_t cuFileSetParameterBool(CUFileBoolConfigParameter_t param, bool value) {
  if (cufile_double.is_begun_before || cufile_double.begun > 0) {
    return outcome(CU_FILE_DRIVER_ALREADY_OPEN);
  }
  if (param != CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE) {
    return outcome(CU_FILE_INVALID_VALUE);
  }
  cufile_double.may_copy = value;
  return outcome(CU_FILE_SUCCESS);
}
#endif

CUfileError_t cuFileDriverOpen() {
  if (cufile_double.begin_error != 0) {
    return outcome(cufile_double.begin_error);
  }
  if (!cufile_double.has_nvidia_fs && !cufile_double.has_p2p && !cufile_double.may_copy) {
    return outcome(CU_FILE_DRIVER_NOT_INITIALIZED);
  }
  ++cufile_double.begun;
  return outcome(CU_FILE_SUCCESS);
}

CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* props) {
  *props = {};
  props->nvfs.major_version = cufile_double.has_nvidia_fs ? 2 : 0;
  props->nvfs.minor_version = cufile_double.has_nvidia_fs ? 26 : 0;
  props->fflags = cufile_double.has_p2p ? 1U << 4U : 0U;
  return outcome(CU_FILE_SUCCESS);
}

CUfileError_t cuFileHandleRegister(CUfileHandle_t* handle, CUfileDescr_t* described) {
  if (cufile_double.register_error != 0) {
    return {static_cast<CUfileOpError>(cufile_double.register_error),
            static_cast<CUresult>(cufile_double.cuda_error)};
  }
  if (described->type != CU_FILE_HANDLE_TYPE_OPAQUE_FD) {
    return outcome(CU_FILE_INVALID_FILE_TYPE);
  }
  ++cufile_double.registered;
  *handle = handle_of(described->handle.fd);
  return outcome(CU_FILE_SUCCESS);
}

void cuFileHandleDeregister(CUfileHandle_t) {
  ++cufile_double.deregistered;
}

ssize_t cuFileRead(CUfileHandle_t handle, void* base, std::size_t size, off_t file_offset,
                   off_t base_offset) {
  return transfer(handle, size, [&](int descriptor, std::size_t most) {
    return ::pread(descriptor, static_cast<char*>(base) + base_offset, most, file_offset);
  });
}

ssize_t cuFileWrite(CUfileHandle_t handle, const void* base, std::size_t size, off_t file_offset,
                    off_t base_offset) {
  return transfer(handle, size, [&](int descriptor, std::size_t most) {
    return ::pwrite(descriptor, static_cast<const char*>(base) + base_offset, most, file_offset);
  });
}
