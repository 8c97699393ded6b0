#include "bindings/deepspeed/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "alloc/bytes.h"
#include "tests/training/training_fixture.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

std::string problem(std::string_view text) {
  const Result<Config> config = parse_config(text, "ds.json");
  return config.has_error() ? config.error().message : "no error";
}

TEST(ConfigTest, ReadsTheUsersFileVerbatim) {
  const Config config = load_config(test::data_path("seed-003.json")).value();
  const DeepSpeedConfig& deepspeed = config.deepspeed;
  EXPECT_TRUE(deepspeed.is_given);
  EXPECT_EQ(deepspeed.stage, 3U);
  EXPECT_EQ(deepspeed.held_dtype(), DType::kF32) << "it names no 16-bit type";
  ASSERT_TRUE(deepspeed.offload_param.has_value());
  EXPECT_EQ(deepspeed.offload_param->device, OffloadDevice::kNvme);
  EXPECT_EQ(deepspeed.offload_param->nvme_paths, std::vector<std::string>{"/home/local/mem"});
  EXPECT_EQ(deepspeed.offload_param->buffer_count, 200U);
  EXPECT_EQ(deepspeed.offload_param->buffer_size, 4'194'304U);
  EXPECT_EQ(deepspeed.offload_param->max_in_cpu, 1'000'000'000U) << "DeepSpeed's default";
  ASSERT_TRUE(deepspeed.offload_optimizer.has_value());
  EXPECT_EQ(deepspeed.offload_optimizer->device, OffloadDevice::kCpu);
  EXPECT_EQ(deepspeed.offload_optimizer->buffer_count, 4U) << "DeepSpeed's default, not that of "
                                                              "parameters";
  EXPECT_EQ(deepspeed.stage3_prefetch_bucket_size, 0U);
  EXPECT_EQ(deepspeed.stage3_max_reuse_distance, 0U);
  ASSERT_EQ(config.paths().size(), 1U);
  EXPECT_EQ(config.paths()[0].path, "/home/local/mem");
  EXPECT_EQ(config.origins.at("zero_optimization.offload_param.buffer_count"),
            test::data_path("seed-003.json"));
}

TEST(ConfigTest, ReadsTheFullFineTuning) {
  const DeepSpeedConfig config =
      load_config(test::data_path("full-finetune.json")).value().deepspeed;
  EXPECT_EQ(config.held_dtype(), DType::kBF16);
  EXPECT_EQ(config.offload_param->buffer_size, 160'000'000U) << "written 1.6e8";
  EXPECT_EQ(config.offload_param->max_in_cpu, 0U);
  EXPECT_EQ(config.offload_optimizer->buffer_count, 5U);
  EXPECT_EQ(config.sub_group_size, 20'000'000U);
  EXPECT_EQ(config.stage3_param_persistence_threshold, 100'000U);
  EXPECT_EQ(config.aio.queue_depth, 32U);
  EXPECT_EQ(config.optimizer_type, "AdamW");
}

TEST(ConfigTest, AnEmptyFileHasDeepSpeedsDefaults) {
  const Config config = parse_config("{}", "ds.json").value();
  EXPECT_FALSE(config.deepspeed.is_given);
  EXPECT_EQ(config.deepspeed.stage, 0U);
  EXPECT_FALSE(config.deepspeed.offload_param.has_value());
  EXPECT_EQ(config.deepspeed.aio.block_size, kMiB);
  EXPECT_EQ(config.deepspeed.aio.queue_depth, 8U);
  EXPECT_TRUE(config.paths().empty());
  EXPECT_TRUE(config.origins.empty());
  EXPECT_FALSE(parse_config(R"({"penstock": {}})", "ds.json").value().deepspeed.is_given);
  EXPECT_TRUE(parse_config(R"({"train_batch_size": 1})", "ds.json").value().deepspeed.is_given);
}

TEST(ConfigTest, AutoAndNullLeaveTheDefaults) {
  const DeepSpeedConfig config =
      parse_config(R"({"zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto",
                        "sub_group_size": "auto", "offload_optimizer": null,
                        "offload_param": {"device": "auto", "buffer_count": "auto"}},
                       "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"},
                       "aio": null, "train_batch_size": "auto"})",
                   "ds.json")
          .value()
          .deepspeed;
  EXPECT_EQ(config.stage3_prefetch_bucket_size, 50'000'000U);
  EXPECT_EQ(config.sub_group_size, 1'000'000'000U);
  EXPECT_EQ(config.offload_param->device, OffloadDevice::kNone);
  EXPECT_EQ(config.offload_param->buffer_count, 5U);
  EXPECT_FALSE(config.offload_optimizer.has_value());
  EXPECT_FALSE(config.model_dtype.has_value());
}

