#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "swap/tensor.h"
#include "swap/ticket.h"

namespace penstock {

/// What one tensor must contain, version by version, whatever happened to the drive.
///
/// A put that is under way may succeed or fail, so what a get may see is a set: the last content
/// that is certain, and whatever was begun since. A commit is certain at once: what cannot be
/// written stays in memory. A crash takes the memory: of a durable store survives what was there at
/// the last flush, or something newer.
class TensorModel {
 public:
  using Version = std::uint64_t;
  using Versions = std::set<Version>;

  Version begin_version() { return ++newest_; }
  Version newest() const { return newest_; }

  void committed(Version version) {
    certain_ = version;
    unflushed_.insert(version);
  }
  void put_begun(Version version) {
    underway_.insert(version);
    unflushed_.insert(version);
  }
  void put_ended(Version version, bool succeeded) {
    underway_.erase(version);
    if (succeeded && (!certain_ || version > *certain_)) {
      certain_ = version;
    }
  }
  void flushed() {
    flushed_ = readable();
    unflushed_ = underway_;
  }
  void restarted_with(Version version) {
    certain_ = version;
    underway_.clear();
    flushed();
  }

  /// What a get that begins now may come to see. Empty: there is no content yet, it must fail.
  Versions readable() const {
    Versions versions;
    if (certain_) {
      versions.insert(*certain_);
    }
    for (const Version version : underway_) {
      if (!certain_ || version > *certain_) {
        versions.insert(version);
      }
    }
    return versions;
  }
  bool has_certain_content() const { return certain_.has_value(); }

  /// What may be found after a crash, if anything.
  Versions survivors() const {
    Versions versions = flushed_;
    versions.insert(unflushed_.begin(), unflushed_.end());
    return versions;
  }
  bool must_survive() const { return !flushed_.empty(); }

 private:
  Version newest_ = 0;
  std::optional<Version> certain_;
  Versions underway_;
  Versions flushed_;    // one of these at the last flush
  Versions unflushed_;  // begun since; what failed may have come to the drive all the same
};

}  // namespace penstock
