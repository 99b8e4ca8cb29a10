#include "stopping/stop_signals.hpp"

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

int own_stop_signal(const JobSpec& spec) {
    const std::string& name = spec.restart.stop_signal;
    return name == "usr1"   ? SIGUSR1
           : name == "usr2" ? SIGUSR2
           : name == "int"  ? SIGINT
           : name == "hup"  ? SIGHUP
                            : 0;
}

bool stops_the_job(const JobSpec& spec, int signal) { return contains(stop_signals(spec), signal); }

bool looks_like_a_stop(const RankExited& ended, const JobSpec& spec) {
    const auto signals = stop_signals(spec);
    return std::any_of(signals.begin(), signals.end(),
                       [&](int signal) { return looks_stopped_by(ended, signal); });
}

std::vector<int> handled_signals(const JobSpec& spec) {
    std::vector<int> signals = stop_signals(spec);
    for (const int signal : {SIGUSR1, SIGUSR2, SIGCHLD, SIGCONT})
        if (!contains(signals, signal))
            signals.push_back(signal);
    return signals;
}

}  // namespace autolaunch::launcher
