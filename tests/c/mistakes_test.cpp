// Whatever a caller does wrong is an error with a sentence, and the engine goes on.

#include <sys/resource.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "tests/c/c_fixture.h"

namespace penstock {
namespace {

class CMistakes : public CFixture {
 protected:
  // After any mistake all is as before.
  void TearDown() override {
    put("after the mistake", 9);
    penstock_lease* const lease = get("after the mistake");
    EXPECT_EQ(memory(lease)[kBytes - 1], 9);
    EXPECT_EQ(penstock_release(lease), PENSTOCK_OK);
    CFixture::TearDown();
  }

  std::array<unsigned char, kBytes> data_{};
};

TEST_F(CMistakes, UnknownTensors) {
  penstock_lease* lease = nullptr;
  penstock_ticket* ticket = nullptr;
  penstock_tensor_state state{};
  state.struct_size = sizeof state;
  const char* const names[] = {"nothing"};
  const int expected = PENSTOCK_ERROR_UNKNOWN_TENSOR;
  expect_error(penstock_put(engine_, "nothing", data_.data(), kBytes), expected, "'nothing'");
  expect_error(penstock_put_async(engine_, "nothing", data_.data(), kBytes, &ticket), expected,
               "declare it first");
  expect_error(penstock_get(engine_, "nothing", PENSTOCK_READ, &lease), expected, "'nothing'");
  expect_error(penstock_get_async(engine_, "nothing", PENSTOCK_READ, &ticket), expected,
               "'nothing'");
  expect_error(penstock_get_into(engine_, "nothing", data_.data(), kBytes), expected, "'nothing'");
  expect_error(penstock_allocate(engine_, "nothing", &lease), expected, "'nothing'");
  expect_error(penstock_state(engine_, "nothing", &state), expected, "'nothing'");
  expect_error(penstock_forget(engine_, "nothing"), expected, "'nothing'");
  expect_error(penstock_prefetch(engine_, names, 1), expected, "'nothing'");
  EXPECT_EQ(lease, nullptr);
  EXPECT_EQ(ticket, nullptr);
}

TEST_F(CMistakes, WrongSizes) {
  put("a", 1);
  expect_error(penstock_put(engine_, "a", data_.data(), kBytes - 1), PENSTOCK_ERROR_WRONG_SIZE,
               "300000 bytes");
  expect_error(penstock_put(engine_, "a", data_.data(), 0), PENSTOCK_ERROR_WRONG_SIZE, "'a'");
  expect_error(penstock_get_into(engine_, "a", data_.data(), kBytes - 1), PENSTOCK_ERROR_WRONG_SIZE,
               "300000 bytes");
  char text[8] = "before";
  std::size_t length = 0;
  expect_error(penstock_plan_json(engine_, text, sizeof text, &length), PENSTOCK_ERROR_WRONG_SIZE,
               "room of 8");
  EXPECT_GT(length, sizeof text);
  EXPECT_STREQ(text, "before");
}

TEST_F(CMistakes, TensorsThatCannotBe) {
  const std::uint64_t shape[] = {std::uint64_t{1} << 40, std::uint64_t{1} << 40};
  penstock_tensor_info info{};
  info.struct_size = sizeof info;
  info.shape = shape;
  info.dimensions = 2;
  expect_error(penstock_declare(engine_, "a", &info), PENSTOCK_ERROR_ARGUMENT, "2^56");
  info.dimensions = SIZE_MAX;
  expect_error(penstock_declare(engine_, "a", &info), PENSTOCK_ERROR_ARGUMENT, "64 are allowed");
  info.dimensions = 0;
  info.dtype = "float23";
  expect_error(penstock_declare(engine_, "a", &info), PENSTOCK_ERROR_ARGUMENT, "float23");
  info.dtype = nullptr;
  info.role = "roll";
  expect_error(penstock_declare(engine_, "a", &info), PENSTOCK_ERROR_ARGUMENT, "roll");
  expect_error(declare("a", 0), PENSTOCK_ERROR_WRONG_SIZE, "no bytes");
  expect_error(declare(""), PENSTOCK_ERROR_ARGUMENT, "name is empty");
  put("a", 1);
  expect_error(declare("a"), PENSTOCK_ERROR_ARGUMENT, "declared already");
}

TEST_F(CMistakes, NoContentYet) {
  ASSERT_EQ(declare("a"), PENSTOCK_OK);
  penstock_lease* lease = nullptr;
  expect_error(penstock_get(engine_, "a", PENSTOCK_READ, &lease), PENSTOCK_ERROR_ARGUMENT,
               "no content yet");
  EXPECT_EQ(lease, nullptr);
}

TEST_F(CMistakes, DoubleRelease) {
  put("a", 1);
  penstock_lease* const lease = get("a");
  penstock_lease* const other = get("a");
  EXPECT_EQ(penstock_release(lease), PENSTOCK_OK);
  expect_error(penstock_release(lease), PENSTOCK_ERROR_CLOSED, "lease was released");
  expect_error(penstock_lease_memory(lease, nullptr, nullptr), PENSTOCK_ERROR_CLOSED, "released");
  expect_error(penstock_commit(engine_, lease), PENSTOCK_ERROR_CLOSED, "released");
  EXPECT_EQ(memory(other)[0], 1) << "the other's hold is its own";
  EXPECT_EQ(penstock_release(other), PENSTOCK_OK);
  penstock_ticket* ticket = nullptr;
  ASSERT_EQ(penstock_get_async(engine_, "a", PENSTOCK_READ, &ticket), PENSTOCK_OK);
  EXPECT_EQ(penstock_ticket_drop(ticket), PENSTOCK_OK);
  expect_error(penstock_ticket_drop(ticket), PENSTOCK_ERROR_CLOSED, "ticket was dropped");
  expect_error(penstock_ticket_wait(ticket, -1), PENSTOCK_ERROR_CLOSED, "dropped");
}

TEST_F(CMistakes, UseAfterClose) {
  put("a", 1);
  penstock_lease* const lease = get("a");
  penstock_lease* const writable = get("a", PENSTOCK_UPDATE);
  penstock_engine* const closed = engine_;
  ASSERT_EQ(penstock_close(closed), PENSTOCK_OK);
  engine_ = open(directory_.path());

  penstock_ticket* ticket = nullptr;
  penstock_lease* none = nullptr;
  penstock_engine_stats stats{};
  stats.struct_size = sizeof stats;
  penstock_tensor_info info{};
  info.struct_size = sizeof info;
  const int expected = PENSTOCK_ERROR_CLOSED;
  expect_error(penstock_close(closed), expected, "engine is closed");
  expect_error(penstock_declare(closed, "b", &info), expected, "closed");
  expect_error(penstock_put(closed, "a", data_.data(), kBytes), expected, "closed");
  expect_error(penstock_get(closed, "a", PENSTOCK_READ, &none), expected, "closed");
  expect_error(penstock_get_async(closed, "a", PENSTOCK_READ, &ticket), expected, "closed");
  expect_error(penstock_get_into(closed, "a", data_.data(), kBytes), expected, "closed");
  expect_error(penstock_commit(closed, writable), expected, "closed");
  expect_error(penstock_prefetch(closed, nullptr, 0), expected, "closed");
  expect_error(penstock_flush(closed), expected, "closed");
  expect_error(penstock_plan(closed), expected, "closed");
  expect_error(penstock_stats(closed, &stats), expected, "closed");
  EXPECT_EQ(memory(lease)[kBytes - 1], 1) << "leases stay readable";
  EXPECT_EQ(penstock_release(lease), PENSTOCK_OK);
  EXPECT_EQ(penstock_release(writable), PENSTOCK_OK);
}

TEST_F(CMistakes, NullPointers) {
  put("a", 1);
  penstock_engine* const none = nullptr;
  const int expected = PENSTOCK_ERROR_ARGUMENT;
  const std::string part = "null pointer";
  penstock_engine* opened = nullptr;
  penstock_engine_options options{};
  options.struct_size = sizeof options;
  penstock_lease* const lease = get("a", PENSTOCK_UPDATE);
  penstock_ticket* ticket = nullptr;
  ASSERT_EQ(penstock_get_async(engine_, "a", PENSTOCK_READ, &ticket), PENSTOCK_OK);
  expect_error(penstock_open(nullptr, &opened), expected, part);
  expect_error(penstock_open(&options, nullptr), expected, part);
  expect_error(penstock_close(none), expected, part);
  expect_error(penstock_declare(engine_, "b", nullptr), expected, part);
  expect_error(penstock_declare(engine_, nullptr, nullptr), expected, part);
  penstock_tensor_info info{};
  info.struct_size = sizeof info;
  info.dimensions = 1;
  expect_error(penstock_declare(engine_, "b", &info), expected, part);
  expect_error(penstock_put(engine_, nullptr, data_.data(), kBytes), expected, part);
  expect_error(penstock_put(engine_, "a", nullptr, kBytes), expected, part);
  expect_error(penstock_put_async(engine_, "a", data_.data(), kBytes, nullptr), expected, part);
  expect_error(penstock_get(engine_, "a", PENSTOCK_READ, nullptr), expected, part);
  expect_error(penstock_get_async(engine_, "a", PENSTOCK_READ, nullptr), expected, part);
  expect_error(penstock_get_into(engine_, "a", nullptr, kBytes), expected, part);
  expect_error(penstock_allocate(engine_, "a", nullptr), expected, part);
  expect_error(penstock_commit(engine_, nullptr), expected, part);
  expect_error(penstock_commit_async(engine_, lease, nullptr), expected, part);
  expect_error(penstock_prefetch(engine_, nullptr, 1), expected, part);
  expect_error(penstock_flush(none), expected, part);
  expect_error(penstock_state(engine_, "a", nullptr), expected, part);
  expect_error(penstock_stats(engine_, nullptr), expected, part);
  expect_error(penstock_plan_json(engine_, nullptr, 10, nullptr), expected, part);
  expect_error(penstock_lease_memory(nullptr, nullptr, nullptr), expected, part);
  expect_error(penstock_release(nullptr), expected, part);
  expect_error(penstock_ticket_wait(nullptr, 0), expected, part);
  expect_error(penstock_ticket_lease(ticket, nullptr), expected, part);
  expect_error(penstock_ticket_drop(nullptr), expected, part);
  const char* const no_path[] = {nullptr};
  options.paths = no_path;
  options.path_count = 1;
  expect_error(penstock_open(&options, &opened), expected, "paths[0]");
  EXPECT_EQ(penstock_lease_memory(lease, nullptr, nullptr), PENSTOCK_OK) << "neither is wanted";
  EXPECT_EQ(penstock_release(lease), PENSTOCK_OK);
  EXPECT_EQ(penstock_ticket_drop(ticket), PENSTOCK_OK);
}

TEST_F(CMistakes, StructsThatAreTooSmall) {
  put("a", 1);
  penstock_engine* opened = nullptr;
  penstock_engine_options options{};
  penstock_tensor_info info{};
  penstock_tensor_state state{};
  penstock_engine_stats stats{};
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{1} << 40}) {
    options.struct_size = info.struct_size = state.struct_size = stats.struct_size = bytes;
    const int expected = PENSTOCK_ERROR_ARGUMENT;
    expect_error(penstock_open(&options, &opened), expected, "struct_size of the options");
    expect_error(penstock_declare(engine_, "b", &info), expected, "struct_size");
    expect_error(penstock_state(engine_, "a", &state), expected, "struct_size of the state");
    expect_error(penstock_stats(engine_, &stats), expected,
                 "sizeof of the struct (" + std::to_string(sizeof stats) + ")");
  }
}

