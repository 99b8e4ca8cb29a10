#pragma once
// What the tests of spawn and supervise share: finding the processes a test started, waiting for
// something to happen.
#include <sys/types.h>

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace autolaunch::testing {

/// Is removed with all it holds at the end of the test.
class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string name =
            (std::filesystem::temp_directory_path() / "autolaunch-test-XXXXXX").string();
        path_ = ::mkdtemp(name.data());
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

inline std::string slurp(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// Live processes (no zombies) whose environment holds `variable`, as "NAME=value".
inline std::vector<pid_t> processes_with(const std::string& variable) {
    std::vector<pid_t> pids;
    std::error_code error;
    for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
         entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (name.find_first_not_of("0123456789") != std::string::npos)
            continue;
        const std::string environment = '\0' + slurp(entry->path() / "environ");
        const bool is_self = name == std::to_string(::getpid());
        if (!is_self && environment.find('\0' + variable + '\0') != std::string::npos)
            pids.push_back(std::stoi(name));
    }
    return pids;
}

/// Polls until `condition` holds; false after 20 s, which is for broken code, not for slow
/// machines.
template <typename Condition>
bool eventually(Condition condition) {
    for (int i = 0; i < 2000; ++i) {
        if (condition())
            return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return condition();
}

}  // namespace autolaunch::testing
