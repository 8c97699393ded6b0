#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "alloc/bytes.h"
#include "alloc/counted.h"
#include "bindings/archive/checkpoint_export.h"
#include "cli/document_text.h"
#include "cli/interruption.h"
#include "cli/output_file.h"
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

Result<ExportReport> export_store(const ExportArguments& arguments) {
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
  TargetDirectory directory;
  if (!is_single_file(options.target)) {
    PENSTOCK_TRY(directory.make(options.target));
  }
  const Interruption interruption;
  options.interrupted = [&interruption] { return interruption.asked_for(); };
  ProgressLine progress("exported");
  return export_checkpoint(
      **store, os_file_system(), **queue, options,
      [&progress](std::uint64_t done, std::uint64_t total) { progress.update(done, total); });
}

int run_export(ExportArguments& arguments) {
  parse(arguments);
  const auto begun = std::chrono::steady_clock::now();
  const Result<ExportReport> report = export_store(arguments);
  if (report.has_error() && report.error().code == std::errc::operation_canceled) {
    report_error("interrupted: nothing was exported");
    return kFailed;
  }
  if (report.has_error()) {
    return failed(report.error());
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  if (arguments.as_json) {
    const ordered_json document{{"schema", "penstock.export/1"},
                                {"store", arguments.store.directory},
                                {"target", arguments.options.target},
                                {"tensors", report->tensors},
                                {"bytes", report->bytes},
                                {"files", report->files},
                                {"seconds", seconds}};
    fmt::print("{}", document_text(document));
  } else {
    fmt::print("exported {}, {}, to {} in {:.2f} s\n", counted(report->tensors, "tensor"),
               format_bytes(report->bytes), arguments.options.target, seconds);
  }
  return kDone;
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
  verb->add_flag("--json", arguments->as_json, "One JSON document (penstock.export/1)");
  verb->callback([arguments, &exit_code] { exit_code = run_export(*arguments); });
}

}  // namespace penstock::cli
