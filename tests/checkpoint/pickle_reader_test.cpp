#include "bindings/deepspeed/pickle_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <random>

#include "tests/checkpoint/pickle_program.h"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using std::string_view_literals::operator""sv;

std::string refusal(const PickleProgram& program) {
  const Result<PickleDocument> read = program.read();
  return read.has_error() ? read.error().message : "taken";
}

PickleDocument taken(const PickleProgram& program) {
  Result<PickleDocument> read = program.read();
  EXPECT_TRUE(read.has_value()) << refusal(program);
  return std::move(read).value();
}

const PickleValue& root_of(const PickleDocument& pickle) {
  return pickle[pickle.root()];
}

TEST(PickleReaderTest, ReadsNumbers) {
  EXPECT_EQ(root_of(taken(PickleProgram().op('K', std::uint8_t{200}))).integer, 200);
  EXPECT_EQ(root_of(taken(PickleProgram().op('M', std::uint16_t{60'000}))).integer, 60'000);
  EXPECT_EQ(root_of(taken(PickleProgram().integer(-5))).integer, -5);
  EXPECT_EQ(root_of(taken(PickleProgram().raw("\x8a\x00"sv))).integer, 0);
  EXPECT_EQ(root_of(taken(PickleProgram().raw("\x8a\x02\x00\xff"sv))).integer, -256);
  EXPECT_EQ(
      root_of(taken(PickleProgram().raw("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"sv))).integer,
      std::numeric_limits<std::int64_t>::min());
  const PickleDocument large =
      taken(PickleProgram().raw("\x8a\x09\x01\x02\x03\x04\x05\x06\x07\x08\x09"sv));
  EXPECT_EQ(root_of(large).kind, PickleKind::kLargeInteger);
  EXPECT_EQ(root_of(large).text.size(), 9U);
  EXPECT_EQ(root_of(taken(PickleProgram().raw("G\x3f\xf8\x00\x00\x00\x00\x00\x00"sv))).number, 1.5);
  EXPECT_EQ(root_of(taken(PickleProgram().op('\x88'))).integer, 1);
  EXPECT_EQ(root_of(taken(PickleProgram().op('\x89'))).kind, PickleKind::kBool);
  EXPECT_EQ(taken(PickleProgram().op('N')).root(), 0U);
}

TEST(PickleReaderTest, ReadsContainersInOrder) {
  const PickleDocument pickle = taken(PickleProgram()
                                          .op('}')
                                          .op('(')
                                          .text("b")
                                          .integer(1)
                                          .text("a")
                                          .op(']')
                                          .op('(')
                                          .integer(7)
                                          .integer(8)
                                          .op('e')
                                          .text("b")
                                          .integer(3)
                                          .op('u'));
  EXPECT_EQ(root_of(pickle).items.size(), 6U);
  EXPECT_EQ(pickle[pickle.find(pickle.root(), "b")].integer, 3) << "the last one counts";
  const PickleValue& list = pickle[pickle.find(pickle.root(), "a")];
  ASSERT_EQ(list.items.size(), 2U);
  EXPECT_EQ(pickle[list.items[1]].integer, 8);
  EXPECT_EQ(pickle.find(pickle.root(), "c"), 0U);
}

/// What runs a command in Python is a name and a text here, and nothing is written.
TEST(PickleReaderTest, RunsNothing) {
  const std::string mark = ::testing::TempDir() + "/pickle_reader_test_was_here";
  for (const bool stacked : {false, true}) {
    PickleProgram program;
    if (stacked) {
      program.text("posix").text("system").op('\x93');
    } else {
      program.global("posix", "system");
    }
    const PickleDocument pickle = taken(program.text("touch " + mark).op('\x85').op('R'));
    EXPECT_EQ(pickle.called(pickle.root()), "posix.system");
    const PickleValue& arguments = pickle[root_of(pickle).arguments];
    ASSERT_EQ(arguments.items.size(), 1U);
    EXPECT_EQ(pickle[arguments.items[0]].text, "touch " + mark);
  }
  EXPECT_FALSE(std::ifstream(mark).good());
}

TEST(PickleReaderTest, ReadsAnOrderedDictAndItsState) {
  const PickleDocument pickle = taken(PickleProgram()
                                          .global("collections", "OrderedDict")
                                          .op(')')
                                          .op('R')
                                          .text("weight")
                                          .integer(4)
                                          .op('s')
                                          .op('}')
                                          .text("_metadata")
                                          .op('N')
                                          .op('s')
                                          .op('b'));
  EXPECT_EQ(pickle[pickle.find(pickle.root(), "weight")].integer, 4);
  EXPECT_EQ(pickle[root_of(pickle).state].kind, PickleKind::kDict);
}

TEST(PickleReaderTest, RefusesWhatNoPicklerWrites) {
  EXPECT_THAT(refusal(PickleProgram().op('0')), HasSubstr("takes more than it has (byte 2"));
  EXPECT_THAT(refusal(PickleProgram().integer(1).op('(').op('0')), HasSubstr("more than it has"));
  EXPECT_THAT(refusal(PickleProgram().op('t')), HasSubstr("more than it has"));
  EXPECT_THAT(refusal(PickleProgram().op('h', std::uint8_t{3})), HasSubstr("never remembered"));
  EXPECT_THAT(refusal(PickleProgram().integer(1).op('r', std::uint32_t{0xfffffff0})),
              HasSubstr("remembers what it has not"));
  EXPECT_THAT(refusal(PickleProgram().integer(1).integer(2).op('a')), HasSubstr("adds elements"));
  EXPECT_THAT(refusal(PickleProgram().op('}').op('(').text("a").op('u')),
              HasSubstr("key without a value"));
  EXPECT_THAT(refusal(PickleProgram().op('N').op('}').op('b')), HasSubstr("gives a state"));
  EXPECT_THAT(refusal(PickleProgram().raw("I42\n")), HasSubstr("opcode 0x49"));
  EXPECT_THAT(refusal(PickleProgram().op('\x82', std::uint8_t{1})), HasSubstr("opcode 0x82"));
  EXPECT_THAT(refusal(PickleProgram().integer(1).integer(2).op('\x93')),
              HasSubstr("without a name"));
  EXPECT_THAT(refusal(PickleProgram()), HasSubstr("more than it has"));
}

TEST(PickleReaderTest, BelievesNoLength) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 60U;
  EXPECT_THAT(refusal(PickleProgram().op('\x8d', kHuge)), HasSubstr("1152921504606846976 bytes"));
  EXPECT_THAT(refusal(PickleProgram().op('\x8e', kHuge)), HasSubstr("are announced"));
  EXPECT_THAT(refusal(PickleProgram().op('X', 0xffffffffU)), HasSubstr("are announced"));
  EXPECT_THAT(refusal(PickleProgram().op('\x8b', 0x7fffffffU)), HasSubstr("are announced"));
  EXPECT_THAT(refusal(PickleProgram().global(std::string(513, 'm'), "n")), HasSubstr("longer"));
}

/// Lists of lists, each holding the one before twice: 2^60 elements, written as 61 lists.
TEST(PickleReaderTest, SharesWhatAPickleShares) {
  PickleProgram program;
  program.op(']').op('\x94');
  for (std::uint8_t level = 0; level < 60; ++level) {
    program.op(']').op('\x94').op('(').op('h', level).op('h', level).op('e');
  }
  const PickleDocument pickle = taken(program);
  EXPECT_EQ(pickle.size(), 62U) << "with None";
  const PickleValue& top = root_of(pickle);
  ASSERT_EQ(top.items.size(), 2U);
  EXPECT_EQ(top.items[0], top.items[1]);
}

TEST(PickleReaderTest, HoldsWhatHoldsItself) {
  const PickleDocument pickle =
      taken(PickleProgram().op(']').op('q', std::uint8_t{0}).op('h', std::uint8_t{0}).op('a'));
  EXPECT_THAT(root_of(pickle).items, ElementsAre(pickle.root()));
}

/// A million levels would end a reader that calls itself, and one that frees what it read so.
TEST(PickleReaderTest, NestsAsDeepAsItIsLong) {
  PickleProgram program;
  program.op(')');
  for (int level = 0; level < 1'000'000; ++level) {
    program.op('\x85');
  }
  EXPECT_EQ(taken(program).size(), 1'000'002U);
}

TEST(PickleReaderTest, RefusesWhatDescribesTooMuch) {
  PickleLimits limits;
  limits.bytes = 6000;
  limits.values = 1000;
  limits.operations = 3000;
  limits.all_names_bytes = 5000;
  const auto refused = [&limits](const PickleProgram& program) {
    const Result<PickleDocument> read = read_pickle(program.bytes(), "x.pt", limits);
    return read.has_error() ? read.error().message : "taken";
  };
  PickleProgram values;  // and None
  for (int at = 0; at < 999; ++at) {
    values.op(')');
  }
  EXPECT_EQ(refused(values), "taken");
  EXPECT_THAT(refused(values.op(')')), HasSubstr("too much to be read"));
  PickleProgram operations;  // and STOP
  operations.op('N');
  for (int at = 0; at < 2998; ++at) {
    operations.op('2');
  }
  EXPECT_EQ(refused(operations), "taken");
  EXPECT_THAT(refused(operations.op('2')), HasSubstr("too much to be read"));
  PickleProgram names;  // of 1000 bytes each, made of a text that is remembered
  names.text(std::string(500, 'm')).op('\x94');
  for (int at = 0; at < 5; ++at) {
    names.op('h', std::uint8_t{0}).op('h', std::uint8_t{0}).op('\x93');
  }
  EXPECT_EQ(refused(names), "taken");
  names.op('h', std::uint8_t{0}).op('h', std::uint8_t{0}).op('\x93');
  EXPECT_THAT(refused(names), HasSubstr("too much to be read"));
  EXPECT_THAT(refused(PickleProgram().text(std::string(6000, 'x'))), HasSubstr("no description"));
}

TEST(PickleReaderTest, NoCutAndNoFlippedBitMakesItCrash) {
  const std::vector<std::byte> good = PickleProgram()
                                          .op('}')
                                          .op('q', std::uint8_t{0})
                                          .op('(')
                                          .text("module")
                                          .global("collections", "OrderedDict")
                                          .op(')')
                                          .op('R')
                                          .text("a")
                                          .op('(')
                                          .integer(4)
                                          .op('t')
                                          .op('s')
                                          .text("b")
                                          .raw("\x8a\x02\x00\x01"sv)
                                          .op('u')
                                          .bytes();
  ASSERT_TRUE(read_pickle(good, "x.pt").has_value());
  for (std::size_t length = 0; length < good.size(); ++length) {
    const std::vector<std::byte> cut(good.begin(), good.begin() + static_cast<long>(length));
    EXPECT_TRUE(read_pickle(cut, "x.pt").has_error()) << length;
  }
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::vector<std::byte> bytes = good;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    (void)read_pickle(bytes, "x.pt");
  }
}

TEST(PickleReaderTest, RandomProgramsEnd) {
  std::mt19937 random(1);
  constexpr std::string_view kOpcodes =
      ".(012NKJX]})t\x85\x86\x87ueasqhrjcRb\x81\x92\x93\x94\x95Q\x8f\x90\x91"sv;
  for (int program = 0; program < 20'000; ++program) {
    PickleProgram written;
    for (int step = 0; step < 40; ++step) {
      written.op(kOpcodes[random() % kOpcodes.size()]);
      if (random() % 3 == 0) {
        written.op(static_cast<char>(random() % 4));
      }
    }
    (void)written.read();
  }
}

}  // namespace
}  // namespace penstock
