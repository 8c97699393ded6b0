#include "bindings/deepspeed/penstock_keys.h"

#include "swap/plan/place.h"
#include "swap/update/state_format.h"

namespace penstock {
namespace {

// What parse_storing_engine() takes.
constexpr std::array<std::string_view, 8> kEngineNames{"auto",     "uring",  "aio",   "threads",
                                                       "io_uring", "libaio", "psync", "pvsync"};

constexpr auto kBlock = std::to_array<ConfigKey>({
    {.name = "max_pinned_bytes",
     .kind = KeyKind::kSize,
     .meaning = "Registered memory of a rank; \"auto\": 64 MiB or two slots of the largest class",
     .by_default = R"("auto")"},
    {.name = "ram_bytes",
     .kind = KeyKind::kSize,
     .meaning = "Parameters and states that a rank keeps in RAM; \"auto\": what DeepSpeed's "
                "numbers would let it pin, less max_pinned_bytes",
     .by_default = R"("auto")"},
    {.name = "engine",
     .kind = KeyKind::kText,
     .meaning = "How files are read and written; \"auto\": the first of uring, aio and threads "
                "that this machine allows",
     .by_default = R"("auto")",
     .choices = kEngineNames},
    {.name = "integrity",
     .kind = KeyKind::kChoice,
     .meaning = "What of a tensor is proven when it comes back: its identity, 64 bytes of each "
                "page as well, "
                "or every byte",
     .by_default = R"("sampled")",
     .choices = kIntegrityNames},
    {.name = "mode",
     .kind = KeyKind::kChoice,
     .meaning = "scratch: files without names; durable: the first path is a store that outlives "
                "the process",
     .by_default = R"("scratch")",
     .choices = kModeNames},
    {.name = "optimizer_states",
     .kind = KeyKind::kChoice,
     .meaning = "How the moments of DeepSpeedCPUAdam are stored; all but fp32 train otherwise than "
                "without penstock",
     .by_default = R"("fp32")",
     .choices = kStateFormatNames},
    {.name = "fp32_states",
     .kind = KeyKind::kTexts,
     .meaning = "Patterns over names of parameters (*, ?) whose moments stay fp32",
     .by_default = "[]"},
    {.name = "size_classes",
     .kind = KeyKind::kSizes,
     .meaning = "Bytes of the slots of pinned memory for tensors that fill seven eighths of one",
     .by_default = R"("auto")",
     .maximum = kSlotBytesMax,
     .is_above_zero = true},
    {.name = "paths",
     .kind = KeyKind::kList,
     .meaning = "Directories to swap to, one on each drive, in place of nvme_path",
     .by_default = "[]",
     .inside = &kPathTable,
     .may_be_text = true},
    {.name = "tensors",
     .kind = KeyKind::kList,
     .meaning = "Rules for tensors; the first that matches counts",
     .by_default = "[]",
     .inside = &kRuleTable},
});

constexpr auto kPath = std::to_array<ConfigKey>({
    {.name = "path",
     .kind = KeyKind::kText,
     .meaning = "A directory; training makes it where it is missing",
     .is_required = true},
    {.name = "weight",
     .kind = KeyKind::kNumber,
     .meaning = "This drive's share, in proportion to the others' weights",
     .by_default = R"("auto")",
     .is_above_zero = true},
    {.name = "max_bytes",
     .kind = KeyKind::kSize,
     .meaning = "The most that may lie there, below what is free"},
    {.name = "read_bytes_per_second",
     .kind = KeyKind::kSize,
     .meaning = "What was measured (`penstock tune` writes it); gives `penstock plan` its lower "
                "bound",
     .is_above_zero = true},
    {.name = "write_bytes_per_second",
     .kind = KeyKind::kSize,
     .meaning = "What was measured (`penstock tune` writes it); gives `penstock plan` its lower "
                "bound",
     .is_above_zero = true},
});

constexpr auto kRule = std::to_array<ConfigKey>({
    {.name = "match",
     .kind = KeyKind::kText,
     .meaning = "A pattern over the tensor's name (*, ?); without it every name"},
    {.name = "min_bytes", .kind = KeyKind::kSize, .meaning = "Tensors of so many bytes or more"},
    {.name = "max_bytes", .kind = KeyKind::kSize, .meaning = "Tensors of so many bytes or fewer"},
    {.name = "place",
     .kind = KeyKind::kChoice,
     .meaning =
         "class: a slot shared by size; dedicated: a pinned buffer of its own; ram: stays in "
         "RAM; stream: read into pageable memory",
     .choices = kRulePlaceNames,
     .is_required = true},
});

}  // namespace

constinit const ConfigTable kPenstockTable{kBlock, true};
constinit const ConfigTable kPathTable{kPath, true};
constinit const ConfigTable kRuleTable{kRule, true};

}  // namespace penstock
