# Puts files into the library as functions that return their bytes, so that a program needs no
# folder of resources beside it. Included, it gives bespoke_embed; run as a script, it writes the
# source. The bytes become an array: compilers limit the length of string literals.

# bespoke_embed(OUTPUT HEADER name=file ...): OUTPUT defines std::string_view name() in namespace
# bespoke for each file; name= without a file gives an empty one.
function(bespoke_embed output header)
  set(files)
  foreach(pair IN LISTS ARGN)
    string(REGEX REPLACE "^[^=]*=" "" file "${pair}")
    if(file)
      list(APPEND files ${file})
    endif()
  endforeach()
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DHEADER=${header} "-DPAIRS=${ARGN}"
            -P ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
    VERBATIM)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  set(source "// Written by cmake/Embed.cmake.\n\n#include \"${HEADER}\"\n\nnamespace bespoke {\n")
  foreach(pair IN LISTS PAIRS)
    string(REGEX MATCH "^[^=]*" name "${pair}")
    string(REGEX REPLACE "^[^=]*=" "" file "${pair}")
    if(file)
      file(READ ${file} hex HEX)
      string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
      string(APPEND source "\nstatic constexpr char k_${name}[] = {${bytes}};\n"
                           "std::string_view ${name}() { return {k_${name}, sizeof(k_${name})}; }\n")
    else()
      string(APPEND source "\nstd::string_view ${name}() { return {}; }\n")
    endif()
  endforeach()
  file(WRITE ${OUTPUT} "${source}\n}  // namespace bespoke\n")
endif()
