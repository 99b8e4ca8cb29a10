#include "submission/slurm_queue.hpp"

#include "allocation/slurm_command.hpp"
#include "base/text.hpp"
#include "exit_codes/exit_error.hpp"
#include "stopping/maintenance.hpp"
#include "stopping/over_time_limit.hpp"
#include "stopping/slurm_job_record.hpp"
#include "submission/job_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

constexpr auto kFirstPause = 250ms, kLongestPause = 10'000ms;  // Slurm forgets a job after 300 s
constexpr auto kAskTime = 20s;
constexpr auto kSubmitTime = 60s;  // sbatch tries again while slurmctld is busy

/// One question that is under way.
class Question {
public:
    explicit Question(std::vector<std::string> argv)
        : command_(std::move(argv), SlurmCommand::Errors::apart), started_(command_.fd() >= 0) {}

    CommandAnswer wait(const Deadline& deadline) {
        CommandAnswer answer;
        answer.out = command_.wait(deadline);
        answer.code = command_.exit_code();
        answer.errors = command_.errors();
        answer.late = started_ && !answer.code && deadline.passed();
        return answer;
    }

private:
    SlurmCommand command_;
    bool started_;
};

/// Each of them has a line to say even where there is nothing.
std::optional<std::string> good_text(const CommandAnswer& answer) {
    return answer.good() && !answer.out.empty() ? std::optional(answer.out) : std::nullopt;
}

[[noreturn]] void no_controller(const CommandAnswer& answer) {
    const std::string hint =
        "scontrol ping says whether it is there; autolaunch submit --dry-run shows the script "
        "without it";
    if (answer.late)
        throw ExitError(exit_code::kUnavailable, ErrorCode::timeout,
                        "slurmctld does not answer; nothing was submitted",
                        hint + "\ntry again later, or from another login node");
    if (!answer.code)
        throw ExitError(exit_code::kUnavailable, ErrorCode::system,
                        "scontrol cannot be started: is this a login node of a Slurm cluster?",
                        hint);
    throw ExitError(exit_code::kUnavailable, ErrorCode::closed,
                    "slurmctld does not answer; nothing was submitted",
                    std::string(trim(answer.errors)) + '\n' + hint);
}

}  // namespace

CommandAnswer ask_command(std::vector<std::string> argv, const Deadline& deadline) {
    return Question(std::move(argv)).wait(deadline);
}

CommandAnswer ask_sbatch(std::vector<std::string> words, const std::string& what) {
    words.insert(words.begin(), "sbatch");
    const CommandAnswer answer = ask_command(std::move(words), Deadline::after(kSubmitTime));
    if (answer.good())
        return answer;
    if (answer.late)
        throw ExitError(
            exit_code::kUnavailable, ErrorCode::timeout,
            fmt::format("sbatch has not answered within {} s: {}", kSubmitTime / 1s, what),
            "is slurmctld there? scontrol ping; what was submitted: squeue --me");
    if (!answer.code)
        throw ExitError(exit_code::kUnavailable, ErrorCode::system, "sbatch cannot be started",
                        "is this a login node of a Slurm cluster? autolaunch submit --dry-run "
                        "shows the script anywhere");
    throw ExitError(
        exit_code::kUnavailable, ErrorCode::invalid_argument,
        "Slurm refuses the job; sbatch says:", std::string(trim(answer.errors + answer.out)));
}

ClusterAnswers ask_cluster(const std::vector<std::string>& depends_on, const std::string& user,
                           const Deadline& deadline) {
    Question config(config_question()), partitions(partitions_question()),
        reservations(maintenance_question()), associations(associations_question(user)),
        qos(qos_question());
    const CommandAnswer told = config.wait(deadline);
    if (!told.good())
        no_controller(told);
    ClusterAnswers answers;
    answers.config = told.out;
    answers.partitions = good_text(partitions.wait(deadline));
    answers.reservations = good_text(reservations.wait(deadline));
    answers.associations = good_text(associations.wait(deadline));
    answers.qos = good_text(qos.wait(deadline));
    answers.user = user;
    for (const std::string& job : depends_on) {
        const CommandAnswer one = ask_command(slurm_job_question(job), deadline);
        answers.jobs[job] = one.out + one.errors;
    }
    return answers;
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
