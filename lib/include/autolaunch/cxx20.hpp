#pragma once
// The library is C++20. An older standard gets this one error, and nothing of the library that
// would make more of them.
#if __cplusplus >= 202002L
#define AUTOLAUNCH_CXX20 1
#else
#define AUTOLAUNCH_CXX20 0
#error "autolaunch needs C++20: add -std=c++20, or in CMake set(CMAKE_CXX_STANDARD 20)"
#endif
