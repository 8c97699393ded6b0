#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
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

/// (record, [(tensor, its layout or None), …], 0) or (record, [], address)
using FilledTensorTuple = std::tuple<std::uint64_t, std::optional<std::shared_ptr<MomentLayout>>>;
using FilledTuple = std::tuple<std::string, std::vector<FilledTensorTuple>, std::uintptr_t>;
std::vector<FilledRecord> filled_records(const std::vector<FilledTuple>& records);

void bind_archive(nanobind::module_& module);

}  // namespace penstock::python
