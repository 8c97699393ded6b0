#include "alloc/bytes.h"
#include "alloc/excerpt.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace penstock {
namespace {

static_assert(align_down(4097, 4096) == 4096 && align_down(4095, 4096) == 0);
static_assert(align_up(4097, 4096) == 8192 && align_up(4096, 4096) == 4096 && align_up(0, 2) == 0);
static_assert(is_aligned(8192, 4096) && !is_aligned(8193, 4096));

TEST(Bytes, AlignedAddress) {
  alignas(64) const std::byte place[65]{};
  EXPECT_TRUE(is_aligned(&place[0], 64));
  EXPECT_FALSE(is_aligned(&place[1], 2));
}

struct Spelling {
  const char* text;
  std::uint64_t bytes;
};

std::ostream& operator<<(std::ostream& out, const Spelling& spelling) {
  return out << '"' << spelling.text << '"';
}

class ParseBytes : public testing::TestWithParam<Spelling> {};

TEST_P(ParseBytes, GivesTheNumber) {
  const Result<std::uint64_t> bytes = parse_bytes(GetParam().text);
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(*bytes, GetParam().bytes) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    Spellings, ParseBytes,
    testing::Values(Spelling{"0", 0}, Spelling{"4194304", 4 * kMiB}, Spelling{"4k", 4 * kKiB},
                    Spelling{"4K", 4 * kKiB}, Spelling{"64MiB", 64 * kMiB},
                    Spelling{"64mib", 64 * kMiB}, Spelling{"1g", kGiB}, Spelling{"1t", 1024 * kGiB},
                    Spelling{"2TiB", 2048 * kGiB}, Spelling{"64MB", 64'000'000},
                    Spelling{"1GB", 1'000'000'000}, Spelling{"1kb", 1000},
                    Spelling{"3TB", 3'000'000'000'000}, Spelling{"512B", 512},
                    Spelling{"512 b", 512}, Spelling{" 64.0 MiB ", 64 * kMiB},
                    Spelling{"1.5k", 1536}, Spelling{".5k", 512}, Spelling{"7.", 7},
                    Spelling{"1.6e8", 160'000'000}, Spelling{"1E9", 1'000'000'000},
                    Spelling{"1e+3", 1000}, Spelling{"2050e-1k", 209920}, Spelling{"5e-1k", 512},
                    Spelling{"0e99", 0}, Spelling{"0.000", 0},
                    // One more than a double can tell apart.
                    Spelling{"9007199254740993", 9007199254740993ULL},
                    Spelling{"18446744073709551615", std::numeric_limits<std::uint64_t>::max()}));

class RefuseBytes : public testing::TestWithParam<const char*> {};

TEST_P(RefuseBytes, NamesTheText) {
  const Result<std::uint64_t> bytes = parse_bytes(GetParam());
  ASSERT_FALSE(bytes) << GetParam() << " gave " << *bytes;
  EXPECT_EQ(bytes.error().code, Fault::kConfiguration);
  EXPECT_NE(bytes.error().message.find(excerpt(GetParam())), std::string::npos)
      << bytes.error().message;
}

INSTANTIATE_TEST_SUITE_P(Texts, RefuseBytes,
                         testing::Values("", " ", "MiB", ".", "-1", "-4k", "+1", "1.5", "0.1GiB",
                                         "1e-1", "12 parsecs", "1kk", "1e", "1.2.3", "0x10", "1 2",
                                         "nan", "inf", "16384PiB", "18446744073709551616",
                                         "17179869184g", "1e20", "1e999999999999",
                                         "99999999999999999999", "4k\n"));

TEST(FormatBytes, NamesTheUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(311), "311 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(kKiB), "1.0 KiB");
  EXPECT_EQ(format_bytes(64 * kMiB), "64.0 MiB");
  EXPECT_EQ(format_bytes(kMiB + kMiB / 2), "1.5 MiB");
  EXPECT_EQ(format_bytes(kMiB - 1), "1.0 MiB") << "never 1024.0 KiB";
  EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
}

TEST(FormatBytes, IsReadBackWithinItsRounding) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 1000; ++round) {
    const std::uint64_t bytes = (std::uint64_t{1} << (random() % 40)) * 10;
    const Result<std::uint64_t> back = parse_bytes(format_bytes(bytes));
    if (back) {  // tenths of a KiB are no whole bytes, and refused
      EXPECT_NEAR(static_cast<double>(*back), static_cast<double>(bytes),
                  static_cast<double>(bytes) * 0.1);
    }
  }
}

}  // namespace
}  // namespace penstock
