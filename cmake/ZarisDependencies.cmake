# Everything comes from the distribution; deploy/install-dependencies installs it.
find_package(Threads REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LMDB REQUIRED IMPORTED_TARGET lmdb)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
find_package(fmt 9 REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(yaml-cpp 0.7 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(tl-expected REQUIRED)
find_package(mimalloc 2.0 REQUIRED)
if(NOT ZARIS_CORES_ONLY)
  find_package(prometheus-cpp REQUIRED)
endif()
if(ZARIS_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()

# msgpack-cxx 4 ships a CMake package that insists on Boost's; its headers are all that is used.
add_library(zaris_msgpack INTERFACE)
target_compile_definitions(zaris_msgpack INTERFACE MSGPACK_NO_BOOST)

# Asio and Beast are compiled once, in cluster/net.
add_library(zaris_asio_flags INTERFACE)
target_compile_definitions(zaris_asio_flags INTERFACE
  BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED
  BOOST_ASIO_HAS_CO_AWAIT BOOST_ASIO_HAS_STD_COROUTINE)
target_link_libraries(zaris_asio_flags INTERFACE Boost::headers OpenSSL::SSL OpenSSL::Crypto Threads::Threads)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(zaris_asio_flags INTERFACE -fcoroutines -Wno-shadow -Wno-deprecated-declarations)
  if(ZARIS_SANITIZE MATCHES "thread")
    target_compile_options(zaris_asio_flags INTERFACE -Wno-tsan)  # Asio's fences, which TSan does not model; its queues lock as well
  endif()
endif()
