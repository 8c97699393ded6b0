#include "array_argument.h"

#include <exception>
#include <type_traits>

#include "python_call.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

/// What `argument` hands over as DLPack; nothing where it has none. Asked here, since torch's
/// answer is Python code, and a daemon thread's end must not meet nanobind's conversions, which
/// cannot be unwound. `error`: one that may have another reason, as what a signal's handler raises.
nb::object handed_over(nb::handle argument, std::exception_ptr& error) {
  const nb::object export_memory = attribute_of(argument, "__dlpack__");
  if (!export_memory.is_valid() || export_memory.is_none()) {
    return {};
  }
  nb::dict keywords;
  keywords["max_version"] = nb::make_tuple(1, 0);
  try {
    return call(export_memory, nb::make_tuple(), keywords);
  } catch (const nb::python_error& answer) {
    if (!answer.matches(PyExc_Exception)) {
      throw;  // Ctrl-C
    }
    // "Not in these words" and "not this array": nanobind asks in others, and for a buffer.
    if (!answer.matches(PyExc_TypeError) && !answer.matches(PyExc_BufferError)) {
      error = std::current_exception();
    }
    return {};
  }
}

}  // namespace

template <class Array>
Array array_of(nb::handle argument) {
  constexpr bool kMayBeCopied =
      std::is_same_v<Array, Source> || std::is_same_v<Array, DeviceSource>;
  std::exception_ptr error;
  const nb::object capsule = handed_over(argument, error);
  Array array;
  if ((capsule.is_valid() && nb::try_cast(capsule, array, false)) ||
      nb::try_cast(argument, array, kMayBeCopied)) {
    if (error) {  // it was not about the array
      std::rethrow_exception(error);
    }
    if (array.data() == nullptr && array.nbytes() > 0) {  // torch's DTensor, and others that wrap
      throw nb::type_error("an array without memory of its own: take its local part");
    }
    return array;
  }
  throw nb::type_error("neither DLPack nor the buffer protocol gives this array as it must lie");
}

template Source array_of<Source>(nb::handle argument);
template Target array_of<Target>(nb::handle argument);
template DeviceSource array_of<DeviceSource>(nb::handle argument);
template DeviceTarget array_of<DeviceTarget>(nb::handle argument);

}  // namespace penstock::python
