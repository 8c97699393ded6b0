#include "bindings/deepspeed/tensor_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/pickle_program.h"

namespace penstock {
namespace {

using ::testing::ElementsAre;

/// A tensor of 4 floats, as torch.save describes it.
PickleProgram& tensor(PickleProgram& program, const char* storage = "FloatStorage") {
  program.global("torch._utils", "_rebuild_tensor_v2").op('(').op('(').text("storage");
  program.global("torch", storage).text("0").text("cpu").integer(4).op('t').op('Q');
  program.integer(0).integer(4).op('\x85').integer(1).op('\x85').op('\x89').op('}').op('t');
  return program.op('R');
}

std::vector<std::string> places(const PickleProgram& program) {
  const PickleDocument pickle = program.read().value();
  std::vector<std::string> found;
  TensorWalk walk(pickle);
  while (const std::optional<PickleRef> value = walk.next()) {
    found.push_back(walk.place(*value));
  }
  return found;
}

TEST(TensorWalkTest, NamesPlacesInOrder) {
  PickleProgram program;
  program.op('}').text("module").op('}').text("layers.0.weight");
  tensor(program).op('s').op('s').text("groups").op(']');
  tensor(program).op('a');
  program.op('}').integer(3);
  tensor(program).op('s').op('a').op('s');
  EXPECT_THAT(places(program), ElementsAre("module.layers.0.weight", "groups[0]", "groups[1][3]"));
}

TEST(TensorWalkTest, SeesASharedTensorOnce) {
  PickleProgram program;
  program.op(']').op('(');
  tensor(program).op('q', std::uint8_t{0}).op('h', std::uint8_t{0}).op('h', std::uint8_t{0});
  program.op('e');
  EXPECT_THAT(places(program), ElementsAre("[0]"));
}

TEST(TensorWalkTest, WalksThroughObjectsAndWhatHoldsItself) {
  PickleProgram program;
  program.op(']').op('q', std::uint8_t{0}).op('h', std::uint8_t{0}).op('a');
  program.global("a", "B").op(')').op('\x81').op('}').text("held");
  tensor(program).op('s').op('b').op('a');
  EXPECT_THAT(places(program), ElementsAre("[1].held"));
}

TEST(TensorWalkTest, APlaceHasAtMostADozenSteps) {
  PickleProgram program;
  for (int level = 0; level < 1000; ++level) {
    program.op(']');
  }
  tensor(program);
  for (int level = 0; level < 1000; ++level) {
    program.op('a');
  }
  EXPECT_EQ(places(program).at(0).size(), 36U);
}

TEST(TensorWalkTest, KnowsTypes) {
  EXPECT_EQ(storage_type("torch.BFloat16Storage").name, "bf16");
  EXPECT_EQ(storage_type("torch.storage.UntypedStorage").bits, 8U);
  EXPECT_EQ(storage_type("torch.LongStorage").bits, 64U);
  EXPECT_EQ(storage_type("torch.QInt8Storage").bits, 0U);
  EXPECT_EQ(storage_type("torch.ComplexFloatStorage").name, "c64");
  EXPECT_EQ(storage_type("torch.ComplexDoubleStorage").name, "complex128");
  EXPECT_EQ(storage_type("torch.ComplexDoubleStorage").bits, 128U);
  EXPECT_EQ(element_type("torch.complex32").bits, 32U);
  EXPECT_EQ(element_type("torch.float8_e4m3fn").name, "f8_e4m3");
}

TEST(TensorWalkTest, SeesThroughParametersAndSubclasses) {
  PickleProgram plain;
  tensor(plain);
  const PickleDocument pickle = plain.read().value();
  EXPECT_TRUE(find_tensor_call(pickle, pickle.root()).has_value());
  PickleProgram parameter;
  parameter.global("torch._utils", "_rebuild_parameter");
  tensor(parameter).op('\x88').op('}').op('\x87').op('R');
  EXPECT_THAT(places(parameter), ElementsAre(""));
}

}  // namespace
}  // namespace penstock
