#pragma once
#include "plan/launch_plan.hpp"

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What a program of Python begins with, as an interpreter has found in its files.
struct PreloadWalk {
    std::vector<std::string> files;  ///< whose text says so, with the program's own
    std::vector<PreloadedImport> imports;
    std::vector<FilePart> reads;  ///< by the imports, where these are on a shared file system
    int copies = 0;               ///< that were mounted in the place of files
    std::string copies_missing;   ///< why not all
    std::string end;              ///< why there are no more
    std::string trouble;  ///< why ranks started by themselves all the same; empty: they did not
};

/// Of an interpreter's answer: lines of a word and its text (warm_interpreter.py). Pure.
PreloadWalk parse_walk(const std::string& lines);

/// Where the user's records are (docs/python-start.md); empty where he has no home.
std::string preload_records_folder(const EnvironmentMap& environment);

/// Writes preload.json in the run directory, as the head, and the user's record. Throws Error.
void keep_preload_record(const LaunchPlan& plan, const PreloadWalk& walk);

/// What was found in the last run of the same program with the same interpreter, if neither it nor
/// a file whose text counted has changed since. `why_not` says which; it is empty where there never
/// was such a run. Throws nothing: what cannot be read is said there.
std::optional<PreloadWalk> find_preload_record(const PreloadChoice& choice, std::string& why_not);

}  // namespace autolaunch::launcher
