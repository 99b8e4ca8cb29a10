#include "pmi/pmix_service.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "pmi/pmix_relay.hpp"

#include <autolaunch/error.hpp>

#include <asio/post.hpp>

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

// What the helper itself starts from. PMIx reads its own settings (PMIX_MCA_*); what an outer
// launcher said of us is not for it.
std::vector<std::string> helper_environment(const std::vector<std::string>& environment) {
    return with_mpi(environment, {});
}

fs::path pmixd_program(const std::vector<std::string>& environment) {
    fs::path program = find_pmixd(environment);
    if (program.empty())
        throw Error(ErrorCode::unsupported, "the ranks need PMIx, and there is no autolaunch-pmixd",
                    "build autolaunch with AUTOLAUNCH_WITH_PMIX=ON, or set trainer.mpi to none");
    return program;
}

// A network that MPI libraries drive themselves: InfiniBand, RoCE, Omni-Path, EFA (verbs devices)
// or Slingshot.
bool has_fabric(const fs::path& sysfs) {
    for (const char* device_class : {"class/infiniband", "class/cxi"}) {
        std::error_code missing;
        if (!list_folder(sysfs / device_class, missing).empty())
            return true;
    }
    return false;
}

// The user's own Open MPI parameter file, $HOME/.openmpi/mca-params.conf, names transports (pml,
// btl or mtl).
bool user_names_transport(const std::vector<std::string>& environment) {
    constexpr std::string_view kHome = "HOME=";
    for (const std::string& variable : environment) {
        if (!variable.starts_with(kHome))
            continue;
        try {
            for (const auto& line : split(read_file(fs::path(variable.substr(kHome.size())) /
                                                    ".openmpi/mca-params.conf"),
                                          '\n')) {
                const std::string_view key = trim(std::string_view(line).substr(0, line.find('=')));
                if (key == "pml" || key == "btl" || key == "mtl")
                    return true;
            }
        } catch (const Error&) {  // there is none
        }
    }
    return false;
}

// On a file system that never writes to a disk.
bool is_in_memory(const fs::path& path) {
    struct statfs system {};
    return ::statfs(path.c_str(), &system) == 0 && system.f_type == TMPFS_MAGIC;
}

}  // namespace

PmixService::PmixService(asio::io_context& io, const MpiJob& job, Member& member, Handlers handlers)
    : io_(io),
      job_(job),
      member_(member),
      handlers_(std::move(handlers)),
      directory_(job.directory),
      pmixd_(std::make_unique<PmixdProcess>(
          io, pmixd_program(job.environment), helper_environment(job.environment), job.log,
          PmixdProcess::Handlers{
              [this](pmixd::Message&& message) { on_message(std::move(message)); },
              [this](const std::string& why) { handlers_.on_broken(why); }})) {
    pmixd::Start start{
        .directory = directory_.path(),
        .name_space = job_.job_name + '.' + std::to_string(job_.generation) + '.' + job_.secret,
        .node_rank = job_.roster.self,
        .nodes = {}};
    const auto labels = node_labels(job_.roster);
    for (std::size_t node = 0; node < labels.size(); ++node)
        start.nodes.emplace_back(labels[node], job_.roster.nodes[node].ranks);
    pmixd_->send(start);
    node_ = {.shared_memory = find_shared_memory(),
             .has_fabric = has_fabric("/sys"),
             .user_transport = user_names_transport(job_.environment),
             .cores = job_.cores};
    member_.on_relay(control::RelayChannel::pmix, job_.generation,
                     [this, alive = std::weak_ptr(alive_)](int source, std::string_view bytes) {
                         if (!alive.expired())
                             on_relay(source, bytes);
                     });
}

PmixService::~PmixService() {
    member_.on_relay(control::RelayChannel::pmix, job_.generation, nullptr);
}

