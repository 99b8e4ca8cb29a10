#pragma once
#include "base/unique_fd.hpp"
#include "pmi/mpi_service.hpp"
#include "pmi/pmi1_port.hpp"
#include "pmi/pmi1_table.hpp"

#include <asio/posix/stream_descriptor.hpp>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// Speaks PMI-1 to this node's ranks, each over a socket pair of its own, or, where PMI-1 is only
/// offered (MpiJob::offered), over connections to a port; a barrier goes through Member's fence.
class Pmi1Service final : public MpiService {
public:
    /// Throws SystemError.
    Pmi1Service(asio::io_context& io, const MpiJob& job, Member& member, Handlers handlers);
    ~Pmi1Service() override;

    void await_ready(Deadline) override {}
    MpiRankStart start_of(int local_rank) override;
    void was_started(int local_rank) override;
    std::optional<Fault> fault_of(int local_rank) override;
    Departure departure(int local_rank) override;
    bool has_connected(int local_rank) override;
    /// Where it is offered: its number on the loopback.
    int port() const { return port_ ? port_->number() : 0; }

private:
    struct Link {
        Link(asio::io_context& io) : socket(io) {}
        asio::posix::stream_descriptor socket;  ///< ours
        UniqueFd of_rank;                       ///< until the rank has it
        std::string received, unsent;
    };

    void make_pairs();
    void open_port();
    void adopt(int rank, UniqueFd socket, const std::string& received);
    void read_later(int local_rank);
    void receive(int local_rank);
    void handle_lines(int local_rank);
    void act(int local_rank, const Pmi1Table::Outcome& outcome);
    void send(int local_rank, const std::string& line);
    void drop(int local_rank, const std::string& why);
    void fence();
    void fail(int rank, const Fault& fault);
    void call_later(std::function<void()> handler);
    Link& link(int local_rank) { return links_[static_cast<std::size_t>(local_rank)]; }
    int rank_of(int local_rank) const {
        return job_.roster.first_rank(job_.roster.self) + local_rank;
    }

    asio::io_context& io_;
    MpiJob job_;
    Member& member_;
    Handlers handlers_;
    int local_size_;
    Pmi1Table table_;
    std::deque<Link> links_;
    std::optional<Pmi1Port> port_;
    int barriers_ = 0;
    const std::chrono::system_clock::time_point started_at_ = std::chrono::system_clock::now();
    std::map<int, Fault> faults_;       ///< by rank
    std::optional<int> left_silently_;  ///< the first rank that ended without MPI_Init
    std::shared_ptr<int> alive_ =
        std::make_shared<int>(0);  ///< what is posted, or waits in Member, checks it
};

}  // namespace autolaunch::launcher
