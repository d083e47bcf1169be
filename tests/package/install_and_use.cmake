# Installs a build into a prefix, moves the prefix, and builds and runs a consumer against it, and builds
# the README's programs.
#   cmake -DBUILD=DIR -DCONSUMER=DIR -DREADME=FILE -DWORK=DIR -P install_and_use.cmake
function(run)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH ${ARGN} RESULT_VARIABLE result
    OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}: ${result}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/prefix)
run(${WORK}/prefix/bin/attune --help)
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/consumer -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/prefix
  -DATTUNE_INCLUDE=${WORK}/prefix/include -DATTUNE_README=${README})
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
# The plug-in of OpenVINO loads beside OpenVINO's own library only.
file(GLOB plugins ${WORK}/prefix/lib/libattune_onnxruntime.so)
run(${WORK}/consumer/consumer ${plugins})
file(REMOVE_RECURSE ${WORK})
