#include "stage_out/finish_left.hpp"

#include "base/environment.hpp"
#include "base/file_system.hpp"
#include "exit_codes/exit_error.hpp"
#include "report/units.hpp"
#include "stage_out/copy_job.hpp"
#include "stage_out/out_place.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

namespace autolaunch::launcher {

namespace {

using LeftJson = nlohmann::ordered_json;

std::string line_of(const LeftOut& left, const LeftOut::Part& part) {
    return fmt::format(
        "{} to {}: {}{}", part.entry.name, part.entry.to, amount_of_out(part.files, part.bytes),
        part.entry.on_success && left.end != OutEnd::succeeded ? " (when: success)" : "");
}

/// Why an entry is not copied without another word; empty: it is.
std::string why_not_now(const LeftOut& left, const OutEntry& entry, const FinishRequest& request) {
    if (!entry.on_success || left.end == OutEnd::succeeded || request.even_failed)
        return {};
    return left.end == OutEnd::unknown ? "whether all its ranks succeeded is not known"
                                       : fmt::format("its job {}", name_of(left.end));
}

class Finisher {
public:
    Finisher(const FinishRequest& request, const std::function<void(const std::string&)>& print)
        : request_(request), print_(print) {}

    int run() {
        const std::vector<LeftOut> found = chosen();
        if (found.empty())
            say("nothing is left of storage.stage_out in " + out_root(request_.scratch).string());
        for (const LeftOut& left : found)
            look_at(left);
        if (request_.json)
            print_(json_text());
        return exit_code_;
    }

private:
    std::vector<LeftOut> chosen() const {
        std::vector<LeftOut> found = list_left_out(request_.scratch);
        if (request_.jobs.empty())
            return found;
        std::vector<LeftOut> wanted;
        for (const std::string& job : request_.jobs) {
            const std::size_t before = wanted.size();
            for (const LeftOut& left : found)
                if (left.job() == job || left.order.run_id == job)
                    wanted.push_back(left);
            if (wanted.size() == before)
                throw ExitError(exit_code::kNoInput, ErrorCode::invalid_argument,
                                out_root(request_.scratch).string() + " has nothing of " + job,
                                "autolaunch stage-out --list says what there is");
        }
        return wanted;
    }

    void look_at(const LeftOut& left) {
        job_ = {{"job", left.job()},
                {"run_id", left.order.run_id},
                {"run_dir", left.order.run_dir},
                {"node", left.order.node},
                {"folder", left.path.string()},
                {"end", name_of(left.end)},
                {"state", "left"},
                {"entries", LeftJson::array()}};
        if (left.is_held)
            keep(left, "held", "its job runs, or another process copies it");
        else if (request_.discard)
            discard(left);
        else if (!left.why_unreadable.empty())
            keep(left, "unreadable", "it cannot be read: " + left.why_unreadable);
        else if (request_.only_list)
            list(left);
        else
            copy(left);
        json_.push_back(std::move(job_));
    }

    void keep(const LeftOut& left, const char* state, const std::string& why) {
        job_["state"] = state;
        job_["why"] = why;
        say(fmt::format("stays         {}: {}", left.job(), why));
        if (request_.only_list)
            return;
        if (job_["state"] == "unreadable")
            fail(exit_code::kNoInput);
        else if (!request_.jobs.empty())
            fail(exit_code::kUnavailable);
    }

    void list(const LeftOut& left) {
        for (const LeftOut::Part& part : left.parts) {
            put(part, "left", {});
            say(fmt::format("left          {}: {}", left.job(), line_of(left, part)));
        }
    }

    void discard(const LeftOut& left) {
        if (request_.jobs.empty())
            throw UsageError("--discard removes what was not copied: name the job",
                             "autolaunch stage-out --discard " + left.job());
        try {
            job_["state"] = remove_all_of(left.path) ? "removed" : "held";
        } catch (const Error& error) {
            return keep(left, "unreadable", error.what());
        }
        if (job_["state"] != "removed")
            return keep(left, "held", "another process has it");
        say(fmt::format("removed       {}: {}", left.job(),
                        amount_of_out(left.files(), left.bytes())));
    }

