#pragma once
#include "base/deadline.hpp"
#include "base/locked_folder.hpp"
#include "pmi/mpi_service.hpp"
#include "pmi/open_mpi_node.hpp"
#include "pmi/pmixd_process.hpp"

#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// Serves PMIx through an autolaunch-pmixd of its own. What that one asks for beyond this node goes
/// through Member: a fence becomes Member's fence, a direct modex a question and an answer on the
/// channel pmix.
///
/// Where PMIx is only offered (MpiJob::offered), there is a listening socket and nothing else until
/// a rank connects to it, or another node asks; autolaunch-pmixd then gets the socket.
class PmixService final : public MpiService {
public:
    PmixService(asio::io_context& io, const MpiJob& job, Member& member, Handlers handlers);
    ~PmixService() override;

    pid_t helper() const override { return pmixd_ ? pmixd_->pid() : -1; }

    void await_ready(Deadline deadline) override;
    MpiRankStart start_of(int local_rank) override;
    void was_started(int) override {}
    std::optional<Fault> fault_of(int local_rank) override;
    Departure departure(int local_rank) override;
    bool has_connected(int local_rank) override;
    /// For a rank, besides what is in OpenMpiNode: where the server is, or will be.
    const std::vector<std::string>& environment_of(int local_rank) const {
        return environments_.at(static_cast<std::size_t>(local_rank));
    }
    const OpenMpiNode& node() const { return node_; }

private:
    std::filesystem::path make_segment_folder();
    void start_pmixd(int listener);
    void listen();
    void start_when_asked();
    void start_now();
    void check(const pmixd::Ready& ready);
    void receive();
    void on_message(pmixd::Message&& message);
    void on(const pmixd::Connected& rank);
    void on(pmixd::Fence&& fence);
    void give_up_fence(std::uint64_t call, const std::string& why);
    void on(const pmixd::ModexRequest& request);
    void on(pmixd::ModexAnswer&& answer);
    void on_relay(int source, std::string_view bytes);
    void await_finalize(int rank);
    void fail(int rank, const Fault& fault);
    void call_later(std::function<void()> handler);
    std::vector<int> nodes_of(const std::vector<std::uint32_t>& ranks) const;
    int node_of(int rank) const;
    int first_rank() const { return job_.roster.first_rank(job_.roster.self); }

    asio::io_context& io_;
    MpiJob job_;
    Member& member_;
    Handlers handlers_;
    std::string name_space_;
    LockedFolder directory_;
    std::optional<LockedFolder> shared_memory_;  ///< where `directory_` is on a disk
    asio::posix::stream_descriptor listener_;    ///< until autolaunch-pmixd has it
    asio::steady_timer start_timer_;
    OpenMpiNode node_;
    std::vector<std::vector<std::string>>
        environments_;  ///< by local rank, from autolaunch-pmixd or foreseen
    std::set<int> connected_, finalized_;
    std::chrono::milliseconds patience_{2000};  ///< for those that come after their rank's end
    std::map<int, Fault> faults_;               ///< by rank
    std::optional<int> left_silently_;          ///< the first rank that ended without MPI_Init
    std::map<std::string, int> fences_;         ///< how many there were of each set of ranks
    std::map<std::uint64_t, std::pair<int, std::uint64_t>>
        questions_;  ///< ours to pmixd: who asked, and under what number
    std::uint64_t last_question_ = 0;
    std::shared_ptr<int> alive_ =
        std::make_shared<int>(0);          ///< what is posted, or waits in Member, checks it
    std::unique_ptr<PmixdProcess> pmixd_;  ///< last: it ends first
};

}  // namespace autolaunch::launcher
