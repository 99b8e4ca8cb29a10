#pragma once
#include <autolaunch/cxx20.hpp>
#if AUTOLAUNCH_CXX20
// AUTOLAUNCH_API marks what the libraries export; everything else has hidden visibility.
#if defined(AUTOLAUNCH_STATIC)
#define AUTOLAUNCH_API
#else
#define AUTOLAUNCH_API __attribute__((visibility("default")))
#endif
#endif
