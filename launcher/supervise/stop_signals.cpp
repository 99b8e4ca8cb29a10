#include "supervise/stop_signals.hpp"

#include <algorithm>
#include <csignal>

namespace autolaunch::launcher {

namespace {

bool contains(const std::vector<int>& numbers, int number) {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

}  // namespace

std::vector<int> stop_signals(const JobSpec& spec) {
    return spec.stop_signals.empty() ? std::vector<int>{SIGTERM, SIGINT, SIGHUP, SIGQUIT}
                                     : spec.stop_signals;
}

bool stops_the_job(const JobSpec& spec, int signal) { return contains(stop_signals(spec), signal); }

std::vector<int> handled_signals(const JobSpec& spec) {
    std::vector<int> signals = stop_signals(spec);
    for (const int signal : {SIGUSR1, SIGUSR2, SIGCHLD})
        if (!contains(signals, signal))
            signals.push_back(signal);
    return signals;
}

}  // namespace autolaunch::launcher
