#include "generation/leftovers.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "session/environment.hpp"
#include "spawn/process_tree.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kNamedLeftovers = 3;
constexpr int kLooksAtLeftovers = 20;
constexpr std::chrono::milliseconds kBetweenLooks{5};

bool is_of_rank(pid_t pid, const std::string& run_dir) {
    try {
        const std::string environment = read_file(fmt::format("/proc/{}/environ", pid));
        if (environment.empty())  // in the middle of an exec, where the kernel shows none
            return true;
        const std::string variable = fmt::format("{}={}", env::kRunDir, run_dir);
        return ('\0' + environment).find('\0' + variable + '\0') != std::string::npos;
    } catch (const Error&) {  // it ended while we looked, or became another user's
        return false;
    }
}

}  // namespace

std::vector<std::string> lasting_children(const std::vector<pid_t>& known,
                                          const std::string& run_dir) {
    const auto is_left = [&](pid_t pid) {
        return std::find(known.begin(), known.end(), pid) == known.end() &&
               is_of_rank(pid, run_dir);
    };
    std::vector<std::string> names = running_children(is_left);
    for (int i = 0; i < kLooksAtLeftovers && !names.empty(); ++i) {
        std::this_thread::sleep_for(kBetweenLooks);
        names = running_children(is_left);
    }
    return names;
}

std::string leftovers_text(const std::vector<std::string>& names) {
    const auto named = static_cast<std::ptrdiff_t>(std::min(names.size(), kNamedLeftovers));
    std::string text = "all ranks exited with 0, and left running what was ended with them: " +
                       join(std::vector<std::string>(names.begin(), names.begin() + named), ", ");
    if (names.size() > kNamedLeftovers)
        text += " and " + std::to_string(names.size() - kNamedLeftovers) + " more";
    return text + "; a rank has to wait for what is to be finished (`wait`, `setsid --wait`)";
}

}  // namespace autolaunch::launcher
