// A rank whose generation ends under it, and who goes on in the next one: Session::run() and the
// agent's end of it, over real sockets, with a store and a communicator that it waits in.
#include "base/abort_hooks.hpp"
#include "base/deadline.hpp"
#include "rank_services/session_server.hpp"
#include "session/descriptor_message.hpp"
#include "session/generation_watch.hpp"
#include "store/hosted_store.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/session.hpp>

#include <doctest/doctest.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace next_generation_test {

using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

constexpr std::chrono::seconds kPatience{60};

/// A folder for sockets that is gone with it.
struct SocketFolder {
    SocketFolder() { REQUIRE(::mkdtemp(name.data()) != nullptr); }
    SocketFolder(const SocketFolder&) = delete;
    SocketFolder& operator=(const SocketFolder&) = delete;
    ~SocketFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(name, ignored);
    }
    std::string name = (std::filesystem::temp_directory_path() / "autolaunch-next-XXXXXX").string();
};

/// An agent of two generations, and what it heard.
class TwoGenerations {
public:
    explicit TwoGenerations(const std::filesystem::path& folder)
        : folder_(folder),
          first_(context_, folder / "agent-2", hear()),
          second_(context_, folder / "agent-3", hear()),
          thread_([this] { context_.run(); }) {}
    ~TwoGenerations() {
        context_.stop();
        thread_.join();
    }

    template <class Message>
    Message next() {
        std::unique_lock lock(mutex_);
        REQUIRE(changed_.wait_for(lock, kPatience, [&] { return taken_ < heard_.size(); }));
        const session::RankMessage message = heard_[taken_++];
        REQUIRE(std::holds_alternative<Message>(message));
        return std::get<Message>(message);
    }
    void end_generation(int generation) {
        asio::post(context_, [this, generation] {
            first_.send_leave(1, {.generation = generation, .reason = "rank 0 failed"});
        });
    }
    void begin_next(const session::HasLeft& left, std::uint16_t store_port) const {
        const std::string line = session::format(session::AgentMessage(
            session::NextGeneration{.generation = 3,
                                    .socket = folder_ / "agent-3",
                                    .store = "127.0.0.1:" + std::to_string(store_port),
                                    .store_token = "next",
                                    .master_address = "127.0.0.1",
                                    .master_port = store_port,
                                    .rank = 4,
                                    .world_size = 6,
                                    .node_rank = 2,
                                    .node_count = 3}));
        REQUIRE(left.file);
        CHECK(send_with_descriptor(left.file->get(), line, -1) == static_cast<long>(line.size()));
    }

private:
    SessionServer::Callback hear() {
        return [this](const SessionPeer&, const session::RankMessage& message) {
            const std::lock_guard lock(mutex_);
            heard_.push_back(message);
            changed_.notify_all();
        };
    }

    std::filesystem::path folder_;
    asio::io_context context_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<session::RankMessage> heard_;
    std::size_t taken_ = 0;
    SessionServer first_, second_;
    std::thread thread_;
};

/// Rank 1 of 2, in generation 2.
Session second_rank(const std::filesystem::path& socket, std::uint16_t store_port) {
    const std::map<std::string, std::string> environment{
        {"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"AUTOLAUNCH_GENERATION", "2"},
        {"AUTOLAUNCH_SOCKET", socket},
        {"AUTOLAUNCH_STORE_TOKEN", "first"},
        {"AUTOLAUNCH_STORE", "127.0.0.1:" + std::to_string(store_port)}};
    for (const auto& [name, value] : environment)
        ::setenv(name.c_str(), value.c_str(), 1);
    Session session = Session::from_environment();
    for (const auto& [name, value] : environment)
        ::unsetenv(name.c_str());
    return session;
}

StoreServerOptions on_loopback() {
    StoreServerOptions options;
    options.address = "127.0.0.1";
    return options;
}

}  // namespace

