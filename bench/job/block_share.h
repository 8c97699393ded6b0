#pragma once

#include <string>
#include <string_view>

#include "bench/job/job.h"
#include "bench/job/refusal.h"

namespace penstock::bench {

/// fio's `bs=READ[,WRITE[,TRIM]]`: what stands for one direction, or before no comma for those that
/// follow; a direction that is left empty keeps what it has. TRIM is read and of no use.
Refusal read_block_sizes(std::string_view text, Job& job);
/// fio's `bssplit=BYTES/PERCENT:…[,WRITE…]`, over `bs`. Entries without a percentage share what the
/// others leave; where none is without, the last gets what is missing to 100, as fio does it.
Refusal read_block_split(std::string_view text, Job& job);

/// `bs` of a job whose directions have one size each; nothing where there is no size or a mix.
std::optional<std::string> write_block_sizes(const Job& job);
/// `bssplit` of any other; nothing where write_block_sizes() says it.
std::optional<std::string> write_block_split(const Job& job);

}  // namespace penstock::bench
