# SPDX-License-Identifier: BSD-3-Clause
# How rooms, tests and programs are built: flags, one static target a room, test registration.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(tutti_flags INTERFACE)
target_include_directories(tutti_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR})
target_compile_options(tutti_flags INTERFACE
  # -Wno-restrict: GCC 12 warns wrongly about std::string operator+ (GCC bug 105651).
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual;-Wcast-align;-Wno-restrict;-Wno-missing-field-initializers>
  # No fused multiply-add behind our back: reductions have the same bits on every machine.
  -ffp-contract=off)
if(TUTTI_WERROR)
  target_compile_options(tutti_flags INTERFACE -Werror)
endif()
if(TUTTI_SANITIZE)
  target_compile_options(tutti_flags INTERFACE -fsanitize=${TUTTI_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tutti_flags INTERFACE -fsanitize=${TUTTI_SANITIZE})
endif()

macro(tutti_add_if_present folder)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt)
    add_subdirectory(${folder})
  endif()
endmacro()

# tutti_room(NAME SOURCES a.cc ... DEPENDS room ... LIBRARIES lib ...): one static library a room. DEPENDS is the include rule of
# docs/ARCHITECTURE.md: what a room does not depend on, it cannot link.
function(tutti_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(tutti_${name} STATIC ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPENDS PREPEND tutti_)
  target_link_libraries(tutti_${name} PUBLIC tutti_flags ${ARG_DEPENDS} ${ARG_LIBRARIES})
  # Which line an instruction is of, inlined ones too, for the test `cost`, perf and backtraces; it changes no code. Not of
  # the kernels, which would be most of it.
  if(NOT name STREQUAL reduce)
    target_compile_options(tutti_${name} PRIVATE $<$<CONFIG:Release>:-g1>)
  endif()
endfunction()

# tutti_test(NAME SOURCES ... LINK ... LABELS ... [TIMEOUT s] [WAITS]): one GoogleTest program, one ctest entry. WAITS: it
# waits for most of its time, so that another may run beside it.
function(tutti_test name)
  cmake_parse_arguments(ARG "WAITS" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE tutti_flags ${ARG_LINK} GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  # Ranks that wait for each other want the machine for themselves (scripts/test).
  if("${ARG_LABELS}" MATCHES "soft|mp" AND NOT ARG_WAITS)
    set_tests_properties(${name} PROPERTIES PROCESSORS 2)
  endif()
endfunction()
