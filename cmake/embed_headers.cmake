# cmake -DROOT=<repository root> -DOUTPUT=<file.inc> -DTYPE=<type> -DHEADERS=<a.cuh|b.cuh|...>
#       -P embed_headers.cmake
#
# Writes the texts of the headers as a C++ array of TYPE{path, text}, so that an installed program needs no source tree.
# Literals of std::string_view: the lengths of plain ones exceed the steps of constant evaluation that clang allows.
string(REPLACE "|" ";" HEADERS "${HEADERS}")
list(LENGTH HEADERS count)
set(entries "")
foreach(header IN LISTS HEADERS)
  file(READ "${ROOT}/${header}" text)
  string(FIND "${text}" ")cuh\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${ROOT}/${header}: holds )cuh\", which ends the raw string that it is embedded in")
  endif()
  string(APPEND entries "    {\"${header}\", R\"cuh(${text})cuh\"sv},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Made by the build from the headers themselves.\n"
     "constexpr std::array<${TYPE}, ${count}> kHeaders = {{\n${entries}}};\n")
