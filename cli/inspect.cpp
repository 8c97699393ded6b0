#include <fmt/format.h>
#include <sys/stat.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/counted.h"
#include "cli/checkpoint_verbs.h"
#include "cli/document_text.h"
#include "cli/printable.h"
#include "cli/text_table.h"
#include "cli/verb.h"
#include "io/file_system.h"
#include "swap/plan/natural_order.h"
#include "swap/store/manifest.h"
#include "swap/store/manifest_batch.h"
#include "swap/store/store_lock.h"

namespace penstock::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::array<const char*, 3> kLevels{"off", "sampled", "full"};

struct InspectOptions {
  std::string store;
  bool as_json = false;
};

struct DriveReport {
  std::string path;
  DriveRecord record;
  std::uint64_t tensors = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::string problem;  // empty: it can be opened
};

// Nothing is locked and nothing changed: a store that is in use may be looked at.
struct StoreReport {
  ManifestState state;
  std::optional<std::string> user;
  std::vector<DriveReport> drives;
  std::vector<const StoreEntry*> entries;  // natural order
  std::uint64_t bytes = 0;
};

Result<std::uint64_t> file_bytes(const DriveRecord& record, Directory& home) {
  if (record.directory.empty()) {
    const Result<File> file = home.open(record.file, File::Access::kRead, DirectMode::kBuffered);
    return file ? file->size_bytes() : file.error();
  }
  // Outside the store's own directory only the user says what may be opened.
  const std::string path = record.directory + "/" + record.file;
  struct ::stat facts{};
  if (path.find('\0') != std::string::npos || ::lstat(path.c_str(), &facts) != 0) {
    return system_error(errno, fmt::format("cannot look at {}", path), path);
  }
  return static_cast<std::uint64_t>(facts.st_size);
}

DriveReport look_at(const DriveRecord& record, Directory& home) {
  DriveReport drive;
  drive.record = record;
  drive.path = (record.directory.empty() ? home.path() : record.directory) + "/" + record.file;
  const Result<std::uint64_t> size = file_bytes(record, home);
  if (size.has_error()) {
    drive.problem = size.error().message;
  } else {
    drive.file_bytes = *size;
  }
  return drive;
}

Result<StoreReport> look(const std::string& store) {
  const Result<std::unique_ptr<Directory>> home = open_store_directory(os_file_system(), store);
  if (home.has_error()) {
    return home.error();
  }
  Result<ManifestState> state = Manifest::read(**home);
  if (state.has_error()) {
    return std::move(state).error();
  }
  StoreReport report;
  report.state = std::move(state).value();
  report.user = StoreLock::holder(**home);
  for (const DriveRecord& record : report.state.drives) {
    report.drives.push_back(look_at(record, **home));
  }
  for (const auto& [name, entry] : report.state.tensors) {
    report.entries.push_back(&entry);
    report.bytes += entry.stored.bytes();
    DriveReport& drive = report.drives[entry.stored.drive];
    ++drive.tensors;
    drive.used_bytes += entry.stored.extent.bytes;
  }
  std::ranges::sort(report.entries, [](const StoreEntry* a, const StoreEntry* b) {
    return natural_less(a->info.name, b->info.name);
  });
  return report;
}

ordered_json tensor_json(const StoreEntry& entry) {
  const StoredTensor& stored = entry.stored;
  return {{"name", entry.info.name},
          {"dtype", dtype_name(entry.info.dtype)},
          {"shape", entry.info.shape},
          {"role", role_name(entry.info.role)},
          {"bytes", stored.bytes()},
          {"generation", stored.identity.generation},
          {"integrity", kLevels[stored.identity.level]},
          {"checksum", fmt::format("{:016x}", stored.identity.checksum)},
          {"path", stored.drive},
          {"offset", stored.extent.offset},
          {"extent_bytes", stored.extent.bytes}};
}

ordered_json drive_json(const DriveReport& drive) {
  ordered_json document{{"path", drive.path},
                        {"weight", drive.record.weight},
                        {"max_bytes", nullptr},
                        {"tensors", drive.tensors},
                        {"used_bytes", drive.used_bytes},
                        {"file_bytes", drive.file_bytes},
                        {"problem", nullptr}};
  if (drive.record.max_bytes) {
    document["max_bytes"] = *drive.record.max_bytes;
  }
  if (!drive.problem.empty()) {
    document["problem"] = drive.problem;
  }
  return document;
}

