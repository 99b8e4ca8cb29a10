#include "run/head_record.hpp"

#include "base/file_system.hpp"
#include "base/json_nesting.hpp"
#include "base/owned_folder.hpp"
#include "base/read_at_most.hpp"
#include "control/job_identity.hpp"
#include "exit_codes/exit_codes.hpp"
#include "exit_codes/exit_error.hpp"
#include "run/join_inputs.hpp"
#include "supervise/run_directory.hpp"

#include <autolaunch/error.hpp>

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kLargestRecord = std::size_t{64} << 10;
constexpr int kVersion = 1, kDeepest = 4;
constexpr std::uint64_t kLongestMs = std::uint64_t{1} << 40;
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

HeadRecord parse(const fs::path& file) {
    const std::string text = read_own(file);
    const Json json =
        nests_at_most(text, kDeepest) ? Json::parse(text, nullptr, false) : Json::object();
    if (json.is_discarded() || !json.is_object() || json.empty())
        throw Error(ErrorCode::corrupt, file.string() + " is damaged");
    try {
        if (json.at("version").get<int>() != kVersion)
            throw Error(ErrorCode::mismatch,
                        file.string() + " is of another version of autolaunch");
        HeadRecord record;
        json.at("run_id").get_to(record.run_id);
        json.at("hostname").get_to(record.hostname);
        json.at("door").get_to(record.door);
        json.at("identity").get_to(record.identity);
        json.at("hosts").get_to(record.hosts);
        json.at("ports").get_to(record.ports);
        json.at("shared_directory").get_to(record.shared_directory);
        json.at("secret_file").get_to(record.secret_file);
        const Json& lost_after = json.at("lost_after_ms");
        if (!lost_after.is_number_unsigned() || lost_after.get<std::uint64_t>() > kLongestMs)
            throw Error(ErrorCode::corrupt, file.string() + " is damaged: lost_after_ms");
        record.lost_after = std::chrono::milliseconds(lost_after.get<std::int64_t>());
        return record;
    } catch (const Json::exception& error) {
        throw Error(ErrorCode::corrupt, file.string() + " is damaged: " + error.what());
    }
}

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
    Json hosts = Json::array();
    for (const std::string& host :
         {joined.summary.head_address,
          joined.roster.nodes.at(static_cast<std::size_t>(joined.member->head_node())).name,
          plan.hostname})
        if (!host.empty())
            hosts.push_back(host);
    return Json{{"version", kVersion},
                {"run_id", plan.run_id},
                {"hostname", plan.hostname},
                {"door", door_of(sockets)},
                {"identity", joined.identity},
                {"hosts", hosts},
                {"ports", joined.door ? std::vector<std::uint16_t>{joined.door->port()}
                                      : std::vector<std::uint16_t>{}},
                {"shared_directory", shared_directory_of(spec)},
                {"secret_file", spec.rendezvous.secret_file},
                {"lost_after_ms", spec.rendezvous.lost_after.count()}}
               .dump(2) +
           '\n';
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
