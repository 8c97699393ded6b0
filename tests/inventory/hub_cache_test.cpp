#include "bindings/inventory/hub_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock {
namespace {

TEST(HubCacheTest, NamesAreThoseThatTheHubTakes) {
  for (const char* name : {"gpt2", "Qwen/Qwen3-0.6B", "acme/a_b.c-d", "m"}) {
    EXPECT_TRUE(is_hub_name(name)) << name;
  }
  for (const char* path : {"", "/", "a/", "/a", "a/b/c", "a--b", "a..b", ".a", "a.", "-a", "a b",
                           "~/a", "model.json", "org/model.safetensors", "org/repo.git", "a\n"}) {
    EXPECT_FALSE(is_hub_name(path)) << path;
  }
  EXPECT_FALSE(is_hub_name(std::string(97, 'a')));
}

}  // namespace
}  // namespace penstock
