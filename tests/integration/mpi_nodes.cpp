#include "mpi_nodes.hpp"

#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"

#include <asio/post.hpp>

#include <fcntl.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <deque>

namespace autolaunch::testing {

namespace fs = std::filesystem;
using namespace autolaunch::launcher;
using Clock = std::chrono::steady_clock;

void Exchange::fence(int node, const std::string& name, std::vector<int> nodes, std::string blob,
                     Member::FenceHandler on_done) {
    Gathering& gathering = gatherings_[name];
    gathering.blobs.emplace(node, std::move(blob));
    gathering.handlers.push_back(std::move(on_done));
    const std::size_t wanted = nodes.empty() ? static_cast<std::size_t>(nodes_) : nodes.size();
    if (gathering.handlers.size() < wanted)
        return;
    ++fences_done_;
    auto done = std::move(gathering);
    gatherings_.erase(name);
    std::vector<std::pair<int, std::string>> blobs;
    for (auto& [from, bytes] : done.blobs)
        if (!bytes.empty())
            blobs.emplace_back(from, std::move(bytes));
    for (auto& handler : done.handlers)
        asio::post(io_,
                   [handler = std::move(handler), blobs]() mutable { handler(std::move(blobs)); });
}

void Exchange::relay(int source, int destination, std::string bytes) {
    ++relays_done_;
    asio::post(io_, [this, source, destination, bytes = std::move(bytes)] {
        if (const auto& handler = relays_[static_cast<std::size_t>(destination)])
            handler(source, bytes);
    });
}

void Exchange::take_relays(int node, Member::RelayHandler handler) {
    relays_[static_cast<std::size_t>(node)] = std::move(handler);
}

namespace {

class LocalMember final : public Member {
public:
    LocalMember(Exchange& exchange, int node) : exchange_(exchange), node_(node) {}
    void set_handlers(Handlers) override {}
    int node_rank() const override { return node_; }
    int node_count() const override { return exchange_.node_count(); }
    void report(const control::Report&) override {}
    void fence(int, const std::string& name, const std::vector<int>& nodes, std::string blob,
               FenceHandler on_done) override {
        exchange_.fence(node_, name, nodes, std::move(blob), std::move(on_done));
    }
    void relay(control::RelayChannel, int, int destination, std::string bytes) override {
        exchange_.relay(node_, destination, std::move(bytes));
    }
    void on_relay(control::RelayChannel, int, RelayHandler handler) override {
        exchange_.take_relays(node_, std::move(handler));
    }
    void begin_generation(int) override {}

private:
    Exchange& exchange_;
    int node_;
};

std::string variable(const char* name, const std::string& otherwise) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : otherwise;
}

struct RunningRank {
    MpiService* service = nullptr;
    int local_rank = 0;
    Child child;
    fs::path output;
    bool ended = false;
    Clock::time_point started;
};

class MpiRun {
public:
    explicit MpiRun(const MpiRunOptions& options)
        : options_(options), exchange_(io_, static_cast<int>(options.ranks_per_node.size())) {
        // Short, in memory, and gone at the end, as the agent's.
        std::string name = "/dev/shm/autolaunch-pmi-test-XXXXXX";
        if (::mkdtemp(name.data()) == nullptr)
            throw SystemError(errno, "make a folder in /dev/shm");
        sockets_ = name;
        base_ = {"PATH=" + fs::path(PMIXD_PROGRAM).parent_path().string() + ':' +
                     variable("PATH", "/usr/bin:/bin"),
                 "HOME=" + variable("HOME", "/tmp")};
        base_.insert(base_.end(), options.environment.begin(), options.environment.end());
    }
    ~MpiRun() {
        for (auto& rank : ranks_)
            if (!rank.ended)
                ::kill(-rank.child.pid, SIGKILL);
        std::error_code ignored;
        fs::remove_all(sockets_, ignored);
    }

    MpiRunResult run() {
        start_services();
        for (std::size_t node = 0; node < services_.size(); ++node)
            start_ranks(static_cast<int>(node));
        wait_for_ranks();
        result_.fences = exchange_.fences();
        result_.relays = exchange_.relays();
        services_.clear();
        for (const auto& entry : fs::recursive_directory_iterator(sockets_))
            result_.left_behind.push_back(entry.path());
        for (std::size_t node = 0; node < options_.ranks_per_node.size(); ++node)
            result_.helper_output += slurp(log_of(static_cast<int>(node)));
        return std::move(result_);
    }

private:
    fs::path log_of(int node) const { return folder_.path() / ("pmixd-" + std::to_string(node)); }

