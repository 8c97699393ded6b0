#include "archive_object.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>

#include "error_translation.h"
#include "gil_release.h"
#include "python_text.h"

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

using TargetTuple = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::string>;
using TakenTuple = std::tuple<std::string, std::vector<std::vector<TargetTuple>>>;

/// (record, [[(tensor, offset, elements, dtype), …] for each lane])
std::vector<TakenRecord> taken_records(const std::vector<TakenTuple>& records) {
  std::vector<TakenRecord> taken;
  for (const auto& [name, lanes] : records) {
    TakenRecord& record = taken.emplace_back();
    record.record = name;
    for (const std::vector<TargetTuple>& lane : lanes) {
      std::vector<RecordTarget>& targets = record.lanes.emplace_back();
      for (const auto& [tensor, offset, elements, dtype] : lane) {
        targets.push_back({TensorId{tensor}, offset, elements, unwrap(parse_dtype(dtype))});
      }
    }
    if (record.lanes.size() > ArchiveIntake::kLanes) {
      raise(fault(Fault::kInvalidArgument, "a record goes to two lanes at most"));
    }
  }
  return taken;
}

nb::list archive_records(const nb::bytes& file_name) {
  const std::string path = path_of(file_name);
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

std::vector<FilledRecord> filled_records(const std::vector<FilledTuple>& records) {
  std::vector<FilledRecord> filled;
  for (const auto& [name, tensors, address] : records) {
    FilledRecord& record = filled.emplace_back();
    record.record = name;
    for (const auto& [tensor, layout] : tensors) {
      record.tensors.push_back({TensorId{tensor}, layout.value_or(nullptr)});
    }
    if (tensors.empty()) {
      record.memory = reinterpret_cast<const std::byte*>(address);
    }
  }
  return filled;
}

void bind_archive(nb::module_& module) {
  nb::class_<FillingObject>(module, "ArchiveFilling", "Contents on their way into an archive.")
      .def("step", [](FillingObject& self) { return step(*self.filling); });
  nb::class_<IntakeObject>(module, "ArchiveIntake", "Records on their way into the engine.")
      .def(
          "begin",
          [](IntakeObject& self, const nb::bytes& file_name,
             const std::vector<TakenTuple>& records) {
            const std::string path = path_of(file_name);
            std::vector<TakenRecord> taken = taken_records(records);
            unwrap([&] {
              const GilRelease release;
              return self.intake->begin(path, std::move(taken));
            }());
          },
          nb::arg("path"), nb::arg("records"))
      .def("step", [](IntakeObject& self) { return step(*self.intake); })
      .def(
          "encode",
          [](IntakeObject& self, std::uint64_t tensor, std::shared_ptr<MomentLayout> layout) {
            self.intake->encode(TensorId{tensor}, std::move(layout));
          },
          nb::arg("tensor"), nb::arg("layout"))
      .def(
          "pad",
          [](IntakeObject& self, std::size_t lane, std::uint64_t tensor, std::uint64_t elements) {
            unwrap([&] {
              const GilRelease release;
              return self.intake->pad(lane, TensorId{tensor}, elements);
            }());
          },
          nb::arg("lane"), nb::arg("tensor"), nb::arg("elements"))
      .def("publish", [](IntakeObject& self) {
        unwrap([&] {
          const GilRelease release;
          return self.intake->publish();
        }());
      });
  module.def("archive_records", &archive_records, nb::arg("path"));
}

}  // namespace penstock::python
