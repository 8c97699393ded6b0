#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "alloc/bytes.h"
#include "bindings/archive/checkpoint_export.h"
#include "bindings/archive/checkpoint_import.h"
#include "bindings/archive/safetensors_layout.h"
#include "bindings/archive/store_verification.h"
#include "tests/alloc/sanitizers.h"
#include "tests/store/durable_fixture.h"
#include "tests/store/flaky_file_system.h"

namespace penstock {
namespace {

using testing::HasSubstr;

// In natural order, as an export brings them.
const std::vector<TensorInfo> kTensors{{"a", DType::kU8, {3'000'001}, Role::kParam},
                                       {"b", DType::kF32, {}, Role::kParam},
                                       {"c", DType::kBF16, {64, 32}, Role::kParam},
                                       {"d", DType::kF16, {4096, 2}, Role::kParam},
                                       {"empty", DType::kI64, {0}, Role::kParam}};

class CheckpointTest : public DurableFixture {
 protected:
  /// A file with contents of `seed`, written by our own layout.
  Checkpoint checkpoint(unsigned seed) {
    const std::string path = directory_ / ("seed" + std::to_string(seed) + ".safetensors");
    const SafetensorsLayout layout = lay_out_file(kTensors, {{"format", "pt"}}, "x").value();
    std::ofstream file(path, std::ios::binary);
    file << layout.files.front().header;
    for (const std::size_t index : layout.files.front().tensors) {
      const std::vector<std::byte> data = content(kTensors[index].bytes(), seed + unsigned(index));
      file.write(reinterpret_cast<const char*>(data.data()),
                 static_cast<std::streamsize>(data.size()));
    }
    file.close();
    return load_checkpoint(path).value();
  }
  void import(DurableStore& store, unsigned seed) {
    const Result<ImportReport> report =
        import_checkpoint(checkpoint(seed), os_file_system(), store, *queue_);
    ASSERT_TRUE(report.has_value()) << report.error().message;
    EXPECT_EQ(report->tensors, kTensors.size());
    EXPECT_GT(report->written_bytes, report->bytes);
  }
  ::testing::AssertionResult holds_seed(const DurableStore& store, std::size_t tensor,
                                        unsigned seed) {
    return holds(store, kTensors[tensor].name,
                 content(kTensors[tensor].bytes(), seed + unsigned(tensor)));
  }
  static std::string read_file(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
};

TEST_F(CheckpointTest, GoesInAndComesOutTheSame) {
  auto store = open();
  import(*store, 100);
  for (std::size_t i = 0; i < kTensors.size(); ++i) {
    EXPECT_TRUE(holds_seed(*store, i, 100)) << i;
    EXPECT_EQ(store->find(kTensors[i].name)->extent->identity.level, 2U) << "always full";
  }
  EXPECT_TRUE(verify_store(*store, *queue_).value().bad.empty());
  ExportOptions options;
  options.target = directory_ / "out.safetensors";
  ASSERT_TRUE(export_checkpoint(*store, os_file_system(), *queue_, options));
  EXPECT_TRUE(read_file(options.target) == read_file(directory_ / "seed100.safetensors"));
}

TEST_F(CheckpointTest, ProgressEndsWithAllOfIt) {
  auto store = open();
  std::uint64_t last = 0;
  std::uint64_t all = 0;
  const auto on_progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GE(done, last);
    last = done;
    all = total;
  };
  ASSERT_TRUE(import_checkpoint(checkpoint(1), os_file_system(), *store, *queue_, on_progress));
  EXPECT_EQ(last, all);
  EXPECT_EQ(all, checkpoint(1).inventory().bytes());
}

TEST_F(CheckpointTest, AReadOnlyStoreIsExported) {
  {
    auto store = open();
    import(*store, 3);
    ASSERT_TRUE(store->close());
  }
  auto store = open_to_read();
  ExportOptions options;
  options.target = directory_ / "shards";
  options.max_shard_bytes = kMiB;
  const Result<ExportReport> report = export_checkpoint(*store, os_file_system(), *queue_, options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->files, 2U) << "one tensor is larger than a shard may be";
  EXPECT_EQ(load_checkpoint(directory_ / "shards").value().tensors.size(), kTensors.size());
}

TEST_F(CheckpointTest, NothingIsExportedOfNothing) {
  ExportOptions options;
  options.target = directory_ / "out.safetensors";
  const auto store = open();
  EXPECT_TRUE(export_checkpoint(*store, os_file_system(), *queue_, options).has_error());
  EXPECT_FALSE(std::filesystem::exists(options.target));
  EXPECT_TRUE(import_checkpoint({}, os_file_system(), *store, *queue_).has_error());
}

/// Whatever call of the file system is the last one that is made.
TEST_F(CheckpointTest, AnImportThatStopsLeavesEachTensorOldOrNew) {
  FlakyFileSystem system;
  const Checkpoint newer = checkpoint(200);
  std::size_t calls = 1000;
  for (std::size_t stop = 0; stop < calls; stop += kSanitized ? 5 : 1) {
    std::filesystem::remove_all(directory_ / "store");
    {
      auto store = open();
      import(*store, 100);
      ASSERT_TRUE(store->close());
    }
    (void)system.take_calls();
    system.stop_after(stop);
    bool done = false;
    if (Opened store = try_open({}, system)) {
      done = import_checkpoint(newer, os_file_system(), **store, *queue_).has_value() &&
             (*store)->close().has_value();
    }
    system.set_fault({});
    if (done) {
      calls = system.take_calls().size();
    }
    auto store = open();
    for (std::size_t i = 0; i < kTensors.size(); ++i) {
      ASSERT_TRUE(holds_seed(*store, i, 200) || (!done && holds_seed(*store, i, 100)))
          << "stopped at " << stop << ", tensor " << i;
    }
  }
  EXPECT_LT(calls, 1000U);
  EXPECT_GT(calls, 10U);
}

TEST_F(CheckpointTest, AnExportThatStopsLeavesTheOldFileOrTheNew) {
  FlakyFileSystem system;
  auto store = open();
  import(*store, 100);
  ExportOptions options;
  options.target = directory_ / "out.safetensors";
  const std::string whole = read_file(directory_ / "seed100.safetensors");
  bool done = false;
  for (std::size_t stop = 0; !done; ++stop) {
    ASSERT_LT(stop, 100U);
    std::ofstream(options.target) << "old";
    system.stop_after(stop);
    done = export_checkpoint(*store, system, *queue_, options).has_value();
    system.set_fault({});
    const std::string found = read_file(options.target);
    ASSERT_TRUE(found == whole || (!done && found == "old")) << "stopped at " << stop;
  }
  for (const auto& file : std::filesystem::directory_iterator(directory_.path())) {
    EXPECT_EQ(file.path().filename().string().find("partial"), std::string::npos)
        << "the next export takes away what the last one left";
  }
}

/// Which has got its names first.
TEST_F(CheckpointTest, AnExportLeavesAloneWhatAnotherOneHasPublished) {
  FlakyFileSystem system;
  auto store = open();
  import(*store, 100);
  ExportOptions options;
  options.target = directory_ / "out";
  options.max_shard_bytes = kMiB;
  for (const std::string moment : {"reserve ", "rename "}) {
    const bool is_late = moment == "rename ";
    std::string other = options.target + "/model.safetensors";
    int calls = 0;
    system.set_fault([&](const std::string& call) {
      if (call.starts_with(moment) && ++calls == 2) {
        other = is_late ? call.substr(moment.size()) : other;
        std::ofstream(other) << "another";
      }
      return 0;
    });
    const Result<ExportReport> refused = export_checkpoint(*store, system, *queue_, options);
    system.set_fault({});
    ASSERT_TRUE(refused.has_error()) << moment;
    EXPECT_EQ(refused.error().system_errno(), EEXIST);
    EXPECT_THAT(refused.error().message, HasSubstr(std::filesystem::path(other).filename()));
    EXPECT_EQ(read_file(other), "another");
    std::filesystem::remove(other);
    EXPECT_TRUE(std::filesystem::is_empty(options.target)) << moment;
  }
}

TEST_F(CheckpointTest, AnExportToAFullDriveSaysSoBeforeItWrites) {
  FlakyFileSystem system;
  auto store = open();
  import(*store, 100);
  ExportOptions options;
  options.target = directory_ / "out";
  options.max_shard_bytes = kMiB;
  system.set_fault(
      [](const std::string& call) { return call.starts_with("reserve") ? ENOSPC : 0; });
  const Result<ExportReport> refused = export_checkpoint(*store, system, *queue_, options);
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().system_errno(), ENOSPC);
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "out"));
}