TEST_CASE("a rank that waits in the store leaves its generation, and goes on in the next") {
    const SocketFolder folder;
    TwoGenerations agent(folder.name);
    const HostedStore first(on_loopback()), second(on_loopback());
    Session rank = second_rank(folder.name + "/agent-2", first.port());
    std::vector<int> began;
    std::thread training([&] {
        rank.run([&] {
            began.push_back(rank.info().generation);
            if (rank.info().generation == 2)
                rank.store().get("never", kPatience);
            rank.store().set("after", "all");
            if (rank.info().generation == 3) {  // as another rank: a node was lost
                CHECK(rank.rank() == 4);
                CHECK(rank.world_size() == 6);
                CHECK(rank.info().node_rank == 2);
                CHECK(rank.info().node_count == 3);
                CHECK(rank.local_rank() == 1);
            }
        });
    });
    agent.next<session::Hello>();
    CHECK(agent.next<session::Rejoins>().cannot.empty());
    agent.end_generation(1);  // an earlier one's: too late to concern it
    agent.end_generation(2);
    const auto left = agent.next<session::HasLeft>();
    CHECK(left.generation == 2);
    agent.begin_next(left, second.port());
    CHECK(agent.next<session::Hello>().generation == 3);
    CHECK(agent.next<session::Rejoins>().cannot.empty());
    training.join();
    CHECK(began == std::vector<int>{2, 3});
    CHECK_FALSE(agent.next<session::Rejoins>().cannot.empty());  // its loop has ended
    CHECK(rank.store().get("after") == "all");
}

TEST_CASE("a rank that no generation takes in says so, and other errors are the loop's") {
    const SocketFolder folder;
    TwoGenerations agent(folder.name);
    const HostedStore store(on_loopback());
    Session rank = second_rank(folder.name + "/agent-2", store.port());
    CHECK_THROWS_WITH_AS(rank.run([] { throw std::runtime_error("its own"); }), "its own",
                         std::runtime_error);
    CHECK_THROWS_AS(rank.rejoin(), Error);  // nothing is over
    agent.next<session::Hello>();
    agent.next<session::Rejoins>();
    std::thread hangs_up([&] { agent.next<session::HasLeft>().file->reset(); });
    agent.end_generation(2);
    CHECK_THROWS_AS(rank.run([&] { rank.store().get("never", kPatience); }), Error);
    hangs_up.join();
}

TEST_CASE(
    "by hand: the store throws that the generation has changed, and the next one has another") {
    const SocketFolder folder;
    TwoGenerations agent(folder.name);
    const HostedStore first(on_loopback()), second(on_loopback());
    Session rank = second_rank(folder.name + "/agent-2", first.port());
    rank.expect_changes();
    agent.next<session::Hello>();
    agent.next<session::Rejoins>();
    agent.end_generation(2);
    CHECK_THROWS_AS(rank.store().get("never", kPatience), GenerationChanged);
    std::thread answers([&] { agent.begin_next(agent.next<session::HasLeft>(), second.port()); });
    rank.rejoin();
    answers.join();
    CHECK(rank.info().generation == 3);
    CHECK(rank.store().add("fresh", 1) == 1);
}

TEST_CASE("hooks run once, those that come late at once, and none that was taken back") {
    const auto hooks = std::make_shared<AbortHooks>();
    std::string said;
    const auto hook = [&](const std::string& reason) { said += reason + ";"; };
    const auto kept = hooks->add(hook);
    hooks->add(hook).reset();
    hooks->abort_all("a");
    hooks->abort_all("b");
    CHECK(said == "a;");
    const auto late = hooks->add(hook);
    CHECK(said == "a;a;");
}

TEST_CASE("a watch explains what comes of its generation's end, and nothing else") {
    GenerationWatch watch(4);
    const auto explained = [&](const auto& error) {
        try {
            throw error;
        } catch (...) {
            try {
                watch.throw_if_explained();
            } catch (const GenerationChanged& changed) {
                return changed.generation() == 4;
            }
        }
        return false;
    };
    CHECK_FALSE(explained(AbortedError("by the trainer")));  // nobody waits for a word
    watch.begin();
    CHECK_FALSE(explained(Error(ErrorCode::mismatch, "a mistake")));
    std::thread agent([&] { watch.over("rank 3 failed"); });
    CHECK(explained(Error(ErrorCode::closed, "rank 3 went away")));
    agent.join();
    CHECK(explained(Error(ErrorCode::mismatch, "in the ruins")));
    CHECK_FALSE(explained(std::logic_error("the caller's")));
}

TEST_CASE("who leaves waits for what must end before, and does not go on where that fails") {
    GenerationWatch watch(2);
    int ended = 0;
    watch.end_before_leaving([&](const Deadline& deadline) { ended += deadline.passed() ? 0 : 1; });
    watch.await_ends(Deadline::after(kPatience));
    watch.end_before_leaving([](const Deadline&) { throw TimeoutError("it is still in use"); });
    CHECK_THROWS_WITH_AS(watch.await_ends(Deadline::after(kPatience)), "it is still in use",
                         TimeoutError);
    CHECK(ended == 2);
}

}  // namespace next_generation_test