TEST(ConfigTest, NumbersMayBeWrittenAsDeepSpeedTakesThem) {
  const auto buffer_size = [](std::string_view value) {
    return parse_config(fmt::format(R"({{"zero_optimization": {{"stage": 3, "offload_param":
                                        {{"device": "nvme", "buffer_size": {}}}}}}})",
                                    value),
                        "ds.json");
  };
  EXPECT_EQ(buffer_size("1.6e8")->deepspeed.offload_param->buffer_size, 160'000'000U);
  EXPECT_EQ(buffer_size("100000.0")->deepspeed.offload_param->buffer_size, 100'000U);
  EXPECT_EQ(buffer_size("\"200000000\"")->deepspeed.offload_param->buffer_size, 200'000'000U);
  EXPECT_EQ(buffer_size("\" 1_000\"")->deepspeed.offload_param->buffer_size, 1'000U);
  EXPECT_EQ(buffer_size("1e17")->deepspeed.offload_param->buffer_size, 100'000'000'000'000'000U);
  for (const char* bad : {"1.5", "-1", "true", "[]", "\"64MiB\"", "\"\"", "1e300", "-0.5", "\"_1\"",
                          "\"1__0\"", "\" \"", "18446744073709551616.0"}) {
    const Result<Config> config = buffer_size(bad);
    ASSERT_TRUE(config.has_error()) << bad;
    EXPECT_THAT(config.error().message,
                AllOf(HasSubstr("zero_optimization.offload_param.buffer_size in ds.json is"),
                      HasSubstr("a whole number from 0 to 18446744073709551615 is allowed")));
  }
}

TEST(ConfigTest, FlagsMayBeWrittenAsDeepSpeedTakesThem) {
  const auto bf16 = [](std::string_view value) {
    return parse_config(fmt::format(R"({{"bf16": {{"enabled": {}}}}})", value), "ds.json");
  };
  for (const char* on : {"true", "1", "1.0", "\"true\"", "\"Yes\"", "\"on\"", "\"1\""}) {
    EXPECT_TRUE(bf16(on)->deepspeed.model_dtype.has_value()) << on;
  }
  for (const char* off : {"false", "0", "\"False\"", "\"n\"", "\"OFF\""}) {
    EXPECT_FALSE(bf16(off)->deepspeed.model_dtype.has_value()) << off;
  }
  for (const char* bad : {"2", "-1", "\"maybe\"", "\"\"", "[]"}) {
    EXPECT_TRUE(bf16(bad).has_error()) << bad;
  }
}

TEST(ConfigTest, SharesAreWithinOne) {
  const auto ratio = [](std::string_view value) {
    return parse_config(fmt::format(R"({{"zero_optimization": {{"stage": 3, "offload_optimizer":
                                        {{"device": "cpu", "ratio": {}}}}}}})",
                                    value),
                        "ds.json");
  };
  EXPECT_EQ(ratio("0.25")->deepspeed.offload_optimizer->ratio, 0.25);
  for (const char* bad : {"1.5", "-1", "\"0.5\""}) {
    ASSERT_TRUE(ratio(bad).has_error()) << bad;
    EXPECT_THAT(ratio(bad).error().message, HasSubstr("from 0 to 1 is allowed"));
  }
}

TEST(ConfigTest, CommentsDoNotCount) {
  const Result<Config> config = parse_config(R"(// of one run
      {"bf16": /* not fp16 */ {"enabled": true}})",
                                             "ds.json");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_TRUE(config->deepspeed.model_dtype.has_value());
}

