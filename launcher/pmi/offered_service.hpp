#pragma once
#include "pmi/mpi_service.hpp"
#include "pmi/pmi1_service.hpp"
#include "pmi/pmix_service.hpp"

#include <memory>

namespace autolaunch::launcher {

/// PMIx and PMI-1 for ranks of which nobody knows whether they use MPI: what autolaunch starts is a
/// shell, python, or a wrapper. Each starts when a rank asks for it; until then it is a listening
/// socket and some variables.
class OfferedService final : public MpiService {
public:
    /// What cannot be had, as on a machine without a loopback, is not offered, with a warning.
    OfferedService(asio::io_context& io, const MpiJob& job, Member& member,
                   const Handlers& handlers);

    pid_t helper() const override { return pmix_ ? pmix_->helper() : -1; }
    void await_ready(Deadline) override {}
    MpiRankStart start_of(int local_rank) override;
    void was_started(int) override {}
    std::optional<Fault> fault_of(int local_rank) override;
    Departure departure(int local_rank) override;
    bool has_connected(int local_rank) override;

private:
    MpiJob job_;
    std::unique_ptr<Pmi1Service> pmi1_;                      ///< null: it cannot be had
    std::unique_ptr<PmixService> pmix_;                      ///< the same
    std::shared_ptr<int> alive_ = std::make_shared<int>(0);  ///< what is posted checks it
};

}  // namespace autolaunch::launcher