// Open MPI names its segments by a short hash of the job and keeps them in /dev/shm: two jobs may
// get each other's.
fs::path PmixService::find_shared_memory() {
    if (is_in_memory(directory_.path()))
        return directory_.path() / "job";
    const std::string unique = directory_.path().parent_path().filename().string() + '-' +
                               directory_.path().filename().string();
    try {
        return shared_memory_.emplace(fs::path("/dev/shm") / unique).path();
    } catch (const SystemError&) {
        return {};  // there is no /dev/shm for us: Open MPI finds a place
    }
}

void PmixService::await_ready(Deadline deadline) {
    environments_ = pmixd_->await_ready(deadline).environments;
}

MpiRankStart PmixService::start_of(int local_rank) {
    const MpiPlace place{.rank = first_rank() + local_rank,
                         .world_size = job_.roster.world_size(),
                         .local_rank = local_rank,
                         .local_size = static_cast<int>(environments_.size())};
    const auto& pmix = environments_.at(static_cast<std::size_t>(local_rank));
    return {.environment = open_mpi_environment(place, node_, pmix), .inherited_fd = {}};
}

// PMIx lets a rank go on only after we could hear of it.
std::optional<MpiService::Fault> PmixService::fault_of(int local_rank) {
    pmixd_->receive();
    const auto found = faults_.find(first_rank() + local_rank);
    return found == faults_.end() ? std::nullopt : std::optional(found->second);
}

void PmixService::fail(int rank, const Fault& fault) {
    faults_.emplace(rank, fault);
    call_later([this, rank, fault] { handlers_.on_rank_failed(rank, fault); });
}

// A rank that leaves between MPI_Init and MPI_Finalize leaves the others in a fence for ever. One
// that never came is no fault by itself: it may not use MPI after all.
MpiService::Departure PmixService::departure(int local_rank) {
    pmixd_->receive();
    const int rank = first_rank() + local_rank;
    if (finalized_.contains(rank))
        return {};
    if (connected_.contains(rank))
        return {"ended without MPI_Finalize", true};
    if (!connected_.empty())
        return {"ended without MPI_Init, for which the other ranks wait", true};
    if (job_.asked_for)
        return {
            "ended without MPI_Init through PMIx: it was rank 0 of 1, or used no MPI at all "
            "(trainer.mpi is pmix)",
            true};
    if (left_silently_)
        return {};  // one warning for all
    left_silently_ = rank;
    return {"ended and never used the PMIx that it was given: if it used MPI, it was rank 0 of 1",
            false};
}

void PmixService::call_later(std::function<void()> handler) {
    asio::post(io_, [handler = std::move(handler), alive = std::weak_ptr(alive_)] {
        if (!alive.expired())
            handler();
    });
}

void PmixService::on_message(pmixd::Message&& message) {
    if (auto* fence = std::get_if<pmixd::Fence>(&message))
        return on(std::move(*fence));
    if (const auto* request = std::get_if<pmixd::ModexRequest>(&message))
        return on(*request);
    if (auto* answer = std::get_if<pmixd::ModexAnswer>(&message))
        return on(std::move(*answer));
    if (const auto* rank = std::get_if<pmixd::Connected>(&message))
        on(*rank);
    if (const auto* rank = std::get_if<pmixd::Finalized>(&message))
        finalized_.insert(rank->rank);
    if (const auto* log = std::get_if<pmixd::Log>(&message))
        call_later([this, text = log->text] { handlers_.on_warning("MPI: " + text); });
    if (const auto* failed = std::get_if<pmixd::Failed>(&message))
        call_later([this, what = failed->what] {
            handlers_.on_broken("autolaunch's own helper autolaunch-pmixd gave up: " + what);
        });
    if (const auto* aborted = std::get_if<pmixd::Aborted>(&message))
        fail(aborted->rank, {"called MPI_Abort with error code " + std::to_string(aborted->status),
                             aborted->status, true});
}

void PmixService::on(const pmixd::Connected& connected) {
    connected_.insert(connected.rank);
    if (!left_silently_)
        return;
    fail(connected.rank,
         {"waits in MPI_Init for rank " + std::to_string(*left_silently_) + ", which has ended"});
}

