#pragma once
#include "pmi/pmixd_message.hpp"

#include <pmix.h>
#include <pmix_server.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// What PMIx and its clients are told of the job: the keys of PMIx, and nothing else of it.

/// An array of pmix_info_t, made key by key. Owns the values.
class PmixInfoList {
public:
    PmixInfoList() = default;
    PmixInfoList(const PmixInfoList&) = delete;
    PmixInfoList& operator=(const PmixInfoList&) = delete;
    ~PmixInfoList() {
        for (pmix_info_t& info : infos_)
            PMIX_INFO_DESTRUCT(&info);
    }

    void add_text(const char* key, const std::string& text) {
        load(key, text.c_str(), PMIX_STRING);
    }
    void add_regex(const char* key, const char* regex) { load(key, regex, PMIX_REGEX); }
    void add_u16(const char* key, std::uint16_t value) { load(key, &value, PMIX_UINT16); }
    void add_u32(const char* key, std::uint32_t value) { load(key, &value, PMIX_UINT32); }
    void add_rank(const char* key, pmix_rank_t value) { load(key, &value, PMIX_PROC_RANK); }
    void add_bool(const char* key, bool value) { load(key, &value, PMIX_BOOL); }
    /// `list` becomes one value; it is empty afterwards.
    void add_list(const char* key, PmixInfoList& list);

    pmix_info_t* data() { return infos_.data(); }
    std::size_t size() const { return infos_.size(); }

private:
    void load(const char* key, const void* value, pmix_data_type_t type);
    std::vector<pmix_info_t> infos_;  // plain C: may be moved byte by byte
};

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