TEST_F(CheckpointTest, AnImportFindsRoomBesideWhatItSupersedes) {
  PathConfig home = path(directory_ / "store");
  home.max_bytes = 7 * kMiB;  // twice the model, and a little
  auto store = open({home});
  for (unsigned seed = 100; seed < 400; seed += 100) {
    import(*store, seed);
  }
  for (std::size_t i = 0; i < kTensors.size(); ++i) {
    EXPECT_TRUE(holds_seed(*store, i, 300));
  }
}

TEST(SafetensorsLayout, WholeBlocksComeFirstAndElementsAreAligned) {
  const std::vector<TensorInfo> tensors{{"odd", DType::kU8, {3}, Role::kParam},
                                        {"half", DType::kF16, {5}, Role::kParam},
                                        {"large", DType::kBF16, {2048, 3}, Role::kParam},
                                        {"long", DType::kI64, {3}, Role::kParam}};
  const SafetensorsFile file = lay_out_file(tensors, {}, "x.safetensors").value().files.front();
  EXPECT_EQ(file.tensors, (std::vector<std::size_t>{2, 3, 1, 0}));
  EXPECT_EQ(file.header.size() % kBlockBytes, 0U);
  EXPECT_EQ(file.bytes, file.header.size() + 12'288 + 24 + 10 + 3);
  EXPECT_THAT(file.header, HasSubstr(R"("__metadata__":{"format":"pt"})"));
  EXPECT_THAT(file.header, HasSubstr(R"("half":{"dtype":"F16","shape":[5],)"
                                     R"("data_offsets":[12312,12322]})"));
}

TEST(SafetensorsLayout, ShardsHoldWhatTheyMayAndNoTensorTwice) {
  std::vector<TensorInfo> tensors;
  for (int i = 0; i < 10; ++i) {
    tensors.push_back(
        {"t" + std::to_string(i), DType::kU8, {i == 4 ? 5000U : 1000U}, Role::kParam});
  }
  const SafetensorsLayout layout = lay_out_shards(tensors, {}, 2500).value();
  std::vector<std::size_t> counts;
  for (const SafetensorsFile& file : layout.files) {
    counts.push_back(file.tensors.size());
  }
  EXPECT_EQ(counts, (std::vector<std::size_t>{2, 2, 1, 2, 2, 1}));
  EXPECT_EQ(layout.files.back().name, "model-00006-of-00006.safetensors");
  EXPECT_THAT(layout.index, HasSubstr(R"("total_size": 14000)"));
}

}  // namespace
}  // namespace penstock
