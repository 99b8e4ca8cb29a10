#include "pmi/pmix_service.hpp"

#include "base/hash.hpp"
#include "pmi/pmix_offer.hpp"
#include "pmi/pmix_relay.hpp"

#include <autolaunch/error.hpp>

#include <asio/post.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
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

constexpr auto kStartTimeout = std::chrono::seconds(30);

// A socket of the loopback that waits for a first connection; PMIx itself listens nowhere else.
UniqueFd loopback_listener(std::uint16_t& port) {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (!socket || ::bind(socket.get(), generic, bytes) != 0 ||
        ::listen(socket.get(), SOMAXCONN) != 0 || ::getsockname(socket.get(), generic, &bytes) != 0)
        throw SystemError(errno, "listen on the loopback for MPI ranks");
    port = ntohs(address.sin_port);
    return socket;
}

}  // namespace

PmixService::PmixService(asio::io_context& io, const MpiJob& job, Member& member, Handlers handlers)
    : io_(io),
      job_(job),
      member_(member),
      handlers_(std::move(handlers)),
      name_space_(job_.job_name + '.' + std::to_string(job_.generation) + '.' + job_.secret),
      directory_(job_.directory),
      listener_(io),
      start_timer_(io),
      node_(look_for_open_mpi(job_)) {
    node_.shared_memory = make_segment_folder();
    if (job_.offered)
        listen();
    else
        start_pmixd(-1);
    member_.on_relay(control::RelayChannel::pmix, job_.generation,
                     [this, alive = std::weak_ptr(alive_)](int source, std::string_view bytes) {
                         if (!alive.expired())
                             on_relay(source, bytes);
                     });
}

PmixService::~PmixService() {
    member_.on_relay(control::RelayChannel::pmix, job_.generation, nullptr);
}

// It is there from the start: an mpirun that a rank starts, or a program that is rank 0 of 1, takes
// the setting too, and has no server of ours that would make it.
fs::path PmixService::make_segment_folder() {
    const SegmentFolder segments = find_segment_folder(job_.directory);
    try {
        if (segments.is_own)
            shared_memory_.emplace(segments.path);
        else if (!segments.path.empty() && ::mkdir(segments.path.c_str(), 0700) != 0)
            return {};
    } catch (const SystemError&) {  // not for us: Open MPI finds a place
        return {};
    }
    return segments.path;
}

// -1: it makes its own listener.
void PmixService::start_pmixd(int listener) {
    pmixd_ = std::make_unique<PmixdProcess>(
        io_, pmixd_program(job_.environment), helper_environment(job_.environment), job_.log,
        listener,
        PmixdProcess::Handlers{[this](pmixd::Message&& message) { on_message(std::move(message)); },
                               [this](const std::string& why) { handlers_.on_broken(why); }});
    pmixd::Start start{.directory = directory_.path(),
                       .name_space = name_space_,
                       .node_rank = job_.roster.taking_part_before(job_.roster.self),
                       .nodes = {}};
    const auto labels = node_labels(job_.roster);
    // PMIx takes no nodes without processes, and counts ranks in the order of nodes.
    for (const int node : job_.roster.in_rank_order())
        if (const int ranks = job_.roster.nodes[static_cast<std::size_t>(node)].ranks; ranks > 0)
            start.nodes.emplace_back(labels[static_cast<std::size_t>(node)], ranks);
    pmixd_->send(start);
}

void PmixService::listen() {
    PmixOffer offer{
        .name_space = name_space_,
        .rank = first_rank(),
        .node_rank = job_.roster.taking_part_before(job_.roster.self),
        .port = 0,
        .directory = job_.directory,
        .node_name = node_labels(job_.roster).at(static_cast<std::size_t>(job_.roster.self)),
        .version = built_pmix_version()};
    listener_.assign(loopback_listener(offer.port).release());
    const int ranks = job_.roster.nodes.at(static_cast<std::size_t>(job_.roster.self)).ranks;
    for (int local_rank = 0; local_rank < ranks; ++local_rank, ++offer.rank)
        environments_.push_back(foresee_pmix_environment(offer));
    start_when_asked();
}

// A connection is left where it is: autolaunch-pmixd takes it, once it is ready.
void PmixService::start_when_asked() {
    listener_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
                             if (!error && !alive.expired())
                                 start_now();
                         });
}

