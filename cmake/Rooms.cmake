# How a room is built: one static library per folder, tests beside the sources.

add_library(sparsmith_options INTERFACE)
target_include_directories(sparsmith_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
target_compile_options(sparsmith_options INTERFACE -Wall -Wextra -Wshadow
                       $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> -Werror=return-type)

add_library(sparsmith_fmt STATIC ${CMAKE_SOURCE_DIR}/base/fmt_library.cc)
target_link_libraries(sparsmith_options INTERFACE sparsmith_fmt)

# What every test includes, parsed once.
if(SPARSMITH_TESTS)
  add_library(sparsmith_test_headers STATIC ${CMAKE_SOURCE_DIR}/base/fmt_library.cc)
  target_link_libraries(sparsmith_test_headers PUBLIC sparsmith_options GTest::gtest GTest::gmock)
  target_compile_options(sparsmith_test_headers PRIVATE -O1 -fPIE -fpch-preprocess)  # as executables are
  set_target_properties(sparsmith_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_precompile_headers(sparsmith_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h> <fmt/format.h> <map> <random>
                            <set> <string> <vector>)
endif()

# sparsmith_room(matrix SOURCES a.cc b.cc LIBRARIES sparsmith::base): the library sparsmith::matrix.
function(sparsmith_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LIBRARIES;PRIVATE_LIBRARIES" ${ARGN})
  add_library(sparsmith_${name} STATIC ${ROOM_SOURCES})
  add_library(sparsmith::${name} ALIAS sparsmith_${name})
  target_link_libraries(sparsmith_${name} PUBLIC sparsmith_options ${ROOM_LIBRARIES} PRIVATE ${ROOM_PRIVATE_LIBRARIES})
endfunction()

# sparsmith_test_objects(search_testing SOURCES a.cc LIBRARIES sparsmith::search): what several tests share, compiled once
# as tests are. Whoever links sparsmith::search_testing has all of it.
function(sparsmith_test_objects name)
  if(NOT SPARSMITH_TESTS)
    return()
  endif()
  cmake_parse_arguments(OBJECTS "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(sparsmith_${name} OBJECT ${OBJECTS_SOURCES})
  add_library(sparsmith::${name} ALIAS sparsmith_${name})
  target_link_libraries(sparsmith_${name} PUBLIC sparsmith_options ${OBJECTS_LIBRARIES} GTest::gtest GTest::gmock)
  target_compile_options(sparsmith_${name} PRIVATE -O1 -fPIE -fpch-preprocess)
  set_target_properties(sparsmith_${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_precompile_headers(sparsmith_${name} REUSE_FROM sparsmith_test_headers)
endfunction()

# sparsmith_test(csr_matrix_test LIBRARIES sparsmith::matrix [LABELS gpu] [SOURCES more.cc] [COST seconds]): builds
# csr_matrix_test.cc, which may be in a folder below (verify/verification_test), and registers each of its cases with CTest. Tests that need a GPU carry the label gpu and
# skip themselves, saying so, where there is none. Cases of higher COST begin first: a long one that begins last
# leaves cores idle.
function(sparsmith_test path)
  get_filename_component(name ${path} NAME)
  if(NOT SPARSMITH_TESTS)
    return()
  endif()
  cmake_parse_arguments(TEST "" "TIMEOUT;COST" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 300)
  endif()
  set(properties TIMEOUT ${TEST_TIMEOUT})
  if(TEST_LABELS)  # an empty one would swallow the next property
    list(APPEND properties LABELS "${TEST_LABELS}")
  endif()
  if(TEST_COST)
    list(APPEND properties COST ${TEST_COST})
  endif()
  add_executable(${name} ${path}.cc ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE sparsmith_options ${TEST_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE -O1 -fpch-preprocess)
  target_precompile_headers(${name} REUSE_FROM sparsmith_test_headers)
  gtest_discover_tests(${name} NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES ${properties})
endfunction()

# sparsmith_program(sparsmith SOURCES main.cc ... LIBRARIES ...): a program that is installed.
function(sparsmith_program name)
  cmake_parse_arguments(PROGRAM "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${PROGRAM_SOURCES})
  target_link_libraries(${name} PRIVATE sparsmith_options ${PROGRAM_LIBRARIES})
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)  # main() alone: headers that take long to compile
  set_property(GLOBAL APPEND PROPERTY SPARSMITH_PROGRAMS ${name})
endfunction()

# Has the program find the CUDA driver, cuBLASLt and cuSPARSELt of tests/support first.
function(sparsmith_on_fake_cuda target)
  add_dependencies(${target} fake_cuda_driver fake_cublas_lt fake_cusparse_lt)
  set_target_properties(${target} PROPERTIES BUILD_RPATH ${CMAKE_BINARY_DIR}/fake_cuda)
endfunction()
# A test that runs on them.
function(sparsmith_fake_cuda_test path)
  if(NOT SPARSMITH_TESTS)
    return()
  endif()
  cmake_parse_arguments(TEST "" "" "LIBRARIES;SOURCES" ${ARGN})
  sparsmith_test(${path} SOURCES ${TEST_SOURCES} LIBRARIES ${TEST_LIBRARIES} sparsmith::runtime_testing)
  get_filename_component(name ${path} NAME)
  sparsmith_on_fake_cuda(${name})
endfunction()
