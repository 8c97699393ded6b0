#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/counted.h"
#include "bindings/archive/checkpoint_export.h"
#include "bindings/archive/store_verification.h"
#include "cli/document_text.h"
#include "cli/interruption.h"
#include "cli/output_file.h"
#include "cli/printable.h"
#include "cli/progress_line.h"
#include "cli/store_access.h"
#include "cli/verb.h"
#include "swap/transfer/dtype_conversion.h"

namespace penstock::cli {
namespace {

using nlohmann::ordered_json;

struct ExportArguments {
  StoreChoice store;
  std::string dtype;
  std::string max_shard = "5GB";
  bool skips_damaged = false;
  ExportOptions options;
  bool as_json = false;
};

// Wrong usage, before anything is opened.
void parse(ExportArguments& arguments) {
  const Result<std::uint64_t> max_shard = parse_bytes(arguments.max_shard);
  if (max_shard.has_error() || *max_shard == 0) {
    throw CLI::ValidationError("--max-shard", arguments.max_shard + " is no size such as 5GB");
  }
  arguments.options.max_shard_bytes = *max_shard;
  if (arguments.dtype.empty()) {
    return;
  }
  const Result<DType> dtype = parse_dtype(arguments.dtype);
  if (dtype.has_error() || !converts(DType::kF32, *dtype)) {
    throw CLI::ValidationError(
        "--dtype", arguments.dtype + " is nothing to convert to; bf16, f16 and f32 are");
  }
  arguments.options.dtype = *dtype;
}

// A directory for shards, made with the mode that any other program's has; one that nothing came
// into goes again.
class TargetDirectory {
 public:
  TargetDirectory() = default;
  TargetDirectory(const TargetDirectory&) = delete;
  TargetDirectory& operator=(const TargetDirectory&) = delete;
  ~TargetDirectory() {
    if (!made_.empty()) {
      (void)::rmdir(made_.c_str());  // not where it has files
    }
  }

  Result<void> make(const std::string& path) {
    std::error_code error;
    if (std::filesystem::create_directories(path, error)) {
      made_ = path;
    }
    if (error) {
      return system_error(error.value(), fmt::format("cannot make {}", path), path);
    }
    return {};
  }

 private:
  std::string made_;
};

struct Exported {
  ExportReport report;
  std::vector<Error> left_out;   // of each tensor why
  std::optional<Error> problem;  // where that is all of them
};

Result<std::vector<Error>> damaged(const DurableStore& store, IoQueue& queue) {
  ProgressLine progress("verified");
  Result<VerifyReport> found = verify_store(
      store, queue,
      [&progress](std::uint64_t done, std::uint64_t total) { progress.update(done, total); });
  return found ? Result<std::vector<Error>>(std::move(found->bad)) : std::move(found).error();
}

Result<Exported> export_store(const ExportArguments& arguments) {
  Exported exported;
  ExportOptions options = arguments.options;
  if (is_single_file(options.target)) {
    PENSTOCK_TRY(check_output_file(options.target));
    options.place = output_place(options.target);
  }
  options.mode = output_mode(options.place);
  Result<std::unique_ptr<DurableStore>> store =
      open_store(arguments.store, DurableStoreOptions::Access::kRead);
  if (store.has_error()) {
    return std::move(store).error();
  }
  Result<std::unique_ptr<IoQueue>> queue = start_queue();
  if (queue.has_error()) {
    return std::move(queue).error();
  }
  if (arguments.skips_damaged) {
    Result<std::vector<Error>> left_out = damaged(**store, **queue);
    PENSTOCK_TRY(left_out);
    exported.left_out = std::move(*left_out);
    for (const Error& error : exported.left_out) {
      options.left_out.insert(error.tensor);
    }
  }
  TargetDirectory directory;
  if (!is_single_file(options.target)) {
    PENSTOCK_TRY(directory.make(options.target));
  }
  const Interruption interruption;
  options.interrupted = [&interruption] { return interruption.asked_for(); };
  ProgressLine progress("exported");
  const Result<ExportReport> report = export_checkpoint(
      **store, os_file_system(), **queue, options,
      [&progress](std::uint64_t done, std::uint64_t total) { progress.update(done, total); });
  const bool is_none_whole =
      !options.left_out.empty() && options.left_out.size() == (*store)->contents().size();
  if (report.has_error() && !is_none_whole) {
    return report.error();
  }
  if (report.has_error()) {
    exported.problem = report.error();  // what was left out is named here, too
  } else {
    exported.report = *report;
  }
  return exported;
}

ordered_json left_out_json(const std::vector<Error>& left_out) {
  ordered_json list = ordered_json::array();
  for (const Error& error : left_out) {
    list.push_back({{"name", error.tensor}, {"problem", error.message}});
  }
  return list;
}

int run_export(ExportArguments& arguments) {
  parse(arguments);
  const auto begun = std::chrono::steady_clock::now();
  const Result<Exported> exported = export_store(arguments);
  if (exported.has_error() && exported.error().code == std::errc::operation_canceled) {
    report_error("interrupted: nothing was exported");
    return kFailed;
  }
  if (exported.has_error()) {
    return failed(exported.error());
  }
  const auto& [report, left_out, problem] = *exported;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  if (arguments.as_json) {
    const ordered_json document{{"schema", "penstock.export/1"},
                                {"store", arguments.store.directory},
                                {"target", arguments.options.target},
                                {"tensors", report.tensors},
                                {"bytes", report.bytes},
                                {"files", report.files},
                                {"left_out", left_out_json(left_out)},
                                {"seconds", seconds}};
    fmt::print("{}", document_text(document));
  } else if (!problem) {
    fmt::print("exported {}, {}, to {} in {:.2f} s\n", counted(report.tensors, "tensor"),
               format_bytes(report.bytes), arguments.options.target, seconds);
  }
  if (problem) {
    (void)failed(*problem);
  }
  for (const Error& error : left_out) {
    report_error("left out: " + printable(error.message));
  }
  return left_out.empty() ? kDone : kFailed;
}

}  // namespace

void add_export(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("export", "Write a durable store's tensors as a safetensors checkpoint");
  verb->footer(
      "DST ending in .safetensors is one file, replaced if it is there; anything else a directory "
      "for shards with an index. Nothing stands under a final name before all of it is whole.\n"
      "Example:\n  penstock export /nvme0/model model.safetensors --dtype f32");
  const auto arguments = std::make_shared<ExportArguments>();
  add_store_options(*verb, arguments->store);
  verb->add_option("DST", arguments->options.target, "The checkpoint to write")->required();
  verb->add_option("--dtype", arguments->dtype,
                   "Write bf16, f16 and f32 tensors as this one of the three; others as they are");
  verb->add_option("--max-shard", arguments->max_shard, "Data in one file of a directory at most")
      ->type_name("SIZE")
      ->capture_default_str();
  verb->add_flag("--skip-damaged", arguments->skips_damaged,
                 "Read everything twice, leave out what is damaged or missing, name it, and end "
                 "with exit status 1 if there is any");
  verb->add_flag("--json", arguments->as_json, "One JSON document (penstock.export/1)");
  verb->callback([arguments, &exit_code] { exit_code = run_export(*arguments); });
}

}  // namespace penstock::cli
