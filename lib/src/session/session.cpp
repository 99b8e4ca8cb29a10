#include <autolaunch/session.hpp>

#include "base/deadline.hpp"
#include "base/environment.hpp"
#include "base/file_io.hpp"
#include "flight/flight_recorder.hpp"
#include "session/agent_line.hpp"
#include "session/environment.hpp"
#include "session/generation_watch.hpp"
#include "session/next_generation.hpp"
#include "session/node_store.hpp"
#include "session/spare.hpp"
#include "session/store_place.hpp"
#include "session/stray_signals.hpp"
#include "session/uncaught_errors.hpp"
#include "store/hosted_store.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

namespace autolaunch {
namespace {

constexpr std::chrono::seconds kAgentTimeout{10};
constexpr std::chrono::minutes kStoreTimeout{5};
constexpr std::chrono::seconds kLeaveTimeout{10};
// The agent waits for 5 s, and then ends the process.
constexpr std::chrono::seconds kEndsTimeout{10};
// A restart may be put off (restart.on: delay, backoff). An agent that ends is noticed at once.
constexpr std::chrono::hours kNextTimeout{1};
constexpr char kJoinedKey[] = "autolaunch/joined";

// The message may have waited for as long as a step takes. Who does not say when it was sent, sent
// it now. No agent means more than a year.
std::chrono::steady_clock::time_point deadline_of(const session::Stop& stop) {
    using Clock = std::chrono::steady_clock;
    constexpr double kMost_s = 4e7;
    const auto now = Clock::now();
    double left = stop.grace_seconds;
    if (stop.until > 0)
        left = std::min(left,
                        stop.until - std::chrono::duration<double>(now.time_since_epoch()).count());
    return now + std::chrono::duration_cast<Clock::duration>(
                     std::chrono::duration<double>(left > 0 ? std::min(left, kMost_s) : 0.0));
}

// What its stores throw explains itself.
std::shared_ptr<GenerationWatch> watch_for(int generation) {
    auto watch = std::make_shared<GenerationWatch>(generation);
    watch->hooks().set_explanation([ends = std::weak_ptr(watch)] {
        if (const auto generation_watch = ends.lock())
            generation_watch->throw_if_explained();
    });
    return watch;
}

}  // namespace

class Session::Impl {
public:
    Impl(Environment environment, RankInfo info);
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;
    ~Impl();

    const RankInfo& info() const { return info_; }
    const std::filesystem::path& run_dir() const { return run_dir_; }
    std::string trainer_config() const;
    Store& store() { return *shared_store(); }
    std::shared_ptr<Store> shared_store();
    Store new_store();
    void report(const session::RankMessage& message);
    void announce(const session::RankMessage& message);
    bool stop_requested();
    std::optional<std::chrono::steady_clock::time_point> stop_deadline();
    bool checkpoint_requested();
    std::shared_ptr<FlightRecorder> flight_recorder();
    std::string agent_socket() const { return value_of(environment_, env::kSocket); }
    std::shared_ptr<GenerationWatch> generation_watch();
    void expect_changes();
    void expect_no_changes(const std::string& why);
    void rejoin();
    void run(const std::function<void()>& loop);

private:
    void open_line();
    bool hear();
    void listen();
    UniqueFd leave();
    void move_to(const session::NextGeneration& next);
    Store end_with_generation(Store store);
    StoreOptions store_options() const;
    Store connect_store();
    Store serve_on_node(const StoreOptions& options);
    std::uint16_t serve(const std::string& address, std::uint16_t port);
    void take_requests();

    Environment environment_;
    RankInfo info_;
    std::filesystem::path run_dir_;

    std::mutex store_mutex_;
    std::unique_ptr<HostedStore> hosted_;
    std::shared_ptr<Store> store_;

