#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "cli/error_output.h"
#include "cli/printable.h"
#include "cli/text_wrap.h"
#include "cli/verb.h"
#include "swap/plan/nearest_name.h"

namespace penstock::cli {
namespace {

constexpr const char* kDescription =
    "Swap engine for training models that do not fit: looks at a machine, plans the memory of a "
    "training run, measures drives, and keeps models in durable stores.";
constexpr const char* kExamples =
    "Examples:\n"
    "  penstock doctor --path /nvme0\n"
    "  penstock plan model.safetensors --config ds_config.json\n"
    "  penstock bench --name=x --directory=/nvme0 --rw=read --bs=1m --size=1g\n"
    "  penstock tune --path /nvme0 model/ --config ds_config.json -o better.json\n"
    "  penstock import model.safetensors /nvme0/model\n"
    "  penstock plan --help";

// The first argument that is no option, if it is none of our verbs: CLI11 only says that it was not
// expected.
std::string unknown_verb(const CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) {
    verbs.push_back(verb->get_name());
  }
  const std::vector<std::string_view> names(verbs.begin(), verbs.end());
  if (argc < 2 || argv[1][0] == '-') {
    return {};
  }
  const std::string text = argv[1];
  for (const std::string_view name : names) {
    if (text == name) {
      return {};
    }
  }
  return fmt::format("\"{}\" is no verb of penstock{}; there are {}", text,
                     did_you_mean(text, names), fmt::join(names, ", "));
}

// CLI11 ends some of its messages with a line end or a full stop.
std::string one_sentence(const std::string& message) {
  std::string sentence = printable(message);
  while (!sentence.empty() && (sentence.back() == ' ' || sentence.back() == '.')) {
    sentence.pop_back();
  }
  return sentence;
}

struct Asked {
  std::string parents;  // "penstock bench" of `penstock bench compare`
  std::string command;  // all of it
  const CLI::App* verb = nullptr;
};

// What the command line names, as far as it was understood.
Asked asked_of(const CLI::App& app) {
  Asked asked{"", app.get_name(), &app};
  for (auto chosen = app.get_subcommands(); !chosen.empty();
       chosen = asked.verb->get_subcommands()) {
    asked.verb = chosen.front();
    asked.parents = asked.command;
    asked.command += " " + asked.verb->get_name();
  }
  return asked;
}

int run(int argc, const char* const* argv) {
  int exit_code = kDone;
  CLI::App app(kDescription, "penstock");
  app.footer(kExamples);
  app.require_subcommand(1);
  app.set_version_flag("--version", "penstock " PENSTOCK_VERSION);
  add_doctor(app, exit_code);
  add_plan(app, exit_code);
  add_bench(app, exit_code);
  add_import(app, exit_code);
  add_export(app, exit_code);
  add_inspect(app, exit_code);
  add_verify(app, exit_code);
  add_tune(app, exit_code);
  add_replay(app, exit_code);
  add_schema(app, exit_code);
  add_version(app, exit_code);
  if (const std::string problem = unknown_verb(app, argc, argv); !problem.empty()) {
    report_error(problem);
    return kWrongUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const Asked asked = asked_of(app);
    fmt::print("{}", wrapped_help(asked.verb->help(asked.parents), output_width()));
    return kDone;
  } catch (const CLI::Success& success) {
    // Through stdio, whose errors main() sees.
    fmt::print("{}\n", success.what());
    return kDone;
  } catch (const CLI::ParseError& error) {
    report_error(fmt::format("{}; `{} --help` shows what is allowed", one_sentence(error.what()),
                             asked_of(app).command));
    return kWrongUsage;
  }
  return exit_code;
}

void report_no_memory() noexcept {
  constexpr std::string_view kSentence =
      "penstock: there is not enough memory for this; `ulimit -v` or a container may limit it\n";
  (void)std::fwrite(kSentence.data(), 1, kSentence.size(), stderr);
}

// Destructors of JSON documents allocate. Where that fails nothing can be caught any more, but it
// is no reason to end as if penstock were broken.
[[noreturn]] void end_for_want_of_memory() noexcept {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) {
      std::rethrow_exception(thrown);
    }
  } catch (const std::bad_alloc&) {
    report_no_memory();
    std::_Exit(kFailed);
  } catch (...) {
    std::abort();
  }
  std::abort();
}

/// A checkpoint of a thousand shards has more than the 1024 files that a shell lets one open.
void allow_many_files() noexcept {
  struct ::rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);  // opening says what cannot be opened
  }
}

}  // namespace

void report_error(const std::string& sentence) {
  print_error("penstock: {}\n", one_sentence(sentence));
}

int failed(const Error& error) {
  report_error(error.message);
  return kFailed;
}

int no_jobs(const Error& error) {
  report_error(error.message);
  return error.system_errno() != 0 ? kFailed : kWrongUsage;
}

}  // namespace penstock::cli

int main(int argc, char** argv) {
  namespace cli = penstock::cli;
  int exit_code = cli::kFailed;
  // A limit on the size of files (`ulimit -f`) is an error like any other, not a signal.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  cli::allow_many_files();
  std::set_terminate(cli::end_for_want_of_memory);
  try {
    exit_code = cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    cli::report_no_memory();
  } catch (const std::exception& error) {
    cli::report_error(error.what());
  }
  // Output that did not arrive (a full disk, a closed pipe) is no success.
  if (std::fflush(stdout) != 0 && exit_code == cli::kDone) {
    cli::report_error(fmt::format("cannot write the output: {}", std::strerror(errno)));
    exit_code = cli::kFailed;
  }
  return exit_code;
}
