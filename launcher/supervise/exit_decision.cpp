#include "supervise/exit_decision.hpp"

#include "exit_codes/exit_codes.hpp"

namespace autolaunch::launcher {

ExitDecision decide_exit(const EndRecord* record, RestartAction next) {
    if (record == nullptr)
        return {exit_code::kSuccess, "succeeded"};
    if (next == RestartAction::requeue)
        return {exit_code::kRequeue, record->outcome + ", to be requeued"};
    return {record->exit_code, record->outcome};
}

}  // namespace autolaunch::launcher
