#include "exit_codes/rank_exited.hpp"

#include "exit_codes/exit_codes.hpp"

namespace autolaunch::launcher {

int exit_code_of(const RankExited& exited) {
    return exited.signal ? exit_code::kSignalBase + *exited.signal
                         : exited.exit_code.value_or(exit_code::kInternal);
}

bool is_failure(const RankExited& exited) {
    return !exited.asked_to_stop && exit_code_of(exited) != 0;
}

bool looks_stopped_by(const RankExited& exited, int signal) {
    return exited.signal == signal || exited.exit_code == exit_code::kSignalBase + signal;
}

}  // namespace autolaunch::launcher
