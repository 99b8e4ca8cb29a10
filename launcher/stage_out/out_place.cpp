#include "stage_out/out_place.hpp"

#include "base/ask_in_time.hpp"
#include "base/environment.hpp"
#include "base/file_system.hpp"
#include "base/url.hpp"
#include "checkpoint/s3/s3_client.hpp"
#include "exit_codes/exit_error.hpp"
#include "report/units.hpp"
#include "spec/stage_out_words.hpp"
#include "staging/plan_staging.hpp"
#include "staging/stager_order.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr auto kOfLook = std::chrono::seconds(10);

/// A folder that is missing is made where its parent lets us.
std::string look_at_folder(const std::string& to) {
    fs::path there = to;
    while (!path_exists(there) && there.has_relative_path())
        there = there.parent_path();
    if (!is_folder(there))
        return there.string() + " is no folder";
    if (::access(there.c_str(), W_OK | X_OK) != 0)
        return "cannot write in " + there.string() + " here";
    return there == fs::path(to) ? "it is there" : "it will be made";
}

std::string look_at_bucket(const std::string& to) {
    const Environment environment = environment_of_process();
    s3::S3Client client(s3::locate(to, environment), s3::find_credential_source(environment));
    client.find(".autolaunch", Deadline::after(kOfLook));
    return "the bucket answers";
}

/// What makes no sense is known before the ranks have worked for it.
void require_bucket(const std::string& to) {
    if (!is_url(to))
        return;
    try {
        s3::locate(to, environment_of_process());
    } catch (const Error& error) {
        throw ExitError(exit_code::kBadSpec, error.code(),
                        "storage.stage_out: " + to + ": " + error.what(), error.hint());
    }
}

std::string look_at_target(const std::string& to) {
    try {
        return is_url(to) ? look_at_bucket(to) : look_at_folder(to);
    } catch (const Error& error) {
        return error.what();
    }
}

}  // namespace

void plan_stage_out(LaunchPlan& plan) {
    StagingChoice& staging = plan.staging;
    staging.out.clear();
    staging.out_time = plan.spec.storage.stage_out_time;
    for (const StageOutSpec& item : plan.spec.storage.stage_out) {
        const std::string to = is_url(item.to)
                                   ? item.to
                                   : (fs::path(plan.workdir) / item.to).lexically_normal().string();
        if (const std::string why = why_no_target(to, staging.scratch); !why.empty())
            throw ExitError(exit_code::kBadSpec, ErrorCode::invalid_argument,
                            "storage.stage_out: " + why);
        require_bucket(to);
        for (const OutItem& other : staging.out)
            if (other.to == to)
                throw ExitError(exit_code::kBadSpec, ErrorCode::invalid_argument,
                                fmt::format("storage.stage_out: {} and {} both go to {}",
                                            other.name, item.name, to),
                                "name a folder of its own for each");
        staging.out.push_back({.name = item.name,
                               .variable = out_variable(item.name),
                               .to = to,
                               .on_success = item.on_success,
                               .by_node = item.by_node,
                               .may_overwrite = item.may_overwrite});
    }
    if (!staging.out.empty() && staging.out_time.count() == 0 && plan.kill_wait)
        plan.notes.push_back(fmt::format(
            "storage.stage_out_time is not set: when the scheduler stops the job, copies have what "
            "ranks leave of the {} s until its SIGKILL",
            plan.kill_wait->count()));
}

std::string why_no_credentials(const std::string& to) {
    if (!is_url(to))
        return {};
    try {
        s3::find_credential_source(environment_of_process());
        return {};
    } catch (const Error& error) {
        return error.what() + (error.hint().empty() ? std::string() : "; " + error.hint());
    }
}

void look_at_targets(LaunchPlan& plan, std::chrono::milliseconds patience) {
    const Deadline deadline = Deadline::after(patience);
    const auto answers = ask_all_in_time(
        plan.staging.out,
        [](const OutItem& item) { return [to = item.to] { return look_at_target(to); }; },
        deadline);
    for (std::size_t i = 0; i < answers.size(); ++i) {
        OutItem& item = plan.staging.out[i];
        item.found = answers[i].value_or(fmt::format("its {} does not answer within {} s",
                                                     is_url(item.to) ? "server" : "file system",
                                                     patience.count() / 1000));
    }
}

std::vector<std::string> out_environment(const LaunchPlan& plan) {
    const auto& items = plan.staging.out;
    std::vector<std::string> environment = {"PATH=/usr/bin:/bin"};
    if (std::any_of(items.begin(), items.end(),
                    [](const OutItem& item) { return is_url(item.to); }))
        for (std::string& line : environment_for_servers())
            environment.push_back(std::move(line));
    return environment;
}

std::string amount_of_out(std::int64_t files, std::int64_t bytes) {
    return fmt::format("{} in {} file{}", format_bytes(static_cast<std::uint64_t>(bytes)), files,
                       files == 1 ? "" : "s");
}

const char* default_out_scratch() { return kDefaultScratch; }

}  // namespace autolaunch::launcher
