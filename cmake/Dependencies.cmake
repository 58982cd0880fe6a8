# Everything that is not ours. CUDA is needed for its headers alone: its libraries are opened at run time.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
set(ZLIB_USE_STATIC_LIBS ON)
find_package(ZLIB REQUIRED)

# Reads the .zip files that .npz files are.
find_path(MINIZIP_INCLUDE_DIR minizip/unzip.h REQUIRED)
find_library(MINIZIP_LIBRARY NAMES libminizip.a REQUIRED)
add_library(minizip_static INTERFACE)
target_include_directories(minizip_static SYSTEM INTERFACE ${MINIZIP_INCLUDE_DIR})
target_link_libraries(minizip_static INTERFACE ${MINIZIP_LIBRARY} ZLIB::ZLIB)

# SQLite and its C++ face are linked statically: the installed program runs where neither is.
find_path(SQLITECPP_INCLUDE_DIR SQLiteCpp/SQLiteCpp.h REQUIRED)
find_library(SQLITECPP_LIBRARY NAMES libSQLiteCpp.a REQUIRED)
find_library(SQLITE3_LIBRARY NAMES libsqlite3.a REQUIRED)
add_library(sqlitecpp_static INTERFACE)
target_include_directories(sqlitecpp_static SYSTEM INTERFACE ${SQLITECPP_INCLUDE_DIR})
target_link_libraries(sqlitecpp_static INTERFACE ${SQLITECPP_LIBRARY} ${SQLITE3_LIBRARY} ZLIB::ZLIB m ${CMAKE_DL_LIBS}
                      Threads::Threads)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

find_path(CUDA_INCLUDE_DIR cuda.h
          HINTS ${CMAKE_SOURCE_DIR}/.deps/cuda/include $ENV{CUDA_PATH}/include $ENV{CUDA_HOME}/include
                /usr/local/cuda/include /usr/local/cuda-13.0/include
          REQUIRED NO_DEFAULT_PATH)
add_library(cuda_headers INTERFACE)
target_include_directories(cuda_headers SYSTEM INTERFACE ${CUDA_INCLUDE_DIR})
# Where programs of the build tree find CUDA's libraries. Installing drops it.
set(CMAKE_BUILD_RPATH ${CMAKE_SOURCE_DIR}/.deps/cuda/lib)

# For performance histories on a PostgreSQL server. The library itself is opened at run time.
find_path(LIBPQ_INCLUDE_DIR libpq-fe.h PATH_SUFFIXES postgresql)
if(NOT LIBPQ_INCLUDE_DIR)
  message(STATUS "libpq-fe.h not found (package libpq-dev): `perf --db postgresql://...` will say so")
endif()

if(SPARSMITH_LLVM)
  find_package(LLVM 19.1 CONFIG QUIET PATHS /usr/lib/llvm-19 NO_DEFAULT_PATH)
  find_package(Clang CONFIG QUIET PATHS /usr/lib/llvm-19 NO_DEFAULT_PATH)
  if(NOT LLVM_FOUND OR NOT Clang_FOUND)
    message(STATUS "LLVM/clang 19 not found: no snippetc, and the emulator uses the system compiler")
    set(SPARSMITH_LLVM OFF)
  endif()
endif()

if(SPARSMITH_TESTS)
  enable_testing()
  include(GoogleTest)
  find_package(GTest REQUIRED)
  find_package(Eigen3 REQUIRED NO_MODULE)
endif()
