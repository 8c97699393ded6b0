#include "bench/job/job_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "alloc/excerpt.h"
#include "bench/job/job_draft.h"

namespace penstock::bench {
namespace {

constexpr std::size_t kJobsMax = 1024;

using Sections = std::vector<IniSection>;

/// What a command line says: keys for all jobs, then jobs, each begun by its name.
struct CommandKeys {
  std::vector<Assignment> shared;
  std::vector<IniSection> jobs;
};

Error wrong(std::string message) {
  return fault(Fault::kConfiguration, std::move(message));
}

Result<Assignment> parse_key(const std::string& text) {
  const std::string_view whole = text;
  const std::size_t equals = whole.find('=');
  const std::string_view key = whole.substr(0, equals);
  if (!key.starts_with("--") || key.size() < 3) {
    return wrong(fmt::format("\"{}\" is not --key=value", excerpt(text)));
  }
  Assignment assignment{std::string(key.substr(2)), {}, {}};
  if (equals != std::string_view::npos) {
    Result<std::string> value = expanded_value(whole.substr(equals + 1));
    if (value.has_error()) {
      return wrong(fmt::format("{} {}", excerpt(key), value.error().message));
    }
    assignment.value = std::move(*value);
  }
  return assignment;
}

Result<CommandKeys> parse_command(const std::vector<std::string>& keys) {
  CommandKeys command;
  for (const std::string& text : keys) {
    Result<Assignment> parsed = parse_key(text);
    if (parsed.has_error()) {
      return std::move(parsed).error();
    }
    if (parsed->key == "name") {
      command.jobs.push_back({parsed->value.value_or(""), {}, {}});
    }
    std::vector<Assignment>& target =
        command.jobs.empty() ? command.shared : command.jobs.back().assignments;
    target.push_back(std::move(*parsed));
  }
  return command;
}

/// The drafts of one file. `sections` outlives them.
Result<std::vector<JobDraft>> file_drafts(const Sections& sections) {
  std::vector<GivenKey> global;
  std::vector<JobDraft> drafts;
  for (const IniSection& section : sections) {
    const Result<std::vector<GivenKey>> given =
        known_keys(section.assignments, section.is_global());
    if (given.has_error()) {
      return given.error();
    }
    if (section.is_global()) {
      global.insert(global.end(), given->begin(), given->end());
      continue;
    }
    if (drafts.size() == kJobsMax) {
      return wrong(fmt::format("{} has more than {} jobs", excerpt(section.place.file), kJobsMax));
    }
    JobDraft& draft = drafts.emplace_back(section.name, section.place);
    draft.add(global);
    draft.add(*given);
  }
  return drafts;
}

Result<std::vector<JobDraft>> command_drafts(const CommandKeys& command,
                                             const std::vector<GivenKey>& shared) {
  std::vector<JobDraft> drafts;
  for (const IniSection& section : command.jobs) {
    const Result<std::vector<GivenKey>> given = known_keys(section.assignments, false);
    if (given.has_error()) {
      return given.error();
    }
    JobDraft& draft = drafts.emplace_back(section.name, section.place);
    draft.add(shared);
    draft.add(*given);
  }
  return drafts;
}

Result<std::vector<Job>> make_all(const std::vector<JobDraft>& drafts) {
  std::vector<Job> jobs;
  for (const JobDraft& draft : drafts) {
    Result<Job> job = draft.make();
    if (job.has_error()) {
      return std::move(job).error();
    }
    jobs.push_back(std::move(*job));
  }
  return jobs;
}

/// A key of the command line that no job has a use for was meant to have one.
Result<void> check_used(const std::vector<GivenKey>& shared, const std::vector<Job>& jobs) {
  for (const GivenKey& given : shared) {
    const bool used = std::ranges::any_of(
        jobs, [&given](const Job& job) { return given.key->workloads.contains(job.workload); });
    if (!used) {
      return wrong(fmt::format("{} means nothing to the workload of any of the jobs",
                               given_place(*given.assignment)));
    }
  }
  return {};
}

Result<Sections> load_sections(const std::string& file) {
  const Result<std::string> text = read_job_text(file);
  if (text.has_error()) {
    return text.error();
  }
  return parse_ini(*text, file, read_job_text);
}

Error no_jobs(const std::string& origin) {
  Error error =
      wrong(fmt::format("{} has no job: a section such as [read] is needed", excerpt(origin)));
  error.path = origin;
  return error;
}

/// The drafts of all files, with the command line's keys over them. What is read stays in `texts`.
Result<std::vector<JobDraft>> all_file_drafts(const std::vector<std::string>& files,
                                              const std::vector<GivenKey>& over,
                                              std::deque<Sections>& texts) {
  std::vector<JobDraft> all;
  for (const std::string& file : files) {
    Result<Sections> sections = load_sections(file);
    if (sections.has_error()) {
      return std::move(sections).error();
    }
    Result<std::vector<JobDraft>> drafts = file_drafts(texts.emplace_back(std::move(*sections)));
    if (drafts.has_error()) {
      return drafts;
    }
    if (drafts->empty()) {
      return no_jobs(file);
    }
    for (JobDraft& draft : *drafts) {
      draft.add_over(over);
      all.push_back(std::move(draft));
    }
  }
  return all;
}

}  // namespace

Result<std::vector<Job>> load_jobs(const std::vector<std::string>& files,
                                   const std::vector<std::string>& keys) {
  Result<CommandKeys> command = parse_command(keys);
  if (command.has_error()) {
    return std::move(command).error();
  }
  const bool single = files.empty() && command->jobs.empty();
  if (single && keys.empty()) {
    return wrong("there is no job: give a job file, or keys such as --rw=read --size=1g");
  }
  const Result<std::vector<GivenKey>> shared = known_keys(command->shared, !single);
  if (shared.has_error()) {
    return shared.error();
  }
  std::deque<Sections> texts;
  Result<std::vector<JobDraft>> drafts = all_file_drafts(files, *shared, texts);
  if (drafts.has_error()) {
    return std::move(drafts).error();
  }
  const Result<std::vector<JobDraft>> own = command_drafts(*command, *shared);
  if (own.has_error()) {
    return own.error();
  }
  drafts->insert(drafts->end(), own->begin(), own->end());
  if (single) {
    drafts->emplace_back("", TextPlace{}).add(*shared);
  }
  Result<std::vector<Job>> jobs = make_all(*drafts);
  if (jobs.has_value()) {
    PENSTOCK_TRY(check_used(*shared, *jobs));
  }
  return jobs;
}

Result<std::vector<Job>> parse_jobs(std::string_view text, const std::string& origin) {
  return parse_jobs(text, origin, read_job_text);
}

Result<std::vector<Job>> parse_jobs(std::string_view text, const std::string& origin,
                                    const TextReader& read) {
  const Result<Sections> sections = parse_ini(text, origin, read);
  if (sections.has_error()) {
    return sections.error();
  }
  const Result<std::vector<JobDraft>> drafts = file_drafts(*sections);
  if (drafts.has_error()) {
    return drafts.error();
  }
  if (drafts->empty()) {
    return no_jobs(origin);
  }
  return make_all(*drafts);
}

}  // namespace penstock::bench