// Of a program that was built with a later header.
TEST_F(CMistakes, StructsThatAreLarger) {
  struct {
    penstock_tensor_info known;
    std::uint64_t unknown;
  } info{};
  const std::uint64_t bytes = kBytes;
  info.known.struct_size = sizeof info;
  info.known.shape = &bytes;
  info.known.dimensions = 1;
  info.unknown = 1;
  expect_error(penstock_declare(engine_, "a", &info.known), PENSTOCK_ERROR_UNSUPPORTED,
               "does not know");
  info.unknown = 0;
  EXPECT_EQ(penstock_declare(engine_, "a", &info.known), PENSTOCK_OK) << penstock_last_error();
  struct {
    penstock_engine_stats known;
    std::uint64_t unknown;
  } stats{};
  stats.known.struct_size = sizeof stats;
  stats.unknown = 5;
  EXPECT_EQ(penstock_stats(engine_, &stats.known), PENSTOCK_OK);
  EXPECT_EQ(stats.known.struct_size, sizeof stats);
  EXPECT_EQ(stats.unknown, 5U) << "left alone";
}

TEST_F(CMistakes, HandlesThatNeverWere) {
  put("a", 1);
  penstock_lease* const lease = get("a", PENSTOCK_UPDATE);
  const int expected = PENSTOCK_ERROR_ARGUMENT;
  for (const std::uintptr_t number : {std::uintptr_t{1}, std::uintptr_t{8}, ~std::uintptr_t{0},
                                      reinterpret_cast<std::uintptr_t>(data_.data())}) {
    expect_error(penstock_close(reinterpret_cast<penstock_engine*>(number)), expected, "no engine");
    expect_error(penstock_release(reinterpret_cast<penstock_lease*>(number)), expected, "no lease");
    expect_error(penstock_ticket_drop(reinterpret_cast<penstock_ticket*>(number)), expected,
                 "no ticket");
  }
  expect_error(penstock_release(reinterpret_cast<penstock_lease*>(engine_)), expected, "no lease");
  expect_error(penstock_flush(reinterpret_cast<penstock_engine*>(lease)), expected, "no engine");
  EXPECT_EQ(penstock_release(lease), PENSTOCK_OK);
}

