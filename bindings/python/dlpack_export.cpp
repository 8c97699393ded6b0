#include "dlpack_export.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "python_call.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

// The stable C layout of DLPack (github.com/dmlc/dlpack, dlpack.h, versions 0.8 and 1.0): what
// `__dlpack__` hands over. Written out here since no package that we build with installs the
// header.
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
  static constexpr const char* kCapsule = "dltensor";

  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  static constexpr const char* kCapsule = "dltensor_versioned";

  std::uint32_t major;
  std::uint32_t minor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned*);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

constexpr std::uint64_t kReadOnly = 1;
constexpr std::uint64_t kIsCopied = 2;
constexpr std::int32_t kCpu = 1;
enum Code : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E4M3 = 10,  // this and those below: since 1.1
  kFloat8E4M3FNUZ = 11,
  kFloat8E5M2 = 12,
  kFloat8E5M2FNUZ = 13,
  kFloat8E8M0 = 14
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
    case DType::kF8E8M0:
      return type(kFloat8E8M0);
    case DType::kF8E4M3FNUZ:
      return type(kFloat8E4M3FNUZ);
    case DType::kF8E5M2FNUZ:
      return type(kFloat8E5M2FNUZ);
    case DType::kC64:
      return type(kComplex);
    case DType::kF6E2M3:  // elements that share bytes
    case DType::kF6E3M2:
    case DType::kF4:
      break;
  }
  PyErr_SetString(PyExc_BufferError,
                  "elements of 4 and 6 bits share bytes: memoryview(lease) has the bytes");
  throw nb::python_error();
}

/// Everything that one capsule owns.
template <class Managed>
struct Export {
  Managed managed;
  std::vector<std::int64_t> shape;
  Lease lease;
  std::unique_ptr<std::byte[]> copy;  // instead of the lease
};

template <class Managed>
void drop_unconsumed(PyObject* capsule) {
  // A consumer renames the capsule to "used_…" and becomes responsible for the deleter.
  if (PyCapsule_IsValid(capsule, Managed::kCapsule) != 0) {
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kCapsule));
    managed->deleter(managed);
  }
}

template <class Managed>
nb::object capsule_of(const LeaseObject& from, bool copied) {
  auto exported = std::make_unique<Export<Managed>>();
  exported->shape.assign(from.info->shape.begin(), from.info->shape.end());
  if (copied) {
    exported->copy = std::make_unique_for_overwrite<std::byte[]>(from.lease.bytes());
    std::memcpy(exported->copy.get(), from.lease.data(), from.lease.bytes());
  } else {
    exported->lease = from.lease;
  }
  DLTensor& tensor = exported->managed.dl_tensor;
  tensor.data = copied ? exported->copy.get() : from.lease.data();
  tensor.device = {kCpu, 0};
  tensor.ndim = static_cast<std::int32_t>(exported->shape.size());
  tensor.dtype = dlpack_type(from.info->dtype);
  tensor.shape = exported->shape.data();
  tensor.strides = nullptr;
  tensor.byte_offset = 0;
  if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) {
    exported->managed.major = 1;
    exported->managed.minor = 0;
    exported->managed.flags = copied ? kIsCopied : from.read_only() ? kReadOnly : 0;
  }
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = [](Managed* managed) {
    delete static_cast<Export<Managed>*>(managed->manager_ctx);
  };
  nb::object capsule =
      owned(PyCapsule_New(&exported->managed, Managed::kCapsule, drop_unconsumed<Managed>));
  (void)exported.release();  // the capsule's now
  return capsule;
}

}  // namespace

nb::object export_dlpack(const LeaseObject& lease, DLPackRequest request) {
  return request.versioned ? capsule_of<DLManagedTensorVersioned>(lease, request.copied)
                           : capsule_of<DLManagedTensor>(lease, request.copied);
}

}  // namespace penstock::python
