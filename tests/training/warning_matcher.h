#pragma once

#include <gmock/gmock.h>

namespace penstock {

/// Of a PlanWarning: its text has `part` in it.
MATCHER_P(Says, part, "") {
  return testing::ExplainMatchResult(testing::HasSubstr(part), arg.text, result_listener);
}

/// Of a PlanWarning: it is of this code, and about this key of the configuration.
MATCHER_P2(Warns, code, key, "") {
  return arg.code == code && arg.key == key;
}

}  // namespace penstock
