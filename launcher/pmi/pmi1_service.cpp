#include "pmi/pmi1_service.hpp"

#include "pmi/abandoned_files.hpp"

#include <autolaunch/error.hpp>

#include <asio/post.hpp>

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr int kPmiFd = 3;  // in the rank: the first beyond the standard streams
/// A rank that does not read its replies: PMI-1 is question and answer, so a few lines are the most
/// that may wait.
constexpr std::size_t kUnreadLimit = std::size_t{64} << 10;

// Of those that take part: MPICH counts no others.
std::vector<int> ranks_per_node(const Roster& roster) {
    std::vector<int> ranks;
    for (const int node : roster.in_rank_order())
        if (const int here = roster.nodes[static_cast<std::size_t>(node)].ranks; here > 0)
            ranks.push_back(here);
    return ranks;
}

// What jobs left whose agents were killed with their ranks.
void forget_earlier_jobs() {
    if (sees_all_processes())
        remove_abandoned_files("/dev/shm", "mpich_shar_tmp", {});
}

// The answer to a rank's first line at a port: what it would find in its environment otherwise.
std::string greeting(int world_size, int rank) {
    return "cmd=initack rc=0\ncmd=set size=" + std::to_string(world_size) +
           "\ncmd=set rank=" + std::to_string(rank) + "\ncmd=set debug=0\n";
}

}  // namespace

Pmi1Service::Pmi1Service(asio::io_context& io, const MpiJob& job, Member& member, Handlers handlers)
    : io_(io),
      job_(job),
      member_(member),
      handlers_(std::move(handlers)),
      local_size_(job.roster.nodes.at(static_cast<std::size_t>(job.roster.self)).ranks),
      table_(local_size_, job.roster.world_size(), "kvs_" + std::to_string(job.generation),
             process_mapping(ranks_per_node(job.roster))) {
    if (job_.offered)
        open_port();
    else
        make_pairs();
}

void Pmi1Service::open_port() {
    for (int local_rank = 0; local_rank < local_size_; ++local_rank)
        links_.emplace_back(io_);
    port_.emplace(
        io_, Pmi1Port::Handlers{
                 .on_rank =
                     [this](int rank, UniqueFd socket, const std::string& received) {
                         adopt(rank, std::move(socket), received);
                     },
                 .on_warning = [this](const std::string& text) { handlers_.on_warning(text); }});
}

void Pmi1Service::make_pairs() {
    forget_earlier_jobs();
    for (int local_rank = 0; local_rank < local_size_; ++local_rank) {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            throw SystemError(errno, "make a socket pair for PMI-1");
        Link& link = links_.emplace_back(io_);
        link.of_rank.reset(ends[1]);
        ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
        link.socket.assign(ends[0]);
        read_later(local_rank);
    }
}

// A rank's process, or the second one of a script that starts two, one after the other. Two at a
// time would each take the other's messages.
void Pmi1Service::adopt(int rank, UniqueFd socket, const std::string& received) {
    const int local_rank = rank - rank_of(0);
    if (local_rank < 0 || local_rank >= local_size_)
        return handlers_.on_warning("MPI: a process says that it is rank " + std::to_string(rank) +
                                    ", which is not on this node");
    Link& link = this->link(local_rank);
    if (link.socket.is_open())
        receive(local_rank);  // its end may be waiting there
    if (link.socket.is_open())
        return handlers_.on_warning(
            "MPI: a second process of rank " + std::to_string(rank) +
            " called MPI_Init while the first one still uses MPI, and was refused");
    if (!table_.anyone_initialised())
        forget_earlier_jobs();
    table_.begin(local_rank);
    ::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
    link.received.clear();
    link.unsent.clear();
    link.socket.assign(socket.release());
    send(local_rank, greeting(job_.roster.world_size(), rank));
    link.received = received;
    handle_lines(local_rank);
    if (link.socket.is_open())
        read_later(local_rank);
}

// MPICH unlinks its shared memory once all ranks of a node have it; of ranks that are killed
// before, the file stays.
Pmi1Service::~Pmi1Service() {
    if (table_.anyone_initialised() && !table_.everyone_finalised())
        remove_abandoned_files("/dev/shm", "mpich_shar_tmp", started_at_);
}

MpiRankStart Pmi1Service::start_of(int local_rank) {
    const MpiPlace place{.rank = rank_of(local_rank),
                         .world_size = job_.roster.world_size(),
                         .local_rank = local_rank,
                         .local_size = local_size_};
    return {.environment = pmi1_environment(place, kPmiFd),
            .inherited_fd = InheritedFd{.fd = link(local_rank).of_rank.get(), .as = kPmiFd}};
}

void Pmi1Service::was_started(int local_rank) { link(local_rank).of_rank.reset(); }

std::optional<MpiService::Fault> Pmi1Service::fault_of(int local_rank) {
    receive(local_rank);
    const auto found = faults_.find(rank_of(local_rank));
    return found == faults_.end() ? std::nullopt : std::optional(found->second);
}

void Pmi1Service::fail(int rank, const Fault& fault) {
    faults_.emplace(rank, fault);
    call_later([this, rank, fault] { handlers_.on_rank_failed(rank, fault); });
}

bool Pmi1Service::has_connected(int local_rank) {
    receive(local_rank);
    return table_.has_initialised(local_rank);
}

