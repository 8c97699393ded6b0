#include "swap/engine/trace_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "alloc/bytes.h"
#include "bindings/inventory/recorded_trace.h"
#include "swap/swap_engine.h"
#include "tests/io/temp_directory.h"

namespace penstock {
namespace {

std::vector<TraceOp> ops(const RecordedTrace& trace) {
  std::vector<TraceOp> all;
  for (const TraceEvent& event : trace.events) {
    all.push_back(event.op);
  }
  return all;
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(TraceLog, RecordsWhatCallersDo) {
  const TempDirectory directory;
  SwapEngineOptions options;
  options.trace = directory / "trace-%r.jsonl";
  options.config.ram_bytes = 0;
  auto engine = std::move(SwapEngine::open(std::move(options))).value();
  const NamespaceId space =
      engine->open_namespace("parameters", {{directory.path(), {}, {}}}).value();
  const TensorId a = engine->declare(space, {"a \"b\"", DType::kU8, {100}, Role::kParam}).value();
  const TensorId b = engine->declare(space, {"b", DType::kBF16, {2, 1024}, Role::kMoment}).value();
  ASSERT_TRUE(engine->put(a, std::vector<std::byte>(100)).wait().has_value());
  {
    const Result<Lease> lease = engine->allocate(b);
    ASSERT_TRUE(lease.has_value());
    ASSERT_TRUE(engine->commit(*lease).wait().has_value());
  }
  ASSERT_TRUE(engine->rename(b, "c").has_value());
  engine->prefetch(std::vector{b, a});
  {
    const Ticket ticket = engine->get(b, Access::kUpdate);
    ASSERT_TRUE(ticket.lease().has_value());
  }
  std::vector<std::byte> target(100);
  ASSERT_TRUE(engine->get_into(a, target).wait().has_value());
  ASSERT_TRUE(engine->flush().has_value());
  {
    const Result<Lease> outlives = engine->get(a).lease();
    ASSERT_TRUE(engine->forget(a).has_value());
    EXPECT_TRUE(engine->put(a, std::vector<std::byte>(100)).wait().has_error());
    engine->prefetch(std::vector{b, a});
  }
  ASSERT_TRUE(engine->close().has_value());

  const Result<RecordedTrace> trace = load_trace(directory / "trace-0.jsonl");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  using enum TraceOp;
  EXPECT_EQ(ops(*trace),
            (std::vector{kOpenNamespace, kDeclare, kDeclare, kPut, kAllocate, kCommit, kRelease,
                         kRename, kPrefetch, kGet, kLease, kRelease, kGetInto, kFlush, kGet, kLease,
                         kForget, kPrefetch, kRelease}));
  EXPECT_EQ(trace->events[17].tensors, std::vector{to_number(b)}) << "the other is forgotten";
  const TraceEvent& declared = trace->events[1];
  EXPECT_EQ(declared.info.name, "a \"b\"");
  EXPECT_EQ(declared.info.bytes(), 100U);
  EXPECT_EQ(trace->events[2].info.shape, (std::vector<std::uint64_t>{2, 1024}));
  EXPECT_EQ(trace->events[2].info.role, Role::kMoment);
  EXPECT_TRUE(trace->events[9].update);
  EXPECT_EQ(trace->events[8].tensors, (std::vector{to_number(b), to_number(a)}));
  std::uint64_t waited = 0;
  for (const TraceEvent& event : trace->events) {
    EXPECT_GE(event.waited_ns, waited);
    waited = event.waited_ns;
  }
  EXPECT_LE(waited, trace->events.back().at_ns);
  const Inventory inventory = traced_inventory(*trace);
  ASSERT_EQ(inventory.tensors.size(), 2U);
  EXPECT_EQ(inventory.tensors[1].name, "c");
}

TEST(TraceLog, NeverOverwrites) {
  const TempDirectory directory;
  const std::string target = directory / "trace";
  std::ofstream(target) << "another's\n";
  const auto open = [&target] {
    return TraceLog::open(target, [] { return TraceLog::Moment{}; }, [](const std::string&) {});
  };
  const auto second = open();
  const auto third = open();
  ASSERT_TRUE(second.has_value() && third.has_value());
  const std::string process = std::to_string(::getpid());
  EXPECT_EQ((*second)->path(), target + "." + process);
  EXPECT_EQ((*third)->path(), target + "." + process + ".2");
  (*second)->note(TraceOp::kFlush);
  (*second)->close();
  (*second)->note(TraceOp::kFlush);  // too late
  EXPECT_EQ(load_trace((*second)->path()).value().events.size(), 1U);
  EXPECT_EQ(text_of(target), "another's\n");
}

TEST(TraceLog, IsAnErrorWhereItCannotBeSaved) {
  SwapEngineOptions options;
  options.trace = "/no/such/directory/trace";
  const auto engine = SwapEngine::open(std::move(options));
  ASSERT_TRUE(engine.has_error());
  EXPECT_EQ(engine.error().system_errno(), ENOENT);
  EXPECT_NE(engine.error().message.find("PENSTOCK_TRACE"), std::string::npos);
}

TEST(TraceLog, EndsWithOneWarningWhereTheDiskIsFull) {
  int warnings = 0;
  const auto log = TraceLog::open(
      "/dev/full", [] { return TraceLog::Moment{}; },
      [&warnings](const std::string&) { ++warnings; });
  if (log.has_error()) {
    // It exists, so that another name is tried, which cannot be made in /dev.
    GTEST_SKIP() << log.error().message;
  }
  (*log)->note(TraceOp::kFlush);
  (*log)->close();
}

constexpr const char* kHead = "{\"schema\":\"penstock.trace/1\"}\n";

TEST(RecordedTrace, LeavesOutALineThatWasTorn) {
  const auto trace =
      parse_trace(std::string(kHead) + "{\"t\":1,\"w\":0,\"op\":\"plan\"}\n{\"t\":2,\"w\":", "x");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->events.size(), 1U);
}

TEST(RecordedTrace, RefusesWhatIsNoTrace) {
  const std::string declared =
      R"({"t":1,"w":0,"op":"declare","tensor":1,"space":1,"name":"a","dtype":"u8","shape":[9],"role":"param"})"
      "\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "no whole line"},
      {"{\"schema\":\"penstock.trace/2\"}\n", "penstock.trace/2"},
      {"{\"schema\":1}\n", "'schema'"},
      {"[]\n", "object"},
      {std::string(kHead) + "{\"t\":1,\"w\":0,\"op\":\"fly\"}\n", "'fly'"},
      {std::string(kHead) + "{\"t\":1,\"op\":\"plan\"}\n", "'w'"},
      {std::string(kHead) + "{\"t\":1,\"w\":0,\"op\":\"get\",\"tensor\":3}\n", "not declared"},
      {kHead + declared + declared, "declared twice"},
      {kHead + declared + "{\"t\":0,\"w\":0,\"op\":\"plan\"}\n", "time goes back"},
      {kHead + declared + "{\"t\":2,\"w\":0,\"op\":\"prefetch\",\"tensors\":[7]}\n", "tensor 7"},
      {kHead +
           std::string(R"({"t":1,"w":0,"op":"declare","tensor":1,"space":1,"name":"a",)"
                       R"("dtype":"f64","shape":[9223372036854775807],"role":"param"})") +
           "\n",
       "size"},
  };
  for (const auto& [text, why] : cases) {
    const auto trace = parse_trace(text, "x.jsonl");
    ASSERT_TRUE(trace.has_error()) << text;
    EXPECT_EQ(trace.error().code, make_error_code(Fault::kInvalidArgument)) << text;
    EXPECT_NE(trace.error().message.find(why), std::string::npos) << trace.error().message;
    EXPECT_NE(trace.error().message.find("x.jsonl"), std::string::npos) << trace.error().message;
  }
}

TEST(RecordedTrace, WhatItLacksIsUsedWithTheTensorBefore) {
  const auto inventory_of = [](const std::vector<std::string>& names) {
    Inventory inventory;
    for (const std::string& name : names) {
      inventory.tensors.push_back({name, DType::kU8, {1}, Role::kParam});
    }
    return inventory;
  };
  EXPECT_EQ(order_of_use(inventory_of({"head", "head.bias", "a", "a.bias", "b"}),
                         inventory_of({"a", "b", "head", "elsewhere"})),
            (std::vector<std::size_t>{2, 3, 4, 0, 1}));
}

}  // namespace
}  // namespace penstock
