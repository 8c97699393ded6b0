#pragma once

#include <span>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bench/job/ini_text.h"
#include "bench/job/job.h"
#include "bench/job/job_key.h"

namespace penstock::bench {

/// An assignment whose key is known. Both pointers outlive it.
struct GivenKey {
  const JobKey* key;
  const Assignment* assignment;
  /// Said of several jobs: it is passed over by those to whose workload it means nothing.
  bool is_shared;
};

/// Finds the keys of assignments. Errors: an unknown key with the nearest name, a key without a
/// value that needs one.
Result<std::vector<GivenKey>> known_keys(std::span<const Assignment> assignments, bool is_shared);

/// ` in FILE, line 7 is` …: the begin of a sentence on what a key was given.
std::string given_place(const Assignment& assignment);

/// A job before its keys are understood: of several givens of one key the last counts.
class JobDraft {
 public:
  /// `name` may be empty: then it is the workload's.
  JobDraft(std::string name, TextPlace place) : name_(std::move(name)), place_(std::move(place)) {}

  void add(std::span<const GivenKey> given);
  /// Over what was added: a `bs` here takes the place of a `bssplit` there, which otherwise wins.
  void add_over(std::span<const GivenKey> given);

  /// Errors: a value with what is allowed, a key of another workload, keys that make no sense
  /// together.
  Result<Job> make() const;

 private:
  std::string name_;
  TextPlace place_;
  std::vector<GivenKey> given_;
};

}  // namespace penstock::bench
