"""Every part of ./tests/run, in the order in which they begin. A new part is an entry here."""

from __future__ import annotations

from part import Build, Ctest, Part, Pytest, Script

SHORT = Build("release", ("penstock_short",))
ALL = Build("release", ("all",))
CHECKED = Build("tsan", ("penstock_raw_memory",))
# A program that was not compiled is a test to ctest, which fails.
NOT_DEEP = ("-LE", "deep", "-E", "_NOT_BUILT$")
NOT_LONG = ("-LE", "deep|long", "-E", "_NOT_BUILT$")


def pytest(*arguments: str, marks: str = "not deep") -> Pytest:
    return Pytest(arguments, marks)


WITHOUT_HABITS = tuple(f"--ignore=tests/deepspeed/test_{name}.py" for name in ("habits", "resume"))

# What ./tests/run does without arguments.
SHORT_RUN = (
    # First, for it is the longest. Two processes, of which one waits for the drive or for a compiler: one core's work.
    Part(
        "deepspeed",
        "the contract with DeepSpeed, the two known training runs, eighteen habits",
        pytest("-n", "2", "tests/deepspeed"),
    ),
    Part(
        "cpp",
        "C++ tests of alloc, io, swap and bindings as release; 20 seeds of the simulation",
        Ctest("release", NOT_DEEP),
        SHORT,
        cores=2,
    ),
    Part(
        "threads",
        "alloc, io and swap under the thread sanitizer: the programs that use threads or raw memory",
        Ctest("tsan", NOT_LONG),
        CHECKED,
        cores=2,
    ),
    Part("tidy", "the tree's own rules, types and formatting", pytest("tests/tidy")),
    Part("python", "penstock.Engine: leases, DLPack, buffers, errors, threads", pytest("tests/python")),
    Part("cli", "the command as users call it: every verb, exit statuses and sentences", pytest("tests/cli")),
    Part("c", "cmake --install, then programs in C and C++ that find and run it", pytest("tests/c"), SHORT),
    Part("faults", "drives, limits and callers that do wrong", pytest("tests/faults"), SHORT, after=("cpp",)),
)

# What ./tests/run --all does besides.
DEEP_RUN = (
    Part(
        "cpp-deep",
        "C++ tests of the benchmark, micro benchmarks",
        Ctest("release", ("-L", "deep")),
        ALL,
        cores=2,
    ),
    Part(
        "simulation",
        "100 seeds of the simulation, 100,000 operations each",
        Script(("build/release/tests/sim/simulate", "--seeds", "100", "--operations", "100000")),
        ALL,
    ),
    Part(
        "asan-ubsan",
        "every C++ test under address and undefined-behaviour sanitizers",
        Ctest("asan-ubsan", ()),
        Build("asan-ubsan", ("penstock_tests", "penstock_fuzzers")),
        cores=2,
    ),
    Part(
        "tsan",
        "every C++ test that has threads under the thread sanitizer",
        Ctest("tsan", ()),
        Build("tsan", ("penstock_tests",)),
        cores=2,
    ),
    Part(
        "fuzz",
        "every parser on damaged input, 60 s each",
        Script(("tests/fuzz/run", "--seconds", "60", "--seed", "1")),
        after=("asan-ubsan",),
    ),
    Part(
        "dev",
        "every file compiled by itself, as `dev` does: what it forgot to include",
        Script(("cmake", "--build", "--preset", "dev")),
        Build("dev", ("all",)),
    ),
    Part(
        "headers", "each header of alloc, io, swap and bindings compiled by itself", Script(("tests/headers",)), cores=2
    ),
    Part(
        "reference",
        "the API reference, built without warnings (pip and apt bring what it needs)",
        Script(("docs/reference",)),
    ),
    Part(
        "cli-deep",
        "long tests of the command",
        pytest("-n", "2", "tests/cli", marks="deep and not async_io"),
        cores=2,
    ),
    Part(
        "training",
        "every training run of tests/deepspeed but habits",
        pytest("-n", "2", "tests/deepspeed", *WITHOUT_HABITS, marks="deep and not async_io"),
        cores=2,
    ),
    Part(
        "habits",
        "the whole table of habits",
        pytest("-n", "2", "tests/deepspeed/test_habits.py", marks="deep"),
        cores=2,
    ),
    Part(
        "resume",
        "the table's habits, saved and resumed after 2, 3 and 6 steps of 9",
        pytest("-n", "2", "tests/deepspeed/test_resume.py", marks="deep"),
        cores=2,
    ),
    Part(
        "versions",
        "the contract and the short run's habits on each tested version of DeepSpeed and the newest (pip brings them)",
        Script(("tests/deepspeed/versions",)),
    ),
    Part(
        "async_io",
        "what wants DeepSpeed's compiled async_io (five minutes of compiling)",
        pytest("tests/cli", "tests/deepspeed", marks="async_io"),
        cores=2,
    ),
)

PARTS = SHORT_RUN + DEEP_RUN
