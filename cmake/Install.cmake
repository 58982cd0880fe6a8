# What `cmake --install` makes: programs, libsparsmith, its headers and a CMake package, in a tree that can be moved to
# any x86-64 Linux whose glibc is no older than the build machine's. Nothing in it needs more than glibc: the C++
# runtime and the small libraries are linked statically, CUDA is opened at run time, LLVM stays behind.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(sparsmith_static_runtime -static-libgcc -static-libstdc++)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  set(sparsmith_static_runtime)
endif()

# The library of a program that runs tuned files: the rooms up to runtime, but for the readers of models, with nothing
# visible but SPARSMITH_API.
add_library(libsparsmith SHARED)
foreach(room base matrix_core formats runtime)
  if(TARGET sparsmith_${room})
    target_sources(libsparsmith PRIVATE $<TARGET_OBJECTS:sparsmith_${room}>)
  endif()
endforeach()
add_library(sparsmith::sparsmith ALIAS libsparsmith)
set_target_properties(libsparsmith PROPERTIES
  OUTPUT_NAME sparsmith EXPORT_NAME sparsmith LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})  # before 1.0, a minor version breaks
target_compile_features(libsparsmith INTERFACE cxx_std_20)
target_include_directories(libsparsmith INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(libsparsmith PRIVATE sparsmith_fmt Threads::Threads ${CMAKE_DL_LIBS})
set(export_map ${CMAKE_SOURCE_DIR}/cmake/libsparsmith.map)
target_link_options(libsparsmith PRIVATE ${sparsmith_static_runtime} -Wl,--exclude-libs,ALL -Wl,--no-undefined
                    -Wl,--version-script=${export_map})
set_target_properties(libsparsmith PROPERTIES LINK_DEPENDS ${export_map})
install(TARGETS libsparsmith EXPORT sparsmith-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/sparsmith DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/sparsmith)
install(EXPORT sparsmith-targets FILE sparsmith-config.cmake NAMESPACE sparsmith:: DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/sparsmith-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/sparsmith-config-version.cmake DESTINATION ${package_folder})

get_property(programs GLOBAL PROPERTY SPARSMITH_PROGRAMS)
foreach(program ${programs})
  target_link_options(${program} PRIVATE ${sparsmith_static_runtime})
  set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endforeach()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} USE_SOURCE_PERMISSIONS
        PATTERN __pycache__ EXCLUDE)
# Man pages and completions, as the built program prints them.
install(CODE "execute_process(COMMAND \"${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/sparsmith\" manual --folder
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\" COMMAND_ERROR_IS_FATAL ANY)")
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(SPARSMITH_TESTS)
  add_test(NAME install_tree COMMAND ${CMAKE_SOURCE_DIR}/tests/install_test.sh ${CMAKE_BINARY_DIR})
  set_tests_properties(install_tree PROPERTIES TIMEOUT 120)
endif()
