#pragma once

#include <string>

namespace penstock {

/// What a plan warns of. docs/PLAN_JSON.md lists the codes.
struct PlanWarning {
  std::string code;          ///< `unknown-key`: lower case, words joined by `-`
  std::string text;          ///< a whole sentence, without its full stop
  std::string key = {};      ///< of the configuration, dotted; empty: the warning is of none
  std::string nearest = {};  ///< the dotted key that was probably meant; empty: none is like it
  bool is_misfit = false;    ///< the run does not fit this machine
};

}  // namespace penstock
