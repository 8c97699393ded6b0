#include "bench/job/foreign_key.h"

#include <algorithm>
#include <array>

namespace penstock::bench {
namespace {

constexpr auto kForeign = std::to_array<std::string_view>({
    "allow_file_create",
    "allow_mounted_write",
    "blockalign",
    "blocksize_range",
    "bsrange",
    "bs_unaligned",
    "buffer_compress_percentage",
    "buffer_pattern",
    "buffered",
    "bwavgtime",
    "continue_on_error",
    "cpus_allowed",
    "cpus_allowed_policy",
    "create_on_open",
    "create_serialize",
    "description",
    "dedupe_percentage",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "disk_util",
    "do_verify",
    "exitall",
    "experimental_verify",
    "fadvise_hint",
    "fdatasync",
    "file_service_type",
    "filename_format",
    "filesize",
    "fsync_on_close",
    "gtod_reduce",
    "hipri",
    "io_submit_mode",
    "iodepth_batch",
    "iodepth_batch_complete_min",
    "iodepth_low",
    "iomem",
    "iomem_align",
    "ioscheduler",
    "kb_base",
    "latency_target",
    "lat_percentiles",
    "log_avg_msec",
    "log_hist_msec",
    "lockfile",
    "mem",
    "mem_align",
    "nice",
    "norandommap",
    "nonvectored",
    "number_ios",
    "numa_cpu_nodes",
    "offset_increment",
    "openfiles",
    "overwrite",
    "per_job_logs",
    "prio",
    "random_distribution",
    "random_generator",
    "randrepeat",
    "rate",
    "rate_iops",
    "rate_process",
    "read_iolog",
    "refill_buffers",
    "registerfiles",
    "rwmixwrite",
    "scramble_buffers",
    "significant_figures",
    "softrandommap",
    "sqthread_poll",
    "startdelay",
    "sync",
    "thinktime_blocks",
    "thinktime_spin",
    "unified_rw_reporting",
    "unit_base",
    "userspace_reap",
    "verify_async",
    "verify_backlog",
    "verify_fatal",
    "verify_interval",
    "verify_pattern",
    "wait_for",
    "write_hist_log",
    "write_iolog",
    "write_iops_log",
    "write_lat_log",
    "zero_buffers",
    "zonemode",
    "zonesize",
});

constexpr auto kCommand = std::to_array<std::string_view>(
    {"output", "output-format", "eta", "parse-only", "showcmd", "help", "json", "plot", "html"});

}  // namespace

bool is_foreign_key(std::string_view name) {
  return std::ranges::find(kForeign, name) != kForeign.end();
}

bool is_command_option(std::string_view name) {
  return std::ranges::find(kCommand, name) != kCommand.end();
}

}  // namespace penstock::bench
