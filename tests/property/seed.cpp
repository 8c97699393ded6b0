// Every run of these tests looks at the same cases, unless RC_PARAMS says
// otherwise: a test that fails for a change must not have failed by luck.
// RC_PARAMS="seed=N max_success=10000" looks further; what a failure prints as
// `reproduce=…` runs that one case again.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace penstock {
namespace {

constexpr const char* kParameters = "seed=20241121";

class Seed final : public testing::Environment {
 public:
  void SetUp() override {
    ::setenv("RC_PARAMS", kParameters, 0);
    std::printf("properties: RC_PARAMS=\"%s\"\n", std::getenv("RC_PARAMS"));
  }
};

const testing::Environment* const kSeed = testing::AddGlobalTestEnvironment(new Seed);

}  // namespace
}  // namespace penstock
