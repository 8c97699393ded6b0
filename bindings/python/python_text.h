#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

namespace penstock::python {

// Names and paths need not be UTF-8. With the GIL.

/// For people to read: what is not UTF-8 is replaced.
nanobind::object python_text(std::string_view text);

/// What Python calls the file, as os.fsdecode().
nanobind::object python_path(std::string_view path);

/// What os.fsencode() has made of Python's name of a file.
std::string path_of(const nanobind::bytes& path);

}  // namespace penstock::python
