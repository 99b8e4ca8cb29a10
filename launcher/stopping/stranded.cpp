#include "stopping/stranded.hpp"

#include "allocation/hostlist.hpp"
#include "allocation/slurm_command.hpp"
#include "base/deadline.hpp"
#include "base/text.hpp"
#include "exit_codes/exit_codes.hpp"
#include "stopping/knock.hpp"
#include "stopping/over_time_limit.hpp"
#include "stopping/requeue.hpp"
#include "stopping/scontrol_line.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <system_error>
#include <thread>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

constexpr auto kStateTime = 5s;      // a busy slurmctld
constexpr auto kEach = 3s;           // for those before us to ask Slurm
constexpr auto kPause = 2s;

// Its machine is there, and says that nobody listens.
bool is_refused(const std::string& door) {
    const auto colon = door.rfind(':');
    return colon != std::string::npos &&
           knock(door.substr(0, colon), port_from(door.substr(colon + 1))) == Knock::refused;
}

std::string ask_slurm(const std::vector<std::string>& question) {
    return SlurmCommand(question).wait(Deadline::after(kStateTime));
}

// Nothing: it cannot be read.
std::optional<bool> has_gone_on_by_now(const Stranded& stranded) {
    std::ifstream in(stranded.log);
    LogOfHeads log;
    for (std::string line; std::getline(in, line);)
        log.read(line);
    if (!in.eof())
        return std::nullopt;
    return log.has_gone_on(stranded);
}

std::set<std::string> down_by_slurm(const std::vector<std::string>& names) {
    return nodes_down(ask_slurm({"scontrol", "show", "node", "-o", compress_hostlist(names)}));
}

/// Whether Slurm would start it again, and how long it may take to notice that a node is gone.
struct Outlook {
    bool starts_again = false;
    std::chrono::seconds notice = {};
    std::string why_not = {};
};

Outlook look_at_slurm(const StrandedRequest& request, const EnvironmentMap& environment) {
    const std::string name = requeue_name(environment);
    const auto variable = environment.find("SLURM_JOB_ID");
    const auto record =
        parse_slurm_job(ask_slurm(slurm_job_question(variable->second)), variable->second);
    const std::string config = ask_slurm(config_question());
    const auto settings = config.empty()
                              ? std::nullopt
                              : std::optional(parse_requeue_settings(config, exit_code::kRequeue));
    const bool by_code = settings && settings->by_exit_code;
    const RequeueChoice choice = choose_requeue(record, settings, request.restarts, name);
    if (!choice.act && !by_code)
        return {.why_not = choice.why};
    if (!request.wanted && !by_code)
        return {.why_not =
                    "not requeued: slurm_config.requeue is not set; by hand: scontrol "
                    "requeue " +
                    name};
    return {.starts_again = true, .notice = time_to_notice(config)};
}

// Until all others are; false: one may be alive.
bool await_their_end(const Stranded& stranded, std::chrono::seconds time,
                     std::set<std::string>& refused,
                     const std::function<void(const std::string& line)>& say) {
    const auto deadline = Deadline::after(time);
    const auto settled = Deadline::after(stranded.settles_in);
    bool has_said = false;
    for (;;) {
        for (const Stranded::Other& other : stranded.others)
            if (!refused.contains(other.name) && is_refused(other.door))
                refused.insert(other.name);
        auto open = not_proved_gone(stranded, refused, {});
        if (!open.empty() && settled.passed())
            open = not_proved_gone(stranded, refused, down_by_slurm(open));
        // Asked last: what was begun before the others were found gone is written by now.
        if (const auto goes_on = has_gone_on_by_now(stranded); goes_on.value_or(true)) {
            say(goes_on ? "not requeued: another node is head and goes on with the job, or has "
                          "ended it"
                        : "not requeued: " + stranded.log.string() +
                              " cannot be read, and another node may be head");
            return false;
        }
        if (open.empty())
            return true;
        if (deadline.passed()) {
            say(fmt::format("not requeued: {} may be alive, and go on with the job",
                            fmt::join(open, ", ")));
            return false;
        }
        if (!std::exchange(has_said, true))
            say(
                fmt::format("a requeue waits for proof that {} cannot go on with the job, {} s at "
                            "most",
                            fmt::join(open, ", "), time.count()));
        std::this_thread::sleep_for(kPause);
    }
}

}  // namespace

