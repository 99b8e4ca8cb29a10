#include "pmi/offered_service.hpp"

#include "pmi/pmix_offer.hpp"

#include <autolaunch/error.hpp>

#include <asio/post.hpp>

#include <string>
#include <vector>

namespace autolaunch::launcher {

OfferedService::OfferedService(asio::io_context& io, const MpiJob& job, Member& member,
                               const Handlers& handlers)
    : job_(job) {
    try {
        pmi1_ = std::make_unique<Pmi1Service>(io, job, member, handlers);
        if (can_offer_pmix(job.environment))
            pmix_ = std::make_unique<PmixService>(io, job, member, handlers);
    } catch (const Error& error) {
        asio::post(io, [warn = handlers.on_warning, what = std::string(error.what()),
                        alive = std::weak_ptr(alive_)] {
            if (!alive.expired())
                warn("MPI cannot be offered to ranks in every form: " + what);
        });
    }
}

MpiRankStart OfferedService::start_of(int local_rank) {
    const MpiPlace place{
        .rank = job_.roster.first_rank(job_.roster.self) + local_rank,
        .world_size = job_.roster.world_size(),
        .local_rank = local_rank,
        .local_size = job_.roster.nodes.at(static_cast<std::size_t>(job_.roster.self)).ranks};
    if (!pmi1_)
        return {};
    const auto pmix = pmix_ ? pmix_->environment_of(local_rank) : std::vector<std::string>{};
    return {.environment = offered_environment(place, pmix_ ? pmix_->node() : OpenMpiNode{}, pmix,
                                               pmi1_->port()),
            .inherited_fd = {}};
}

std::optional<MpiService::Fault> OfferedService::fault_of(int local_rank) {
    if (pmix_)
        if (auto fault = pmix_->fault_of(local_rank))
            return fault;
    return pmi1_ ? pmi1_->fault_of(local_rank) : std::nullopt;
}

// Each is asked: a rank that leaves without a word is of interest to the one that others wait in.
MpiService::Departure OfferedService::departure(int local_rank) {
    const Departure of_pmi1 = pmi1_ ? pmi1_->departure(local_rank) : Departure{};
    const Departure of_pmix = pmix_ ? pmix_->departure(local_rank) : Departure{};
    return of_pmix.why.empty() ? of_pmi1 : of_pmix;
}

bool OfferedService::has_connected(int local_rank) {
    return (pmix_ && pmix_->has_connected(local_rank)) ||
           (pmi1_ && pmi1_->has_connected(local_rank));
}

}  // namespace autolaunch::launcher
