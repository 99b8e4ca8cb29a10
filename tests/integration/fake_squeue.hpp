#pragma once
#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "processes.hpp"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace autolaunch::testing {

/// While it lives, squeue is this shell script, and the only program besides the system's.
class FakeSqueue {
public:
    explicit FakeSqueue(const std::string& script) {
        const std::string file = folder_.path() / "squeue";
        if (!script.empty()) {
            write_file(file, "#!/bin/sh\n" + script + "\n");
            ::chmod(file.c_str(), 0755);
        }
        ::setenv("PATH", (folder_.path().string() + ":/bin").c_str(), 1);
        ::setenv("SQUEUE_TEST", file.c_str(), 1);
    }
    ~FakeSqueue() { ::setenv("PATH", before_.c_str(), 1); }

    /// What it leaves beside itself, in $(dirname $SQUEUE_TEST).
    std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
    std::string file(const std::string& name) const { return slurp(path(name)); }
    /// In the environment of every one that was started.
    std::string mark() const { return "SQUEUE_TEST=" + path("squeue").string(); }

private:
    TemporaryFolder folder_;
    std::string before_ = std::getenv("PATH");
};

}  // namespace autolaunch::testing