    void start_services() {
        Roster roster;
        for (std::size_t node = 0; node < options_.ranks_per_node.size(); ++node)
            roster.nodes.push_back(
                {"test-node" + std::to_string(node), options_.ranks_per_node[node]});
        result_.ranks.resize(static_cast<std::size_t>(roster.world_size()));
        const std::string job_name = "pmi-test-" + random_hex(4);
        for (int node = 0; node < static_cast<int>(roster.nodes.size()); ++node) {
            roster.self = node;
            MpiJob job{.roster = roster,
                       .generation = options_.generation,
                       .job_name = job_name,
                       .secret = "5ec2e7",
                       .directory = sockets_ / ("mpi-" + std::to_string(node)),
                       .log = log_of(node),
                       .oversubscribed = options_.ranks_per_node[static_cast<std::size_t>(node)] >
                                         ::sysconf(_SC_NPROCESSORS_ONLN),
                       .environment = base_,
                       .asked_for = options_.asked_for};
            Member& member = members_.emplace_back(exchange_, node);
            services_.push_back(start_mpi_service(
                io_, options_.mode, job, member,
                {.on_rank_failed =
                     [this](int rank, const MpiService::Fault& fault) {
                         result_.failures.push_back("rank " + std::to_string(rank) + ' ' +
                                                    fault.why);
                         result_.exit_code = fault.exit_code;
                         fail_at_ =
                             Clock::now() + std::chrono::seconds(fault.ends_by_itself ? 10 : 0);
                     },
                 .on_broken =
                     [this](const std::string& why) {
                         result_.broken.push_back(why);
                         kill_all();
                     },
                 .on_warning =
                     [this](const std::string& text) { result_.warnings.push_back(text); }}));
        }
        for (auto& service : services_)
            service->await_ready(Deadline::after(std::chrono::seconds(20)));
    }

    void start_ranks(int node) {
        int first = 0;
        for (int before = 0; before < node; ++before)
            first += options_.ranks_per_node[static_cast<std::size_t>(before)];
        const int local_size = options_.ranks_per_node[static_cast<std::size_t>(node)];
        for (int local_rank = 0; local_rank < local_size; ++local_rank) {
            MpiService& service = *services_[static_cast<std::size_t>(node)];
            const MpiRankStart start = service.start_of(local_rank);
            std::vector<std::string> environment = base_;
            const auto set = [&](const char* name, int value) {
                environment.push_back(std::string(name) + '=' + std::to_string(value));
            };
            set("RANK", first + local_rank);
            set("WORLD_SIZE", static_cast<int>(result_.ranks.size()));
            set("LOCAL_WORLD_SIZE", local_size);
            set("MPI_EXPECT_SIZE", static_cast<int>(result_.ranks.size()));
            environment = with_mpi(environment, start.environment);
            if (options_.edit_environment)
                options_.edit_environment(environment);
            RunningRank rank;
            rank.service = &service;
            rank.local_rank = local_rank;
            rank.output = folder_.path() / ("rank-" + std::to_string(first + local_rank));
            const UniqueFd output = open_file(rank.output, O_WRONLY | O_CREAT | O_APPEND);
            ChildSpec spec;
            spec.argv = options_.argv;
            spec.environment = environment;
            spec.stdout_fd = spec.stderr_fd = output.get();
            spec.inherited_fd = start.inherited_fd;
            rank.child = spawn_child(spec);
            rank.started = Clock::now();
            service.was_started(local_rank);
            ranks_.push_back(std::move(rank));
        }
    }

    void wait_for_ranks() {
        const auto patience = Clock::now() + options_.patience;
        std::size_t ended = 0;
        while (ended < ranks_.size()) {
            io_.restart();
            io_.run_for(std::chrono::milliseconds(1));
            if (options_.kill_after && !killed_ &&
                Clock::now() >= ranks_.back().started + *options_.kill_after) {
                killed_ = true;
                if (!ranks_.back().ended)
                    ::kill(-ranks_.back().child.pid, SIGKILL);
            }
            ended = 0;
            for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
                if (!ranks_[rank].ended)
                    reap(rank);
                ended += ranks_[rank].ended ? 1 : 0;
            }
            if (fail_at_ && Clock::now() >= *fail_at_)
                kill_all();
            if (Clock::now() >= patience && !std::exchange(result_.hung, true))
                kill_all();
        }
        io_.restart();
        io_.poll();
    }

    void reap(std::size_t number) {
        RunningRank& rank = ranks_[number];
        siginfo_t info{};
        if (::waitid(P_PIDFD, static_cast<id_t>(rank.child.pidfd.get()), &info,
                     WEXITED | WNOHANG) != 0 ||
            info.si_pid == 0)
            return;
        rank.ended = true;
        RankOutcome& outcome = result_.ranks[number];
        (info.si_code == CLD_EXITED ? outcome.exit_code : outcome.signal) = info.si_status;
        outcome.output = slurp(rank.output);
        if (outcome.exit_code == 0)
            outcome.departure = rank.service->departure(rank.local_rank);
        if (outcome.exit_code != 0 || outcome.departure.fatal)
            kill_all();
    }

    void kill_all() {
        fail_at_.reset();
        for (auto& rank : ranks_)
            if (!rank.ended)
                ::kill(-rank.child.pid, SIGKILL);
    }

    MpiRunOptions options_;
    asio::io_context io_{1};
    Exchange exchange_;
    std::deque<LocalMember> members_;
    std::vector<std::unique_ptr<MpiService>> services_;
    std::vector<RunningRank> ranks_;
    TemporaryFolder folder_;
    fs::path sockets_;
    std::vector<std::string> base_;
    MpiRunResult result_;
    std::optional<Clock::time_point> fail_at_;
    bool killed_ = false;
};

}  // namespace

bool MpiRunResult::all_exited_zero() const {
    for (const auto& rank : ranks)
        if (rank.exit_code != 0)
            return false;
    return !ranks.empty();
}

MpiRunResult run_mpi(const MpiRunOptions& options) { return MpiRun(options).run(); }

}  // namespace autolaunch::testing
