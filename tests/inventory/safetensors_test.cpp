#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bindings/inventory/inventory_file.h"
#include "bindings/inventory/safetensors_header.h"
#include "swap/plan/inventory.h"
#include "tests/plan/plan_fixture.h"

namespace penstock {
namespace {

using test::ScratchDirectory;
using testing::HasSubstr;

std::string message(std::string_view header, std::uint64_t data_bytes) {
  const Result<Checkpoint> read = parse_safetensors_header(header, data_bytes, "m.safetensors");
  return read.has_error() ? read.error().message : "no error";
}

TEST(SafetensorsTest, ReadsNamesTypesAndShapes) {
  const Inventory inventory =
      parse_safetensors_header(
          R"({"__metadata__":{"format":"pt"},)"
          R"("layers.10.w":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
          R"("layers.2.w":{"dtype":"F32","shape":[],"data_offsets":[12,16]},)"
          R"("empty":{"dtype":"I64","shape":[0],"data_offsets":[16,16]}}   )",
          16, "m.safetensors")
          .value()
          .inventory();
  ASSERT_EQ(inventory.tensors.size(), 3U);
  EXPECT_EQ(inventory.tensors[0].name, "empty");
  EXPECT_EQ(inventory.tensors[1].name, "layers.2.w");
  EXPECT_EQ(inventory.tensors[2].shape, (std::vector<std::uint64_t>{2, 3}));
}

TEST(SafetensorsTest, NeverTrustsOffsets) {
  EXPECT_THAT(message(R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", 8),
              HasSubstr("tensor a lies at [0, 9) of the 8 bytes of data that the file has"));
  EXPECT_THAT(message(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[4,2]}})", 8),
              HasSubstr("lies at [4, 2)"));
  EXPECT_THAT(message(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}})", 8),
              HasSubstr("has no data_offsets of two numbers"));
  EXPECT_THAT(message(R"({"a":{"dtype":"U8","shape":[1]}})", 8), HasSubstr("has no data_offsets"));
  EXPECT_THAT(message(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 8),
              HasSubstr("has no data_offsets"));
  EXPECT_THAT(message(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 8),
              HasSubstr("has 4 bytes of data, but its shape and type need 8"));
  EXPECT_THAT(message(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                      R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
                      8),
              HasSubstr("the data of a and b overlap"));
  EXPECT_THAT(
      message(R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]}})", 8),
      HasSubstr("more than 2^63 bytes"));
  EXPECT_THAT(
      message(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})", 0),
      HasSubstr("multiply to more than 2^64"));
  EXPECT_EQ(
      message(R"({"a":{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})", 0),
      "no error");
}

TEST(SafetensorsTest, TakesNothingAroundTheDocument) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})";
  EXPECT_EQ(message(" " + header + " \n", 8), "no error");
  EXPECT_THAT(message("\xef\xbb\xbf" + header, 8), HasSubstr("a byte order mark"));
  EXPECT_THAT(message(header + std::string(2, '\0'), 8), HasSubstr("byte 53 is NUL"));
  EXPECT_THAT(message(header + std::string("\0 anything", 10), 8), HasSubstr("is NUL"));
}

TEST(SafetensorsTest, SaysWhatIsWrongWithTheRest) {
  EXPECT_THAT(message("[]", 8), HasSubstr("is a list, not an object"));
  EXPECT_THAT(message("{", 8),
              HasSubstr("the safetensors header of m.safetensors is not valid JSON"));
  EXPECT_THAT(message("", 8), HasSubstr("is not valid JSON"));
  EXPECT_THAT(message(R"({"a":7})", 8), HasSubstr("tensor a is 7, not an object"));
  EXPECT_THAT(message(R"({"a":{"dtype":"F3","shape":[2],"data_offsets":[0,1]}})", 8),
              HasSubstr("has a dtype that is not known: \"F3\""));
  EXPECT_THAT(message(R"({"a":{"dtype":"f32","shape":[2],"data_offsets":[0,8]}})", 8),
              HasSubstr("has the dtype f32, which the format writes F32"));
  EXPECT_THAT(message(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2),
              HasSubstr("end within a byte"));
  EXPECT_THAT(message(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                      R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                      8),
              HasSubstr("has the key \"a\" twice"));
}

TEST(SafetensorsTest, TheLengthOfTheHeaderIsNotTrustedEither) {
  const ScratchDirectory directory;
  const auto load = [&directory](const std::string& bytes) {
    const Result<Inventory> inventory = load_inventory(directory.write("m.safetensors", bytes));
    return inventory.has_error() ? inventory.error().message : "no error";
  };
  EXPECT_THAT(load(""), HasSubstr("has 0 bytes; a safetensors file begins with 8 bytes"));
  EXPECT_THAT(load("1234567"), HasSubstr("has 7 bytes"));
  EXPECT_THAT(load(std::string(8, '\xff')), HasSubstr("it is no safetensors file"));
  EXPECT_THAT(load(std::string("\x00\x01\0\0\0\0\0\0", 8) + "{}"),
              HasSubstr("ends at byte 10, within its header of 256 bytes: it is cut short"));
  EXPECT_THAT(load(test::safetensors_bytes("{}", 0)), HasSubstr("has no tensors"));
}

}  // namespace
}  // namespace penstock
