# Sourced by bench/quickstart and tests/run: brings a bare Debian or Ubuntu to where penstock builds and runs.
# Touches the checkout and the system's package manager; nothing in anybody's home.
#
# Leaves .venv with penstock (library, module, command), torch, DeepSpeed, transformers, PEFT and TRL.

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache="$checkout/.cache"
# Everything that would otherwise go to a home directory.
export PIP_CACHE_DIR="$cache/pip" CCACHE_DIR="$cache/ccache" TORCH_EXTENSIONS_DIR="$cache/torch_extensions"
export HF_HOME="$cache/huggingface" TRITON_CACHE_DIR="$cache/triton" MPLCONFIGDIR="$cache/matplotlib"
export XDG_CACHE_HOME="$cache/xdg" HF_HUB_OFFLINE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
export PENSTOCK_CCACHE="" # set below where ccache is there
# Packages are installed without compiled modules, so Python has to keep what it compiles: `import torch` takes three
# seconds with it and six without.
unset PYTHONDONTWRITEBYTECODE

say() { printf '\n== %s\n' "$*"; }

# What the compiler, the libraries and stock DeepSpeed (libaio, ninja) need; boost where 1.81 is not packaged.
system_packages() {
  echo g++ cmake ninja-build pkg-config git ccache python3 python3-venv python3-dev \
    liburing-dev libaio-dev libhwloc-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libcli11-dev libyaml-cpp-dev \
    libxxhash-dev libdeflate-dev libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev libfuse3-dev fuse3 e2fsprogs fio
  if apt-cache show libboost1.81-dev > /dev/null 2>&1; then echo libboost1.81-dev; else echo libboost-dev; fi
}

missing_packages() {
  local name
  for name in $(system_packages); do
    dpkg-query -W -f '${Status}' "$name" 2> /dev/null | grep -q "ok installed" || echo "$name"
  done
}

