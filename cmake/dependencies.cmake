# Finds what `./dev` has put into the cache (ATTUNE_DEPS) and Debian's packages.
if(NOT DEFINED ATTUNE_DEPS)
  if(DEFINED ENV{ATTUNE_CACHE})
    set(ATTUNE_DEPS $ENV{ATTUNE_CACHE})
  else()
    set(ATTUNE_DEPS $ENV{HOME}/.cache/attune)
  endif()
endif()
set(ATTUNE_DEPS ${ATTUNE_DEPS} CACHE PATH "folder of the dependencies that ./dev builds")

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Protobuf REQUIRED)
find_package(PkgConfig REQUIRED)

# oneDNN: any that find_package finds, else the prebuilt one.
list(APPEND CMAKE_PREFIX_PATH ${ATTUNE_DEPS}/onednn-2023.2.0)
find_package(dnnl 3.2 REQUIRED)

# ONNX, built by cmake/onnx from the PyPI wheel.
set(onnx_root ${ATTUNE_DEPS}/onnx-1.23.2)
if(NOT EXISTS ${onnx_root}/lib/libonnx.a)
  message(FATAL_ERROR "The ONNX library is not in ${onnx_root}: run ./dev setup")
endif()
add_library(onnx_archive STATIC IMPORTED GLOBAL)
set_target_properties(onnx_archive PROPERTIES
  IMPORTED_LOCATION ${onnx_root}/lib/libonnx.a
  INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${onnx_root}/include
  INTERFACE_INCLUDE_DIRECTORIES ${onnx_root}/include
  INTERFACE_COMPILE_DEFINITIONS "ONNX_NAMESPACE=onnx;ONNX_ML=1"
  INTERFACE_LINK_LIBRARIES protobuf::libprotobuf)
# Operator schemas register themselves from static objects: the whole archive is linked.
add_library(attune_onnx INTERFACE)
target_link_libraries(attune_onnx INTERFACE $<LINK_LIBRARY:WHOLE_ARCHIVE,onnx_archive>)

if(ATTUNE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
