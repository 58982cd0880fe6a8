# A build with -DSPARSMITH_PLANTS=ON compiles copies of some files of the product, in which a plant replaces
# a text. The product itself holds no plant.

# plant(TARGET FILE HEADER TEXT PLANTED): `FILE` of TARGET includes HEADER and has PLANTED for TEXT.
function(plant target file header text planted)
  set(copy ${CMAKE_BINARY_DIR}/planted/${file})
  file(READ ${CMAKE_SOURCE_DIR}/${file} source)
  string(FIND "${source}" "${text}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${file} has changed: tests/support/plants.cmake finds no place for its plant")
  endif()
  string(REPLACE "${text}" "${planted}" source "${source}")
  file(CONFIGURE OUTPUT ${copy} CONTENT "#include \"${header}\"\n${source}" @ONLY)
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${file})
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  file(RELATIVE_PATH name ${folder} ${CMAKE_SOURCE_DIR}/${file})
  list(TRANSFORM sources REPLACE "^${name}$" ${copy})
  set_target_properties(${target} PROPERTIES SOURCES "${sources}")
endfunction()

target_sources(sparsmith_base PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/plant.cc)
target_sources(sparsmith_generator PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/planted_faults.cc
               ${CMAKE_SOURCE_DIR}/tests/support/planted_headers.cc)

# "slow_snippet"
plant(sparsmith_generator generator/catalogue.cc tests/support/planted_headers.h
      "instance(kSnippets, kHeaders)" "instance(kSnippets, planted_headers(kHeaders))")
# "bank_schedule": with a version of the packer that no cache has for another schedule.
plant(sparsmith_formats formats/panel_schedule.cc tests/support/plant.h
      "for (const int lane : lane_order) matching.add(lane)"
      "if (!is_planted(Plant::kBankSchedule))
    for (const int lane : lane_order) matching.add(lane)")
plant(sparsmith_formats formats/panel.cc tests/support/plant.h
      "packing.gathers() ? 4 : 5" "packing.gathers() ? 4 : is_planted(Plant::kBankSchedule) ? 1005 : 5")
# "cost_model"
plant(sparsmith_generator generator/families/slots/slots_cost.cc tests/support/plant.h
      "return kFixedUs + " "return (is_planted(Plant::kCostModel) ? 100 : kFixedUs) + ")
# "candidate_faults": of the families' own kernels, since one that many families launch would break most candidates.
plant(sparsmith_generator generator/family.cc tests/support/planted_faults.h
      "return make_candidate(config, problem, packed, std::move(planned))"
      "if (!planned.texts.empty()) plant_fault(planned.texts.front(), planned.plan);
  return make_candidate(config, problem, packed, std::move(planned))")
plant(sparsmith-compiler tools/compiler_main.cc tests/support/planted_compiler.h
      "sparsmith::KernelCompiler::open()" "sparsmith::open_faulty_compiler()")
plant(sparsmith_tools tools/commands/tune_settings.cc tests/support/planted_faults.h
      "return CompilerPool::open(options)"
      "options.timeout = planted_compiler_limit(options.timeout);
  return CompilerPool::open(options)")
