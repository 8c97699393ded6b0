#include "tests/faults/test_drive.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

extern char** environ;

namespace penstock {
namespace {

/// Once a process; empty where it worked.
std::string separate_mounts() {
  static const std::string refusal = [] {
    if (::geteuid() != 0) {
      return std::string("mounting needs root");
    }
    // Private all the way down, or the machine would see what is mounted below.
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      return std::string("no mounts of one's own here: ") + std::strerror(errno);
    }
    return std::string();
  }();
  return refusal;
}

/// Empty, or the last line that the command said.
std::string run(const std::string& command) {
  const std::string whole = "PATH=\"$PATH:/usr/sbin:/sbin\" " + command + " 2>&1";
  FILE* const output = ::popen(whole.c_str(), "r");
  if (output == nullptr) {
    return std::strerror(errno);
  }
  std::string said = "it said nothing";
  for (char line[512]; std::fgets(line, sizeof(line), output) != nullptr;) {
    said.assign(line, std::strcspn(line, "\n"));
  }
  return ::pclose(output) == 0 ? "" : said;
}

}  // namespace

TestDrive::TestDrive() : refusal_(separate_mounts()) {
  EXPECT_EQ(::mkdir(path().c_str(), 0755), 0) << path();
}

TestDrive::~TestDrive() {
  detach();
}

void TestDrive::detach() {
  (void)::umount2(path().c_str(), MNT_DETACH);
}

void TestDrive::mount(const std::string& type, const std::string& options) {
  if (refusal().empty() &&
      ::mount("penstock-test", path().c_str(), type.c_str(), 0, options.c_str()) != 0) {
    refuse("cannot mount a " + type + ": " + std::strerror(errno));
  }
}

RamDrive::RamDrive(std::uint64_t bytes, bool read_only) {
  mount("tmpfs", "size=" + std::to_string(bytes));
  if (refusal().empty() && read_only &&
      ::mount("none", path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
    refuse(std::string("cannot mount read-only: ") + std::strerror(errno));
  }
}

RamDrive::RamDrive(WithoutDirectIo) {
  mount("ramfs", "");
}

LoopDrive::LoopDrive(std::uint64_t bytes) {
  if (!refusal().empty()) {
    return;
  }
  std::ofstream(backing()).close();
  EXPECT_EQ(::truncate(backing().c_str(), static_cast<::off_t>(bytes)), 0);
  std::string said = run("mkfs.ext4 -q -m 0 '" + backing() + "'");
  if (said.empty()) {
    said = run("mount -o loop,errors=remount-ro '" + backing() + "' '" + path() + "'");
  }
  if (!said.empty()) {
    refuse("cannot mount an ext4 of a file: " + said);
  }
}

LoopDrive::~LoopDrive() {
  detach();
}

void LoopDrive::cut(std::uint64_t bytes) {
  ASSERT_EQ(run("cp --sparse=always '" + backing() + "' '" + copy() + "'"), "");
  ASSERT_EQ(::truncate(backing().c_str(), static_cast<::off_t>(bytes)), 0);
}

void LoopDrive::restore() {
  // Into the very file: the loop device holds that one open.
  ASSERT_EQ(run("dd bs=1M status=none conv=notrunc if='" + copy() + "' of='" + backing() + "'"),
            "");
}

bool LoopDrive::turn_read_only() {
  struct ::stat info{};
  if (::stat(path().c_str(), &info) != 0) {
    return false;
  }
  const std::string device = "/sys/dev/block/" + std::to_string(major(info.st_dev)) + ":" +
                             std::to_string(minor(info.st_dev));
  char target[256] = {};
  if (::readlink(device.c_str(), target, sizeof(target) - 1) < 0) {
    return false;
  }
  const char* const name = std::strrchr(target, '/');
  std::ofstream trigger("/sys/fs/ext4" + std::string(name == nullptr ? "/" : name) +
                        "/trigger_fs_error");
  trigger << "a test's\n" << std::flush;
  return trigger.good();
}

FaultyDrive::FaultyDrive() {
  if (refusal().empty() && ::access("/dev/fuse", R_OK | W_OK) != 0) {
    refuse(std::string("no /dev/fuse: ") + std::strerror(errno));
  }
  if (refusal().empty()) {
    start();
  }
}

FaultyDrive::~FaultyDrive() {
  pull();
}

void FaultyDrive::start() {
  struct ::stat before{};
  ASSERT_EQ(::stat(path().c_str(), &before), 0);
  std::string program = PENSTOCK_FAULTY_DRIVE;
  std::string where = path();
  char* arguments[] = {program.data(), where.data(), nullptr};
  if (const int error =
          ::posix_spawn(&process_, program.c_str(), nullptr, nullptr, arguments, environ);
      error != 0) {
    refuse(std::string("cannot start penstock_faulty_drive: ") + std::strerror(error));
    return;
  }
  // It is there when the directory is on another device, or it has ended.
  for (struct ::stat now{}; ::stat(path().c_str(), &now) != 0 || now.st_dev == before.st_dev;) {
    int status = 0;
    if (::waitpid(process_, &status, WNOHANG) == process_) {
      process_ = -1;
      refuse("penstock_faulty_drive cannot mount here");
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void FaultyDrive::set_rules(const std::string& rules) {
  const int fd = ::open((path() + "/.faults").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0) << std::strerror(errno);
  const std::string line = rules + "\n";
  EXPECT_EQ(::write(fd, line.data(), line.size()), static_cast<::ssize_t>(line.size())) << rules;
  ::close(fd);
}

void FaultyDrive::pull() {
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    EXPECT_EQ(::waitpid(process_, nullptr, 0), process_);
    process_ = -1;
  }
}

}  // namespace penstock