std::string json_text(const InspectOptions& options, const StoreReport& report) {
  const ManifestState& state = report.state;
  ordered_json document{{"schema", "penstock.inspect/1"},
                        {"store", options.store},
                        {"format", ManifestHead::kVersion},
                        {"number", fmt::format("{:016x}", state.store)},
                        {"sequence", state.sequence},
                        {"closed", state.closed},
                        {"in_use_by", nullptr},
                        {"tensor_count", report.entries.size()},
                        {"bytes", report.bytes},
                        {"metadata", state.notes},
                        {"paths", ordered_json::array()},
                        {"tensors", ordered_json::array()}};
  if (report.user) {
    document["in_use_by"] = *report.user;
  }
  for (const DriveReport& drive : report.drives) {
    document["paths"].push_back(drive_json(drive));
  }
  for (const StoreEntry* entry : report.entries) {
    document["tensors"].push_back(tensor_json(*entry));
  }
  return document_text(document);
}

std::string plain_text(const InspectOptions& options, const StoreReport& report) {
  const ManifestState& state = report.state;
  const std::string use = report.user    ? "in use by " + *report.user
                          : state.closed ? "closed in good order"
                                         : "not closed: its last user died, or failed";
  std::string text = fmt::format("store      {} (format {}, {})\n", options.store,
                                 ManifestHead::kVersion, printable(use));
  text += fmt::format("tensors    {}, {}\n", report.entries.size(), format_bytes(report.bytes));
  for (const auto& [key, value] : state.notes) {
    text += fmt::format("metadata   {}: {}\n", printable(key), printable(value));
  }
  text += "\n";
  TextTable drives({{"path", Align::kRight},
                    {"weight", Align::kRight},
                    {"limit", Align::kRight},
                    {"used", Align::kRight},
                    {"tensors", Align::kRight},
                    {"file"}});
  for (const DriveReport& drive : report.drives) {
    const auto& limit = drive.record.max_bytes;
    drives.add({fmt::format("{}", drive.record.index), fmt::format("{:g}", drive.record.weight),
                limit ? format_bytes(*limit) : "none", format_bytes(drive.used_bytes),
                fmt::format("{}", drive.tensors),
                printable(drive.problem.empty() ? drive.path : drive.problem)});
  }
  text += drives.text() + "\n";
  TextTable tensors({{"tensor"},
                     {"type"},
                     {"shape"},
                     {"size", Align::kRight},
                     {"generation", Align::kRight},
                     {"checksum"},
                     {"path", Align::kRight},
                     {"offset", Align::kRight}});
  for (const StoreEntry* entry : report.entries) {
    const StoredTensor& stored = entry->stored;
    tensors.add({printable(entry->info.name), std::string(dtype_name(entry->info.dtype)),
                 fmt::format("[{}]", fmt::join(entry->info.shape, ", ")),
                 format_bytes(stored.bytes()), fmt::format("{}", stored.identity.generation),
                 kLevels[stored.identity.level], fmt::format("{}", stored.drive),
                 fmt::format("{}", stored.extent.offset)});
  }
  return text + tensors.text();
}

int run_inspect(const InspectOptions& options) {
  if (const std::optional<int> exit_code = inspect_checkpoint(options.store, options.as_json)) {
    return *exit_code;
  }
  const Result<StoreReport> report = look(options.store);
  if (report.has_error()) {
    return failed(report.error());
  }
  fmt::print("{}", options.as_json ? json_text(options, *report) : plain_text(options, *report));
  int exit_code = kDone;
  for (const DriveReport& drive : report->drives) {
    if (!drive.problem.empty() && drive.tensors > 0) {
      report_error(fmt::format("{} of {} cannot be read: {}", counted(drive.tensors, "tensor"),
                               options.store, drive.problem));
      exit_code = kFailed;
    }
  }
  return exit_code;
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("inspect", "What is in a durable store, or in a checkpoint of DeepSpeed");
  verb->footer(
      "Of a store, reads the manifest only and changes nothing; the store may be in use. Exit "
      "status 1 if a file of tensors is missing.\n"
      "Of a checkpoint, reads what describes its tensors and runs nothing of it: tensors, ranks, "
      "step, missing files, whether training can be resumed from it and with which world size. "
      "DIR is what save_checkpoint() took, the folder of a tag, a Trainer's checkpoint-500, or a "
      "folder of several. Exit status 1 if it cannot be resumed.\n"
      "Examples:\n  penstock inspect /nvme0/model --json\n"
      "  penstock inspect output/checkpoint-500");
  const auto options = std::make_shared<InspectOptions>();
  verb->add_option("DIR", options->store, "A store's directory, or a checkpoint's")->required();
  verb->add_flag("--json", options->as_json,
                 "One JSON document (penstock.inspect/1, penstock.inspect-checkpoint/1)");
  verb->callback([options, &exit_code] { exit_code = run_inspect(*options); });
}

}  // namespace penstock::cli
