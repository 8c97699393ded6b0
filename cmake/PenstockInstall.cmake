# What `cmake --install` puts where: the C library and its header, the static libraries for C++ programs, and the files by
# which CMake and pkg-config find them. A wheel takes the component `python` only, which has none of this.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/penstock")

install(TARGETS penstock_c EXPORT penstock
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT development)
install(FILES bindings/c/penstock.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development)
install(EXPORT penstock FILE penstockTargets.cmake NAMESPACE penstock::
  DESTINATION "${package_dir}" COMPONENT development)

# The headers of the static libraries, without those that only one library includes.
install(DIRECTORY alloc io swap DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/penstock" COMPONENT development
  FILES_MATCHING PATTERN "*.h" PATTERN "buffer_pool_state.h" EXCLUDE PATTERN "engine" EXCLUDE
  PATTERN "io_queue_pump.h" EXCLUDE
  PATTERN "runtime_device.h" EXCLUDE PATTERN "cuda_driver.h" EXCLUDE PATTERN "cufile_library.h" EXCLUDE
  PATTERN "library_storage.h" EXCLUDE PATTERN "hip_runtime.h" EXCLUDE PATTERN "hipfile_library.h" EXCLUDE)
install(DIRECTORY bindings/archive bindings/inventory DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/penstock/bindings"
  COMPONENT development FILES_MATCHING PATTERN "*.h")
install(FILES bindings/deepspeed/config.h bindings/deepspeed/optimizer_state.h bindings/deepspeed/plan_warning.h
  bindings/deepspeed/refused_setting.h
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/penstock/bindings/deepspeed" COMPONENT development)  # a file for an engine
install(EXPORT penstock_cpp FILE penstockCppTargets.cmake NAMESPACE penstock::
  DESTINATION "${package_dir}" COMPONENT development)

configure_package_config_file(cmake/penstockConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/penstockConfig.cmake"
  INSTALL_DESTINATION "${package_dir}")
# Before 1.0 a new minor version may change anything.
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/penstockConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES cmake/PenstockDependencies.cmake cmake/FindLibaio.cmake
  "${CMAKE_CURRENT_BINARY_DIR}/penstockConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/penstockConfigVersion.cmake"
  DESTINATION "${package_dir}" COMPONENT development)

# From the .pc file's own place, so that a prefix may be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
  BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE PENSTOCK_PC_PREFIX)
configure_file(cmake/penstock.pc.in "${CMAKE_CURRENT_BINARY_DIR}/penstock.pc" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/penstock.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
  COMPONENT development)