MpiService::Departure Pmi1Service::departure(int local_rank) {
    receive(local_rank);
    const int rank = rank_of(local_rank);
    if (table_.has_finalised(local_rank))
        return {};
    if (table_.has_initialised(local_rank))
        return {"ended without MPI_Finalize", true};
    if (table_.anyone_initialised())
        return {kWaitedFor, true};
    if (job_.asked_for)
        return {
            "ended without MPI_Init through PMI-1: it was rank 0 of 1, or used no MPI at all "
            "(trainer.mpi is pmi1)",
            true};
    if (left_silently_)
        return {};  // one warning for all
    left_silently_ = rank;
    if (job_.offered)
        return {};
    return {"ended and never used the PMI-1 that it was given: if it used MPI, it was rank 0 of 1",
            false};
}

void Pmi1Service::call_later(std::function<void()> handler) {
    asio::post(io_, [handler = std::move(handler), alive = std::weak_ptr(alive_)] {
        if (!alive.expired())
            handler();
    });
}

void Pmi1Service::read_later(int local_rank) {
    link(local_rank)
        .socket.async_wait(
            asio::posix::stream_descriptor::wait_read,
            [this, local_rank, alive = std::weak_ptr(alive_)](const std::error_code& error) {
                if (error || alive.expired())
                    return;
                receive(local_rank);
                if (link(local_rank).socket.is_open())
                    read_later(local_rank);
            });
}

// All that is there. The end of the stream says nothing: the rank's own end does.
void Pmi1Service::receive(int local_rank) {
    Link& from = link(local_rank);
    std::array<char, 8192> bytes;
    while (from.socket.is_open()) {
        const ssize_t count = ::recv(from.socket.native_handle(), bytes.data(), bytes.size(), 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno == EAGAIN)
            return;
        if (count <= 0)
            return from.socket.close();
        from.received.append(bytes.data(), static_cast<std::size_t>(count));
        handle_lines(local_rank);
    }
}

void Pmi1Service::handle_lines(int local_rank) {
    Link& from = link(local_rank);
    std::size_t begin = 0;
    while (from.socket.is_open()) {
        const std::size_t end = from.received.find('\n', begin);
        if (end == std::string::npos)
            break;
        const std::string line = from.received.substr(begin, end - begin);
        begin = end + 1;
        act(local_rank, table_.on_line(local_rank, line));
        if (left_silently_ && line.starts_with("cmd=init"))
            fail(rank_of(local_rank),
                 {"waits in MPI_Init for rank " + std::to_string(*left_silently_) +
                  ", which has ended" + kAlone});
    }
    from.received.erase(0, begin);
    if (from.socket.is_open() && from.received.size() > Pmi1Table::kLineLimit)
        drop(local_rank, "sent a PMI-1 line without an end");
}

void Pmi1Service::act(int local_rank, const Pmi1Table::Outcome& outcome) {
    for (const auto& [receiver, line] : outcome.replies)
        send(receiver, line);
    if (outcome.all_in_barrier)
        fence();
    if (!outcome.broken.empty())
        drop(local_rank, outcome.broken);
    if (!outcome.refused.empty())
        handlers_.on_warning("MPI: rank " + std::to_string(rank_of(local_rank)) + ' ' +
                             outcome.refused);
    if (outcome.abort_code)
        fail(rank_of(local_rank),
             {"called MPI_Abort with error code " + std::to_string(*outcome.abort_code),
              *outcome.abort_code, false});
}

void Pmi1Service::send(int local_rank, const std::string& line) {
    Link& to = link(local_rank);
    if (!to.socket.is_open())
        return;
    to.unsent += line;
    while (!to.unsent.empty()) {
        const ssize_t sent =
            ::send(to.socket.native_handle(), to.unsent.data(), to.unsent.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN)
            return;  // it is gone: its end will tell
        if (sent < 0)
            break;
        to.unsent.erase(0, static_cast<std::size_t>(sent));
    }
    if (to.unsent.size() > kUnreadLimit)
        return drop(local_rank, "does not read what PMI-1 replies");
    if (to.unsent.empty())
        return;
    to.socket.async_wait(
        asio::posix::stream_descriptor::wait_write,
        [this, local_rank, alive = std::weak_ptr(alive_)](const std::error_code& error) {
            if (!error && !alive.expired())
                send(local_rank, "");
        });
}

void Pmi1Service::drop(int local_rank, const std::string& why) {
    if (!link(local_rank).socket.is_open())
        return;
    link(local_rank).socket.close();
    fail(rank_of(local_rank), {why});
}

void Pmi1Service::fence() {
    std::string puts = table_.take_puts();
    const auto over =
        [this, alive = std::weak_ptr(alive_)](std::vector<std::pair<int, std::string>>&& blobs) {
            if (alive.expired())
                return;
            const Pmi1Table::Outcome outcome = table_.on_barrier_over(blobs);
            for (const auto& [receiver, line] : outcome.replies)
                send(receiver, line);
            if (!outcome.broken.empty())
                handlers_.on_broken(outcome.broken);
        };
    try {
        member_.fence(job_.generation, "pmi1/" + std::to_string(barriers_++), {}, std::move(puts),
                      over);
    } catch (const Error& error) {
        call_later([this, why = std::string(error.what())] { handlers_.on_broken(why); });
    }
}

}  // namespace autolaunch::launcher
