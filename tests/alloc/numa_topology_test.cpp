#include "alloc/numa_topology.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "alloc/bytes.h"
#include "alloc/page_source.h"

namespace penstock {
namespace {

using Topology = std::shared_ptr<const NumaTopology>;

TEST(NumaTopology, HasANodeWithMemoryAndACpu) {
  const Result<Topology> topology = NumaTopology::read();
  ASSERT_TRUE(topology) << topology.error().message;
  const std::vector<NumaNode>& nodes = (*topology)->nodes();
  ASSERT_FALSE(nodes.empty());
  EXPECT_TRUE(std::ranges::any_of(nodes, [](const NumaNode& node) { return node.bytes != 0; }));
  EXPECT_TRUE(std::ranges::any_of(nodes, [](const NumaNode& node) { return !node.cpus.empty(); }));
  EXPECT_TRUE(std::ranges::is_sorted(nodes, {}, &NumaNode::number));
}

TEST(NumaHome, IsTheNodeOfAllCores) {
  const std::vector<NumaNode> nodes = {{0, {0, 1, 4, 5}, kGiB}, {3, {2, 3, 6, 7}, kGiB}};
  EXPECT_EQ(find_numa_home(nodes, std::vector<std::uint32_t>{2}).node, 3U);
  EXPECT_EQ(find_numa_home(nodes, std::vector<std::uint32_t>{0, 1, 4, 5}).node, 0U);
  EXPECT_NE(find_numa_home(nodes, std::vector<std::uint32_t>{6, 7}).reason.find("node 3"),
            std::string::npos);
}

TEST(NumaHome, IsNowhereWhereCoresAreSpreadOrNotKnown) {
  const std::vector<NumaNode> nodes = {{0, {0, 1}, kGiB}, {1, {2, 3}, kGiB}, {2, {}, 8 * kGiB}};
  for (const std::vector<std::uint32_t>& cpus :
       {std::vector<std::uint32_t>{1, 2}, std::vector<std::uint32_t>{},
        std::vector<std::uint32_t>{9}}) {
    const NumaHome home = find_numa_home(nodes, cpus);
    EXPECT_FALSE(home.node);
    EXPECT_NE(home.reason.find("3 NUMA nodes"), std::string::npos) << home.reason;
  }
}

TEST(NumaHome, IsNoQuestionOnOneNode) {
  const std::vector<NumaNode> nodes = {{0, {0, 1}, kGiB}};
  const NumaHome home = find_numa_home(nodes, std::vector<std::uint32_t>{0});
  EXPECT_FALSE(home.node) << "nothing happens";
  EXPECT_NE(home.reason.find("one NUMA node"), std::string::npos) << "and that is said";
}

TEST(NumaHome, OfTwoKindsOfMemoryBesideTheSameCoresIsTheFirst) {
  const std::vector<NumaNode> nodes = {{0, {0, 1}, kGiB}, {1, {0, 1}, 8 * kGiB}};
  EXPECT_EQ(find_numa_home(nodes, std::vector<std::uint32_t>{0, 1}).node, 0U);
}

// hwloc makes up a machine on demand; what is bound there is bound nowhere.
TEST(NumaTopology, KnowsAMachineOfTwoNodes) {
  ASSERT_EQ(::setenv("HWLOC_SYNTHETIC", "node:2 core:2 pu:1", 1), 0);
  const Result<Topology> topology = NumaTopology::read();
  ASSERT_EQ(::unsetenv("HWLOC_SYNTHETIC"), 0);
  ASSERT_TRUE(topology) << topology.error().message;
  ASSERT_EQ((*topology)->nodes().size(), 2U);
  EXPECT_EQ((*topology)->nodes()[1].cpus, (std::vector<std::uint32_t>{2, 3}));
  EXPECT_FALSE((*topology)->home().node) << "all four cores are this thread's";
}

// The memory policy that the kernel has for the mapping that begins at `data`: `default anon=1…`,
// `prefer (many):0 …`; empty if it does not say.
std::string policy_of(const std::byte* data) {
  std::ifstream maps("/proc/self/numa_maps");
  const std::string begin = fmt::format("{:x} ", reinterpret_cast<std::uintptr_t>(data));
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with(begin)) {
      return line.substr(begin.size()) + " ";
    }
  }
  return {};
}

TEST(NumaTopology, TellsTheKernelWhereFreshPagesComeFrom) {
  const Result<Topology> topology = NumaTopology::read();
  ASSERT_TRUE(topology) << topology.error().message;
  const std::uint32_t node = (*topology)->nodes().front().number;
  const auto source = PageSource::make({.numa = {*topology, node}});
  const Result<Memory> memory = source->allocate(4 * kMiB);
  ASSERT_TRUE(memory);
  if (!source->refusals().numa.empty()) {
    GTEST_SKIP() << source->refusals().numa;
  }
  const std::string policy = policy_of(memory->data());
  if (policy.empty()) {
    GTEST_SKIP() << "this kernel has no /proc/self/numa_maps";
  }
  EXPECT_TRUE(policy.starts_with("prefer")) << policy;
  // On one node, that is all nodes.
  EXPECT_TRUE(policy.find(fmt::format(":{} ", node)) != std::string::npos ||
              (*topology)->nodes().size() == 1)
      << policy;
  const Result<Memory> elsewhere = PageSource::make()->allocate(4 * kMiB);
  EXPECT_TRUE(policy_of(elsewhere->data()).starts_with("default"));
}

TEST(NumaTopology, ANodeThatIsNotThereIsRefusedAndDoneWithout) {
  const Result<Topology> topology = NumaTopology::read();
  ASSERT_TRUE(topology) << topology.error().message;
  const auto source = PageSource::make({.numa = {*topology, 4000}});
  const Result<Memory> memory = source->allocate(kMiB);
  ASSERT_TRUE(memory) << "a wish, not a condition";
  memory->data()[0] = std::byte{1};
  EXPECT_NE(source->refusals().numa.find("node 4000"), std::string::npos);
}

}  // namespace
}  // namespace penstock
