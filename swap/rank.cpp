#include "swap/rank.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace penstock {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

void replace(std::string& text, std::string_view mark, const std::string& by) {
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    text.replace(at, mark.size(), by);
    at += by.size();
  }
}

}  // namespace

std::string process_rank() {
  for (const char* const name :
       {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "LOCAL_RANK"}) {
    if (const char* const value = std::getenv(name); value != nullptr && is_number(value)) {
      return value;
    }
  }
  return "0";
}

std::string process_path(std::string path) {
  replace(path, "%p", std::to_string(::getpid()));
  replace(path, "%r", process_rank());
  return path;
}

}  // namespace penstock
