#include "run/head_record.hpp"

#include "base/file_system.hpp"
#include "base/owned_folder.hpp"
#include "base/read_at_most.hpp"
#include "control/job_identity.hpp"
#include "exit_codes/exit_codes.hpp"
#include "exit_codes/exit_error.hpp"
#include "run/join_inputs.hpp"
#include "supervise/run_directory.hpp"

#include <autolaunch/error.hpp>

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestRecord = std::size_t{64} << 10;
constexpr char kDoor[] = "door";

// It says where a secret is proved, and with which file: nobody else's. Root may ask any job.
std::string read_own(const fs::path& file) {
    if (::geteuid() == 0)
        return read_at_most(file, kLargestRecord);
    try {
        return OwnedFolder::open(file.parent_path())
            .read(file.filename(), kLargestRecord)
            .value_or(std::string());
    } catch (const SystemError&) {
        throw;
    } catch (const Error& error) {
        throw ExitError(exit_code::kNoInput, error.code(), error.what(),
                        "name a run directory of your own");
    }
}

HeadRecord parse(const fs::path& file) { return parse_head_record(read_own(file), file.string()); }

// Where many look for a job by its id, another user's folder is none that is meant.
std::optional<HeadRecord> parse_if_ours(const fs::path& file) {
    try {
        return parse(file);
    } catch (const Error&) {
        return std::nullopt;
    }
}

std::optional<fs::path> record_in(const fs::path& folder) {
    std::error_code error;
    const fs::path file = folder / RunDirectory::kHeadFile;
    return fs::is_regular_file(file, error) ? std::optional(file) : std::nullopt;
}

}  // namespace

std::string door_of(const fs::path& sockets) { return (sockets / kDoor).string(); }

std::string head_record(const Joined& joined, const JobSpec& spec, const LaunchPlan& plan,
                        const fs::path& sockets) {
    HeadRecord record;
    record.run_id = plan.run_id;
    record.hostname = plan.hostname;
    record.door = door_of(sockets);
    record.identity = joined.identity;
    for (const std::string& host :
         {joined.summary.head_address,
          joined.roster.nodes.at(static_cast<std::size_t>(joined.member->head_node())).name,
          plan.hostname})
        if (!host.empty())
            record.hosts.push_back(host);
    if (joined.door)
        record.ports = {joined.door->port()};
    record.shared_directory = shared_directory_of(spec);
    record.secret_file = spec.rendezvous.secret_file;
    record.lost_after = spec.rendezvous.lost_after;
    return to_json(record);
}

std::vector<HostName> hosts_of_head(const JobSpec& spec, const std::string& identity) {
    std::error_code error;
    std::vector<fs::path> folders;
    if (!spec.run_dir.empty())
        folders.push_back(spec.run_dir);
    else
        folders = list_folder(shared_directory_of(spec), error);
    std::vector<HostName> hosts;
    fs::file_time_type newest = fs::file_time_type::min();
    for (const fs::path& folder : folders)
        try {
            const auto file = record_in(folder);
            if (!file)
                continue;
            const HeadRecord record = parse(*file);
            const auto written = fs::last_write_time(*file, error);
            if (record.identity != identity || (!hosts.empty() && written <= newest))
                continue;
            newest = written;
            hosts.clear();
            for (const std::string& host : record.hosts)
                hosts.push_back({host, "the head's place by " + file->string(), false});
        } catch (const Error&) {
            // Of no job that can be found.
        }
    return hosts;
}

FoundHead find_head(const std::string& job) {
    const fs::path runs = "runs";
    for (const fs::path& folder : {fs::path(job), runs / job})
        if (const auto file = record_in(folder))
            return {parse(*file), folder.string()};
    std::error_code error;
    for (const fs::path& folder : list_folder(runs, error))
        if (const auto file = record_in(folder))
            if (const auto record = parse_if_ours(*file); record && record->run_id == job)
                return {*record, folder.string()};
    throw ExitError(exit_code::kNoInput, ErrorCode::invalid_argument,
                    job + " is no run directory of a job, nor the name or id of one in runs/",
                    "give the folder that has the job's head.json and events.jsonl");
}

}  // namespace autolaunch::launcher
