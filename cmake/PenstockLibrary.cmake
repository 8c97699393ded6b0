# penstock_library(NAME name SOURCES ... LINKS ...): a static library with the project's include root, warnings and
# sanitizers. Installed, it has none of these: C++ programs that link it have warnings of their own.

set(PENSTOCK_SANITIZE "" CACHE STRING "Value of -fsanitize=, empty for none")
option(PENSTOCK_WARNINGS_AS_ERRORS "Treat compiler warnings as errors" OFF)

add_library(penstock_options INTERFACE)
target_include_directories(penstock_options INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
target_compile_options(penstock_options INTERFACE
  -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wnon-virtual-dtor -fvisibility=hidden)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 takes `"text" + std::string` for an overlapping, endless or stray copy (GCC bug 105651).
  target_compile_options(penstock_options INTERFACE -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # stable_sort of libstdc++ 12 uses what the same library deprecates, and Clang warns at each call.
  target_compile_options(penstock_options INTERFACE -Wno-deprecated-declarations)
  # Which lock guards what: alloc/thread_safety.h.
  target_compile_options(penstock_options INTERFACE -Wthread-safety)
endif()
if(PENSTOCK_WARNINGS_AS_ERRORS)
  target_compile_options(penstock_options INTERFACE -Werror)
endif()
if(PENSTOCK_SANITIZE)
  target_compile_options(penstock_options INTERFACE
    "-fsanitize=${PENSTOCK_SANITIZE}" -fno-omit-frame-pointer)
  if(PENSTOCK_SANITIZE MATCHES "undefined")
    # A finding ends the program: a test passes where a finding is only printed.
    target_compile_options(penstock_options INTERFACE -fno-sanitize-recover=all)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With checks in between GCC 12 no longer sees that Boost has set a variable.
    target_compile_options(penstock_options INTERFACE -Wno-maybe-uninitialized)
  endif()
  target_link_options(penstock_options INTERFACE "-fsanitize=${PENSTOCK_SANITIZE}")
endif()
if(PENSTOCK_BUILD_FUZZERS)
  # Records the branches that an input takes, from which a fuzzer learns.
  target_compile_options(penstock_options INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(penstock_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# What most files include is precompiled once: reading it was half of a build. The libraries share it; those that need
# more (PRECOMPILE) have headers of their own.
set(penstock_headers <algorithm> <atomic> <chrono> <condition_variable> <cstdint> <filesystem> <functional> <map>
  <memory> <mutex> <optional> <span> <string> <string_view> <thread> <unordered_map> <utility> <vector>
  <boost/system/result.hpp> <fmt/format.h>)
file(CONFIGURE OUTPUT precompiled.cpp CONTENT "")
add_library(penstock_precompiled OBJECT "${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp")
target_link_libraries(penstock_precompiled PRIVATE penstock_options fmt::fmt Boost::headers)
target_precompile_headers(penstock_precompiled PRIVATE ${penstock_headers})

# COLD: no code of it takes time when it runs, so it is compiled with little optimization.
function(penstock_library)
  cmake_parse_arguments(LIBRARY "COLD" "NAME" "SOURCES;LINKS;PRECOMPILE" ${ARGN})
  add_library(penstock_${LIBRARY_NAME} STATIC ${LIBRARY_SOURCES})
  add_library(penstock::${LIBRARY_NAME} ALIAS penstock_${LIBRARY_NAME})
  target_link_libraries(penstock_${LIBRARY_NAME} PUBLIC "$<BUILD_INTERFACE:penstock_options>" ${LIBRARY_LINKS})
  target_include_directories(penstock_${LIBRARY_NAME} INTERFACE
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/penstock>")
  target_compile_features(penstock_${LIBRARY_NAME} PUBLIC cxx_std_20)
  set_target_properties(penstock_${LIBRARY_NAME} PROPERTIES EXPORT_NAME ${LIBRARY_NAME})
  if(PENSTOCK_BUILD_C)
    install(TARGETS penstock_${LIBRARY_NAME} EXPORT penstock_cpp
      ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development)
  endif()
  if(LIBRARY_COLD)
    penstock_compile_quickly(penstock_${LIBRARY_NAME})
  endif()
  if(LIBRARY_PRECOMPILE)
    target_precompile_headers(penstock_${LIBRARY_NAME} PRIVATE ${penstock_headers} ${LIBRARY_PRECOMPILE})
  elseif(NOT (LIBRARY_COLD AND PENSTOCK_SANITIZE))  # those are compiled otherwise
    target_precompile_headers(penstock_${LIBRARY_NAME} REUSE_FROM penstock_precompiled)
  endif()
endfunction()

function(penstock_compile_quickly target)
  if(PENSTOCK_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:-O1>")
  endif()
endfunction()
