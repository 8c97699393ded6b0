#include "alloc/numa_topology.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace penstock {
namespace {

TEST(NumaTopology, HasANodeWithMemoryAndACpu) {
  const Result<std::vector<NumaNode>> nodes = read_numa_nodes();
  ASSERT_TRUE(nodes) << nodes.error().message;
  ASSERT_FALSE(nodes->empty());
  EXPECT_TRUE(std::ranges::any_of(*nodes, [](const NumaNode& node) { return node.bytes != 0; }));
  EXPECT_TRUE(std::ranges::any_of(*nodes, [](const NumaNode& node) { return !node.cpus.empty(); }));
  EXPECT_TRUE(std::ranges::is_sorted(*nodes, {}, &NumaNode::number));
}

}  // namespace
}  // namespace penstock
