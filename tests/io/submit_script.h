#pragma once

#include <vector>

namespace penstock {

/// What io_submit(3) answers on this thread, call by call, instead of asking the kernel: -errno, 0,
/// or how many of its requests it takes. After the last of them it is the kernel's turn again.
void script_submit(std::vector<long> answers);
/// How many of those answers have not been given yet.
std::size_t scripted_submits_left();

}  // namespace penstock
