#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/engine_probe.h"

namespace penstock {

/// The names of the I/O engines that this machine has; parse_engine_kind() knows them.
inline std::vector<std::string> usable_engines() {
  std::vector<std::string> names;
  for (const EngineCandidate& candidate : probe_engines()) {
    if (candidate.usable) {
      names.push_back(candidate.name);
    }
  }
  return names;
}

/// Runs a suite whose parameter is the name of an engine on every one that there is.
#define PENSTOCK_ON_EVERY_ENGINE(suite)                    \
  INSTANTIATE_TEST_SUITE_P(                                \
      Engines, suite, testing::ValuesIn(usable_engines()), \
      [](const testing::TestParamInfo<std::string>& engine) { return engine.param; })

}  // namespace penstock