    void copy(const LeftOut& left) {
        std::vector<std::string> names;
        for (const LeftOut::Part& part : left.parts) {
            const std::string why = why_not_now(left, part.entry, request_);
            if (why.empty()) {
                names.push_back(part.entry.name);
                continue;
            }
            put(part, "stays", why);
            say(fmt::format("stays         {}: {}: {}; --even-failed copies it", left.job(),
                            line_of(left, part), why));
        }
        if (names.empty())
            return;
        auto folder = OutFolder::open(left.path, true);
        if (!folder)
            return keep(left, "held", "another process has it");
        folder->set_terms(request_.may_overwrite, request_.by_node);
        copy_job(std::make_shared<const OutFolder>(std::move(*folder)), names, true,
                 environment_of_process(),
                 [this, &left](const OutWord& word) { hear(left, word); });
    }

    void hear(const LeftOut& left, const OutWord& word) {
        const std::lock_guard lock(mutex_);
        for (const std::string& note : word.notes)
            say(fmt::format("note          {}: {}", left.job(), note));
        for (const OutDone& done : word.done) {
            const auto part =
                std::find_if(left.parts.begin(), left.parts.end(),
                             [&](const auto& one) { return one.entry.name == done.name; });
            if (part == left.parts.end())
                continue;
            put(*part, done.exit_code == 0 ? "copied" : "left", done.what);
            if (done.exit_code == 0) {
                say(fmt::format("copied        {}: {} to {}: {}", left.job(), done.name,
                                part->entry.to, amount_of_out(done.files, done.bytes)));
                continue;
            }
            say(fmt::format("left          {}: {}: {}{}", left.job(), line_of(left, *part),
                            done.what, done.hint.empty() ? "" : "; " + done.hint));
            fail(done.exit_code);
        }
    }

    std::string json_text() const {
        const LeftJson all{{"format", 1}, {"scratch", request_.scratch}, {"jobs", json_}};
        return all.dump(2, ' ', false, LeftJson::error_handler_t::replace) + "\n";
    }

    void put(const LeftOut::Part& part, const char* state, const std::string& why) {
        job_["entries"].push_back({{"name", part.entry.name},
                                   {"to", part.entry.to},
                                   {"files", part.files},
                                   {"bytes", part.bytes},
                                   {"state", state},
                                   {"why", why}});
    }

    void say(const std::string& line) const {
        if (!request_.json)
            print_(line + "\n");
    }

    void fail(int exit_code) { exit_code_ = exit_code_ == 0 ? exit_code : exit_code_; }

    const FinishRequest& request_;
    const std::function<void(const std::string&)>& print_;
    std::mutex mutex_;
    LeftJson json_ = LeftJson::array(), job_;
    int exit_code_ = 0;
};

/// SCRATCH/autolaunch-UID/out/JOB: from elsewhere, too.
std::string command_for(const LeftOut& left) {
    const auto scratch = absolute_path(left.path).parent_path().parent_path().parent_path();
    return "autolaunch stage-out" +
           (scratch == default_out_scratch() ? std::string() : " --scratch " + scratch.string()) +
           ' ' + left.job();
}

/// All that an earlier start of a job that was requeued has left is at its target.
bool is_copied(const LeftOut& left) {
    const auto folder = OutFolder::open(left.path, true);
    if (!folder)
        return false;
    for (const LeftOut::Part& part : left.parts)
        if (!folder->is_copied(part.entry.name))
            return false;
    return true;
}

}  // namespace

int finish_left(const FinishRequest& request,
                const std::function<void(const std::string&)>& print) {
    return Finisher(request, print).run();
}

OutVerdict judge_left_out(const LeftOut& left, std::int64_t now_s, std::int64_t keep_s) {
    if (left.is_held)
        return {false, "a job uses it"};
    if (!left.why_unreadable.empty())
        return {false, "it cannot be read: " + left.why_unreadable};
    const auto age = std::chrono::seconds(now_s - left.changed_s);
    const bool is_wanted = std::any_of(left.parts.begin(), left.parts.end(), [&](const auto& part) {
        return part.files > 0 && !part.entry.on_success;
    });
    if (left.end == OutEnd::failed && !is_wanted) {
        const bool goes = age.count() > keep_s;
        return {goes,
                fmt::format("when: success, and its job failed; changed {} ago, kept for {}",
                            format_duration(age), format_duration(std::chrono::seconds(keep_s)))};
    }
    if (left.end == OutEnd::requeued && is_copied(left)) {
        const bool goes = age.count() > keep_s;
        return {goes,
                fmt::format("all of it was copied, and its job was requeued; changed {} ago, "
                            "kept for {}",
                            format_duration(age), format_duration(std::chrono::seconds(keep_s)))};
    }
    return {false, "it was not copied out: " + command_for(left) + " does it"};
}

}  // namespace autolaunch::launcher