TEST(ConfigTest, NvmePathMayBeAListForOurOwnCommands) {
  const auto paths = [](std::string_view value) {
    return parse_config(fmt::format(R"({{"zero_optimization": {{"offload_param":
                                        {{"device": "nvme", "nvme_path": {}}}}}}})",
                                    value),
                        "ds.json")
        ->deepspeed.offload_param->nvme_paths;
  };
  EXPECT_EQ(paths(R"("/a;/b")"), (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(paths(R"(["/a", "/b"])"), (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(paths(R"("")"), std::vector<std::string>{});
  EXPECT_THAT(problem(R"({"zero_optimization": {"offload_param": {"nvme_path": 7}}})"),
              HasSubstr("offload_param.nvme_path in ds.json is 7; a path or a list of paths"));
}

TEST(ConfigTest, UnknownKeysOfDeepSpeedPass) {
  EXPECT_EQ(problem(R"({"zero_optimization": {"stage": 3, "overlap_com": true}, "flops": {}})"),
            "no error");
}

TEST(ConfigTest, KnownKeysOfTheWrongKindDoNot) {
  EXPECT_THAT(problem(R"({"zero_optimization": {"offload_param": {"device": "nmve"}}})"),
              AllOf(HasSubstr("zero_optimization.offload_param.device in ds.json is \"nmve\""),
                    HasSubstr("did you mean \"nvme\"?"), HasSubstr("allowed: none, cpu, nvme")));
  EXPECT_THAT(problem(R"({"zero_optimization": {"stage": 4}})"),
              HasSubstr("is 4; a whole number from 0 to 3 is allowed"));
  EXPECT_THAT(problem(R"({"zero_optimization": 3})"),
              HasSubstr("zero_optimization in ds.json is 3; an object is allowed"));
  EXPECT_THAT(problem(R"({"aio": {"single_submit": "maybe"}})"),
              HasSubstr("aio.single_submit in ds.json is \"maybe\"; true or false is allowed"));
  EXPECT_THAT(problem(R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}})"),
              HasSubstr("fp16.enabled in ds.json is true beside bf16.enabled"));
  EXPECT_THAT(problem("[]"), HasSubstr("ds.json is a list, not a DeepSpeed configuration"));
  EXPECT_THAT(problem("{\"a\": 1, \"a\": 2}"), HasSubstr("has the key \"a\" twice"));
  EXPECT_THAT(problem(""), HasSubstr("ds.json is not valid JSON"));
}

TEST(ConfigTest, ReadsTheWholePenstockBlock) {
  const EngineConfig config = parse_config(R"({"penstock": {
          "max_pinned_bytes": "64MiB", "ram_bytes": 8589934592, "engine": "threads",
          "integrity": "full", "mode": "scratch", "size_classes": ["8MiB", 4194304, "8MiB"],
          "paths": [{"path": "/nvme0", "weight": "auto", "max_bytes": "500GiB"},
                    {"path": "/nvme1", "weight": 2}, "/nvme2"],
          "tensors": [{"match": "*.embed_tokens.weight", "place": "ram"},
                      {"min_bytes": "64MiB", "place": "dedicated"}]}})",
                                           "ds.json")
                                  .value()
                                  .penstock;
  EXPECT_EQ(config.max_pinned_bytes, 64 * kMiB);
  EXPECT_EQ(config.ram_bytes, 8 * kGiB);
  EXPECT_EQ(config.engine, EngineKind::kThreads);
  EXPECT_EQ(config.integrity, IntegrityLevel::kFull);
  EXPECT_EQ(config.size_classes, (std::vector<std::uint64_t>{4 * kMiB, 8 * kMiB}));
  ASSERT_EQ(config.paths.size(), 3U);
  EXPECT_EQ(config.paths[0].max_bytes, 500 * kGiB);
  EXPECT_FALSE(config.paths[0].weight.has_value());
  EXPECT_EQ(config.paths[1].weight, 2.0);
  EXPECT_EQ(config.paths[2].path, "/nvme2");
  ASSERT_EQ(config.tensors.size(), 2U);
  EXPECT_EQ(config.tensors[0].text, R"({"match":"*.embed_tokens.weight","place":"ram"})");
  EXPECT_TRUE(config.tensors[0].matches("model.embed_tokens.weight", 1));
  EXPECT_FALSE(config.tensors[0].matches("lm_head.weight", 1));
  EXPECT_TRUE(config.tensors[1].matches("anything", 64 * kMiB));
  EXPECT_FALSE(config.tensors[1].matches("anything", 64 * kMiB - 1));
}