    std::mutex line_mutex_;
    std::optional<session::AgentLine> line_;
    bool said_handles_stop_ = false, said_heard_stop_ = false;
    bool stop_requested_ = false;
    std::optional<std::chrono::steady_clock::time_point> stop_deadline_;
    int checkpoints_requested_ = 0;
    std::shared_ptr<FlightRecorder> recorder_;
    bool expects_changes_ = false;
    std::shared_ptr<GenerationWatch> watch_;
    std::unique_ptr<session::AgentListener> listener_;  // last: it uses the others
};

Session::Impl::Impl(Environment environment, RankInfo info)
    : environment_(std::move(environment)),
      info_(std::move(info)),
      run_dir_(value_of(environment_, env::kRunDir)),
      watch_(watch_for(info_.generation)) {
    open_line();
}

void Session::Impl::open_line() {
    const std::string socket = value_of(environment_, env::kSocket);
    if (socket.empty())
        return;
    session::Hello hello;
    hello.rank = info_.rank;
    hello.local_rank = info_.local_rank;
    hello.generation = info_.generation;
    hello.pid = static_cast<int>(::getpid());
    hello.spares = true;
    line_.emplace(socket, hello, kAgentTimeout);
    if (line_->connected())
        session::leave_notices_to_agent();
}

/// Who serves the store lets the others finish first (those that died have left already), unless it
/// is failing itself.
Session::Impl::~Impl() {
    listener_.reset();
    store_.reset();
    if (hosted_ != nullptr && std::uncaught_exceptions() == 0)
        hosted_->wait_until_unused(Deadline::after(kLeaveTimeout));
}

std::string Session::Impl::trainer_config() const {
    const std::string path = value_of(environment_, env::kTrainerConfig);
    return path.empty() ? "{}" : read_file(path);
}

StoreOptions Session::Impl::store_options() const {
    StoreOptions options;
    // Under autolaunch nobody can guess our keys: the store shows them to who has the token.
    const std::string token = value_of(environment_, env::kStoreToken);
    const bool has_token = info_.launched_by == LaunchedBy::autolaunch && !token.empty();
    options.prefix = has_token
                         ? "autolaunch/" + token
                         : "autolaunch/" + info_.run_id + "/" + std::to_string(info_.generation);
    options.timeout = kStoreTimeout;
    return options;
}

std::uint16_t Session::Impl::serve(const std::string& address, std::uint16_t port) {
    StoreServerOptions options;
    options.address = address;
    options.port = port;
    // Nobody knows the other nodes here: each may be one of this job's.
    if (info_.node_count > 1)
        options.admit_from_elsewhere = [](const TcpEnds&, const auto& verdict) { verdict(true); };
    hosted_ = std::make_unique<HostedStore>(options);
    return hosted_->port();
}

Store Session::Impl::connect_store() {
    using Server = session::StorePlace::Server;
    const session::StorePlace place = session::store_place(info_, environment_);
    StoreOptions options = store_options();
    options.host = place.host;
    options.port = place.port;
    switch (place.server) {
        case Server::self:
            options.host = "127.0.0.1";
            options.port = serve(options.host, 0);
            break;
        case Server::rank0_here:
            options.host = "127.0.0.1";
            return serve_on_node(options);
        case Server::rank0:
            if (info_.rank == 0)
                serve(every_address(), options.port);
            break;
        case Server::agent:
            break;
        case Server::unreachable:
            throw Error(ErrorCode::unsupported,
                        "nobody told the ranks on " + std::to_string(info_.node_count) +
                            " nodes where the job's store is",
                        "launch with autolaunch, or set MASTER_ADDR to rank 0's host and "
                        "MASTER_PORT to a free port");
    }
    return Store::connect(options);
}

Store Session::Impl::serve_on_node(const StoreOptions& options) {
    // Without a job id, the ranks of one launch have at least the parent in common.
    const std::string job =
        info_.run_id.empty() ? "parent " + std::to_string(::getppid()) : info_.run_id;
    const session::NodeStoreFile file(job + "/" + std::to_string(info_.generation));
    if (info_.rank != 0) {
        Store found = file.find(options.prefix, options.timeout);
        if (found.add(kJoinedKey, 1) == info_.world_size - 1)
            file.remove();
        return found;
    }
    StoreOptions plain = options;
    plain.port = serve("127.0.0.1", 0);
    plain.prefix.clear();
    Store unprefixed = Store::connect(plain);
    file.publish(plain.port, unprefixed);
    plain.prefix = options.prefix;
    return Store::connect(plain);
}

std::shared_ptr<Store> Session::Impl::shared_store() {
    const std::lock_guard lock(store_mutex_);
    if (!store_) {
        try {
            store_ = std::make_shared<Store>(end_with_generation(connect_store()));
        } catch (...) {
            hosted_.reset();
            throw;
        }
    }
    return store_;
}

Store Session::Impl::new_store() {
    store();  // so that somebody serves it
    const session::StorePlace place = session::store_place(info_, environment_);
    if (place.port == 0)
        throw Error(ErrorCode::unsupported, "this job's store has no address of its own");
    StoreOptions options = store_options();
    options.host = place.host;
    options.port = place.port;
    return end_with_generation(Store::connect(options));
}

Store Session::Impl::end_with_generation(Store store) {
    store.end_with(generation_watch()->hooks());
    return store;
}

void Session::Impl::take_requests() {
    while (line_) {
        const auto message = line_->poll();
        if (!message)
            return;
        if (const auto* stop = std::get_if<session::Stop>(&*message)) {
            stop_requested_ = true;
            stop_deadline_ = deadline_of(*stop);
        }
        if (std::holds_alternative<session::CheckpointRequest>(*message))
            ++checkpoints_requested_;
        const auto* leave = std::get_if<session::LeaveGeneration>(&*message);
        if (leave != nullptr && expects_changes_ && leave->generation == info_.generation)
            watch_->over(leave->reason);
    }
}

void Session::Impl::report(const session::RankMessage& message) {
    const std::lock_guard lock(line_mutex_);
    if (!line_)
        return;
    line_->report(message);
    take_requests();
}

void Session::Impl::announce(const session::RankMessage& message) {
    const std::lock_guard lock(line_mutex_);
    if (line_)
        line_->announce(message);
}

bool Session::Impl::stop_requested() {
    const std::lock_guard lock(line_mutex_);
    if (line_ && !std::exchange(said_handles_stop_, true)) {
        if (line_->connected())
            session::leave_stops_to_agent(line_->socket());
        line_->announce(session::HandlesStop{});
    }
    take_requests();
    if (line_ && !stop_requested_)
        session::end_if_unanswered();
    if (line_ && stop_requested_ && !std::exchange(said_heard_stop_, true))
        line_->announce(session::HeardStop{});
    return stop_requested_;
}

std::optional<std::chrono::steady_clock::time_point> Session::Impl::stop_deadline() {
    const std::lock_guard lock(line_mutex_);
    take_requests();
    return stop_deadline_;
}

bool Session::Impl::checkpoint_requested() {
    const std::lock_guard lock(line_mutex_);
    take_requests();
    if (checkpoints_requested_ == 0)
        return false;
    --checkpoints_requested_;
    return true;
}

std::shared_ptr<FlightRecorder> Session::Impl::flight_recorder() {
    const std::lock_guard lock(line_mutex_);
    if (recorder_)
        return recorder_;
    try {
        recorder_ = FlightRecorder::create(info_.rank, info_.generation);
    } catch (const Error&) {
        return nullptr;  // training goes on without
    }
    const int copy =
        line_ && recorder_->file() ? ::fcntl(recorder_->file().get(), F_DUPFD_CLOEXEC, 0) : -1;
    if (copy >= 0)
        line_->announce(session::Recorder{static_cast<int>(flight::kLayoutVersion)},
                        UniqueFd(copy));
    return recorder_;
}

std::shared_ptr<GenerationWatch> Session::Impl::generation_watch() {
    const std::lock_guard lock(line_mutex_);
    return watch_;
}

// False: there is nothing more to hear.
bool Session::Impl::hear() {
    const std::lock_guard lock(line_mutex_);
    take_requests();
    return line_->connected() && !watch_->is_over();
}

void Session::Impl::listen() {
    int socket = -1;
    {
        const std::lock_guard lock(line_mutex_);
        watch_->begin();
        line_->announce(session::Rejoins{.cannot = {}, .renumbers = true});
        socket = line_->socket();
    }
    listener_ = std::make_unique<session::AgentListener>(socket, [this] { return hear(); });
}

void Session::Impl::expect_changes() {
    {
        const std::lock_guard lock(line_mutex_);
        if (!line_ || !line_->connected() || info_.launched_by != LaunchedBy::autolaunch)
            return;  // nobody would start another rank in a lost one's place
        if (std::exchange(expects_changes_, true))
            return;
    }
    listen();
}

void Session::Impl::expect_no_changes(const std::string& why) {
    const std::lock_guard lock(line_mutex_);
    if (!std::exchange(expects_changes_, false))
        return;
    watch_->end();
    line_->announce(session::Rejoins{.cannot = why});
}

// Where the word of the next generation will come.
UniqueFd Session::Impl::leave() {
    session::WordOfNext word = session::make_word_of_next();
    const std::lock_guard lock(line_mutex_);
    line_->announce(session::HasLeft{info_.generation}, std::move(word.agents));
    if (!line_->connected())
        throw Error(ErrorCode::closed, "the agent is gone: no other generation follows");
    return std::move(word.ours);
}

void Session::Impl::rejoin() {
    if (!generation_watch()->is_over())
        throw Error(ErrorCode::invalid_argument, "rejoin: the generation is not over",
                    "call it after GenerationChanged, with expect_changes() called before");
    listener_.reset();
    generation_watch()->await_ends(Deadline::after(kEndsTimeout));
    const UniqueFd word = leave();
    move_to(session::wait_for_next(word, Deadline::after(kNextTimeout)));
    listen();
}

void Session::Impl::move_to(const session::NextGeneration& next) {
    {
        const std::lock_guard lock(store_mutex_);
        store_.reset();
    }
    const std::lock_guard lock(line_mutex_);
    environment_[env::kSocket] = next.socket;
    environment_[env::kStore] = next.store;
    environment_[env::kStoreToken] = next.store_token;
    environment_[env::kMasterAddr] = next.master_address;
    environment_[env::kMasterPort] = std::to_string(next.master_port);
    environment_[env::kGeneration] = std::to_string(next.generation);
    info_.generation = next.generation;
    if (next.rank >= 0)
        info_.rank = next.rank, info_.world_size = next.world_size;
    if (next.node_rank >= 0)
        info_.node_rank = next.node_rank, info_.node_count = next.node_count;
    said_handles_stop_ = said_heard_stop_ = stop_requested_ = false;
    stop_deadline_.reset();
    checkpoints_requested_ = 0;
    recorder_.reset();
    watch_ = watch_for(info_.generation);
    open_line();
}

// Whatever is thrown once the generation is over is of no interest: what it was thrown in is over.
void Session::Impl::run(const std::function<void()>& loop) {
    expect_changes();
    for (;;) {
        try {
            loop();
            return expect_no_changes("its training loop has ended");
        } catch (...) {
            try {
                generation_watch()->throw_if_explained();
            } catch (const GenerationChanged&) {  // goes on below
            }
            if (!generation_watch()->is_over())
                throw;
        }
        rejoin();
    }
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Session Session::from_environment() {
    session::show_hints_of_uncaught_errors();
    session::become_rank_if_spare();
    Environment environment = environment_of_process();
    RankInfo info = read_environment(environment);
    return Session(std::make_unique<Impl>(std::move(environment), std::move(info)));
}

const RankInfo& Session::info() const& noexcept { return impl_->info(); }
Store& Session::store() & { return impl_->store(); }
Store Session::new_store() { return impl_->new_store(); }
std::shared_ptr<Store> Session::shared_store() { return impl_->shared_store(); }

void Session::report_step(const StepReport& report) {
    impl_->report(session::Step{report.step, report.total_steps, report.loss, report.tokens,
                                report.seconds, report.input_seconds});
}

void Session::report_checkpoint(std::int64_t step, const std::filesystem::path& path,
                                double stall_seconds, std::optional<double> save_seconds,
                                std::optional<std::int64_t> bytes) {
    const session::Checkpoint saved{step, path.string(), stall_seconds, save_seconds, bytes};
    if (save_seconds == 0.0)  // in memory, perhaps at every step
        impl_->report(saved);
    else
        impl_->announce(saved);
}

void Session::report_checkpoint_drained(std::int64_t step, const std::filesystem::path& path,
                                        std::int64_t bytes, std::int64_t copied, double seconds) {
    impl_->announce(session::CheckpointDrained{step, path.string(), bytes, copied, seconds});
}

void Session::report_checkpoint_loaded(std::int64_t step, const std::filesystem::path& path) {
    impl_->announce(session::CheckpointLoaded{step, path.string()});
}

void Session::report_checkpoint_deleted(const std::filesystem::path& path) {
    impl_->announce(session::CheckpointDeleted{path.string()});
}

void Session::report_message(const std::string& text) { impl_->report(session::Message{text}); }
void Session::report_cannot_resume(const std::string& reason) {
    impl_->announce(session::CannotResume{reason});
}
void Session::report_phase(const std::string& name) { impl_->announce(session::Phase{name}); }
void Session::run(const std::function<void()>& loop) { impl_->run(loop); }
void Session::expect_changes() { impl_->expect_changes(); }
void Session::rejoin() { impl_->rejoin(); }
void Session::cannot_rejoin(const std::string& why) { impl_->expect_no_changes(why); }
std::shared_ptr<GenerationWatch> Session::generation_watch() { return impl_->generation_watch(); }
std::shared_ptr<FlightRecorder> Session::flight_recorder() { return impl_->flight_recorder(); }
std::filesystem::path Session::agent_socket() const { return impl_->agent_socket(); }
bool Session::stop_requested() { return impl_->stop_requested(); }
std::optional<std::chrono::steady_clock::time_point> Session::stop_deadline() {
    return impl_->stop_deadline();
}
bool Session::checkpoint_requested() { return impl_->checkpoint_requested(); }
const std::filesystem::path& Session::run_dir() const& noexcept { return impl_->run_dir(); }
std::string Session::trainer_config() const { return impl_->trainer_config(); }

}  // namespace autolaunch
