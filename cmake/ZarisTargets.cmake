# Flags and the two ways of declaring a target.
#
#   zaris_library(NAME SOURCES a.cpp … [DEPENDS …] [PRIVATE_DEPENDS …])   one small library per folder
#   zaris_program(NAME SOURCES … DEPENDS …)
#   zaris_test(NAME SOURCES … DEPENDS … [LABELS …] [TIMEOUT s])          a GoogleTest binary, one ctest entry

find_program(ZARIS_CCACHE ccache)
if(ZARIS_CCACHE)
  # Clones in other folders share what was compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${ZARIS_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
find_program(ZARIS_MOLD mold)
if(ZARIS_MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_link_options(-fuse-ld=mold)
endif()

add_library(zaris_flags INTERFACE)
target_compile_options(zaris_flags INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False alarms of GCC 12 in optimised library code; the sanitizers look for the real thing.
  target_compile_options(zaris_flags INTERFACE -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
  target_compile_options(zaris_flags INTERFACE "SHELL:-include ${CMAKE_CURRENT_LIST_DIR}/clang_source_location.hpp")
endif()
target_include_directories(zaris_flags INTERFACE ${CMAKE_SOURCE_DIR})
if(ZARIS_SANITIZE)
  string(REPLACE ";" "," _list "${ZARIS_SANITIZE}")
  target_compile_options(zaris_flags INTERFACE -fsanitize=${_list} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(zaris_flags INTERFACE -fsanitize=${_list})
endif()

function(zaris_library NAME)
  cmake_parse_arguments(A "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  if(A_SOURCES)
    add_library(${NAME} STATIC ${A_SOURCES})
    target_link_libraries(${NAME} PUBLIC zaris_flags ${A_DEPENDS} PRIVATE ${A_PRIVATE_DEPENDS})
  else()
    add_library(${NAME} INTERFACE)
    target_link_libraries(${NAME} INTERFACE zaris_flags ${A_DEPENDS})
  endif()
endfunction()

function(zaris_program NAME)
  cmake_parse_arguments(A "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${NAME} ${A_SOURCES})
  target_link_libraries(${NAME} PRIVATE zaris_flags ${A_DEPENDS})
endfunction()

function(zaris_test NAME)
  cmake_parse_arguments(A "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT ZARIS_TESTS)
    return()
  endif()
  add_executable(${NAME} ${A_SOURCES})
  target_link_libraries(${NAME} PRIVATE zaris_flags ${A_DEPENDS} GTest::gmock_main GTest::gtest GTest::gmock)
  add_test(NAME ${NAME} COMMAND ${NAME} --gtest_brief=1)
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  set_tests_properties(${NAME} PROPERTIES TIMEOUT ${A_TIMEOUT} LABELS "${A_LABELS}")
endfunction()
