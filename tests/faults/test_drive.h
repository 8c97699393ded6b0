#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "tests/io/temp_directory.h"

namespace penstock {

/// A file system of one test's own. It is mounted where only this process sees
/// it, so that nothing is left behind however the test ends. Where the machine
/// cannot have it, refusal() says why.
class TestDrive {
 public:
  TestDrive(const TestDrive&) = delete;
  TestDrive& operator=(const TestDrive&) = delete;
  virtual ~TestDrive();

  /// Empty where all is well; else what to skip the test with.
  const std::string& refusal() const { return refusal_; }
  std::string path() const { return directory_ / "drive"; }
  /// As `umount --lazy`: files that are open there stay open.
  void detach();

 protected:
  /// Makes the mount point, and this process's own table of mounts.
  TestDrive();
  void refuse(std::string why) { refusal_ = std::move(why); }
  void mount(const std::string& type, const std::string& options);
  const TempDirectory& directory() const { return directory_; }

 private:
  TempDirectory directory_;
  std::string refusal_;
};

/// tmpfs, or ramfs, which has neither direct I/O nor a limit.
class RamDrive final : public TestDrive {
 public:
  explicit RamDrive(std::uint64_t bytes, bool read_only = false);
  struct WithoutDirectIo {};
  explicit RamDrive(WithoutDirectIo);
};

/// ext4 on a loop device over a file.
class LoopDrive final : public TestDrive {
 public:
  explicit LoopDrive(std::uint64_t bytes);
  ~LoopDrive() override;

  /// Cuts the file short: the blocks beyond fail with EIO.
  void cut(std::uint64_t bytes);
  /// The file is whole again, with the bytes that it had.
  void restore();
  /// Makes the file system find a fault in itself and go read-only, as it does
  /// when a drive begins to fail. False where this kernel cannot be asked to.
  bool turn_read_only();

 private:
  std::string backing() const { return directory() / "backing"; }
  std::string copy() const { return directory() / "copy"; }
};

/// The file system of faulty_drive_main.cpp.
class FaultyDrive final : public TestDrive {
 public:
  FaultyDrive();
  ~FaultyDrive() override;

  /// A rule from now on: "reads eio 0 4096"; see faulty_file.h.
  void set_rules(const std::string& rules);
  /// The drive is gone; what is open there fails.
  void pull();

 private:
  void start();
  ::pid_t process_ = -1;
};

}  // namespace penstock
