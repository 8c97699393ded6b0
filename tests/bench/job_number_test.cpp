#include "bench/job/job_number.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "alloc/bytes.h"

namespace penstock::bench {
namespace {

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  const Refusal refusal = read_whole_number(text, value);
  EXPECT_FALSE(refusal.has_value()) << text << ": " << refusal.value_or("");
  return value;
}

std::uint64_t nanoseconds(std::string_view text, std::uint64_t bare_ns = kSecondNs) {
  std::uint64_t ns = 0;
  const Refusal refusal = read_time(text, bare_ns, ns);
  EXPECT_FALSE(refusal.has_value()) << text << ": " << refusal.value_or("");
  return ns;
}

TEST(JobNumberTest, NumbersAreAsFioReadsThem) {
  EXPECT_EQ(number("0"), 0U);
  EXPECT_EQ(number("4096"), 4096U);
  EXPECT_EQ(number("010"), 10U) << "never octal";
  EXPECT_EQ(number("0x10"), 16U);
  EXPECT_EQ(number("0X1f"), 31U);
  for (const char* text : {"4k", "4K", "4kb", "4kB", "4KB", "4ki", "4KiB", "4096b"}) {
    EXPECT_EQ(number(text), 4096U) << text;
  }
  EXPECT_EQ(number("3m"), 3 * kMiB);
  EXPECT_EQ(number("3G"), 3 * kGiB);
  EXPECT_EQ(number("2t"), 2048 * kGiB);
  EXPECT_EQ(number("1p"), 1024 * 1024 * kGiB);
  EXPECT_EQ(number("18446744073709551615"), ~0ULL);
}

TEST(JobNumberTest, WhatFioReadsHalfIsRefused) {
  for (const char* text : {"", "k", "4.5k", "1e6", "-1", "+1", "4 k", "4kx", "4x", "0x", "4k,8k",
                           "18446744073709551616", "16384p", "20%", "4z"}) {
    std::uint64_t value = 7;
    EXPECT_TRUE(read_whole_number(text, value).has_value()) << text;
    EXPECT_EQ(value, 7U) << text;
  }
}

TEST(JobNumberTest, BytesAreWrittenShortAndWhole) {
  for (const auto& [bytes, text] : std::initializer_list<std::pair<std::uint64_t, const char*>>{
           {0, "0"},
           {1, "1"},
           {4095, "4095"},
           {4096, "4k"},
           {kMiB, "1m"},
           {3 * kGiB / 2, "1536m"},
           {~0ULL, "18446744073709551615"}}) {
    EXPECT_EQ(write_bytes(bytes), text);
    EXPECT_EQ(number(text), bytes);
  }
}

TEST(JobNumberTest, TimesAreAsFioReadsThem) {
  EXPECT_EQ(nanoseconds("30"), 30 * kSecondNs);
  EXPECT_EQ(nanoseconds("30", kMicrosecondNs), 30 * kMicrosecondNs);
  EXPECT_EQ(nanoseconds("30s", kMicrosecondNs), 30 * kSecondNs);
  EXPECT_EQ(nanoseconds("5m"), 300 * kSecondNs);
  EXPECT_EQ(nanoseconds("5M"), 300 * kSecondNs);
  EXPECT_EQ(nanoseconds("1h"), 3600 * kSecondNs);
  EXPECT_EQ(nanoseconds("1d"), 86400 * kSecondNs);
  EXPECT_EQ(nanoseconds("500ms"), 500 * kMillisecondNs);
  EXPECT_EQ(nanoseconds("80us"), 80 * kMicrosecondNs);
  EXPECT_EQ(nanoseconds("7ns"), 7U);
  for (const char* text : {"", "s", "1.5s", "-1", "1:30", "10sec", "10 s", "9999999999999h"}) {
    std::uint64_t ns = 7;
    EXPECT_TRUE(read_time(text, kSecondNs, ns).has_value()) << text;
    EXPECT_EQ(ns, 7U) << text;
  }
}

TEST(JobNumberTest, TimesAreWrittenWhole) {
  EXPECT_EQ(write_time(0), "0");
  EXPECT_EQ(write_time(90 * kSecondNs), "90s");
  EXPECT_EQ(write_time(300 * kSecondNs), "5m");
  EXPECT_EQ(write_time(48 * 3600 * kSecondNs), "48h");
  EXPECT_EQ(write_time(1500 * kMicrosecondNs), "1500us");
  EXPECT_EQ(write_time(7), "7ns");
}

TEST(JobNumberTest, FlagsAreNoughtOrOne) {
  bool flag = false;
  EXPECT_FALSE(read_flag("1", flag).has_value());
  EXPECT_TRUE(flag);
  EXPECT_FALSE(read_flag("0", flag).has_value());
  EXPECT_FALSE(flag);
  for (const char* text : {"", "true", "yes", "on", "2", "-1", "01"}) {
    EXPECT_TRUE(read_flag(text, flag).has_value()) << text << ", as fio";
  }
}

}  // namespace
}  // namespace penstock::bench
