#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include "bindings/deepspeed/config_schema.h"
#include "cli/document_text.h"
#include "cli/verb.h"

namespace penstock::cli {

void add_schema(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "schema", "A JSON Schema of DeepSpeed's configuration with the penstock block, for editors");
  verb->footer(
      "An editor that knows JSON Schema then completes and checks keys: name the file in the "
      "configuration, as \"$schema\": \"penstock.schema.json\".\n"
      "Example:\n"
      "  penstock schema > penstock.schema.json");
  verb->callback([&exit_code] {
    fmt::print("{}", document_text(config_schema()));
    exit_code = kDone;
  });
}

}  // namespace penstock::cli
