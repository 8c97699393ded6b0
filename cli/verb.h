#pragma once

#include <CLI/CLI.hpp>

#include "alloc/result.h"

namespace penstock::cli {

/// What a program of ours returns: 0, 1 (not possible, or a check failed), 2 (wrong usage), 3 (what
/// was planned does not fit this machine).
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongUsage = 2;
inline constexpr int kDoesNotFit = 3;

/// Each verb declares its options and, when it is the one on the command line, runs from within
/// CLI::App::parse() and leaves what the program is to return in `exit_code`, which must outlive
/// it.
void add_bench(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_export(CLI::App& app, int& exit_code);
void add_import(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
void add_replay(CLI::App& app, int& exit_code);
void add_schema(CLI::App& app, int& exit_code);
void add_tune(CLI::App& app, int& exit_code);
void add_verify(CLI::App& app, int& exit_code);
void add_version(CLI::App& app, int& exit_code);

/// One sentence to stderr, with the program's name in front.
void report_error(const std::string& sentence);

/// Says so to stderr; what the verb returns then.
int failed(const Error& error);

/// The same for jobs that cannot be run: a file that cannot be read is a failure, what is written
/// in it or given as a key wrong usage.
int no_jobs(const Error& error);

}  // namespace penstock::cli
