#pragma once
#include "spec/sweep_spec.hpp"
#include "sweep/element_record.hpp"

#include <chrono>
#include <functional>
#include <string>

namespace autolaunch::launcher {

/// Keeps the record of the element that this job is, and says when it is to stop early.
///
/// Owner: the head's JobSupervisor. Threads: its owner's. Blocks: on the file system, to write the
/// record once in 5 s, and at each mark to read those of all elements.
class ElementWatch {
public:
    struct Callbacks {
        std::function<void(const std::string& reason)> stop;
        std::function<void(const std::string& text)> warn;
    };

    /// `sweep.of` names the folder. Goes on from the record of an earlier start.
    ElementWatch(const SweepSpec& sweep, std::string run_dir, Callbacks callbacks);

    void begin();
    void on_step(const StepMetrics& step, std::optional<std::int64_t> total_steps);
    /// `stopped_early`: this end is what stop() led to.
    void end(int exit_code, const std::string& outcome, bool stopped_early);

private:
    void look(const SweepLook& own);
    void write();
    void warn_once(bool& said, const std::string& text);

    const SweepSpec& sweep_;
    Callbacks callbacks_;
    ElementRecord record_;
    std::string reason_;
    int without_metric_ = 0;
    bool said_no_metric_ = false, said_cannot_write_ = false, said_cannot_read_ = false,
         said_last_look_ = false;
    std::chrono::steady_clock::time_point written_at_{};
};

}  // namespace autolaunch::launcher
