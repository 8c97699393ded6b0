#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bindings/deepspeed/config.h"

namespace penstock {
namespace {

using testing::HasSubstr;

TEST(ConfigNamesTest, OldNamesAreUnderstood) {
  const DeepSpeedConfig old =
      parse_config(R"({"zero_optimization": {"stage": 3, "cpu_offload": true,
                       "cpu_offload_param": true}, "bfloat16": {"enabled": true},
                       "aio": {"thread_count": 4}})",
                   "ds.json")
          .value()
          .deepspeed;
  EXPECT_EQ(old.offload_optimizer->device, OffloadDevice::kCpu);
  EXPECT_EQ(old.offload_param->device, OffloadDevice::kCpu);
  EXPECT_EQ(old.held_dtype(), DType::kBF16);
  EXPECT_EQ(old.aio.intra_op_parallelism, 1U) << "DeepSpeed reads the older name no more";
  EXPECT_EQ(parse_config(R"({"zero_optimization": true})", "ds.json")->deepspeed.stage, 1U);
}

TEST(ConfigNamesTest, Stage3KeysMayHaveDeepSpeedsNamesOfItsFields) {
  const Config config =
      parse_config(R"({"zero_optimization": {"stage": 3, "prefetch_bucket_size": 1,
                       "max_live_parameters": 2, "max_reuse_distance": 3,
                       "param_persistence_threshold": 4, "stage3_max_reuse_distance": "auto"}})",
                   "ds.json")
          .value();
  EXPECT_EQ(config.deepspeed.stage3_prefetch_bucket_size, 1U);
  EXPECT_EQ(config.deepspeed.stage3_max_live_parameters, 2U);
  EXPECT_EQ(config.deepspeed.stage3_max_reuse_distance, 3U);
  EXPECT_EQ(config.deepspeed.stage3_param_persistence_threshold, 4U);
  EXPECT_EQ(config.written_name("stage3_max_reuse_distance"), "max_reuse_distance");
  EXPECT_EQ(Config().written_name("stage3_max_reuse_distance"), "stage3_max_reuse_distance");
  EXPECT_TRUE(parse_config(R"({"zero_optimization": {"max_reuse_distance": 0,
                              "stage3_gather_16bit_weights_on_model_save": "auto"}})",
                           "ds.json")
                  ->automatic.empty())
      << "of what is not read nothing is assumed";
  EXPECT_THAT(parse_config(R"({"zero_optimization": {"max_reuse_distance": 0,
                          "stage3_max_reuse_distance": 0}})",
                           "ds.json")
                  .error()
                  .message,
              HasSubstr("max_reuse_distance in ds.json is another name of "
                        "stage3_max_reuse_distance, which is there, too; DeepSpeed takes one"));
}

TEST(ConfigNamesTest, TheOlderSectionOfBf16IsReadWhereTheNewerOneIsAbsent) {
  const auto read = [](std::string_view text) { return parse_config(text, "ds.json")->deepspeed; };
  const std::string_view both = R"({"bf16": {"enabled": false}, "bfloat16": {"enabled": true,
                                   "bf16_master_weights_and_grads": true}})";
  EXPECT_EQ(read(both).held_dtype(), DType::kF32);
  EXPECT_EQ(read(both).master_element_bytes, 4U);
  const std::string_view old = R"({"bf16": null, "bfloat16": {"enabled": true,
                                  "bf16_master_weights_and_grads": true}})";
  EXPECT_EQ(read(old).held_dtype(), DType::kBF16);
  EXPECT_EQ(read(old).master_element_bytes, 2U);
}

}  // namespace
}  // namespace penstock
