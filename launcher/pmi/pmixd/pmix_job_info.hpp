#pragma once
#include "pmi/pmixd/pmix_info_list.hpp"
#include "pmi/pmixd_message.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

// What PMIx and its clients are told of the job: the keys of PMIx, and nothing else of it.

/// Ranks are numbered node by node.
class JobRanks {
public:
    explicit JobRanks(const pmixd::Start& job);
    int first(int node) const { return first_[static_cast<std::size_t>(node)]; }
    int world_size() const { return first_.back(); }

private:
    std::vector<int> first_;  ///< one more than there are nodes
};

/// For the files of the job's ranks: Open MPI's session directory and shared memory.
std::string job_directory(const pmixd::Start& job);

void describe_server(const pmixd::Start& job, PmixInfoList& info);
/// Throws Error when PMIx cannot encode the maps.
void describe_job(const pmixd::Start& job, PmixInfoList& info);

}  // namespace autolaunch::launcher
