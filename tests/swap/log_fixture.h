#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "swap/log.h"
#include "tests/io/temp_directory.h"

namespace penstock {

/// Says where the log goes, and at which level, as users do: in the environment.
class LogFixture : public ::testing::Test {
 protected:
  LogFixture() {
    for (const char* const name : kNames) {
      const char* const value = std::getenv(name);
      before_[name] = value != nullptr ? std::optional<std::string>(value) : std::nullopt;
      ::unsetenv(name);
    }
  }
  ~LogFixture() override {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
    read_log_settings();
  }

  std::string path(const std::string& name = "log") const { return log_.path() + "/" + name; }
  void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  void log_to(const std::string& target, const std::string& level = "debug") {
    set("PENSTOCK_LOG_FILE", target);
    set("PENSTOCK_LOG_LEVEL", level);
    read_log_settings();
  }
  /// Of the file; what was logged so far is there.
  std::vector<std::string> lines(const std::string& name = "log") const {
    flush_log();
    std::vector<std::string> found;
    std::ifstream file(path(name));
    for (std::string line; std::getline(file, line);) {
      found.push_back(line);
    }
    return found;
  }
  /// Those of one kind, of `tensor` where one is named, without what is before the kind.
  std::vector<std::string> lines_of(LogEvent event, const std::string& tensor = "") const {
    const std::string kind = std::string(log_event_name(event)) + " ";
    const std::string wanted = tensor.empty() ? kind : kind + "tensor='" + tensor + "' ";
    std::vector<std::string> found;
    for (const std::string& line : lines()) {
      const std::size_t at = line.find(" " + wanted);
      if (at != std::string::npos) {
        found.push_back(line.substr(at + 1));
      }
    }
    return found;
  }

 private:
  static constexpr std::array kNames = {
      "PENSTOCK_LOG_FILE", "PENSTOCK_LOG_LEVEL", "RANK",      "OMPI_COMM_WORLD_RANK",
      "PMI_RANK",          "SLURM_PROCID",       "LOCAL_RANK"};

  TempDirectory log_;
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace penstock
