#include "pmi/mpi_service.hpp"

#include "pmi/offered_service.hpp"
#include "pmi/pmi1_service.hpp"
#include "pmi/pmix_service.hpp"

#include <utility>

namespace autolaunch::launcher {

std::unique_ptr<MpiService> start_mpi_service(asio::io_context& io, MpiMode mode, const MpiJob& job,
                                              Member& member, MpiService::Handlers handlers) {
    if (mode == MpiMode::pmi1)
        return std::make_unique<Pmi1Service>(io, job, member, std::move(handlers));
    if (mode == MpiMode::offered) {
        MpiJob offered = job;
        offered.offered = true;
        return std::make_unique<OfferedService>(io, offered, member, handlers);
    }
    return std::make_unique<PmixService>(io, job, member, std::move(handlers));
}

}  // namespace autolaunch::launcher
