#pragma once
#include "causes/failure_evidence.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The error that ended a program, as its language's runtime prints it.
struct FinalError {
    std::string line;  ///< "RuntimeError: shard 00071 is truncated"; empty: no runtime printed one
    std::vector<std::string>
        lines;          ///< with what belongs to it, and the errors that it was raised for
    std::string where;  ///< "train.py:17, in load"; empty: unknown
    std::string hint;   ///< autolaunch::Error's: what to do; empty: it has none
};

/// Of torchelastic's error file, a Python traceback, C++'s terminate, a panic of Rust or Go, an
/// uncaught exception of Java or Julia, Fortran's runtime. Where several are there, the last. Pure.
FinalError find_final_error(const FailureEvidence& words);

/// What it said last that looks like a complaint, else its last line; empty: it said nothing. Pure.
std::string last_complaint(const FailureEvidence& words);

}  // namespace autolaunch::launcher
