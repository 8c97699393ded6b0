#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "alloc/bytes.h"
#include "alloc/counted.h"
#include "bindings/archive/store_verification.h"
#include "cli/checkpoint_verbs.h"
#include "cli/document_text.h"
#include "cli/printable.h"
#include "cli/progress_line.h"
#include "cli/store_access.h"
#include "cli/verb.h"

namespace penstock::cli {
namespace {

using nlohmann::ordered_json;

struct VerifyOptions {
  StoreChoice store;
  bool as_json = false;
};

Result<VerifyReport> verify(const VerifyOptions& options) {
  Result<std::unique_ptr<DurableStore>> store =
      open_store(options.store, DurableStoreOptions::Access::kRead);
  if (store.has_error()) {
    return std::move(store).error();
  }
  Result<std::unique_ptr<IoQueue>> queue = start_queue();
  if (queue.has_error()) {
    return std::move(queue).error();
  }
  ProgressLine progress("verified");
  return verify_store(**store, **queue, [&progress](std::uint64_t done, std::uint64_t total) {
    progress.update(done, total);
  });
}

std::string json_text(const VerifyOptions& options, const VerifyReport& report) {
  ordered_json bad = ordered_json::array();
  for (const Error& error : report.bad) {
    bad.push_back({{"name", error.tensor}, {"path", error.path}, {"problem", error.message}});
  }
  const ordered_json document{{"schema", "penstock.verify/1"},
                              {"store", options.store.directory},
                              {"good", report.bad.empty()},
                              {"closed", report.closed},
                              {"tensors", report.tensors},
                              {"bytes", report.bytes},
                              {"checksums",
                               {{"full", report.by_level[2]},
                                {"sampled", report.by_level[1]},
                                {"off", report.by_level[0]}}},
                              {"bad", std::move(bad)}};
  return document_text(document);
}

std::string plain_text(const VerifyReport& report) {
  std::string text;
  for (const Error& error : report.bad) {
    text += fmt::format("bad  {}\n", printable(error.message));
  }
  text += fmt::format("{}, {}: {} good, {} bad\n", counted(report.tensors, "tensor"),
                      format_bytes(report.bytes), report.tensors - report.bad.size(),
                      report.bad.size());
  if (report.by_level[0] + report.by_level[1] > 0) {
    text += fmt::format(
        "{} of them carry a sampled checksum and {} none: every byte was read, not every byte is "
        "proved; what `penstock import` writes is\n",
        report.by_level[1], report.by_level[0]);
  }
  if (!report.closed) {
    text +=
        "not closed: its last user died, or failed; what that one had not flushed is not in it\n";
  }
  return text;
}

int run_verify(const VerifyOptions& options) {
  if (const std::optional<int> exit_code =
          verify_checkpoint_at(options.store.directory, options.as_json)) {
    return *exit_code;
  }
  const Result<VerifyReport> report = verify(options);
  if (report.has_error()) {
    return failed(report.error());
  }
  fmt::print("{}", options.as_json ? json_text(options, *report) : plain_text(*report));
  if (report->bad.empty()) {
    return kDone;
  }
  report_error(fmt::format("{} of {} tensors in {} are bad", report->bad.size(), report->tensors,
                           options.store.directory));
  return kFailed;
}

}  // namespace

void add_verify(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "verify",
      "Read every byte of a durable store, or of a checkpoint of DeepSpeed, and check it");
  verb->footer(
      "Of a store, compares checksums and identities; of a checkpoint, every CRC-32 of every file. "
      "Exit status 1 and a list of what is bad or missing if anything is wrong.\n"
      "Examples:\n  penstock verify /nvme0/model\n  penstock verify output/checkpoint-500");
  const auto options = std::make_shared<VerifyOptions>();
  add_store_options(*verb, options->store);
  verb->get_option("STORE")->description("The directory of a store, or of a checkpoint");
  verb->add_flag("--json", options->as_json,
                 "One JSON document (penstock.verify/1, penstock.verify-checkpoint/1)");
  verb->callback([options, &exit_code] { exit_code = run_verify(*options); });
}

}  // namespace penstock::cli
