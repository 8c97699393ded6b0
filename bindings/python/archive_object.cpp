#include "archive_object.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <tuple>
#include <utility>

#include "error_translation.h"
#include "gil_release.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

template <class Stream>
std::optional<std::uint64_t> step(Stream& stream) {
  Result<std::optional<std::uint64_t>> moved = [&] {
    const GilRelease release;
    return stream.step();
  }();
  return unwrap(std::move(moved));
}

/// [(record, [[(tensor, offset, dtype), …] for each lane])]
std::vector<TakenRecord> taken_records(const nb::list& records) {
  std::vector<TakenRecord> taken;
  for (const nb::handle entry : records) {
    TakenRecord& record = taken.emplace_back();
    record.record = nb::cast<std::string>(entry[0]);
    for (const nb::handle lane : nb::cast<nb::list>(entry[1])) {
      std::vector<RecordTarget>& targets = record.lanes.emplace_back();
      for (const nb::handle target : nb::cast<nb::list>(lane)) {
        targets.push_back({TensorId{nb::cast<std::uint64_t>(target[0])},
                           nb::cast<std::uint64_t>(target[1]),
                           unwrap(parse_dtype(nb::cast<std::string>(target[2])))});
      }
    }
    if (record.lanes.size() > ArchiveIntake::kLanes) {
      raise(fault(Fault::kInvalidArgument, "a record goes to two lanes at most"));
    }
  }
  return taken;
}

nb::list archive_records(const std::string& path) {
  const ZipDirectory directory = unwrap([&]() -> Result<ZipDirectory> {
    const GilRelease release;
    const Result<File> file = File::open(path, File::Access::kRead, DirectMode::kBuffered);
    PENSTOCK_TRY(file);
    return read_zip_directory(*file);
  }());
  nb::list records;
  for (const ZipRecord& record : directory.records) {
    records.append(nb::make_tuple(record.name, record.offset, record.bytes, record.crc));
  }
  return records;
}

}  // namespace

std::vector<FilledRecord> filled_records(const nb::list& records) {
  std::vector<FilledRecord> filled;
  for (const nb::handle entry : records) {
    filled.push_back(
        {nb::cast<std::string>(entry[0]), TensorId{nb::cast<std::uint64_t>(entry[1])}});
  }
  return filled;
}

void bind_archive(nb::module_& module) {
  nb::class_<FillingObject>(module, "ArchiveFilling", "Contents on their way into an archive.")
      .def("step", [](FillingObject& self) { return step(*self.filling); });
  nb::class_<IntakeObject>(module, "ArchiveIntake", "Records on their way into the engine.")
      .def(
          "begin",
          [](IntakeObject& self, const std::string& path, const nb::list& records) {
            std::vector<TakenRecord> taken = taken_records(records);
            unwrap([&] {
              const GilRelease release;
              return self.intake->begin(path, std::move(taken));
            }());
          },
          nb::arg("path"), nb::arg("records"))
      .def("step", [](IntakeObject& self) { return step(*self.intake); })
      .def("publish", [](IntakeObject& self) {
        unwrap([&] {
          const GilRelease release;
          return self.intake->publish();
        }());
      });
  module.def("archive_records", &archive_records, nb::arg("path"));
}

}  // namespace penstock::python
