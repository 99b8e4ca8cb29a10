#include "remains/abandoned_jobs.hpp"

#include "base/file_system.hpp"
#include "base/owned_folder.hpp"
#include "base/unique_fd.hpp"
#include "remains/job_record.hpp"
#include "remains/processes_of_jobs.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kUniqueLetters = 6;  // of mkdtemp(3), behind the prefix

/// A folder that nobody held, and that we hold now: whoever makes one of this name sees that.
struct HeldFolder {
    fs::path path;
    UniqueFd lock;
};
struct FoundJob {
    std::vector<HeldFolder> folders;
    std::optional<JobRecord> record;
};

bool is_still(int folder, const fs::path& path) {
    struct stat held {};
    struct stat found {};
    return ::fstat(folder, &held) == 0 && ::lstat(path.c_str(), &found) == 0 &&
           held.st_dev == found.st_dev && held.st_ino == found.st_ino && held.st_uid == ::geteuid();
}

// By the folder's name up to its unique letters: MPI's folders are called after it.
std::map<std::string, FoundJob> find_abandoned(const SweepOptions& options) {
    std::map<std::string, FoundJob> jobs;
    std::set<fs::path> places(options.places.begin(), options.places.end());
    for (const fs::path& place : places) {
        std::error_code ignored;
        for (const fs::path& path : list_folder(place, ignored, options.prefix)) {
            UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
            if (!folder || ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 ||
                !is_still(folder.get(), path))
                continue;
            const std::string name = path.filename();
            FoundJob& job = jobs[name.substr(0, options.prefix.size() + kUniqueLetters)];
            if (auto record = read_job_record(folder.get()))
                job.record = std::move(record);
            job.folders.push_back({path, std::move(folder)});
        }
    }
    return jobs;
}

// A live agent holds its folder of sockets, and may have let go of its shared memory: processes are
// a dead job's only where the folder of sockets is held by us, in every place that has one.
bool is_dead(const std::string& name, const FoundJob& job, const std::vector<std::string>& places) {
    std::set<fs::path> held;
    for (const HeldFolder& folder : job.folders)
        held.insert(folder.path);
    bool found = false;
    for (const fs::path place : places) {
        struct stat facts {};
        const fs::path path = place / name;
        if (held.contains(path))
            found = true;
        else if (::lstat(path.c_str(), &facts) == 0 || errno != ENOENT)
            return false;
    }
    return found;
}

void leave_certificate(const JobRecord& record, const AbandonedJob& job, const std::string& by) {
    ExitCertificate certificate{.run_id = record.run_id,
                                .node = record.node,
                                .node_rank = record.node_rank,
                                .by = by,
                                .exit_code = {},
                                .at = std::chrono::system_clock::now(),
                                .gone = {},
                                .left = job.left,
                                .not_checked = {}};
    for (const Remnant& ended : job.ended)
        certificate.gone.push_back({ended.kind, 1, ended.what});
    certificate.not_checked.push_back(
        {"gpu", "contexts", "the job's agent was killed, and nobody else knows its GPUs"});
    const std::string name = record.node_rank == 0
                                 ? std::string("exit.json")
                                 : fmt::format("exit.node-{}.json", record.node_rank);
    try {
        OwnedFolder::open(record.run_dir).replace(name, certificate_json(certificate));
    } catch (const Error&) {  // the run directory is gone, or not ours any more
    }
}

// The record of whose it was goes last: where something stays, the next one who clears up has to
// know of which job that is.
void remove_folder(const fs::path& folder, std::error_code& error) {
    const auto entries = list_folder(folder, error);
    if (error == std::errc::no_such_file_or_directory)
        error.clear();
    for (const fs::path& entry : entries) {
        std::error_code why;
        if (entry.filename() != kRecordName)
            fs::remove_all(entry, why);
        error = error ? error : why;
    }
    if (!error)
        fs::remove_all(folder, error);
}

