#pragma once
// The library is C++20. With an older standard this is the one error: a file that is not there ends
// the compilation, where #error would let it go on to fifty more, of names that it does not know.
#if __cplusplus < 202002L
#include "autolaunch needs C++20: add -std=c++20, or in CMake set(CMAKE_CXX_STANDARD 20)"
#endif