TEST_F(CMistakes, LeasesInTheWrongPlace) {
  put("a", 1);
  penstock_engine* const other = open(directory_.path());
  penstock_lease* const writable = get("a", PENSTOCK_UPDATE);
  expect_error(penstock_commit(other, writable), PENSTOCK_ERROR_ARGUMENT, "another engine's");
  EXPECT_EQ(penstock_release(writable), PENSTOCK_OK);
  penstock_lease* const readable = get("a");
  expect_error(penstock_commit(engine_, readable), PENSTOCK_ERROR_ARGUMENT, "PENSTOCK_UPDATE");
  EXPECT_EQ(penstock_release(readable), PENSTOCK_OK);
  penstock_lease* lease = nullptr;
  expect_error(penstock_get(engine_, "a", 2, &lease), PENSTOCK_ERROR_ARGUMENT, "access is 2");
  penstock_ticket* ticket = nullptr;
  expect_error(penstock_get_async(engine_, "a", -1, &ticket), PENSTOCK_ERROR_ARGUMENT, "access");
  ASSERT_EQ(penstock_put_async(engine_, "a", data_.data(), kBytes, &ticket), PENSTOCK_OK);
  expect_error(penstock_ticket_lease(ticket, &lease), PENSTOCK_ERROR_ARGUMENT, "has no lease");
  EXPECT_EQ(penstock_ticket_wait(ticket, -1), PENSTOCK_OK);
  EXPECT_EQ(penstock_ticket_drop(ticket), PENSTOCK_OK);
  EXPECT_EQ(penstock_close(other), PENSTOCK_OK);
}

