# One shared library of all parts, bin/attune, plug-ins for hosts, the public headers, and a package config for
# find_package(attune).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(parts attune_graph attune_io attune_ops attune_infer attune_schema attune_passes attune_runtime attune_convert)
add_library(attune_shared SHARED)
add_library(attune::attune ALIAS attune_shared)
set_target_properties(attune_shared PROPERTIES OUTPUT_NAME attune EXPORT_NAME attune LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
# Everything in the parts is in the library, whether or not something in it calls it.
foreach(part ${parts})
  target_sources(attune_shared PRIVATE $<TARGET_OBJECTS:${part}>)
endforeach()
target_link_libraries(attune_shared PRIVATE attune_onnx DNNL::dnnl OpenMP::OpenMP_CXX PkgConfig::hwy PkgConfig::re2 PkgConfig::libzip
  PkgConfig::icu PkgConfig::oniguruma PkgConfig::pangocairo PkgConfig::sndfile PkgConfig::soxr PkgConfig::zlib PkgConfig::png PkgConfig::turbojpeg sentencepiece
  nlohmann_json::nlohmann_json fmt::fmt)
target_compile_features(attune_shared PUBLIC cxx_std_20)
# Only names of attune leave it: ONNX and Protocol Buffers stay inside, whatever version a host brings.
set(version_script ${PROJECT_SOURCE_DIR}/cmake/attune.map)
target_link_options(attune_shared PRIVATE -Wl,--version-script=${version_script})
set_property(TARGET attune_shared APPEND PROPERTY LINK_DEPENDS ${version_script})

# Public is attune.h and what it includes.
set(headers attune.h)
set(unseen attune.h)
while(unseen)
  list(POP_FRONT unseen header)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
  file(STRINGS ${PROJECT_SOURCE_DIR}/${header} includes REGEX "^#include \"")
  foreach(include ${includes})
    string(REGEX REPLACE "^#include \"(.*)\"" "\\1" include "${include}")
    if(NOT include IN_LIST headers)
      list(APPEND headers ${include})
      list(APPEND unseen ${include})
    endif()
  endforeach()
endwhile()
list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/)
target_sources(attune_shared PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers})
target_include_directories(attune_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# oneDNN is installed in a folder of ours, so that it meets no other of the same name.
set(private_libraries ${CMAKE_INSTALL_LIBDIR}/attune)
install(IMPORTED_RUNTIME_ARTIFACTS DNNL::dnnl LIBRARY DESTINATION ${private_libraries})
set_target_properties(attune_shared PROPERTIES INSTALL_RPATH "$ORIGIN/attune")
install(TARGETS attune_shared EXPORT attune-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/attune)
if(TARGET attune)
  set_target_properties(attune PROPERTIES INSTALL_RPATH "$ORIGIN/../${private_libraries}")
  install(TARGETS attune RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
foreach(host attune_onnxruntime attune_openvino)
  if(TARGET ${host})
    set_target_properties(${host} PROPERTIES INSTALL_RPATH "$ORIGIN/attune")
    install(TARGETS ${host} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/attune)
install(EXPORT attune-targets NAMESPACE attune:: DESTINATION ${package_folder})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/attune-config.cmake.in ${PROJECT_BINARY_DIR}/attune-config.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attune-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attune-config.cmake ${PROJECT_BINARY_DIR}/attune-config-version.cmake
  DESTINATION ${package_folder})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
