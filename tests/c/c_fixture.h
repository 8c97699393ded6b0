#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <penstock.h>

#include <string>
#include <vector>

#include "tests/io/temp_directory.h"

namespace penstock {

/// An engine of the C interface over a directory of its own, and short ways to use it.
class CFixture : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 300'000;  // a body, a tail and no whole number of blocks

  void SetUp() override { engine_ = open(directory_.path()); }
  void TearDown() override {
    if (engine_ != nullptr) {
      EXPECT_EQ(penstock_close(engine_), PENSTOCK_OK) << penstock_last_error();
    }
  }

  static penstock_engine* open(const std::string& path, const char* config_json = nullptr) {
    const char* const paths[] = {path.c_str()};
    penstock_engine_options options{};
    options.struct_size = sizeof options;
    options.config_json = config_json;
    options.paths = paths;
    options.path_count = 1;
    penstock_engine* engine = nullptr;
    EXPECT_EQ(penstock_open(&options, &engine), PENSTOCK_OK) << penstock_last_error();
    return engine;
  }

  int declare(const char* name, std::uint64_t bytes = kBytes) const {
    penstock_tensor_info info{};
    info.struct_size = sizeof info;
    info.shape = &bytes;
    info.dimensions = 1;
    return penstock_declare(engine_, name, &info);
  }
  // A tensor with a content of its own.
  void put(const char* name, unsigned char value) const {
    ASSERT_EQ(declare(name), PENSTOCK_OK) << penstock_last_error();
    const std::vector<unsigned char> data(kBytes, value);
    ASSERT_EQ(penstock_put(engine_, name, data.data(), data.size()), PENSTOCK_OK)
        << penstock_last_error();
  }
  penstock_lease* get(const char* name, int access = PENSTOCK_READ) const {
    penstock_lease* lease = nullptr;
    EXPECT_EQ(penstock_get(engine_, name, access, &lease), PENSTOCK_OK) << penstock_last_error();
    return lease;
  }
  static unsigned char* memory(penstock_lease* lease) {
    void* data = nullptr;
    std::size_t bytes = 0;
    EXPECT_EQ(penstock_lease_memory(lease, &data, &bytes), PENSTOCK_OK) << penstock_last_error();
    EXPECT_EQ(bytes, kBytes);
    return static_cast<unsigned char*>(data);
  }

  TempDirectory directory_;
  penstock_engine* engine_ = nullptr;
};

/// Expects a call to fail with this status, and with a message that says so much.
inline void expect_error(int status, int expected, const std::string& part) {
  EXPECT_EQ(status, expected) << penstock_status_name(status) << ": " << penstock_last_error();
  EXPECT_THAT(penstock_last_error(), testing::HasSubstr(part));
}

}  // namespace penstock