// The lock is kept until the folder is gone: whoever makes it at this moment sees that he has to
// make another one.
void remove_folders(FoundJob& found, AbandonedJob& job) {
    for (HeldFolder& folder : found.folders) {
        std::error_code error;
        remove_folder(folder.path, error);
        Remnant remnant{"folder", folder.path.string()};
        if (error) {
            remnant.why = error.message();
            job.left.push_back(std::move(remnant));
        } else {
            job.ended.push_back(std::move(remnant));
        }
        folder.lock.reset();
    }
}

}  // namespace

std::vector<AbandonedJob> sweep_abandoned_jobs(const SweepOptions& options) {
    std::map<std::string, FoundJob> found = find_abandoned(options);
    if (!options.run_id.empty())
        std::erase_if(found, [&](const auto& job) {
            return !job.second.record || job.second.record->run_id != options.run_id;
        });
    std::set<std::string> dead;
    for (const auto& [name, job] : found)
        if (is_dead(name, job, options.places))
            dead.insert(name);
    EndedProcesses processes;
    if (options.look_only) {
        for (const auto& [name, pids] : processes_by_folder(dead))
            for (const pid_t pid : pids)
                processes.ended[name].push_back({"process", std::to_string(pid)});
    } else {
        processes = end_processes_of(dead, Deadline::after(options.patience));
    }
    std::vector<AbandonedJob> jobs;
    for (auto& [name, job_found] : found) {
        AbandonedJob job{.run_id = {},
                         .run_dir = {},
                         .folders = {},
                         .ended = std::move(processes.ended[name]),
                         .left = std::move(processes.left[name])};
        for (const HeldFolder& folder : job_found.folders)
            job.folders.push_back(folder.path);
        if (job_found.record) {
            job.run_id = job_found.record->run_id;
            job.run_dir = job_found.record->run_dir;
        }
        if (options.look_only)
            for (const fs::path& folder : job.folders)
                job.ended.push_back({"folder", folder.string()});
        else if (job.left.empty())  // its folder tells the next one who comes of what is left
            remove_folders(job_found, job);
        if (!options.look_only && job_found.record)
            leave_certificate(*job_found.record, job, options.by);
        jobs.push_back(std::move(job));
    }
    return jobs;
}

std::string sweep_text(const std::vector<AbandonedJob>& jobs, bool look_only) {
    if (jobs.empty())
        return ::geteuid() == 0 ? "nothing of a dead job is on this node\n"
                                : "nothing of a dead job of yours is on this node\n";
    std::string text;
    for (const AbandonedJob& job : jobs) {
        const std::string whose =
            job.user == ::geteuid() ? "" : fmt::format(" of user {}", job.user);
        text += job.run_id.empty() ? fmt::format("a job{} that left no name\n", whose)
                                   : fmt::format("job {}{} ({})\n", job.run_id, whose, job.run_dir);
        for (const Remnant& ended : job.ended)
            text += fmt::format("  {} {} {}\n",
                                ended.kind == "folder" ? (look_only ? "would remove" : "removed")
                                                       : (look_only ? "would end" : "ended"),
                                ended.kind, ended.what);
        for (const Remnant& left : job.left)
            text += fmt::format("  ✗ {} {} is still there: {}\n", left.kind, left.what, left.why);
    }
    return text;
}

std::string sweep_json(const std::vector<AbandonedJob>& jobs, bool look_only,
                       const std::optional<DrainWord>& drain) {
    using Json = nlohmann::ordered_json;
    const auto list = [](const std::vector<Remnant>& remnants) {
        Json array = Json::array();
        for (const Remnant& remnant : remnants)
            array.push_back({{"kind", remnant.kind}, {"what", remnant.what}, {"why", remnant.why}});
        return array;
    };
    Json json = {{"format", 1}, {"dry_run", look_only}, {"jobs", Json::array()}};
    for (const AbandonedJob& job : jobs)
        json["jobs"].push_back({{"run_id", job.run_id},
                                {"user", job.user},
                                {"run_dir", job.run_dir},
                                {"ended", list(job.ended)},
                                {"left", list(job.left)}});
    json["drain"] =
        drain
            ? Json(
                  {{"command", drain->command}, {"done", drain->done}, {"why_not", drain->why_not}})
            : Json();
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace autolaunch::launcher