void PmixService::on(pmixd::Fence&& fence) {
    const std::vector<int> nodes = nodes_of(fence.ranks);
    std::sort(fence.ranks.begin(), fence.ranks.end());
    const std::string set =
        hex64(hash64(fence.ranks.data(), fence.ranks.size() * sizeof(std::uint32_t)));
    const std::string name = "pmix/" + set + '/' + std::to_string(fences_[set]++);
    const auto over = [this, call = fence.call, alive = std::weak_ptr(alive_)](auto&& blobs) {
        if (alive.expired())
            return;
        pmixd::FenceDone done{call, true, {}};
        for (const auto& [node, blob] : blobs)
            done.blob += blob;
        try {
            pmixd_->send(done);
        } catch (const Error& error) {
            give_up_fence(call, error.what());
        }
    };
    try {
        member_.fence(job_.generation, name, nodes, std::move(fence.blob), over);
    } catch (const Error& error) {
        give_up_fence(fence.call, error.what());
    }
}

// Its ranks see MPI_Init fail. The usual reason is more data than a message may hold.
void PmixService::give_up_fence(std::uint64_t call, const std::string& why) {
    call_later([this, why] {
        handlers_.on_warning("what MPI ranks publish cannot be exchanged: " + why);
    });
    pmixd_->send(pmixd::FenceDone{call, false, {}});
}

void PmixService::on(const pmixd::ModexRequest& request) {
    const int node = node_of(request.rank);
    if (node < 0 || node == job_.roster.self)
        return pmixd_->send(pmixd::ModexDone{request.call, false, {}});
    member_.relay(control::RelayChannel::pmix, job_.generation, node,
                  encode_relay(ModexQuestion{request.call, request.rank}));
}

void PmixService::on(pmixd::ModexAnswer&& answer) {
    const auto asked = questions_.extract(answer.call);
    if (asked.empty())
        return;
    const auto& [node, call] = asked.mapped();
    try {
        member_.relay(control::RelayChannel::pmix, job_.generation, node,
                      encode_relay(ModexReply{call, answer.good, std::move(answer.blob)}));
    } catch (const Error&) {  // too long for a message
        member_.relay(control::RelayChannel::pmix, job_.generation, node,
                      encode_relay(ModexReply{call, false, {}}));
    }
}

// Bytes that make no sense come from an agent of another version at worst: the rank that asked
// waits in vain, and is told so by its own timeout.
void PmixService::on_relay(int source, std::string_view bytes) {
    const auto message = decode_relay(bytes);
    if (!message)
        return handlers_.on_warning("a message about MPI ranks from node " +
                                    std::to_string(source) + " cannot be read");
    if (const auto* question = std::get_if<ModexQuestion>(&*message)) {
        questions_.emplace(++last_question_, std::pair(source, question->call));
        pmixd_->send(pmixd::ModexQuery{last_question_, question->rank});
    } else if (const auto* reply = std::get_if<ModexReply>(&*message)) {
        pmixd_->send(pmixd::ModexDone{reply->call, reply->good, reply->blob});
    }
}

int PmixService::node_of(int rank) const {
    const int nodes = static_cast<int>(job_.roster.nodes.size());
    int first = 0;
    for (int node = 0; node < nodes; ++node) {
        first += job_.roster.nodes[static_cast<std::size_t>(node)].ranks;
        if (rank >= 0 && rank < first)
            return node;
    }
    return -1;
}

std::vector<int> PmixService::nodes_of(const std::vector<std::uint32_t>& ranks) const {
    std::set<int> nodes;
    for (const std::uint32_t rank : ranks)
        if (const int node = node_of(static_cast<int>(rank)); node >= 0)
            nodes.insert(node);
    if (ranks.empty())
        for (int node = 0; node < static_cast<int>(job_.roster.nodes.size()); ++node)
            nodes.insert(node);
    return {nodes.begin(), nodes.end()};
}

}  // namespace autolaunch::launcher
