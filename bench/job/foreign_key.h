#pragma once

#include <string_view>

namespace penstock::bench {

/// Whether fio has a job key of this name that penstock has not. Those that job files are seen to
/// use; fio has some two hundred.
bool is_foreign_key(std::string_view name);

/// Whether this is an option of `penstock bench` and of fio, and no property of a job.
bool is_command_option(std::string_view name);

}  // namespace penstock::bench