install_system_packages() {
  command -v apt-get > /dev/null || {
    echo "penstock: this set-up knows Debian and Ubuntu (apt-get); install the packages by hand: docs/HACKING.md" >&2
    return 1
  }
  # A bare image has no package lists, and then knows no boost at all.
  if [ "$(id -u)" = 0 ] && ! apt-cache show liburing-dev > /dev/null 2>&1; then
    apt-get update -qq
  fi
  local missing
  missing=$(missing_packages | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    echo "penstock: these packages are missing: $missing" >&2
    echo "penstock: install them (sudo apt-get install $missing) and run this again" >&2
    return 1
  fi
  say "installing packages: $missing"
  # shellcheck disable=SC2086
  apt_install $missing > "$cache/apt.log" 2>&1 ||
    { apt-get update -qq && apt_install $missing > "$cache/apt.log" 2>&1; } ||
    { tail -n 20 "$cache/apt.log" >&2; return 1; }
}

# Waits for another installation that is under way.
apt_install() { # PACKAGE…
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends "$@"
}

# What some tests alone need. Without it they are skipped, with the reason.
install_for_tests() { # WHO PACKAGE…
  local who=$1 log="$cache/apt-$2.log"
  shift
  if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "penstock: $who will be skipped (sudo apt-get install $*)" >&2
    return 0
  fi
  say "installing packages: $*"
  apt_install "$@" > "$log" 2>&1 ||
    echo "penstock: $* cannot be installed here; $who will be skipped: $(tail -n 1 "$log")" >&2
}

# For the sanitizers; without it they are GCC's, which take longer. 19 where it is packaged.
install_clang() {
  if [[ "$("$checkout/tests/sanitizer_options")" != *FUZZERS=OFF* ]]; then return 0; fi
  if apt-cache show clang-19 > /dev/null 2>&1; then
    install_for_tests "the fuzzers" clang-19 libclang-rt-19-dev llvm-19
  else
    install_for_tests "the fuzzers" clang llvm
  fi
}

# The types of what is called of AMD's runtime (80 MB with what they drag along). Without them penstock is built without HIP.
install_hip_headers() {
  if [ -e /usr/include/hip/hip_runtime_api.h ] || [ -e "${ROCM_PATH:-/opt/rocm}/include/hip/hip_runtime_api.h" ]; then
    return 0
  fi
  install_for_tests "the HIP device" libamdhip64-dev
}

# The first interpreter of 3.10 to 3.13 that can make virtual environments and has its headers.
find_python() {
  local candidate
  for candidate in python3 python3.11 python3.12 python3.13 python3.10 /usr/bin/python3; do
    command -v "$candidate" > /dev/null || continue
    "$candidate" - << 'PY' 2> /dev/null && { command -v "$candidate"; return 0; }
import os, sys, sysconfig, venv, ensurepip
sys.exit(not ((3, 10) <= sys.version_info[:2] <= (3, 13)
              and os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h"))))
PY
  done
  echo "penstock: no Python 3.10 to 3.13 with venv and headers found" >&2
  return 1
}

make_environment() {
  [ -x "$checkout/.venv/bin/python" ] && return 0
  local python
  python=$(find_python) || return 1
  say "making .venv with $python"
  rm -f "$cache/requirements.done"
  "$python" -m venv "$checkout/.venv"
}

# Without compiling every module of torch and the rest: Python compiles what it imports, a small part, when it does.
pip_install() {
  "$checkout/.venv/bin/python" -m pip install -q --no-compile "$@"
}

install_python_packages() {
  local wanted="$checkout/bench/requirements.txt" stamp="$cache/requirements.done"
  cmp -s "$wanted" "$stamp" && return 0
  say "installing torch, DeepSpeed, transformers, PEFT and TRL into .venv (some minutes)"
  # torch alone first: with it installed no other package asks for a different build.
  pip_install "$(grep '^torch==' "$wanted")" && pip_install -r "$wanted" && cp "$wanted" "$stamp"
}

# For tests: what needs no Python is compiled while pip and apt download and unpack. The headers of CUDA are not there
# yet, nor is the Python module: both come with install_penstock. With pip's ninja, as there: ninjas of two versions
# do not trust each other's logs, and compile everything again.
build_early() { # TARGET…
  cmp -s "$checkout/bench/requirements.txt" "$cache/requirements.done" && return 0
  cd "$checkout" && PATH="$checkout/.venv/bin:$PATH" || return 1
  cmake --preset release && nice cmake --build --preset release --target "$@"
}

use_ccache() {
  if command -v ccache > /dev/null; then
    export PENSTOCK_CCACHE=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  fi
}

# Incremental: seconds when nothing has changed.
install_penstock() {
  say "building penstock into .venv"
  use_ccache
  # For tests in the preset's own folder and with its values, so that what both need is compiled once.
  local like_preset=()
  if [ -n "${with_presets:-}" ]; then
    like_preset=(--config-settings=build-dir=build/release "--config-settings=build.targets=penstock_cli;_core")
    local value
    for value in PENSTOCK_WARNINGS_AS_ERRORS PENSTOCK_BUILD_TESTS PENSTOCK_BUILD_C PENSTOCK_UNITY_TESTS; do
      like_preset+=("--config-settings=cmake.define.$value=ON")
    done
  fi
  CXX="${CXX:-c++}" PATH="$checkout/.venv/bin:$PATH" "$checkout/.venv/bin/python" -m pip install -q --no-build-isolation \
    --no-deps --force-reinstall ${like_preset[@]+"${like_preset[@]}"} "$checkout" > "$cache/build.log" 2>&1 ||
    { tail -n 40 "$cache/build.log" >&2; return 1; }
}

# Runs a step of the set-up, and notes its seconds in $cache/setup.times.
timed() { # NAME COMMAND…
  local name=$1 begun=$SECONDS status
  shift
  "$@"
  status=$?
  printf '%s\t%s\n' "$((SECONDS - begun))" "$name" >> "$cache/setup.times"
  return "$status"
}

setup() {
  local early=
  mkdir -p "$cache" && rm -f "$cache/setup.times" || return 1
  timed "system packages" install_system_packages && make_environment || return 1
  [ -z "${with_hip:-}" ] || timed "headers of HIP" install_hip_headers
  if [ -n "${with_presets:-}" ]; then
    use_ccache
    pip_install "$(grep '^ninja==' "$checkout/bench/requirements.txt")" || return 1
    # shellcheck disable=SC2086
    timed "compiling meanwhile" build_early $with_presets > "$cache/build-early.log" 2>&1 &
    early=$!
  fi
  [ -z "${with_clang:-}" ] || timed "packages for tests alone" install_clang
  timed "Python packages" install_python_packages || { kill $early 2> /dev/null; return 1; }
  [ -z "$early" ] || wait "$early" # what failed there fails below, and is told of
  timed "penstock" install_penstock || return 1
  "$checkout/.venv/bin/penstock" version
}