void PmixService::start_now() {
    if (pmixd_ != nullptr || !listener_.is_open())
        return;
    try {
        start_pmixd(listener_.native_handle());
    } catch (const Error& error) {
        listener_.close();
        return handlers_.on_broken(std::string("autolaunch-pmixd cannot be started: ") +
                                   error.what());
    }
    listener_.close();
    pmixd_->expect_ready();
    start_timer_.expires_after(kStartTimeout);
    start_timer_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
        if (!error && !alive.expired())
            handlers_.on_broken("autolaunch-pmixd takes too long to start");
    });
}

// Its library may be another one than it was built with.
void PmixService::check(const pmixd::Ready& ready) {
    start_timer_.cancel();
    for (std::size_t rank = 0; rank < environments_.size(); ++rank) {
        const std::string surprise =
            rank < ready.environments.size()
                ? find_pmix_surprise(environments_[rank], ready.environments[rank])
                : "it serves too few ranks";
        if (!surprise.empty())
            return call_later([this, surprise] {
                handlers_.on_broken("PMIx is not as it was when autolaunch was built (" + surprise +
                                    "): build autolaunch again, or name the mode: --mpi pmix");
            });
    }
}

void PmixService::await_ready(Deadline deadline) {
    if (!job_.offered)
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

void PmixService::receive() {
    if (pmixd_ != nullptr)
        pmixd_->receive();
}

bool PmixService::has_connected(int local_rank) {
    receive();
    return connected_.contains(first_rank() + local_rank);
}

// PMIx lets a rank go on only after we could hear of it.
std::optional<MpiService::Fault> PmixService::fault_of(int local_rank) {
    receive();
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
    receive();
    const int rank = first_rank() + local_rank;
    if (connected_.contains(rank))
        await_finalize(rank);
    if (finalized_.contains(rank))
        return {};
    if (connected_.contains(rank))
        return {"ended without MPI_Finalize", true};
    if (!connected_.empty())
        return {kWaitedFor, true};
    if (job_.asked_for)
        return {
            "ended without MPI_Init through PMIx: it was rank 0 of 1, or used no MPI at all "
            "(trainer.mpi is pmix)",
            true};
    if (left_silently_)
        return {};  // one warning for all
    left_silently_ = rank;
    if (job_.offered)
        return {};
    return {"ended and never used the PMIx that it was given: if it used MPI, it was rank 0 of 1",
            false};
}

// PMIx lets a rank go after some seconds though its server has not answered: on a busy machine the
// rank's end is seen before autolaunch-pmixd has read that it was through MPI_Finalize. All ranks
// of a generation share the time, for nobody hears from this node meanwhile.
void PmixService::await_finalize(int rank) {
    using Clock = std::chrono::steady_clock;
    const auto began = Clock::now();
    pmixd_->receive_until([this, rank] { return finalized_.contains(rank); },
                          Deadline::after(patience_));
    patience_ -= std::min(
        patience_, std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began));
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
    if (const auto* ready = std::get_if<pmixd::Ready>(&message))
        check(*ready);
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
    fail(connected.rank, {"waits in MPI_Init for rank " + std::to_string(*left_silently_) +
                          ", which has ended" + kAlone});
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
        start_now();  // of a rank that has not come yet
        if (pmixd_ == nullptr)
            return;
        questions_.emplace(++last_question_, std::pair(source, question->call));
        pmixd_->send(pmixd::ModexQuery{last_question_, question->rank});
    } else if (const auto* reply = std::get_if<ModexReply>(&*message);
               reply != nullptr && pmixd_ != nullptr) {
        pmixd_->send(pmixd::ModexDone{reply->call, reply->good, reply->blob});
    }
}

int PmixService::node_of(int rank) const { return job_.roster.node_of(rank); }

std::vector<int> PmixService::nodes_of(const std::vector<std::uint32_t>& ranks) const {
    std::set<int> nodes;
    for (const std::uint32_t rank : ranks)
        if (const int node = node_of(static_cast<int>(rank)); node >= 0)
            nodes.insert(node);
    for (int node = 0; ranks.empty() && node < static_cast<int>(job_.roster.nodes.size()); ++node)
        if (job_.roster.nodes[static_cast<std::size_t>(node)].ranks > 0)
            nodes.insert(node);
    return {nodes.begin(), nodes.end()};
}

}  // namespace autolaunch::launcher
