#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <boost/version.hpp>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/document_text.h"
#include "cli/verb.h"
#include "io/engine_probe.h"

namespace penstock::cli {
namespace {

using nlohmann::ordered_json;

// The versions that the headers had when this was built.
ordered_json libraries() {
  return {{"boost", fmt::format("{}.{}.{}", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000,
                                BOOST_VERSION % 100)},
          {"cli11", CLI11_VERSION},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                              FMT_VERSION % 100)},
          {"hwloc", PENSTOCK_HWLOC_VERSION},
          {"liburing", PENSTOCK_LIBURING_VERSION},
          {"nlohmann_json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                                        NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
          {"yaml_cpp", PENSTOCK_YAML_CPP_VERSION}};
}

ordered_json describe() {
  ordered_json engines = ordered_json::array();
  for (const EngineCandidate& engine : probe_engines()) {
    engines.push_back({{"name", engine.name}, {"usable", engine.usable}});
  }
  return {{"schema", "penstock.version/1"},
          {"version", PENSTOCK_VERSION},
          {"build", {{"type", PENSTOCK_BUILD_TYPE}, {"compiler", PENSTOCK_COMPILER}}},
          {"engines", std::move(engines)},
          {"libraries", libraries()}};
}

void print_text(const ordered_json& version) {
  fmt::print("penstock {}\n", version["version"].get<std::string>());
  fmt::print("build      {}, {}\n", version["build"]["type"].get<std::string>(),
             version["build"]["compiler"].get<std::string>());
  std::string engines;
  for (const auto& engine : version["engines"]) {
    engines += fmt::format("{}{}{}", engines.empty() ? "" : ", ", engine["name"].get<std::string>(),
                           engine["usable"].get<bool>() ? "" : " (not usable here: see doctor)");
  }
  fmt::print("engines    {}\n", engines);
  std::string names;
  for (const auto& [name, number] : version["libraries"].items()) {
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", name, number.get<std::string>());
  }
  fmt::print("libraries  {}\n", names);
}

}  // namespace

void add_version(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("version", "Version, build, engines and libraries");
  verb->footer("Example:\n  penstock version --json");
  const auto as_json = std::make_shared<bool>(false);
  verb->add_flag("--json", *as_json, "One JSON document (penstock.version/1)");
  verb->callback([as_json, &exit_code] {
    const ordered_json version = describe();
    if (*as_json) {
      fmt::print("{}", document_text(version));
    } else {
      print_text(version);
    }
    exit_code = kDone;
  });
}

}  // namespace penstock::cli
