#include "generation/mpi_ranks.hpp"

#include "base/hash.hpp"
#include "base/owned_folder.hpp"
#include "exit_codes/exit_codes.hpp"
#include "logs/rank_files.hpp"
#include "plan/oversubscription.hpp"

#include <csignal>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr auto kOwnEndTimeout = std::chrono::seconds(2);
constexpr int kFailed = 1;  // what mpirun, too, makes of a 0 that cannot be meant

MpiJob describe(const MpiRanks::Context& context) {
    const std::string number = std::to_string(context.generation);
    MpiJob job;
    job.roster = context.roster;
    job.generation = context.generation;
    job.secret = context.secret;
    job.job_name =
        "autolaunch-" + hex64(hash64(context.plan.run_id.data(), context.plan.run_id.size()));
    job.directory = context.socket_directory / ("mpi-" + number);
    const auto folder = rank_directory(context.plan.run_dir, context.generation, 0).parent_path();
    OwnedFolder::make(folder.parent_path()).folder(folder.filename());
    job.log = folder / ("pmixd-" + std::to_string(context.roster.self) + ".log");
    job.oversubscribed = !describe_oversubscription(context.plan).empty();
    job.environment = context.environment;
    job.asked_for = context.plan.mpi.asked_for;
    return job;
}

// 256, and every other code of which the system keeps only eight zero bits, is no success.
int exit_code_of(int mpi_code) { return (mpi_code & 0xFF) != 0 ? mpi_code & 0xFF : kFailed; }

}  // namespace

MpiRanks::MpiRanks(const Context& context, Deadline deadline, Callbacks callbacks)
    : io_(context.io),
      callbacks_(std::move(callbacks)),
      running_(context.plan.ranks.size()),
      service_(start_mpi_service(
          context.io, context.plan.mpi.mode, describe(context), context.member,
          {.on_rank_failed = [this](int rank,
                                    const MpiService::Fault& fault) { on_fault(rank, fault); },
           .on_broken =
               [this](const std::string& why) {
                   if (over_)
                       return;
                   broken_ = true;
                   callbacks_.warn("MPI ranks cannot go on: " + why);
                   callbacks_.kill_all();
               },
           .on_warning = [this](const std::string& text) { callbacks_.warn(text); }})) {
    service_->await_ready(deadline);
    watch_.emplace(
        io_, *service_,
        MpiWatch::Program{.environment = context.environment,
                          .has_mpi = context.plan.mpi.mode != MpiMode::offered},
        MpiWatch::Handlers{
            .on_fault = [this](int rank, const MpiService::Fault& fault) { on_fault(rank, fault); },
            .warn = [this](const std::string& text) { callbacks_.warn(text); }});
}

void MpiRanks::prepare(int local_rank, ChildSpec& spec) {
    const MpiRankStart start = service_->start_of(local_rank);
    spec.environment = with_mpi(std::move(spec.environment), start.environment);
    spec.inherited_fd = start.inherited_fd;
    watch_->set_identity({.name_space = start.environment.identity_value("PMIX_NAMESPACE"),
                          .port = start.environment.identity_value("PMI_PORT"),
                          .fd = start.environment.identity_value("PMI_FD")});
}

void MpiRanks::was_started(int rank, int local_rank, pid_t pid) {
    service_->was_started(local_rank);
    if (pid > 0)
        watch_->add({.rank = rank, .local_rank = local_rank, .pid = pid});
}

// False when it is known, or of no interest.
bool MpiRanks::note(int rank, const MpiService::Fault& fault) {
    if (over_ || !faults_.emplace(rank, fault).second)
        return false;
    callbacks_.warn("rank " + std::to_string(rank) + ' ' + fault.why);
    return true;
}

void MpiRanks::on_fault(int rank, const MpiService::Fault& fault) {
    if (!note(rank, fault))
        return;
    if (!fault.ends_by_itself)
        return callbacks_.kill(rank);
    asio::steady_timer& timer = patience_.emplace_back(io_, kOwnEndTimeout);
    timer.async_wait([this, rank, alive = std::weak_ptr(alive_)](const std::error_code& error) {
        if (!error && !alive.expired())
            callbacks_.kill(rank);
    });
}

std::string MpiRanks::fault_of(int rank) const {
    const auto found = faults_.find(rank);
    return found == faults_.end() ? std::string() : found->second.why;
}

void MpiRanks::correct(RankExited& end) {
    watch_->ended(end.rank);
    if (const auto fault = service_->fault_of(end.local_rank))
        note(end.rank, *fault);
    const auto failed = faults_.find(end.rank);
    if (broken_ && failed == faults_.end() && end.signal == SIGKILL) {  // it was ours
        end.signal.reset();
        end.exit_code = exit_code::kSystem;
    }
    if (failed != faults_.end()) {
        if (end.signal == SIGKILL || end.exit_code == 0) {
            end.signal.reset();
            end.exit_code = exit_code_of(failed->second.exit_code);
        }
    } else if (end.exit_code == 0 && !end.asked_to_stop) {
        const MpiService::Departure departure = service_->departure(end.local_rank);
        if (!departure.why.empty())
            callbacks_.warn("rank " + std::to_string(end.rank) + ' ' + departure.why);
        if (departure.fatal) {
            faults_[end.rank].why = departure.why;
            end.exit_code = kFailed;
        }
    }
    over_ = over_ || end.exit_code != 0 || --running_ == 0;
}

}  // namespace autolaunch::launcher
