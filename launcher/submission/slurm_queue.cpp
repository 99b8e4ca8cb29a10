#include "submission/slurm_queue.hpp"

#include "allocation/slurm_command.hpp"
#include "exit_codes/exit_error.hpp"
#include "stopping/slurm_job_record.hpp"
#include "submission/job_end.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

constexpr auto kFirstPause = 250ms, kLongestPause = 10'000ms;  // Slurm forgets a job after 300 s
constexpr auto kAskTime = 20s;

}  // namespace

CommandAnswer ask_command(std::vector<std::string> argv, const Deadline& deadline) {
    SlurmCommand command(std::move(argv), SlurmCommand::Errors::apart);
    const bool started = command.fd() >= 0;
    CommandAnswer answer;
    answer.out = command.wait(deadline);
    answer.code = command.exit_code();
    answer.errors = command.errors();
    answer.late = started && !answer.code && deadline.passed();
    return answer;
}

int wait_for_job(const std::string& job_id, const std::function<void(const std::string&)>& say) {
    JobEnd end;
    bool silent = false;
    for (std::chrono::milliseconds pause = kFirstPause;;
         pause = std::min<std::chrono::milliseconds>(pause * 2, kLongestPause)) {
        const CommandAnswer answer =
            ask_command(slurm_job_question(job_id), Deadline::after(kAskTime));
        const bool unknown = answer.errors.find("Invalid job id") != std::string::npos;
        if (unknown)
            throw ExitError(exit_code::kUnavailable, ErrorCode::closed,
                            "Slurm knows job " + job_id + " no longer, and how it ended",
                            "sacct -j " + job_id + ", where the cluster has accounting");
        const bool told = end.take(answer.out);
        if (told && end.is_over()) {
            say("job " + job_id + " ended: " + end.state() + ", exit code " +
                std::to_string(end.exit_code()));
            return end.exit_code();
        }
        if (told == silent)
            say(told ? "Slurm answers again"
                     : "Slurm does not answer (scontrol show job " + job_id +
                           "); the job is not concerned, and waiting goes on");
        silent = !told;
        std::this_thread::sleep_for(pause);
    }
}

}  // namespace autolaunch::launcher
