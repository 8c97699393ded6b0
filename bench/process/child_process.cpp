#include "bench/process/child_process.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "alloc/excerpt.h"

namespace penstock::bench {
namespace {

std::atomic<pid_t> g_killable{-1};
static_assert(std::atomic<pid_t>::is_always_lock_free);

// Closes what start() has opened and not handed on.
struct Opened {
  int fd = -1;

  ~Opened() {
    if (fd >= 0) {
      ::close(fd);
    }
  }
  int hand_on() { return std::exchange(fd, -1); }
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) {
    all.push_back(text.data());
  }
  all.push_back(nullptr);
  return all;
}

// Ours without the names that `added` sets.
std::vector<std::string> environment_with(const std::vector<std::string>& added) {
  std::vector<std::string> all = added;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view ours = *entry;
    const std::string_view name = ours.substr(0, ours.find('=') + 1);
    if (std::ranges::none_of(added, [&](const auto& text) { return text.starts_with(name); })) {
      all.emplace_back(ours);
    }
  }
  return all;
}

// A child begins as from a shell: no signal blocked, none ignored.
void set_signals(posix_spawnattr_t& attributes) {
  sigset_t none;
  sigset_t ours;
  sigemptyset(&none);
  sigemptyset(&ours);
  sigaddset(&ours, SIGXFSZ);
  sigaddset(&ours, SIGPIPE);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &ours);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

int spawn(const Command& command, int input_and_output, int errors, pid_t& process) {
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = environment_with(command.environment);
  ::posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input_and_output, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, input_and_output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  set_signals(attributes);
  const int error = ::posix_spawnp(&process, arguments.front().c_str(), &actions, &attributes,
                                   pointers(arguments).data(), pointers(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const Command& command) {
  const std::string& name = command.arguments.front();
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return system_error(errno, fmt::format("cannot make a pipe to {}", name));
  }
  Opened ours{ends[0]};
  const Opened theirs{ends[1]};
  Opened errors{::memfd_create("errors", MFD_CLOEXEC)};
  if (errors.fd < 0) {
    return system_error(errno, fmt::format("cannot make a file in memory for {}", name));
  }
  pid_t process = -1;
  const int error = spawn(command, theirs.fd, errors.fd, process);
  if (error == ENOENT && !command.package.empty()) {
    return system_error(
        error, fmt::format("{} is not installed (apt-get install {})", name, command.package));
  }
  if (error != 0) {
    return system_error(error, fmt::format("cannot start {}", name), name);
  }
  if (command.ends_at_once) {
    g_killable = process;
  }
  return ChildProcess(name, process, ours.hand_on(), errors.hand_on());
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : name_(std::move(other.name_)),
      process_(std::exchange(other.process_, -1)),
      stdio_(std::exchange(other.stdio_, -1)),
      stderr_(std::exchange(other.stderr_, -1)),
      output_(std::move(other.output_)) {}

ChildProcess::~ChildProcess() {
  if (process_ >= 0) {
    ::kill(process_, SIGKILL);
    (void)end();
  }
  for (const int fd : {stdio_, stderr_}) {
    if (fd >= 0) {
      ::close(fd);
    }
  }
}

Result<void> ChildProcess::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(stdio_, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) {
      const int error = errno;
      return system_error(error,
                          fmt::format("{} does not read its input: {}", name_, last_error_line()));
    }
    text.remove_prefix(sent < 0 ? 0 : static_cast<std::size_t>(sent));
  }
  return {};
}

Result<std::string> ChildProcess::read_line() {
  for (;;) {
    if (const std::size_t end_of_line = output_.find('\n'); end_of_line != std::string::npos) {
      std::string line = output_.substr(0, end_of_line);
      output_.erase(0, end_of_line + 1);
      return line;
    }
    const Result<bool> more = read_more();
    PENSTOCK_TRY(more);
    if (!*more) {
      const std::string why = end();
      return fault(Fault::kUnsupported, why.empty() ? name_ + " ended without an answer" : why);
    }
  }
}

Result<std::string> ChildProcess::finish() {
  ::shutdown(stdio_, SHUT_WR);
  for (;;) {
    const Result<bool> more = read_more();
    PENSTOCK_TRY(more);
    if (!*more) {
      break;
    }
  }
  if (const std::string why = end(); !why.empty()) {
    return fault(Fault::kUnsupported, why);
  }
  return std::move(output_);
}

Result<bool> ChildProcess::read_more() {
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t got = ::read(stdio_, buffer.data(), buffer.size());
    if (got >= 0) {
      output_.append(buffer.data(), static_cast<std::size_t>(got));
      return got > 0;
    }
    if (errno == ECONNRESET) {
      return false;  // it ended before it had read all that was said to it
    }
    if (errno != EINTR) {
      return system_error(errno, fmt::format("cannot read what {} says", name_));
    }
  }
}

std::string ChildProcess::end() {
  pid_t own = process_;
  g_killable.compare_exchange_strong(own, -1);  // its number may be another's soon
  int status = 0;
  while (process_ >= 0 && ::waitpid(process_, &status, 0) < 0) {
    if (errno != EINTR) {
      return fmt::format("cannot wait for {}: {}", name_, std::strerror(errno));
    }
  }
  process_ = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return {};
  }
  const std::string how = WIFSIGNALED(status)
                              ? fmt::format("was ended by signal {}", WTERMSIG(status))
                              : fmt::format("ended with status {}", WEXITSTATUS(status));
  return fmt::format("{} {}: {}", name_, how, last_error_line());
}

// Long enough for a sentence, short enough for a line on a terminal.
std::string ChildProcess::last_error_line() const {
  std::array<char, 4096> buffer;
  const off_t written = ::lseek(stderr_, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, written - static_cast<off_t>(buffer.size()));
  const ssize_t got = ::pread(stderr_, buffer.data(), buffer.size(), from);
  std::string_view said(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  while (said.ends_with('\n') || said.ends_with(' ')) {
    said.remove_suffix(1);
  }
  said.remove_prefix(said.rfind('\n') + 1);  // npos + 1 is 0
  return said.empty() ? "it did not say why" : excerpt(said);
}

void kill_child() noexcept {
  if (const pid_t process = g_killable; process > 0) {
    (void)::kill(process, SIGKILL);
  }
}

std::vector<std::string> pythons() {
  std::vector<std::string> all;
  std::error_code error;
  const std::filesystem::path ours = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = ours.parent_path() / "python";
  if (!error && ::access(beside.c_str(), X_OK) == 0) {
    all.push_back(beside.string());
  }
  all.emplace_back("python3");
  all.emplace_back("/usr/bin/python3");
  return all;
}

}  // namespace penstock::bench
