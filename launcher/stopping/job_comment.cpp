#include "stopping/job_comment.hpp"

#include "allocation/slurm_command.hpp"
#include "stopping/scontrol_line.hpp"

namespace autolaunch::launcher {

namespace {

bool update(const std::string& job, const std::string& field, const std::string& text,
            const Deadline& deadline, std::string& why) {
    SlurmCommand command({"scontrol", "update", "JobId=" + job, field + "=" + text},
                         SlurmCommand::Errors::apart);
    command.wait(deadline);
    if (command.exit_code() == 0)
        return true;
    why = command.errors().substr(0, command.errors().find('\n'));
    if (why.empty())
        why = "scontrol has not answered";
    return false;
}

}  // namespace

bool has_comment(const std::string& line) {
    const std::string own = scontrol_field(line, "Comment");
    return !own.empty() && own != "(null)";
}

std::string comment_on_job(const std::string& job, const std::string& text,
                           const Deadline& deadline, std::string& why) {
    if (update(job, "AdminComment", text, deadline, why))
        return "AdminComment";
    SlurmCommand show({"scontrol", "show", "job", job, "-o"});
    const std::string line = show.wait(deadline);
    if (line.empty()) {
        why = "scontrol says nothing of the job";
        return {};
    }
    if (has_comment(line)) {
        why = "the job has a comment of its own";
        return {};
    }
    return update(job, "Comment", text, deadline, why) ? "Comment" : std::string();
}

}  // namespace autolaunch::launcher