TEST(ConfigTest, UnknownKeysOfOursAreErrorsWithTheNearestName) {
  EXPECT_THAT(problem(R"({"penstock": {"max_pined_bytes": 1}})"),
              AllOf(HasSubstr("penstock.max_pined_bytes in ds.json is not a key of penstock"),
                    HasSubstr("did you mean \"max_pinned_bytes\"?")));
  EXPECT_THAT(problem(R"({"penstock": {"paths": [{"path": "/a", "wieght": 1}]}})"),
              AllOf(HasSubstr("penstock.paths[0].wieght"), HasSubstr("did you mean \"weight\"?")));
  EXPECT_THAT(problem(R"({"penstock": {"tensors": [{"match": "*", "place": "ram"},
                                                   {"mach": "*", "place": "ram"}]}})"),
              AllOf(HasSubstr("penstock.tensors[1].mach"), HasSubstr("did you mean \"match\"?")));
  EXPECT_THAT(problem(R"({"penstock": {"colour": 1}})"),
              AllOf(HasSubstr("penstock.colour"), HasSubstr("the keys here are max_pinned_bytes"),
                    testing::Not(HasSubstr("did you mean"))));
}

TEST(ConfigTest, AMisspeltBlockIsAnError) {
  EXPECT_THAT(problem(R"({"zero_optimization": {}, "penstok": {"mode": "durable"}})"),
              HasSubstr(R"(penstok in ds.json is not a key; did you mean "penstock"?)"));
  EXPECT_THAT(problem(R"({"Penstock": {}})"), HasSubstr("did you mean"));
  EXPECT_EQ(problem(R"({"stock": {}, "pen": 1, "_penstock": {}})"), "no error");
  EXPECT_EQ(problem(R"({"penstock": {}, "penstok": {}})"), "no error");
}

TEST(ConfigTest, KeysOfOursOutsideOfTheirBlockAreErrorsWhereNothingElseIsRead) {
  EXPECT_THAT(
      problem(R"({"mode": "durable"})"),
      HasSubstr(
          R"(mode in ds.json belongs into the penstock block: write {"penstock": {"mode": …}})"));
  EXPECT_THAT(problem(R"({"aio": {}, "ram_bytes": 0})"), HasSubstr("ram_bytes"));
}

TEST(ConfigTest, KeysOfOursBesideTheirBlockAreWarnedOf) {
  const Config config =
      parse_config(R"({"zero_optimization": {}, "mode": "its own", "other": 1})", "ds.json")
          .value();
  const std::string sentence = "mode is a key of the penstock block, and is not read outside of it";
  ASSERT_EQ(config.warnings.size(), 2U);
  EXPECT_EQ(config.warnings[0].text, sentence);
  EXPECT_EQ(config.warnings[0].nearest, "penstock.mode");
  EXPECT_EQ(config.engine_config().unread, std::vector<std::string>{sentence});
  EXPECT_EQ(parse_config(R"({"penstock": {}, "ram_bytes": 1})", "ds.json")->penstock.unread.size(),
            1U);
}

TEST(ConfigTest, WrongValuesOfOursSayWhatIsAllowed) {
  EXPECT_THAT(
      problem(R"({"penstock": {"ram_bytes": "8 gigs"}})"),
      HasSubstr("penstock.ram_bytes in ds.json is \"8 gigs\"; a whole number of bytes or a size"));
  EXPECT_THAT(problem(R"({"penstock": {"ram_bytes": -1}})"), HasSubstr("penstock.ram_bytes"));
  EXPECT_THAT(problem(R"({"penstock": {"engine": "urnig"}})"), HasSubstr("penstock.engine"));
  EXPECT_THAT(problem(R"({"penstock": {"integrity": "sample"}})"),
              HasSubstr("did you mean \"sampled\"?"));
  EXPECT_THAT(problem(R"({"penstock": {"mode": "scratchy"}})"),
              HasSubstr("allowed: scratch, durable"));
  EXPECT_THAT(problem(R"({"penstock": {"tensors": [{"match": "*"}]}})"),
              HasSubstr("penstock.tensors[0].place in ds.json is missing"));
  for (const char* place : {"disk", "device"}) {
    EXPECT_THAT(
        problem(fmt::format(R"({{"penstock": {{"tensors": [{{"place": "{}"}}]}}}})", place)),
        EndsWith("allowed: class, dedicated, ram, stream"));
  }
  EXPECT_THAT(problem(R"({"penstock": {"tensors": {"place": "ram"}}})"),
              HasSubstr("penstock.tensors in ds.json is an object; a list"));
  EXPECT_THAT(
      problem(R"({"penstock": {"tensors": [{"min_bytes": 9, "max_bytes": 8, "place": "ram"}]}})"),
      HasSubstr("is larger than max_bytes"));
  EXPECT_THAT(problem(R"({"penstock": {"paths": [{"weight": 1}]}})"),
              HasSubstr("penstock.paths[0] in ds.json has no path"));
  EXPECT_THAT(problem(R"({"penstock": {"paths": [{"path": "/a", "weight": 0}]}})"),
              HasSubstr("is not above 0"));
  EXPECT_THAT(problem(R"({"penstock": {"size_classes": [0]}})"),
              HasSubstr("penstock.size_classes"));
  EXPECT_THAT(problem(R"({"penstock": {"size_classes": ["16EiB"]}})"),
              HasSubstr("penstock.size_classes"));
  EXPECT_THAT(problem(R"({"penstock": 3})"), HasSubstr("penstock in ds.json is 3; an object"));
}

