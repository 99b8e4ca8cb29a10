// The collective that a program NAME_perf measures; each is session_perf.cpp with another name.
#pragma once

namespace autolaunch::bench {

extern const char* const kMeasuredCollective;

}
