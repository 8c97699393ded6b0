#include "swap/device/dynamic_library.h"

#include <gtest/gtest.h>

#include <array>

namespace penstock {
namespace {

TEST(DynamicLibrary, TheFirstThatIsThere) {
  constexpr std::array kNames{"libpenstock-has-no-such.so.9", "libm.so.6"};
  const Result<DynamicLibrary> library = DynamicLibrary::open(kNames);
  ASSERT_TRUE(library.has_value()) << library.error().message;
  EXPECT_EQ(library->name(), "libm.so.6");
  double (*root)(double) = nullptr;
  ASSERT_TRUE(library->load("sqrt", root));
  EXPECT_EQ(root(9.0), 3.0);
}

TEST(DynamicLibrary, NoneIsThere) {
  constexpr std::array kNames{"libpenstock-has-no-such.so.9", "libpenstock-has-no-such.so"};
  const Result<DynamicLibrary> library = DynamicLibrary::open(kNames);
  ASSERT_TRUE(library.has_error());
  EXPECT_EQ(library.error().code, make_error_code(Fault::kUnsupported));
  EXPECT_NE(library.error().message.find("libpenstock-has-no-such.so.9"), std::string::npos)
      << library.error().message;
}

TEST(DynamicLibrary, AnOldOneLacksASymbol) {
  constexpr std::array kNames{"libm.so.6"};
  const Result<DynamicLibrary> library = DynamicLibrary::open(kNames);
  ASSERT_TRUE(library.has_value());
  void (*function)() = nullptr;
  const Result<void> loaded = library->load("cuNoSuchCall_v9", function);
  ASSERT_TRUE(loaded.has_error());
  EXPECT_EQ(loaded.error().code, make_error_code(Fault::kUnsupported));
  EXPECT_EQ(loaded.error().message, "libm.so.6 has no cuNoSuchCall_v9: its driver is too old");
  EXPECT_EQ(function, nullptr);
}

}  // namespace
}  // namespace penstock
