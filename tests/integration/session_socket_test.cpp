// A rank's Session and the agent's SessionServer over a real socket; and the store among real
// processes.
#include "base/deadline.hpp"
#include "base/memory_file.hpp"
#include "base/unique_fd.hpp"
#include "flight/flight_reader.hpp"
#include "flight/flight_recorder.hpp"
#include "rank_services/session_server.hpp"
#include "session/agent_line.hpp"
#include "session/memory_request.hpp"
#include "session/node_store.hpp"
#include "store/hosted_store.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/session.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace session_socket_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

constexpr auto kLong = 60s;

/// A 0700 directory that is gone with it.
class TemporaryDirectory {
public:
    TemporaryDirectory() {
        std::string name =
            (std::filesystem::temp_directory_path() / "autolaunch-session-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    ~TemporaryDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

struct Received {
    SessionPeer peer;
    session::RankMessage message;
};

/// A SessionServer on a thread, and what it heard.
class Agent {
public:
    explicit Agent(const std::filesystem::path& path)
        : server_(context_, path,
                  [this](const auto& peer, const auto& message) { hear(peer, message); }),
          thread_([this] { context_.run(); }) {}
    ~Agent() {
        context_.stop();
        thread_.join();
    }

    /// The first `count` messages, waiting for them.
    std::vector<Received> wait_for(std::size_t count) {
        std::unique_lock lock(mutex_);
        CHECK(changed_.wait_for(lock, kLong, [&] { return received_.size() >= count; }));
        return received_;
    }
    template <typename Ask>
    auto on_thread(Ask ask) {
        std::promise<decltype(ask(server_))> promise;
        auto answer = promise.get_future();
        asio::post(context_, [&] { promise.set_value(ask(server_)); });
        return answer.get();
    }

private:
    void hear(const SessionPeer& peer, const session::RankMessage& message) {
        const std::lock_guard lock(mutex_);
        received_.push_back({peer, message});
        changed_.notify_all();
    }

    asio::io_context context_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Received> received_;
    SessionServer server_;
    std::thread thread_;
};

/// Session::from_environment() with these variables set for the call.
Session make_session(const std::map<std::string, std::string>& environment) {
    for (const auto& [name, value] : environment)
        ::setenv(name.c_str(), value.c_str(), 1);
    const auto unset = [&] {
        for (const auto& [name, value] : environment)
            ::unsetenv(name.c_str());
    };
    try {
        Session made = Session::from_environment();
        unset();
        return made;
    } catch (...) {
        unset();
        throw;
    }
}

Session rank_session(const std::filesystem::path& socket, int rank = 1) {
    return make_session({{"AUTOLAUNCH_SOCKET", socket.string()},
                         {"AUTOLAUNCH_GENERATION", "2"},
                         {"RANK", std::to_string(rank)},
                         {"WORLD_SIZE", "4"},
                         {"LOCAL_RANK", std::to_string(rank)},
                         {"LOCAL_WORLD_SIZE", "4"}});
}

UniqueFd raw_peer(const std::filesystem::path& path) {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    const std::string text = path.string();
    REQUIRE(text.size() < sizeof name.sun_path);
    std::copy(text.begin(), text.end(), name.sun_path);
    REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
    return socket;
}

/// The bytes with three descriptors of ours.
void send_with_descriptors(const UniqueFd& peer, const std::string& text) {
    iovec bytes{const_cast<char*>(text.data()), text.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(3 * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(3 * sizeof(int));
    const std::array<int, 3> fds = {0, 1, 2};
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof fds);
    REQUIRE(::sendmsg(peer.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

bool is_closed_by_peer(const UniqueFd& socket) {
    const auto deadline = Deadline::after(kLong);
    pollfd waiting{socket.get(), POLLIN, 0};
    char byte = 0;
    return ::poll(&waiting, 1, deadline.poll_timeout_ms()) > 0 &&
           ::recv(socket.get(), &byte, 1, 0) <= 0;
}

template <typename Condition>
bool becomes_true(Condition condition) {
    const auto deadline = Deadline::after(kLong);
    while (!deadline.passed()) {
        if (condition())
            return true;
        std::this_thread::sleep_for(2ms);
    }
    return false;
}

}  // namespace

/// What a rank's communicators do: Session hands its recorder to Communicator alone.
Received recorder_of(Agent& agent, std::size_t messages) {
    for (auto& received : agent.wait_for(messages))
        if (std::holds_alternative<session::Recorder>(received.message))
            return received;
    return {};
}

TEST_CASE("a rank's flight recorder comes beside its line, and outlives the rank's end of it") {
    TemporaryDirectory directory;
    Agent agent(directory.path() / "agent");
    {
        session::AgentLine line(directory.path() / "agent", session::Hello{.rank = 3}, 10s);
        auto recorder = FlightRecorder::create(3, 0);
        FlightRing ring(recorder, "world", 3, 4, "shm");
        ring.enqueue({.kind = flight::Kind::barrier}, true);
        line.report(session::Message{"before"});
        line.announce(session::Recorder{1}, UniqueFd(::dup(recorder->file().get())));
        line.report(session::Message{"after"});
        agent.wait_for(4);
    }
    const Received received = recorder_of(agent, 4);
    CHECK(received.peer.rank == 3);
    const auto& message = std::get<session::Recorder>(received.message);
    CHECK(message.layout == 1);
    REQUIRE(message.file);
    CHECK((::fcntl(message.file->get(), F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(flight::is_recorder(message.file->get()));
    const auto contents = flight::read_contents(flight::file_source(message.file->get()));
    REQUIRE(contents);
    CHECK(contents->groups.at(0).calls.at(0).kind == flight::Kind::barrier);
}

TEST_CASE("the memory for a Python rank's stacks comes beside its line, and nothing else has it") {
    TemporaryDirectory directory;
    Agent agent(directory.path() / "agent");
    session::AgentLine line(directory.path() / "agent", session::Hello{.rank = 3}, 10s);
    line.announce(session::PythonStacks{63}, UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
    line.report(session::PythonStacks{62});
    const auto received = agent.wait_for(3);
    const auto& first = std::get<session::PythonStacks>(received[1].message);
    CHECK(first.signal == 63);
    REQUIRE(first.file);
    CHECK((::fcntl(first.file->get(), F_GETFD) & FD_CLOEXEC) != 0);
    const auto& second = std::get<session::PythonStacks>(received[2].message);
    CHECK(second.signal == 62);
    CHECK_FALSE(second.file);
}

TEST_CASE("a flight recorder waits with its line for an agent that is slow") {
    TemporaryDirectory directory;
    const auto path = directory.path() / "agent";
    std::optional<session::AgentLine> line;
    asio::io_context context;
    std::vector<session::RankMessage> heard;
    SessionServer server(context, path,
                         [&](const auto&, const auto& message) { heard.push_back(message); });
    line.emplace(path, session::Hello{.rank = 3}, 10s);
    int sent = 1;
    for (; sent < 4000; ++sent)
        line->report(session::Message{std::string(1000, 'x')});  // more than fits
    auto recorder = FlightRecorder::create(3, 0);
    line->announce(session::Recorder{1}, UniqueFd(::dup(recorder->file().get())));
    const auto is_there = [&] {
        line->poll();
        context.poll();
        return !heard.empty() && std::holds_alternative<session::Recorder>(heard.back());
    };
    REQUIRE(becomes_true(is_there));
    const auto& file = std::get<session::Recorder>(heard.back()).file;
    REQUIRE(file);
    CHECK(flight::is_recorder(file->get()));
}

TEST_CASE("descriptors that nobody asked for are closed") {
    TemporaryDirectory directory;
    Agent agent(directory.path() / "agent");
    const auto count_fds = [] {
        std::size_t count = 0;
        for ([[maybe_unused]] const auto& entry :
             std::filesystem::directory_iterator("/proc/self/fd"))
            ++count;
        return count;
    };
    const std::size_t before = count_fds();
    {
        const UniqueFd peer = raw_peer(directory.path() / "agent");
        for (int i = 0; i < 50; ++i)
            send_with_descriptors(
                peer, i == 0 ? session::format(session::Hello{}) : "{\"type\":\"new\"}\n");
        agent.wait_for(1);
        send_with_descriptors(peer,
                              session::format(session::RankMessage(session::Message{"done"})));
        agent.wait_for(2);
        CHECK(count_fds() <= before + 4);  // both ends, and the last one that came
    }
    CHECK(becomes_true([&] { return count_fds() <= before; }));
}

TEST_CASE(
    "a request for memory is answered with the file, with nothing, with a refusal, or by hanging "
    "up") {
    const TemporaryDirectory directory;
    const auto path = directory.path() / "agent";
    const UniqueFd file = create_memory_file("autolaunch-test", 8192);
    REQUIRE(file);
    asio::io_context context;
    const SessionServer server(
        context, path, [&](const SessionPeer& peer, const session::RankMessage& message) {
            const auto* const asked = std::get_if<session::MemoryAsked>(&message);
            if (asked == nullptr)
                return;
            if (asked->shard == 0)
                asked->answer({8192, {}, {}}, file.get());
            if (asked->shard == 1)
                asked->answer({0, {}, {}}, -1);
            if (asked->shard == 2)
                asked->answer({0, "rank " + std::to_string(peer.rank) + " has enough", "less"}, -1);
            if (asked->shard == 3)
                asked->answer({4096, {}, {}}, file.get());  // not what it says
            // 4: an agent that knows no such request
        });
    std::jthread agent([&] { context.run(); });
    const auto ask = [&](int shard) {
        return session::ask_for_memory(path, {.rank = 7}, {"g", shard, 0, 8192, {}},
                                       Deadline::after(kLong));
    };
    const auto granted = ask(0);
    CHECK(granted.bytes == 8192);
    CHECK((::fcntl(granted.file.get(), F_GETFD) & FD_CLOEXEC) != 0);
    SharedMapping(granted.file, granted.bytes).data()[5] = std::byte{77};
    CHECK(SharedMapping(file, 8192).data()[5] == std::byte{77});
    CHECK_FALSE(ask(1).file);
    CHECK_THROWS_WITH_AS(ask(2), "rank 7 has enough", Error);
    CHECK_THROWS_AS(ask(3), Error);
    CHECK_THROWS_WITH_AS(ask(4), "this node's agent hung up when it was asked for memory", Error);
    context.stop();
    agent.join();
    CHECK_THROWS_AS(
        session::ask_for_memory(directory.path() / "none", {}, {}, Deadline::after(kLong)), Error);
}

TEST_CASE("reports reach the agent in order, and say who sent them") {
    const TemporaryDirectory directory;
    Agent agent(directory.path() / "socket");
    Session rank = rank_session(directory.path() / "socket");
    StepReport step;
    step.step = 12;
    step.total_steps = 100;
    step.loss = std::numeric_limits<double>::infinity();
    rank.report_step(step);
    rank.report_checkpoint(12, "/ckpt/12", 0.5);
    rank.report_message("hello \"there\"\n");
    const auto heard = agent.wait_for(4);
    CHECK(std::get<session::Hello>(heard[0].message).protocol == session::kProtocol);
    CHECK(heard[3].peer.rank == 1);
    CHECK(heard[3].peer.generation == 2);
    CHECK(heard[3].peer.pid == ::getpid());
    CHECK(heard[3].peer.kernel_pid == ::getpid());
    CHECK(std::get<session::Step>(heard[1].message).total_steps == 100);
    CHECK(std::isinf(*std::get<session::Step>(heard[1].message).loss));
    CHECK(std::get<session::Checkpoint>(heard[2].message).path == "/ckpt/12");
    CHECK(std::get<session::Message>(heard[3].message).text == "hello \"there\"\n");
}

TEST_CASE("the agent's requests reach the rank they are for") {
    const TemporaryDirectory directory;
    Agent agent(directory.path() / "socket");
    Session rank = rank_session(directory.path() / "socket", 1);
    Session other = rank_session(directory.path() / "socket", 2);
    agent.wait_for(2);
    CHECK_FALSE(rank.stop_requested());
    CHECK_FALSE(rank.stop_deadline());
    CHECK(std::holds_alternative<session::HandlesStop>(agent.wait_for(3)[2].message));
    CHECK(agent.on_thread(
        [](auto& server) { return server.send_checkpoint(1) && server.send_checkpoint(1); }));
    CHECK(agent.on_thread([](auto& server) { return server.send_stop(1, {"time limit", 30.0}); }));
    CHECK_FALSE(agent.on_thread([](auto& server) { return server.send_stop(3, {"nobody", 1.0}); }));
    CHECK(becomes_true([&] { return rank.stop_requested(); }));
    CHECK(rank.stop_requested());  // it stays
    const auto left = rank.stop_deadline().value() - std::chrono::steady_clock::now();
    CHECK((left > std::chrono::seconds(10) && left <= std::chrono::seconds(30)));
    CHECK(rank.checkpoint_requested());
    CHECK(rank.checkpoint_requested());
    CHECK_FALSE(rank.checkpoint_requested());
    CHECK_FALSE(other.stop_requested());
    CHECK(agent.wait_for(5).size() == 5);  // handles_stop once a rank, heard_stop of one
}

TEST_CASE("an agent that does not read slows nobody and gets no half lines") {
    const TemporaryDirectory directory;
    const auto path = directory.path() / "socket";
    asio::io_context context;  // does not run yet
    std::size_t heard = 0;
    SessionServer server(context, path, [&](const auto&, const auto&) { ++heard; });
    Session rank = rank_session(path);
    constexpr int kReports = 20'000;
    const std::string text(500, 'x');
    for (int i = 0; i < kReports; ++i)
        rank.report_message(text);
    const auto deadline = Deadline::after(kLong);
    while (!deadline.passed() && context.poll() + context.run_for(20ms) > 0)
        rank.stop_requested();
    // Dropped lines are gone whole: the server would have hung up on a broken one.
    CHECK(heard > 100);
    CHECK(heard < kReports);
    CHECK(server.connection_count() == 1);
    rank.report_message("after");
    const std::size_t before = heard;
    while (!deadline.passed() && heard == before)
        context.run_for(10ms);
    CHECK(heard == before + 1);
}

TEST_CASE("without an agent, and with one that goes away, reports go nowhere") {
    const TemporaryDirectory directory;
    Session alone = make_session({});
    alone.report_message("to nobody");
    CHECK_FALSE(alone.stop_requested());
    Session orphan = rank_session(directory.path() / "missing" / "socket");
    orphan.report_step({});
    CHECK_FALSE(orphan.stop_requested());
    auto agent = std::make_unique<Agent>(directory.path() / "socket");
    Session left = rank_session(directory.path() / "socket");
    agent->wait_for(1);
    CHECK(agent->on_thread([](auto& server) { return server.send_stop(1, {"bye", 1.0}); }));
    agent.reset();
    CHECK_FALSE(std::filesystem::exists(directory.path() / "socket"));
    for (int i = 0; i < 100; ++i)
        left.report_message("still here");
    CHECK(left.stop_requested());  // the last words were heard
}

TEST_CASE("garbage, endless lines and early reports cost one connection") {
    const TemporaryDirectory directory;
    const auto path = directory.path() / "socket";
    Agent agent(path);
    Session rank = rank_session(path);
    for (const std::string& bytes :
         {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100'000, 'x'),
          std::string("{\"type\":\"step\",\"step\":1}\n")}) {
        const UniqueFd peer = raw_peer(path);
        ::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        CHECK(is_closed_by_peer(peer));
    }
    rank.report_message("fine");
    CHECK(agent.wait_for(2).size() == 2);
    CHECK(agent.on_thread([](auto& server) { return server.connection_count(); }) == 1);
}

TEST_CASE("the socket is ours alone, in a directory that is ours alone, however long the path") {
    const TemporaryDirectory directory;
    const auto deep = directory.path() / std::string(120, 'd');
    REQUIRE(::mkdir(deep.c_str(), 0700) == 0);
    {
        Agent agent(deep / "socket");
        struct stat found {};
        REQUIRE(::stat((deep / "socket").c_str(), &found) == 0);
        CHECK((found.st_mode & 0777) == 0600);
        Session rank = rank_session(deep / "socket");
        CHECK(agent.wait_for(1).size() == 1);
    }
    REQUIRE(::chmod(deep.c_str(), 0755) == 0);
    asio::io_context context;
    CHECK_THROWS_AS(SessionServer(context, deep / "socket", [](const auto&, const auto&) {}),
                    Error);
}

TEST_CASE("the ranks of a bare srun step on one node share a store that rank 0 serves") {
    const std::string job = std::to_string(::getpid());
    constexpr int kRanks = 3;
    std::vector<pid_t> children;
    for (int rank = kRanks - 1; rank >= 0; --rank) {  // the server last
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            int status = 1;
            try {
                Session made = make_session({{"SLURM_PROCID", std::to_string(rank)},
                                             {"SLURM_STEP_ID", "0"},
                                             {"SLURM_JOB_ID", "test" + job},
                                             {"SLURM_NTASKS", std::to_string(kRanks)},
                                             {"SLURM_LOCALID", std::to_string(rank)}});
                made.store().add("sum", rank + 1);
                made.store().add("arrived", 1) == kRanks ? made.store().set("all", "") : void();
                made.store().get("all");
                status = made.store().add("sum", 0) == 6 ? 0 : 2;
            } catch (const std::exception&) {
            }
            ::_exit(status);
        }
        children.push_back(child);
        std::this_thread::sleep_for(20ms);
    }
    for (const pid_t child : children) {
        int status = -1;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }
}

TEST_CASE("where a store is published is ours alone, whatever others put in its place") {
    const TemporaryDirectory base;
    const auto ours = base.path() / ("autolaunch-" + std::to_string(::geteuid()));
    REQUIRE(::chmod(base.path().c_str(), 01777) == 0);  // as $TMPDIR where there is no /dev/shm
    const session::NodeStoreFile file("job", base.path());
    struct stat facts {};
    REQUIRE(::lstat(ours.c_str(), &facts) == 0);
    CHECK((facts.st_mode & 07777) == 0700);
    const session::NodeStoreFile again("job", base.path());
    // Its name is taken by a link, and the folder's: neither is followed.
    StoreServerOptions loopback;
    loopback.address = "127.0.0.1";
    HostedStore hosted(loopback);
    StoreOptions options;
    options.port = hosted.port();
    Store own = Store::connect(options);
    const auto victim = base.path() / "victim";
    std::ofstream(victim) << "precious";
    file.publish(hosted.port(), own);
    const auto name = std::filesystem::directory_iterator(ours)->path();
    std::filesystem::remove(name);
    std::filesystem::create_symlink(victim, name);
    CHECK_THROWS_WITH_AS(file.find("", 1s), doctest::Contains("is a symbolic link"), Error);
    file.publish(hosted.port(), own);
    CHECK_FALSE(std::filesystem::is_symlink(name));
    CHECK(file.find("", 1s).get("autolaunch/node_store_word").size() == 32);
    std::filesystem::rename(ours, base.path() / "elsewhere");
    std::filesystem::create_directory_symlink(base.path() / "elsewhere", ours);
    CHECK_THROWS_WITH_AS(session::NodeStoreFile("job", base.path()),
                         doctest::Contains("is a symbolic link"), Error);
    std::filesystem::remove(ours);
    std::filesystem::create_directory(ours);
    std::filesystem::permissions(ours, std::filesystem::perms(0755));
    CHECK_THROWS_WITH_AS(session::NodeStoreFile("job", base.path()),
                         doctest::Contains("is not a folder of ours alone"), Error);
    std::ifstream in(victim);
    CHECK(std::string(std::istreambuf_iterator<char>(in), {}) == "precious");
}

TEST_CASE("a rank alone has a store of its own; across nodes somebody must say where it is") {
    Session alone = make_session({});
    CHECK(alone.store().add("n", 2) == 2);
    Session far = make_session({{"SLURM_PROCID", "0"},
                                {"SLURM_STEP_ID", "0"},
                                {"SLURM_LOCALID", "0"},
                                {"SLURM_NTASKS", "2"},
                                {"SLURM_NNODES", "2"}});
    try {
        far.store();
        FAIL("no store can be there");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::unsupported);
        CHECK(error.hint().find("autolaunch") != std::string::npos);
    }
}

}  // namespace session_socket_test
