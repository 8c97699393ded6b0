#include "lease_object.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "dlpack_export.h"
#include "error_translation.h"
#include "gil_release.h"
#include "python_call.h"

namespace nb = nanobind;

namespace penstock::python {

void LeaseObject::expect_held() const {
  if (Result<void> held = lease.check_held(); held.has_error()) {
    raise(std::move(held).error());
  }
}

namespace {

constexpr const char* kNotMade = "leases are made by an engine";  // Lease.__new__() alone

/// The buffer protocol as plain bytes: every dtype has it, bfloat16 included. A lease to read
/// refuses a writer.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  if (!nb::inst_ready(self)) {
    PyErr_SetString(PyExc_TypeError, kNotMade);
    return -1;
  }
  LeaseObject* object = nb::inst_ptr<LeaseObject>(nb::handle(self));
  if (const Result<void> held = object->lease.check_held(); held.has_error()) {
    PyErr_SetString(PyExc_BufferError, held.error().message.c_str());
    return -1;
  }
  // The view's own hold on the memory: release() of the lease does not pull it away.
  auto hold = std::make_unique<Lease>(object->lease);
  if (PyBuffer_FillInfo(view, self, hold->data(), static_cast<Py_ssize_t>(hold->bytes()),
                        object->read_only() ? 1 : 0, flags) != 0) {
    return -1;
  }
  view->internal = hold.release();
  return 0;
}

void release_buffer(PyObject*, Py_buffer* view) {
  delete static_cast<Lease*>(view->internal);
}

const std::pair<int, int> kOnCpu{1, 0};  // DLPack's number of the CPU, and of the one that there is

PyType_Slot kSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                        {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                        {0, nullptr}};

nb::tuple shape_of(const LeaseObject& self) {
  nb::list shape;
  for (const std::uint64_t extent : self.info->shape) {
    shape.append(extent);
  }
  return nb::tuple(shape);
}

/// The array API's `__dlpack__`. Errors: BufferError for other devices than the CPU.
nb::object dlpack_of(const LeaseObject& self, const nb::kwargs& wishes) {
  self.expect_held();
  const auto wish = [&wishes](const char* name) {
    return wishes.contains(name) ? nb::object(wishes[name]) : nb::none();
  };
  if (const nb::object device = wish("dl_device");
      !device.is_none() && nb::cast<std::pair<int, int>>(device) != kOnCpu) {
    PyErr_SetString(PyExc_BufferError, "a lease's memory is the CPU's");
    throw nb::python_error();
  }
  DLPackRequest request;
  if (const nb::object version = wish("max_version"); !version.is_none()) {
    request.versioned = nb::cast<std::pair<int, int>>(version).first >= 1;
  }
  if (const nb::object copy = wish("copy"); !copy.is_none()) {
    request.copied = nb::cast<bool>(copy);
  }
  return export_dlpack(self, request);
}

}  // namespace

void bind_lease(nb::module_& module) {
  nb::class_<LeaseObject>(
      module, "Lease", nb::type_slots(kSlots),
      "A hold on a tensor's memory. Views made of it (DLPack, buffer protocol) keep "
      "the memory alive by themselves; release() gives up only this hold.\n\n"
      "Unless it was got with update=True it is to read only, and so are its views: the memory is "
      "shared with all other readers. torch has no tensors to read only, and neither has DLPack "
      "before 1.0: what is written into torch.from_dlpack(lease) is seen by other readers and lost "
      "with the memory. torch.from_dlpack(lease, copy=True) is memory of its own.")
      .def_prop_ro("name", [](const LeaseObject& self) { return self.info->name; })
      .def_prop_ro(
          "dtype",
          [](const LeaseObject& self) { return std::string(dtype_name(self.info->dtype)); },
          "safetensors' name in lower case: 'bf16', 'f32'")
      .def_prop_ro("shape", &shape_of)
      .def_prop_ro("nbytes", [](const LeaseObject& self) { return self.lease.bytes(); })
      .def_prop_ro("readonly", &LeaseObject::read_only,
                   "Whether new views of it are to read only: it was got without update=True, and "
                   "commit() refuses it, or it has been committed.")
      .def_prop_ro("data_ptr",
                   [](const LeaseObject& self) {
                     self.expect_held();
                     return reinterpret_cast<std::uintptr_t>(self.lease.data());
                   })
      .def_prop_ro(
          "array",
          [](nb::object self) {
            if (!nb::inst_ready(self)) {
              throw nb::type_error(kNotMade);
            }
            nb::inst_ptr<LeaseObject>(self)->expect_held();
            return call(imported("penstock.array_view", "array_of"), nb::make_tuple(self));
          },
          "A NumPy array over the memory, without a copy. Of a type that NumPy lacks (bf16, f8_*) "
          "it is one of ml_dtypes, where that is installed, else an UnsupportedError: "
          "torch.from_dlpack(lease) has them all.")
      .def(
          "release",
          [](LeaseObject& self) {
            Lease ended =
                std::exchange(self.lease, {});  // with the GIL: others may release it, too
            std::shared_ptr<UpdateEnd> update = std::exchange(self.update, nullptr);
            GilRelease without_gil;
            update.reset();
            ended.release();
          },
          "Idempotent.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](LeaseObject& self, nb::args) { self.release(); })
      .def("__dlpack_device__", [](const LeaseObject&) { return kOnCpu; })
      .def("__dlpack__", &dlpack_of);
}

}  // namespace penstock::python
