#pragma once

#include <string>
#include <vector>

#include "alloc/result.h"

namespace penstock::bench {

/// A Python with matplotlib, which draws reports.
class PlotProgram {
 public:
  /// The first of `candidates` that has matplotlib. An error where none has: what each said, and
  /// what to install. Takes a second or two, and keeps nothing running.
  static Result<PlotProgram> find(const std::vector<std::string>& candidates);

  /// The SVG of a JSON report with courses. Errors: what went wrong there.
  Result<std::string> draw(const std::string& report) const;

 private:
  explicit PlotProgram(std::string python) : python_(std::move(python)) {}

  std::string python_;
};

}  // namespace penstock::bench
