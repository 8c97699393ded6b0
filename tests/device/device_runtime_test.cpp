#include "swap/device/device_runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(DeviceRuntime, EachHasDevicesOrAReason) {
  std::vector<std::string> names;
  for (const DeviceRuntime& runtime : look_for_devices()) {
    names.emplace_back(runtime.name);
    EXPECT_EQ(runtime.devices.empty(), !runtime.reason.empty()) << runtime.name;
    for (std::size_t number = 0; number < runtime.devices.size(); ++number) {
      EXPECT_EQ(runtime.devices[number].number, number);
      EXPECT_GT(runtime.devices[number].memory_bytes, 0U);
    }
  }
  EXPECT_THAT(names, ElementsAre("cuda", "hip"));
}

TEST(DeviceRuntime, OpensWhatItLists) {
  for (const DeviceRuntime& runtime : look_for_devices()) {
    const Result<std::shared_ptr<Device>> device = open_device(runtime.name);
    ASSERT_EQ(device.has_value(), !runtime.devices.empty());
    if (device) {
      EXPECT_EQ((*device)->runtime(), runtime.name);
      EXPECT_EQ((*device)->facts().name, runtime.devices.front().name);
    } else {
      EXPECT_EQ(device.error().code, make_error_code(Fault::kUnsupported));
    }
  }
}

TEST(DeviceRuntime, ADeviceThatIsNotThere) {
  for (const char* const name : {"cuda:4000000", "hip:4000000"}) {
    const Result<std::shared_ptr<Device>> device = open_device(name);
    ASSERT_TRUE(device.has_error()) << name;
    EXPECT_FALSE(device.error().message.empty());
  }
}

TEST(DeviceRuntime, NamesThatAreNone) {
  for (const char* const name : {"", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", ":0"}) {
    const Result<std::shared_ptr<Device>> device = open_device(name);
    ASSERT_TRUE(device.has_error()) << name;
    EXPECT_EQ(device.error().code, make_error_code(Fault::kInvalidArgument)) << name;
    EXPECT_THAT(device.error().message, HasSubstr("is no device")) << name;
  }
}

}  // namespace
}  // namespace penstock
