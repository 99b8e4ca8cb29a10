#pragma once
#include <autolaunch/cxx20.hpp>

// AUTOLAUNCH_API marks what the libraries export; everything else has hidden visibility.
#if defined(AUTOLAUNCH_STATIC)
#define AUTOLAUNCH_API
#else
#define AUTOLAUNCH_API __attribute__((visibility("default")))
#endif
