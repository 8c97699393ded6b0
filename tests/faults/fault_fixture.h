#pragma once

#include <gtest/gtest.h>
#include <string.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/faults/fault_row.h"
#include "tests/faults/test_drive.h"
#include "tests/swap/engine_fixture.h"
#include "tests/swap/every_engine.h"

namespace penstock {

/// `ENOSPC`, or our own word for a fault that has no errno.
inline std::string short_name(const Error& error) {
  const int number = error.system_errno();
  const char* const name = number == 0 ? nullptr : ::strerrorname_np(number);
  return name != nullptr ? name : error.code.message();
}

/// An error that a user can act on: one line that names what it concerns.
/// Returns its short name.
inline std::string clear(const Error& error) {
  const std::string& sentence = error.message;
  EXPECT_TRUE(error.code) << sentence;
  EXPECT_GT(sentence.size(), 10U);
  EXPECT_LE(sentence.size(), 2000U) << sentence.substr(0, 2000);
  EXPECT_EQ(sentence.find('\n'), std::string::npos) << sentence;
  EXPECT_NE(sentence.find(error.tensor), std::string::npos) << sentence << " / " << error.tensor;
  EXPECT_NE(sentence.find(error.path), std::string::npos) << sentence << " / " << error.path;
  return short_name(error);
}

/// A test of one fault. What it notes on its way becomes the fault's row.
class FaultTest : public EngineFixture {
 protected:
  /// First of all: what goes wrong, and how this test makes it so.
  void fault_is(std::string fault, std::string made_by) {
    row_.fault = std::move(fault);
    row_.made_by = std::move(made_by);
  }
  /// An engine, of the kind that is tested, with a namespace on `path` (empty:
  /// a directory of its own).
  void open_on(const std::string& path, std::uint64_t max_pinned_bytes = 8 * kMiB,
               std::uint64_t ram_bytes = 0, EngineConfig config = {}) {
    config.engine = engine_kind();
    open(max_pinned_bytes, ram_bytes, std::move(config));
    if (!path.empty()) {
      space_ = engine_->open_namespace("drive", {{path, std::nullopt, std::nullopt}}).value();
    }
  }
  virtual EngineKind engine_kind() const { return EngineKind::kAuto; }

  void happened(const std::string& what) {
    row_.happened += (row_.happened.empty() ? "" : "; ") + what;
  }
  /// `operation` must have failed, clearly, with `expected` (a short name).
  void expect_failed(const std::string& operation, const Result<void>& result,
                     const std::string& expected) {
    ASSERT_TRUE(result.has_error()) << operation << " succeeded";
    EXPECT_EQ(clear(result.error()), expected) << result.error().message;
    happened(operation + ": " + short_name(result.error()));
  }
  /// The last content that was put in full is still what a read gives.
  void expect_good_copy(TensorId tensor, const std::vector<std::byte>& data) {
    expect_content(tensor, data);
    if (!HasFailure() && row_.good_copy.empty()) {
      row_.good_copy = "yes";
    }
  }
  void good_copy_is(std::string what) { row_.good_copy = std::move(what); }

  void TearDown() override {
    if (IsSkipped()) {
      const auto* const info = testing::UnitTest::GetInstance()->current_test_info();
      for (int i = 0; i < info->result()->total_part_count(); ++i) {
        row_.skipped += info->result()->GetTestPartResult(i).message();
      }
    }
    if (!HasFailure()) {
      write_row(row_);
    }
  }

  FaultRow row_;
};

/// The same on every I/O engine that this machine has.
class FaultOnEveryEngine : public FaultTest, public testing::WithParamInterface<std::string> {
 protected:
  EngineKind engine_kind() const override { return parse_engine_kind(GetParam()).value(); }
};

/// Ends the test with the reason where the machine has no such drive.
#define PENSTOCK_NEED(drive)             \
  do {                                   \
    if (!(drive).refusal().empty()) {    \
      GTEST_SKIP() << (drive).refusal(); \
    }                                    \
  } while (false)

}  // namespace penstock