TEST(ConfigTest, TheEnvironmentStandsAboveTheFile) {
  ::setenv("PENSTOCK_ENGINE", "threads", 1);
  const Config config = parse_config(R"({"penstock": {"engine": "uring"}})", "ds.json").value();
  EXPECT_EQ(config.penstock.engine, EngineKind::kThreads);
  EXPECT_EQ(config.origins.at("penstock.engine"), "PENSTOCK_ENGINE");
  ::setenv("PENSTOCK_ENGINE", "steam", 1);
  EXPECT_THAT(problem("{}"), HasSubstr("PENSTOCK_ENGINE=steam"));
  ::setenv("PENSTOCK_ENGINE", "libaio", 1);
  EXPECT_EQ(parse_config("{}", "ds.json")->penstock.engine, EngineKind::kAio);
  ::unsetenv("PENSTOCK_ENGINE");
}

TEST(ConfigTest, AnEngineThatLosesEverythingIsRefused) {
  EXPECT_THAT(problem(R"({"penstock": {"engine": "null"}})"),
              testing::AllOf(HasSubstr("penstock.engine"), HasSubstr("moves nothing"),
                             HasSubstr("uring, aio or threads")));
  ::setenv("PENSTOCK_ENGINE", "null", 1);
  EXPECT_THAT(problem("{}"), HasSubstr("PENSTOCK_ENGINE=null"));
  ::unsetenv("PENSTOCK_ENGINE");
}

TEST(ConfigTest, PenstocksPathsStandAboveNvmePath) {
  const Config config = parse_config(R"({"zero_optimization": {"offload_param": {"device": "nvme",
      "nvme_path": "/a"}}, "penstock": {"paths": [{"path": "/b"}, {"path": "/c"}]}})",
                                     "ds.json")
                            .value();
  ASSERT_EQ(config.paths().size(), 2U);
  EXPECT_EQ(config.paths()[0].path, "/b");
  const Config optimizer = parse_config(R"({"zero_optimization": {"offload_optimizer":
      {"device": "nvme", "nvme_path": "/o"}}})",
                                        "ds.json")
                               .value();
  EXPECT_EQ(optimizer.paths()[0].path, "/o");
}

TEST(ConfigTest, ParametersAndStatesMayHaveAPathEach) {
  const auto config = [](const char* param, const char* optimizer) {
    return parse_config(fmt::format(R"({{"zero_optimization": {{"offload_param": {{"device": "nvme",
        "nvme_path": "{}"}}, "offload_optimizer": {{"device": "nvme", "nvme_path": "{}"}}}}}})",
                                    param, optimizer),
                        "ds.json")
        .value();
  };
  EXPECT_EQ(config("/a", "/a").paths().size(), 1U);
  EXPECT_FALSE(config("/a", "/a").has_path_for_each());
  const Config two = config("/a", "/b");
  ASSERT_EQ(two.paths().size(), 2U);
  EXPECT_EQ(two.paths()[0].path, "/a");
  EXPECT_EQ(two.paths()[1].path, "/b");
  EXPECT_TRUE(two.has_path_for_each());
}

TEST(ConfigTest, AMissingFileIsTheWorldsFault) {
  const Result<Config> config = load_config("/nonexistent/ds.json");
  ASSERT_TRUE(config.has_error());
  EXPECT_EQ(config.error().system_errno(), ENOENT);
}

}  // namespace
}  // namespace penstock