std::set<std::string> nodes_down(std::string_view answer) {
    std::set<std::string> down;
    while (!answer.empty()) {
        const std::string_view line = answer.substr(0, answer.find('\n'));
        answer.remove_prefix(std::min(line.size() + 1, answer.size()));
        const std::string state = scontrol_field(line, "State");
        const std::string base = state.substr(0, state.find_first_of("*+"));
        const auto flags = split(state.substr(std::min(base.size(), state.size())), '+');
        const bool is_off = std::find(flags.begin(), flags.end(), "POWERED_DOWN") != flags.end();
        if (base == "DOWN" || is_off)
            down.insert(scontrol_field(line, "NodeName"));
    }
    return down;
}

std::vector<std::string> not_proved_gone(const Stranded& stranded,
                                         const std::set<std::string>& refused,
                                         const std::set<std::string>& down) {
    std::vector<std::string> open;
    for (const Stranded::Other& other : stranded.others)
        if (!refused.contains(other.name) && !(stranded.had_ranks && down.contains(other.name)))
            open.push_back(other.name);
    return open;
}

// Each begins with "time", "generation" and "event" (docs/events.md). What a rank has said stands
// in strings, whose quotes are escaped.
void LogOfHeads::read(std::string_view line) {
    const auto after = [&](std::string_view key) {
        const auto at = line.find(key);
        return at == std::string_view::npos ? std::string_view() : line.substr(at + key.size());
    };
    const std::string_view event = after(R"("event":")");
    const std::string_view number = after(R"("generation":)");
    long long generation = 0;
    if (!parse_integer(number.substr(0, number.find(',')), generation))
        return;
    if (event.starts_with("job_started\"")) {
        *this = {};
    } else if (event.starts_with("head_changed\"")) {
        is_to_start_anew_ = false;
        const std::string_view term = after(R"("term":)");
        long long known = 0;
        if (parse_integer(term.substr(0, term.find_first_of(",}")), known))
            term_ = std::max(term_, static_cast<int>(known));
    } else {
        if (event.starts_with("job_ended\"")) {
            const std::string_view code = after(R"("exit_code":)");
            long long ended_with = 0;
            parse_integer(code.substr(0, code.find_first_of(",}")), ended_with);
            is_to_start_anew_ = ended_with == exit_code::kRequeue;
            is_over_ = is_over_ || !is_to_start_anew_;
        } else if (event.starts_with("generation_started\"")) {
            is_to_start_anew_ = false;
        }
        newest_ = std::max(newest_, static_cast<int>(generation));
        if (event.starts_with("generation_ended\""))
            ended_ = std::max(ended_.value_or(-1), static_cast<int>(generation));
    }
}

bool LogOfHeads::has_gone_on(const Stranded& stranded) const {
    if (is_over_ || is_to_start_anew_)
        return is_over_;
    return term_ > stranded.term ||
           (!stranded.led &&
            (newest_ > stranded.generation || (ended_ && *ended_ >= stranded.generation)));
}

bool may_start_anew(const Stranded& stranded, const StrandedRequest& request,
                    const EnvironmentMap& environment,
                    const std::function<void(const std::string& line)>& say) {
    if (requeue_name(environment).empty()) {
        say("start the job again: more than half of its nodes are lost, and who is left cannot "
            "know whether they go on");
        return false;
    }
    if (!stranded.has_saved) {
        say("not requeued: nothing was saved yet");
        return false;
    }
    if (!has_gone_on_by_now(stranded)) {
        say("not requeued: this node does not see " + stranded.log.string() +
            ", so that nobody here knows whether others go on, or have ended the job");
        return false;
    }
    const Outlook outlook = look_at_slurm(request, environment);
    if (!outlook.starts_again) {
        say(outlook.why_not);
        return false;
    }
    std::set<std::string> refused;
    if (!await_their_end(stranded, outlook.notice, refused, say))
        return false;
    // Those before us that have left as we have asked Slurm first.
    for (std::size_t at = 0; at < std::min(stranded.place, stranded.others.size()); ++at)
        if (refused.contains(stranded.others[at].name))
            std::this_thread::sleep_for(kEach);
    return true;
}

}  // namespace autolaunch::launcher
