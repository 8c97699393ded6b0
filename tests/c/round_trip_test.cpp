#include <algorithm>
#include <cstring>
#include <fstream>

#include "tests/c/c_fixture.h"

namespace penstock {
namespace {

using testing::HasSubstr;

class CRoundTrip : public CFixture {};

TEST_F(CRoundTrip, WhatIsPutComesBack) {
  put("a", 7);
  put("b", 8);
  penstock_lease* const lease = get("a");
  const unsigned char* const data = memory(lease);
  EXPECT_TRUE(std::all_of(data, data + kBytes, [](unsigned char byte) { return byte == 7; }));
  EXPECT_EQ(penstock_release(lease), PENSTOCK_OK);
  std::vector<unsigned char> target(kBytes + 1);
  ASSERT_EQ(penstock_get_into(engine_, "b", target.data() + 1, kBytes), PENSTOCK_OK)
      << "at any address";
  EXPECT_EQ(std::count(target.begin() + 1, target.end(), 8), static_cast<std::ptrdiff_t>(kBytes));
}

TEST_F(CRoundTrip, TypesAndShapesMakeBytes) {
  const std::uint64_t shape[] = {30, 1000};
  penstock_tensor_info info{};
  info.struct_size = sizeof info;
  info.dtype = "bfloat16";
  info.role = "moment";
  info.shape = shape;
  info.dimensions = 2;
  ASSERT_EQ(penstock_declare(engine_, "m", &info), PENSTOCK_OK) << penstock_last_error();
  info.dimensions = 0;
  ASSERT_EQ(penstock_declare(engine_, "scalar", &info), PENSTOCK_OK) << penstock_last_error();
  penstock_tensor_state state{};
  state.struct_size = sizeof state;
  ASSERT_EQ(penstock_state(engine_, "m", &state), PENSTOCK_OK);
  EXPECT_EQ(state.bytes, 60'000U);
  EXPECT_EQ(state.generation, 0U);
  ASSERT_EQ(penstock_state(engine_, "scalar", &state), PENSTOCK_OK);
  EXPECT_EQ(state.bytes, 2U);
}

TEST_F(CRoundTrip, TicketsAreWaitedForAndLookedAt) {
  ASSERT_EQ(declare("a"), PENSTOCK_OK);
  const std::vector<unsigned char> data(kBytes, 5);
  penstock_ticket* writing = nullptr;
  ASSERT_EQ(penstock_put_async(engine_, "a", data.data(), kBytes, &writing), PENSTOCK_OK);
  EXPECT_EQ(penstock_ticket_wait(writing, INT64_MAX), PENSTOCK_OK);
  EXPECT_EQ(penstock_ticket_wait(writing, 0), PENSTOCK_OK) << "done is done";
  EXPECT_EQ(penstock_ticket_drop(writing), PENSTOCK_OK);

  penstock_ticket* reading = nullptr;
  ASSERT_EQ(penstock_get_async(engine_, "a", PENSTOCK_READ, &reading), PENSTOCK_OK);
  int status = PENSTOCK_ERROR_PENDING;
  while (status == PENSTOCK_ERROR_PENDING) {
    status = penstock_ticket_wait(reading, 1'000'000);
  }
  EXPECT_EQ(status, PENSTOCK_OK) << penstock_last_error();
  penstock_lease* first = nullptr;
  penstock_lease* second = nullptr;
  ASSERT_EQ(penstock_ticket_lease(reading, &first), PENSTOCK_OK);
  ASSERT_EQ(penstock_ticket_lease(reading, &second), PENSTOCK_OK);
  EXPECT_NE(first, second);
  EXPECT_EQ(memory(first), memory(second)) << "the same memory twice";
  EXPECT_EQ(penstock_release(first), PENSTOCK_OK);
  EXPECT_EQ(memory(second)[kBytes - 1], 5) << "held by the other still";
  EXPECT_EQ(penstock_release(second), PENSTOCK_OK);
  EXPECT_EQ(penstock_ticket_drop(reading), PENSTOCK_OK);

  std::vector<unsigned char> target(kBytes);
  ASSERT_EQ(penstock_get_into_async(engine_, "a", target.data(), kBytes, &reading), PENSTOCK_OK);
  EXPECT_EQ(penstock_ticket_wait(reading, -1), PENSTOCK_OK);
  EXPECT_EQ(target, data);
  EXPECT_EQ(penstock_ticket_drop(reading), PENSTOCK_OK);
}

TEST_F(CRoundTrip, ContentsAreChangedAndCommitted) {
  put("a", 1);
  penstock_lease* lease = get("a", PENSTOCK_UPDATE);
  std::memset(memory(lease), 2, kBytes);
  EXPECT_EQ(penstock_commit(engine_, lease), PENSTOCK_OK) << penstock_last_error();
  EXPECT_EQ(penstock_release(lease), PENSTOCK_OK);

  ASSERT_EQ(penstock_allocate(engine_, "a", &lease), PENSTOCK_OK);
  std::memset(memory(lease), 3, kBytes);
  penstock_ticket* ticket = nullptr;
  ASSERT_EQ(penstock_commit_async(engine_, lease, &ticket), PENSTOCK_OK);
  EXPECT_EQ(penstock_release(lease), PENSTOCK_OK);
  EXPECT_EQ(penstock_ticket_wait(ticket, -1), PENSTOCK_OK);
  EXPECT_EQ(penstock_ticket_drop(ticket), PENSTOCK_OK);
  EXPECT_EQ(penstock_flush(engine_), PENSTOCK_OK);
  lease = get("a");
  EXPECT_EQ(memory(lease)[kBytes / 2], 3);
  EXPECT_EQ(penstock_release(lease), PENSTOCK_OK);
  penstock_tensor_state state{};
  state.struct_size = sizeof state;
  ASSERT_EQ(penstock_state(engine_, "a", &state), PENSTOCK_OK);
  EXPECT_EQ(state.generation, 3U);
}

TEST_F(CRoundTrip, WhatIsReadAheadIsAHit) {
  const std::vector<const char*> names = {"a", "b", "c"};
  for (const char* name : names) {
    put(name, 1);
  }
  ASSERT_EQ(penstock_plan(engine_), PENSTOCK_OK) << penstock_last_error();
  ASSERT_EQ(penstock_prefetch(engine_, names.data(), names.size()), PENSTOCK_OK);
  for (const char* name : names) {
    EXPECT_EQ(penstock_release(get(name)), PENSTOCK_OK);
  }
  penstock_engine_stats stats{};
  stats.struct_size = sizeof stats;
  ASSERT_EQ(penstock_stats(engine_, &stats), PENSTOCK_OK);
  EXPECT_EQ(stats.gets, 3U);
  EXPECT_EQ(stats.misses, 0U);
  EXPECT_EQ(stats.tensor_write_bytes, 3 * kBytes);
  EXPECT_GE(stats.write_bytes, stats.tensor_write_bytes);
  EXPECT_EQ(stats.write_failures + stats.io_errors, 0U);
}

TEST_F(CRoundTrip, ThePlanIsADocument) {
  put("a", 1);
  ASSERT_EQ(penstock_plan(engine_), PENSTOCK_OK);
  std::size_t length = 0;
  ASSERT_EQ(penstock_plan_json(engine_, nullptr, 0, &length), PENSTOCK_OK);
  std::string text(length + 1, '?');
  ASSERT_EQ(penstock_plan_json(engine_, text.data(), length + 1, nullptr), PENSTOCK_OK);
  EXPECT_EQ(std::strlen(text.c_str()), length);
  EXPECT_THAT(text, HasSubstr(R"("schema":"penstock.placement/1")"));
  EXPECT_THAT(text, HasSubstr(R"("max_pinned_bytes")"));
}

TEST_F(CRoundTrip, ConfigurationsAreTextsOrFiles) {
  const std::string text =
      R"({"penstock": {"ram_bytes": "8MiB", "paths": [{"path": ")" + directory_.path() + R"("}]}})";
  const std::string file = directory_ / "ds.json";
  std::ofstream(file) << text;
  for (const bool from_file : {false, true}) {
    ASSERT_EQ(penstock_close(engine_), PENSTOCK_OK);
    penstock_engine_options options{};
    options.struct_size = sizeof options;
    (from_file ? options.config_file : options.config_json) =
        from_file ? file.c_str() : text.c_str();
    ASSERT_EQ(penstock_open(&options, &engine_), PENSTOCK_OK) << penstock_last_error();
    put("a", 1);
    penstock_tensor_state state{};
    state.struct_size = sizeof state;
    ASSERT_EQ(penstock_state(engine_, "a", &state), PENSTOCK_OK);
    EXPECT_EQ(state.resident, 1U) << "ram_bytes was read";
    EXPECT_EQ(state.on_drive, 0U);
  }
}

TEST_F(CRoundTrip, ForgottenNamesAreFree) {
  put("a", 1);
  penstock_lease* const lease = get("a");
  ASSERT_EQ(penstock_forget(engine_, "a"), PENSTOCK_OK);
  EXPECT_EQ(memory(lease)[0], 1) << "leases that are out stay valid";
  put("a", 2);
  EXPECT_EQ(penstock_release(lease), PENSTOCK_OK);
}

TEST(CVersion, IsTheHeaders) {
  const std::string header = std::to_string(PENSTOCK_VERSION_MAJOR) + "." +
                             std::to_string(PENSTOCK_VERSION_MINOR) + "." +
                             std::to_string(PENSTOCK_VERSION_PATCH);
  EXPECT_EQ(penstock_version(), header);
}

}  // namespace
}  // namespace penstock