TEST_F(CMistakes, AForgottenTensorIsNamed) {
  put("weight", 1);
  penstock_lease* const lease = get("weight", PENSTOCK_UPDATE);
  ASSERT_EQ(penstock_forget(engine_, "weight"), PENSTOCK_OK);
  expect_error(penstock_commit(engine_, lease), PENSTOCK_ERROR_UNKNOWN_TENSOR, "'weight'");
  EXPECT_EQ(penstock_release(lease), PENSTOCK_OK);
}

TEST_F(CMistakes, MoreThanTheMachineHasIsExhausted) {
  ::rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  ::rlimit limit = before;
  limit.rlim_cur = std::uint64_t{32} << 30;
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  ASSERT_EQ(declare("large", std::uint64_t{64} << 30), PENSTOCK_OK) << penstock_last_error();
  penstock_lease* lease = nullptr;
  expect_error(penstock_allocate(engine_, "large", &lease), PENSTOCK_ERROR_EXHAUSTED, "64.0 GiB");
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
}

TEST_F(CMistakes, ConfigurationsAndPathsThatWillNotDo) {
  penstock_engine_options options{};
  options.struct_size = sizeof options;
  penstock_engine* engine = engine_;
  expect_error(penstock_open(&options, &engine), PENSTOCK_ERROR_CONFIGURATION, "path");
  EXPECT_EQ(engine, nullptr);
  options.config_json = R"({"penstock": {"ram_byte": 0}})";
  expect_error(penstock_open(&options, &engine), PENSTOCK_ERROR_CONFIGURATION, "ram_bytes");
  options.config_file = "/nowhere/ds.json";
  expect_error(penstock_open(&options, &engine), PENSTOCK_ERROR_ARGUMENT, "one is enough");
  options.config_json = nullptr;
  EXPECT_LT(penstock_open(&options, &engine), PENSTOCK_OK);
  EXPECT_THAT(penstock_last_error(), testing::HasSubstr("/nowhere/ds.json"));
  options.config_file = nullptr;
  options.reserved = 1;
  expect_error(penstock_open(&options, &engine), PENSTOCK_ERROR_ARGUMENT, "reserved");
  options.reserved = 0;

  const std::string file = directory_ / "file";
  std::ofstream(file) << "in the way";
  const char* const paths[] = {file.c_str()};
  options.paths = paths;
  options.path_count = 1;
  expect_error(penstock_open(&options, &engine), PENSTOCK_ERROR_STORAGE, file);
  EXPECT_EQ(penstock_last_errno(), ENOTDIR);
}

TEST(CStatus, EachHasItsName) {
  for (int status = PENSTOCK_OK; status >= PENSTOCK_ERROR_INTERNAL; --status) {
    EXPECT_THAT(penstock_status_name(status), testing::StartsWith("PENSTOCK_")) << status;
  }
  EXPECT_STREQ(penstock_status_name(1), "not a status of penstock");
  EXPECT_STREQ(penstock_status_name(PENSTOCK_ERROR_INTERNAL - 1), "not a status of penstock");
}

}  // namespace
}  // namespace penstock
