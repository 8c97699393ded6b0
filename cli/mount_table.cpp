#include "cli/mount_table.h"

#include <fstream>
#include <sstream>

namespace penstock::cli {
namespace {

bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

// Spaces and the like are written as \040.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) &&
                           is_octal(text[i + 2]) && is_octal(text[i + 3]);
    if (is_escape) {
      const int code = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0');
      plain += static_cast<char>(code);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// `36 35 98:0 /root /mount/point rw,noatime shared:1 - ext4 /dev/sda1 rw`
bool parse_line(const std::string& line, Mount& mount) {
  std::istringstream words(line);
  std::string number, parent, device, root, point, options, word;
  words >> number >> parent >> device >> root >> point >> options;
  while (words >> word && word != "-") {
  }
  std::string type, source;
  if (!(words >> type >> source)) {
    return false;
  }
  mount = {unescaped(point), type, unescaped(source)};
  return true;
}

bool lies_under(std::string_view path, std::string_view mount_point) {
  if (mount_point == "/") {
    return path.starts_with('/');
  }
  return path.starts_with(mount_point) &&
         (path.size() == mount_point.size() || path[mount_point.size()] == '/');
}

}  // namespace

std::vector<Mount> parse_mounts(std::string_view mountinfo) {
  std::vector<Mount> mounts;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    if (Mount mount; parse_line(line, mount)) {
      mounts.push_back(std::move(mount));
    }
  }
  return mounts;
}

std::vector<Mount> read_mounts() {
  std::ifstream file("/proc/self/mountinfo");
  std::ostringstream text;
  text << file.rdbuf();
  return parse_mounts(text.str());
}

const Mount* mount_of(const std::vector<Mount>& mounts, std::string_view path) {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts) {
    const bool is_deeper = best == nullptr || mount.mount_point.size() >= best->mount_point.size();
    if (is_deeper && lies_under(path, mount.mount_point)) {
      best = &mount;
    }
  }
  return best;
}

}  // namespace penstock::cli
