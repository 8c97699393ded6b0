#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <vector>

#include "archive_object.h"
#include "bindings/deepspeed/process_memory.h"
#include "bindings/deepspeed/refused_settings.h"
#include "checksum_function.h"
#include "engine_object.h"
#include "future.h"
#include "lease_object.h"
#include "moment_layout_object.h"
#include "squared_sum_function.h"
#include "step_kernels.h"
#include "warning_inbox.h"

NB_MODULE(_core_of_main_interpreter, module) {
  module.doc() = "penstock's engine; use the classes of the package `penstock` instead.";
  module.attr("__version__") = PENSTOCK_VERSION;
  // Interpreters that end while tensors still view a lease are the rule, not a leak.
  nanobind::set_leak_warnings(false);
  penstock::python::bind_lease(module);
  penstock::python::bind_future(module);
  penstock::python::bind_archive(module);
  penstock::python::bind_engine(module);
  penstock::python::bind_moment_layout(module);
  penstock::python::bind_step_kernels(module);
  penstock::python::bind_squared_sum(module);
  penstock::python::bind_checksum(module);
  module.attr("ONE_RANK_BUCKET_ELEMENTS") = penstock::kOneRankBucketElements;
  module.def("refused_settings", [] {
    std::map<std::string, std::string> sentences;
    for (const penstock::RefusedSetting& setting : penstock::all_refused_settings()) {
      sentences.emplace(setting.key, setting.sentence);
    }
    return sentences;
  });
  module.def("deliver_warnings", &penstock::python::deliver_warnings);
  module.def("warning_codes", [] {
    std::vector<std::string> names;
    for (const penstock::WarningCode code : penstock::warning_codes()) {
      names.emplace_back(penstock::warning_code_name(code));
    }
    return names;
  });
  nanobind::module_::import_("atexit").attr("register")(module.attr("deliver_warnings"));
  penstock::python::deliver_at_exit();
}

// Before nanobind's own, which replaces what the main interpreter's module works with.
extern "C" NB_EXPORT PyObject* PyInit__core() {
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_ImportError,
                    "penstock works in the main interpreter only, not in a subinterpreter: use "
                    "threads or processes");
    return nullptr;
  }
  return PyInit__core_of_main_interpreter();
}
