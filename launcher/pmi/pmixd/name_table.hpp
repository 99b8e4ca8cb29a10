#pragma once
#include <pmix.h>
#include <pmix_server.h>

#include <chrono>
#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A copy of what PMIx keeps only for the time of a call.
class PmixInfoCopy {
public:
    explicit PmixInfoCopy(const pmix_info_t& info) {
        PMIX_INFO_CONSTRUCT(&info_);
        PMIX_INFO_XFER(&info_, &info);
    }
    PmixInfoCopy(PmixInfoCopy&& other) noexcept : info_(other.info_) {
        PMIX_INFO_CONSTRUCT(&other.info_);
    }
    PmixInfoCopy(const PmixInfoCopy&) = delete;
    PmixInfoCopy& operator=(const PmixInfoCopy&) = delete;
    ~PmixInfoCopy() { PMIX_INFO_DESTRUCT(&info_); }

    const pmix_info_t& get() const { return info_; }

private:
    pmix_info_t info_;
};

/// What ranks have published by name: MPI_Publish_name's, and how ranks of Open MPI find each other
/// for MPI_Comm_connect and MPI_Comm_accept. For jobs of one node.
///
/// Owner: PmixServer. Threads: the main one. Blocks: never. Answers are called from within its
/// functions, each once.
class NameTable {
public:
    using Clock = std::chrono::steady_clock;
    struct Lookup {
        std::vector<std::string> keys;
        bool waits = false;  ///< for all of them; else what is there is the answer
        std::optional<Clock::time_point> until = {};
        pmix_lookup_cbfunc_t callback = nullptr;
        void* argument = nullptr;
    };

    /// Some of `info` are directives, the rest is data.
    pmix_status_t publish(const pmix_proc_t& owner, std::vector<PmixInfoCopy>&& info);
    void look_up(Lookup&& lookup);
    /// No keys: all that `owner` has published.
    void unpublish(const pmix_proc_t& owner, const std::vector<std::string>& keys);

    /// When the next lookup gives up; nothing: none will.
    std::optional<Clock::time_point> next_deadline() const;
    void give_up_late(Clock::time_point now);
    /// The job is over.
    void answer_all();

private:
    struct Entry {
        pmix_proc_t owner;
        PmixInfoCopy info;
        bool only_once = false;  ///< the first reader takes it away
    };
    const Entry* find(const std::string& key) const;
    bool answer(const Lookup& lookup);

    std::list<Entry> entries_;
    std::list<Lookup> waiting_;
};

}  // namespace autolaunch::launcher
