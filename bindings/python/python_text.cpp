#include "python_text.h"

#include "python_call.h"

namespace nb = nanobind;

namespace penstock::python {

nb::object python_text(std::string_view text) {
  return owned(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::object python_path(std::string_view path) {
  return owned(PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
}

std::string path_of(const nb::bytes& path) {
  return {path.c_str(), path.size()};
}

}  // namespace penstock::python
