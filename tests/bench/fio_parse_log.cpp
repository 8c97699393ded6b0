#include "tests/bench/fio_parse_log.h"

#include <array>
#include <cstdio>
#include <memory>
#include <regex>
#include <sstream>

namespace penstock::bench::test {
namespace {

/// Lines are `parse    PID   TEXT`; how many blanks there are depends on PID's digits.
class ParseLog {
 public:
  void line(const std::string& text) {
    static const std::regex section(R"(Parsing section \[(.*)\])");
    static const std::regex key(R"(handle_option=([^,]*), ptr=(.*))");
    static const std::regex number(R"((?:ret=(\d+), )?out=(.*))");
    std::smatch found;
    if (std::regex_match(text, found, section)) {
      in_global_ = found[1] == "global";
      if (!in_global_) {
        jobs_.push_back({found[1], global_});
      }
    } else if (std::regex_match(text, found, key)) {
      begin(found[1], found[2]);
    } else if (std::regex_match(text, found, number) && current_ != nullptr) {
      // ret=1: it was no number, and the value before is repeated.
      if (found[1] != "1") {
        current_->numbers.push_back(std::stod(found[2]));
      }
    }
  }

  std::vector<FioJob> take() { return std::move(jobs_); }

 private:
  void begin(const std::string& key, const std::string& text) {
    auto& keys = in_global_ || jobs_.empty() ? global_ : jobs_.back().keys;
    current_ = &keys[key];
    *current_ = {};
    if (text != "(null)") {
      current_->text = text;
    }
  }

  bool in_global_ = false;
  std::map<std::string, FioKey> global_;
  std::vector<FioJob> jobs_;
  FioKey* current_ = nullptr;
};

}  // namespace

std::vector<FioJob> read_fio_parse_log(const std::string& output) {
  static const std::regex prefix(R"(^parse\s+\d+\s+)");
  ParseLog log;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const std::string text = std::regex_replace(line, prefix, "");
    if (text != line) {
      log.line(text);
    }
  }
  return log.take();
}

std::optional<std::string> output_of(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
      ::popen((command + " 2>&1").c_str(), "re"), ::pclose);
  if (pipe == nullptr) {
    return {};
  }
  std::string output;
  std::array<char, 4096> part{};
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe.get())) {
    output.append(part.data(), got);
  }
  return output;
}

}  // namespace penstock::bench::test
