#include "pmi/pmixd/pmix_job_info.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace autolaunch::launcher {

namespace {

/// What a PMIx function allocated.
using MallocText = std::unique_ptr<char, decltype(&std::free)>;

MallocText encode_map(pmix_status_t (*encode)(const char*, char**), const std::string& text,
                      const char* what) {
    char* encoded = nullptr;
    const pmix_status_t status = encode(text.c_str(), &encoded);
    if (status != PMIX_SUCCESS)
        throw Error(ErrorCode::system, std::string("PMIx cannot encode the map of ") + what + ": " +
                                           PMIx_Error_string(status));
    return {encoded, &std::free};
}

// "0,1;2,3": the ranks of each node.
std::string rank_map(const pmixd::Start& job) {
    const JobRanks ranks(job);
    std::string map;
    for (std::size_t node = 0; node < job.nodes.size(); ++node) {
        if (node > 0)
            map += ';';
        const int first = ranks.first(static_cast<int>(node));
        for (int rank = first; rank < ranks.first(static_cast<int>(node) + 1); ++rank)
            map += (rank > first ? "," : "") + std::to_string(rank);
    }
    return map;
}

std::string node_map(const pmixd::Start& job) {
    std::string map;
    for (const auto& [name, ranks] : job.nodes)
        map += (map.empty() ? "" : ",") + name;
    return map;
}

void describe_rank(const pmixd::Start& job, int node, int rank, int local_rank,
                   PmixInfoList& info) {
    info.add_rank(PMIX_RANK, static_cast<pmix_rank_t>(rank));
    info.add_rank(PMIX_GLOBAL_RANK, static_cast<pmix_rank_t>(rank));
    info.add_rank(PMIX_APP_RANK, static_cast<pmix_rank_t>(rank));
    info.add_u32(PMIX_APPNUM, 0);
    info.add_u16(PMIX_LOCAL_RANK, static_cast<std::uint16_t>(local_rank));
    info.add_u16(PMIX_NODE_RANK, static_cast<std::uint16_t>(local_rank));
    info.add_u32(PMIX_NODEID, static_cast<std::uint32_t>(node));
    info.add_text(PMIX_HOSTNAME, job.nodes[static_cast<std::size_t>(node)].first);
    if (node == job.node_rank)
        info.add_text(PMIX_PROCDIR, job_directory(job) + '/' + std::to_string(rank));
}

}  // namespace

void PmixInfoList::load(const char* key, const void* value, pmix_data_type_t type) {
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, key, value, type);
    infos_.push_back(info);
}

void PmixInfoList::add_list(const char* key, PmixInfoList& list) {
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_LOAD_KEY(info.key, key);
    pmix_data_array_t* array = nullptr;
    PMIX_DATA_ARRAY_CREATE(array, list.size(), PMIX_INFO);
    std::copy(list.infos_.begin(), list.infos_.end(), static_cast<pmix_info_t*>(array->array));
    list.infos_.clear();
    info.value.type = PMIX_DATA_ARRAY;
    info.value.data.darray = array;
    infos_.push_back(info);
}

JobRanks::JobRanks(const pmixd::Start& job) : first_{0} {
    for (const auto& [name, ranks] : job.nodes)
        first_.push_back(first_.back() + ranks);
}

std::string job_directory(const pmixd::Start& job) { return job.directory + "/job"; }

void describe_server(const pmixd::Start& job, PmixInfoList& info) {
    info.add_text(PMIX_SERVER_TMPDIR, job.directory);
    info.add_text(PMIX_SYSTEM_TMPDIR, job.directory);
    info.add_text(PMIX_SERVER_NSPACE, job.name_space + ".pmixd");
    info.add_rank(PMIX_SERVER_RANK, static_cast<pmix_rank_t>(job.node_rank));
    info.add_text(PMIX_HOSTNAME, job.nodes.at(static_cast<std::size_t>(job.node_rank)).first);
}

void describe_job(const pmixd::Start& job, PmixInfoList& info) {
    const JobRanks ranks(job);
    const auto world_size = static_cast<std::uint32_t>(ranks.world_size());
    info.add_regex(PMIX_NODE_MAP, encode_map(PMIx_generate_regex, node_map(job), "nodes").get());
    info.add_regex(PMIX_PROC_MAP, encode_map(PMIx_generate_ppn, rank_map(job), "ranks").get());
    info.add_u32(PMIX_JOB_SIZE, world_size);
    info.add_u32(PMIX_UNIV_SIZE, world_size);
    info.add_u32(PMIX_MAX_PROCS, world_size);
    info.add_u32(PMIX_JOB_NUM_APPS, 1);
    info.add_text(PMIX_JOBID, job.name_space);
    info.add_text(PMIX_TMPDIR, job.directory);
    info.add_text(PMIX_NSDIR, job_directory(job));
    info.add_bool(PMIX_TDIR_RMCLEAN, true);  // we remove them; a rank that is killed cannot
    for (int node = 0; node < static_cast<int>(job.nodes.size()); ++node)
        for (int rank = ranks.first(node); rank < ranks.first(node + 1); ++rank) {
            PmixInfoList of_rank;
            describe_rank(job, node, rank, rank - ranks.first(node), of_rank);
            info.add_list(PMIX_PROC_DATA, of_rank);
        }
}

}  // namespace autolaunch::launcher
