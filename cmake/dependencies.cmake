# Finds what `./dev setup` has put into the cache and Debian's packages. -DATTUNE_ONNX_ROOT=DIR (a prefix that
# cmake/onnx installed into) and -Ddnnl_DIR=DIR take others than the cache's.
function(attune_cache_path name variable)
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/cmake/cache.sh path ${name}
    OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(${variable} ${path} PARENT_SCOPE)
endfunction()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS cmake/cache.sh cmake/requirements.txt cmake/requirements-openvino.txt tests/requirements.txt)

if(ATTUNE_FETCH)
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/cmake/cache.sh fill onnx onednn sentencepiece openvino COMMAND_ERROR_IS_FATAL ANY)
endif()

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Protobuf REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET GLOBAL libhwy)
pkg_check_modules(re2 REQUIRED IMPORTED_TARGET GLOBAL re2)
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET GLOBAL libzip)
pkg_check_modules(pangocairo REQUIRED IMPORTED_TARGET GLOBAL pangocairo)
pkg_check_modules(sndfile REQUIRED IMPORTED_TARGET GLOBAL sndfile)
pkg_check_modules(soxr REQUIRED IMPORTED_TARGET GLOBAL soxr)
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET GLOBAL zlib)
pkg_check_modules(png REQUIRED IMPORTED_TARGET GLOBAL libpng)
pkg_check_modules(turbojpeg REQUIRED IMPORTED_TARGET GLOBAL libturbojpeg)
pkg_check_modules(icu REQUIRED IMPORTED_TARGET GLOBAL icu-uc)
pkg_check_modules(oniguruma REQUIRED IMPORTED_TARGET GLOBAL oniguruma)

attune_cache_path(onednn onednn_root)
if(dnnl_DIR MATCHES "/onednn-[0-9.]+(-[0-9a-f]+)?/lib/" AND NOT dnnl_DIR MATCHES "^${onednn_root}/")
  unset(dnnl_DIR CACHE)  # found in the cache by an earlier configuration with another pin
endif()
list(APPEND CMAKE_PREFIX_PATH ${onednn_root})
find_package(dnnl 3.2 REQUIRED)

if(ATTUNE_ONNX_ROOT)
  set(onnx_root ${ATTUNE_ONNX_ROOT})
else()
  attune_cache_path(onnx onnx_root)
endif()
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
attune_cache_path(sentencepiece sentencepiece_root)
if(NOT EXISTS ${sentencepiece_root}/lib/libsentencepiece.a)
  message(FATAL_ERROR "SentencePiece is not in ${sentencepiece_root}: run ./dev setup")
endif()
add_library(sentencepiece STATIC IMPORTED GLOBAL)
set_target_properties(sentencepiece PROPERTIES
  IMPORTED_LOCATION ${sentencepiece_root}/lib/libsentencepiece.a
  INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${sentencepiece_root}/include
  INTERFACE_INCLUDE_DIRECTORIES ${sentencepiece_root}/include
  INTERFACE_LINK_LIBRARIES protobuf::libprotobuf)
# Operator schemas register themselves from static objects: the whole archive is linked.
add_library(attune_onnx INTERFACE)
target_link_libraries(attune_onnx INTERFACE $<LINK_LIBRARY:WHOLE_ARCHIVE,onnx_archive>)

attune_cache_path(openvino openvino_root)
if(ATTUNE_OPENVINO STREQUAL AUTO)
  set(build_openvino OFF)
  if(EXISTS ${openvino_root}/.complete)
    set(build_openvino ON)
  endif()
else()
  set(build_openvino ${ATTUNE_OPENVINO})
endif()
if(build_openvino)
  if(OpenVINO_DIR MATCHES "/openvino-[0-9.]+-[0-9a-f]+/openvino/cmake$" AND NOT OpenVINO_DIR MATCHES "^${openvino_root}/")
    unset(OpenVINO_DIR CACHE)
  endif()
  find_package(OpenVINO REQUIRED COMPONENTS Runtime ONNX PATHS ${openvino_root}/openvino/cmake NO_DEFAULT_PATH GLOBAL)
  # The wheel has the library of TBB, but not its headers: an older one's, whose programs newer libraries serve.
  find_path(tbb_headers oneapi/tbb/task_arena.h REQUIRED)
  add_library(openvino_tbb SHARED IMPORTED GLOBAL)
  set_target_properties(openvino_tbb PROPERTIES
    IMPORTED_LOCATION ${openvino_root}/openvino/libs/libtbb.so.12
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${tbb_headers}
    INTERFACE_INCLUDE_DIRECTORIES ${tbb_headers})
endif()

if(ATTUNE_BUILD_TESTS)
  find_package(GTest REQUIRED)
  # Python with ONNX's reference and ONNX Runtime, for the tests that compare with them.
  if(NOT ATTUNE_PYTHON)
    attune_cache_path(venv venv)
    set(ATTUNE_PYTHON ${venv}/bin/python)
  endif()
endif()

# A wheel is built for the Python that builds it, else the package is for that of the tests.
set(build_python ${ATTUNE_PYTHON_PACKAGE})
if(SKBUILD)
  set(build_python ON)
elseif(ATTUNE_PYTHON_PACKAGE STREQUAL AUTO)
  set(build_python OFF)
  if(ATTUNE_BUILD_TESTS AND EXISTS ${ATTUNE_PYTHON} AND NOT ATTUNE_SANITIZE AND NOT ATTUNE_COVERAGE AND NOT ATTUNE_FUZZ)
    set(build_python ON)
  endif()
endif()
if(build_python AND NOT SKBUILD)
  set(Python_EXECUTABLE ${ATTUNE_PYTHON})
endif()
