#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "archive_streams.h"

namespace penstock::python {

/// As Python sees them: the engine object stays alive with them.
struct FillingObject {
  std::unique_ptr<ArchiveFilling> filling;
};
struct IntakeObject {
  std::unique_ptr<ArchiveIntake> intake;
};

/// [(record, tensor)]
std::vector<FilledRecord> filled_records(const nanobind::list& records);

void bind_archive(nanobind::module_& module);

}  // namespace penstock::python
