#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "alloc/bytes.h"
#include "alloc/counted.h"
#include "alloc/excerpt.h"
#include "bindings/archive/checkpoint_import.h"
#include "bindings/inventory/checkpoint.h"
#include "cli/document_text.h"
#include "cli/printable.h"
#include "cli/progress_line.h"
#include "cli/store_access.h"
#include "cli/verb.h"

namespace penstock::cli {
namespace {

using nlohmann::ordered_json;

struct ImportOptions {
  std::string source;
  StoreChoice store;
  bool as_json = false;
};

/// --path names where an existing store has contents; a new one has them in its own directory.
Result<void> check_paths(const StoreChoice& store) {
  std::error_code ignored;
  if (store.paths.empty() ||
      std::filesystem::exists(std::filesystem::path(store.directory) / "manifest", ignored)) {
    return {};
  }
  return fault(Fault::kInvalidArgument,
               fmt::format("there is no store in {} yet, and --path names further directories of "
                           "an existing one; a new store has all contents in its own directory: "
                           "leave --path out",
                           store.directory),
               store.directory);
}

void note_unnamed(const Checkpoint& checkpoint, const std::string& source) {
  if (checkpoint.unnamed > 0) {
    const bool is_one = checkpoint.unnamed == 1;
    fmt::print(stderr,
               "penstock: {}: {} of its shards {} not in the index's weight_map and {} "
               "not imported; the first is {}\n",
               printable(source), counted(checkpoint.unnamed, "tensor"), is_one ? "is" : "are",
               is_one ? "is" : "are", excerpt(checkpoint.first_unnamed));
  }
}

Result<ImportReport> import(const ImportOptions& options) {
  const Result<Checkpoint> checkpoint = load_checkpoint(options.source);
  if (checkpoint.has_error()) {
    return checkpoint.error();
  }
  PENSTOCK_TRY(check_importable(*checkpoint));  // before a store is made for it
  PENSTOCK_TRY(check_paths(options.store));
  Result<std::unique_ptr<IoQueue>> queue = start_queue();
  if (queue.has_error()) {
    return std::move(queue).error();
  }
  Result<std::unique_ptr<DurableStore>> store =
      open_store(options.store, DurableStoreOptions::Access::kWrite);
  if (store.has_error()) {
    return std::move(store).error();
  }
  Result<ImportReport> report = fault(Fault::kInvalidArgument, "not run");
  note_unnamed(*checkpoint, options.source);
  {
    ProgressLine progress("imported");
    report = import_checkpoint(
        *checkpoint, os_file_system(), **store, **queue,
        [&progress](std::uint64_t done, std::uint64_t total) { progress.update(done, total); });
  }
  if (report.has_value()) {
    PENSTOCK_TRY((*store)->close());
  }
  return report;
}

int run_import(const ImportOptions& options) {
  const auto begun = std::chrono::steady_clock::now();
  const Result<ImportReport> report = import(options);
  if (report.has_error()) {
    return failed(report.error());
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  if (options.as_json) {
    const ordered_json document{{"schema", "penstock.import/1"},
                                {"source", options.source},
                                {"store", options.store.directory},
                                {"tensors", report->tensors},
                                {"bytes", report->bytes},
                                {"written_bytes", report->written_bytes},
                                {"seconds", seconds}};
    fmt::print("{}", document_text(document));
  } else {
    fmt::print("imported {}, {}, into {} in {:.2f} s\n", counted(report->tensors, "tensor"),
               format_bytes(report->bytes), options.store.directory, seconds);
  }
  return kDone;
}

}  // namespace

void add_import(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("import", "Copy a safetensors checkpoint into a durable store");
  verb->footer(
      "SRC is a .safetensors file, a .safetensors.index.json or a directory with either. STORE is "
      "made where it is missing; in an existing one every tensor of SRC gets a new generation, and "
      "others stay. Whenever the process dies, each tensor is the old or the new one, whole.\n"
      "Example:\n  penstock import model.safetensors /nvme0/model");
  const auto options = std::make_shared<ImportOptions>();
  verb->add_option("SRC", options->source, "The checkpoint")->required();
  add_store_options(*verb, options->store);
  verb->add_flag("--json", options->as_json, "One JSON document (penstock.import/1)");
  verb->callback([options, &exit_code] { exit_code = run_import(*options); });
}

}  // namespace penstock::cli
