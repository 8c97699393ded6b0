#include "dlpack_export.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace nb = nanobind;

namespace penstock::python {
namespace {

// The stable C layout of DLPack (github.com/dmlc/dlpack, dlpack.h, version 0.8): what `__dlpack__`
// hands over. Written out here since no package that we build with installs the header.
struct DLDevice {
  std::int32_t device_type;  // 1: CPU
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // null: C order
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

constexpr std::int32_t kCpu = 1;
enum Code : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kBool = 6,
  kFloat8E4M3 = 10,
  kFloat8E5M2 = 12
};

DLDataType dlpack_type(DType dtype) {
  const auto type = [dtype](Code code) {
    return DLDataType{code, static_cast<std::uint8_t>(dtype_bytes(dtype) * 8), 1};
  };
  switch (dtype) {
    case DType::kBool:
      return type(kBool);
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
    case DType::kU64:
      return type(kUInt);
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
      return type(kInt);
    case DType::kF16:
    case DType::kF32:
    case DType::kF64:
      return type(kFloat);
    case DType::kBF16:
      return type(kBfloat);
    case DType::kF8E4M3:
      return type(kFloat8E4M3);
    case DType::kF8E5M2:
      return type(kFloat8E5M2);
  }
  throw nb::type_error("DLPack has no name for this dtype");
}

/// Everything that one capsule owns.
struct Export {
  DLManagedTensor managed;
  std::vector<std::int64_t> shape;
  Lease lease;
};

void drop_unconsumed(PyObject* capsule) {
  // A consumer renames the capsule to "used_dltensor" and becomes responsible for the deleter.
  if (PyCapsule_IsValid(capsule, "dltensor") != 0) {
    auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
    managed->deleter(managed);
  }
}

}  // namespace

nb::object export_dlpack(const Lease& lease, const TensorInfo& info) {
  auto owned = std::make_unique<Export>();
  owned->shape.assign(info.shape.begin(), info.shape.end());
  owned->lease = lease;
  DLTensor& tensor = owned->managed.dl_tensor;
  tensor.data = lease.data();
  tensor.device = {kCpu, 0};
  tensor.ndim = static_cast<std::int32_t>(owned->shape.size());
  tensor.dtype = dlpack_type(info.dtype);
  tensor.shape = owned->shape.data();
  tensor.strides = nullptr;
  tensor.byte_offset = 0;
  owned->managed.manager_ctx = owned.get();
  owned->managed.deleter = [](DLManagedTensor* managed) {
    delete static_cast<Export*>(managed->manager_ctx);
  };
  PyObject* capsule = PyCapsule_New(&owned->managed, "dltensor", drop_unconsumed);
  if (capsule == nullptr) {
    throw nb::python_error();
  }
  (void)owned.release();  // the capsule's now
  return nb::steal(capsule);
}

}  // namespace penstock::python
