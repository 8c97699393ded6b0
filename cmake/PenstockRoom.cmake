# penstock_room(NAME room SOURCES ... LINKS ...): one static library a room, with the project's
# include root, warnings and sanitizers, so that no room can forget them. Installed it has none of these: C++ programs
# that link it have warnings of their own.

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
  # libstdc++ 12 builds stable_sort on what it deprecates, and Clang says so of who calls it.
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
    # What is only printed fails no test.
    target_compile_options(penstock_options INTERFACE -fno-sanitize-recover=all)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With checks in between GCC 12 no longer sees that Boost has set a variable.
    target_compile_options(penstock_options INTERFACE -Wno-maybe-uninitialized)
  endif()
  target_link_options(penstock_options INTERFACE "-fsanitize=${PENSTOCK_SANITIZE}")
endif()
if(PENSTOCK_BUILD_FUZZERS)
  # What a fuzzer learns from: the branches that its input takes. Other programs do not look.
  target_compile_options(penstock_options INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(penstock_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# What most files include is read once: half of a build was the reading of it. Rooms share it; those that want more
# (PRECOMPILE) have one of their own.
set(penstock_headers <algorithm> <atomic> <chrono> <condition_variable> <cstdint> <filesystem> <functional> <map>
  <memory> <mutex> <optional> <span> <string> <string_view> <thread> <unordered_map> <utility> <vector>
  <boost/system/result.hpp> <fmt/format.h>)
file(CONFIGURE OUTPUT precompiled.cpp CONTENT "")
add_library(penstock_precompiled OBJECT "${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp")
target_link_libraries(penstock_precompiled PRIVATE penstock_options fmt::fmt Boost::headers)
target_precompile_headers(penstock_precompiled PRIVATE ${penstock_headers})

# COLD: nothing in it takes time when it runs, so that it is compiled quickly instead.
function(penstock_room)
  cmake_parse_arguments(ROOM "COLD" "NAME" "SOURCES;LINKS;PRECOMPILE" ${ARGN})
  add_library(penstock_${ROOM_NAME} STATIC ${ROOM_SOURCES})
  add_library(penstock::${ROOM_NAME} ALIAS penstock_${ROOM_NAME})
  target_link_libraries(penstock_${ROOM_NAME} PUBLIC "$<BUILD_INTERFACE:penstock_options>" ${ROOM_LINKS})
  target_include_directories(penstock_${ROOM_NAME} INTERFACE
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/penstock>")
  target_compile_features(penstock_${ROOM_NAME} PUBLIC cxx_std_20)
  set_target_properties(penstock_${ROOM_NAME} PROPERTIES EXPORT_NAME ${ROOM_NAME})
  if(PENSTOCK_BUILD_C)
    install(TARGETS penstock_${ROOM_NAME} EXPORT penstock_cpp
      ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development)
  endif()
  if(ROOM_COLD)
    penstock_compile_quickly(penstock_${ROOM_NAME})
  endif()
  if(ROOM_PRECOMPILE)
    target_precompile_headers(penstock_${ROOM_NAME} PRIVATE ${penstock_headers} ${ROOM_PRECOMPILE})
  elseif(NOT (ROOM_COLD AND PENSTOCK_SANITIZE))  # those are compiled otherwise
    target_precompile_headers(penstock_${ROOM_NAME} REUSE_FROM penstock_precompiled)
  endif()
endfunction()

function(penstock_compile_quickly target)
  if(PENSTOCK_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:-O1>")
  endif()
endfunction()
