// The stdin of ranks: real pipes, files and sockets, on one node and from node to node.

#include "input/job_input.hpp"
#include "base/deadline.hpp"
#include "../write_file.hpp"
#include "posted_members.hpp"
#include "processes.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace job_input_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::testing;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// What a rank would have written to a file, so that no piece can be mistaken for another.
std::string counted(std::size_t bytes) {
    std::string text;
    text.reserve(bytes + 16);
    for (std::size_t i = 0; text.size() < bytes; ++i)
        text += std::to_string(i) + '\n';
    text.resize(bytes);
    return text;
}

std::pair<UniqueFd, UniqueFd> pipe_ends() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// Nodes with so many ranks each, in one process; node 0's descriptor 0 is `input`.
class Nodes {
public:
    Nodes(std::vector<int> ranks, InputSpec wish, UniqueFd input, int max_restarts = 0,
          std::size_t most_kept = InputSource::kKeptBytes)
        : members_(io_, static_cast<int>(ranks.size())), input_(std::move(input)) {
        ::signal(SIGPIPE, SIG_IGN);
        for (const int count : ranks)
            roster_.nodes.push_back({"node", count});
        for (int node = 0; node < static_cast<int>(ranks.size()); ++node) {
            plans_.push_back(plan_of(node, wish, max_restarts));
            inputs_.push_back(std::make_unique<JobInput>(
                JobInput::Place{io_, *plans_.back(), members_[node], roster_, {}},
                node == 0 ? input_.get() : nowhere_.get(), most_kept));
        }
    }

    void begin(int generation) {
        for (std::size_t node = inputs_.size(); node-- > 0;)  // any order will do
            inputs_[node]->begin(generation);
    }
    /// What a rank would find as its stdin; empty: nothing comes.
    UniqueFd start(int rank) {
        JobInput& input = *inputs_[node_of(rank)];
        const int given = input.descriptor_for(rank);
        UniqueFd fd(given < 0 ? -1 : ::fcntl(given, F_DUPFD_CLOEXEC, 3));
        input.was_started(rank, -1);
        return fd;
    }
    void rank_ended(int rank) { inputs_[node_of(rank)]->rank_ended(rank); }
    JobInput& input(int node) { return *inputs_.at(static_cast<std::size_t>(node)); }

    /// Moves what can be moved.
    void turn() {
        io_.restart();
        io_.run_for(std::chrono::milliseconds(1));
    }
    /// Until the end of the input, or `most` bytes.
    std::string read(const UniqueFd& fd, std::size_t most = std::string::npos) {
        std::string text;
        const Deadline deadline = Deadline::after(std::chrono::seconds(20));
        while (text.size() < most && !deadline.passed()) {
            pollfd polled{.fd = fd.get(), .events = POLLIN, .revents = 0};
            if (::poll(&polled, 1, 0) == 0) {
                turn();
                continue;
            }
            char bytes[65536];
            const ssize_t count =
                ::read(fd.get(), bytes, std::min(sizeof bytes, most - text.size()));
            if (count <= 0)
                break;
            text.append(bytes, static_cast<std::size_t>(count));
        }
        return text;
    }
    std::size_t spent() {
        std::size_t count = 0;
        for (const auto& report : members_.reported_by(0))
            count += std::holds_alternative<control::InputSpent>(report) ? 1U : 0U;
        return count;
    }
    std::string warnings(int node) {
        std::string text;
        for (const auto& report : members_.reported_by(node))
            if (const auto* warning = std::get_if<control::NodeWarning>(&report))
                text += warning->text + '\n';
        return text;
    }
    PostedMembers& members() { return members_; }

private:
    std::unique_ptr<LaunchPlan> plan_of(int node, const InputSpec& wish, int max_restarts) const {
        auto plan = std::make_unique<LaunchPlan>();
        plan->spec.trainer.input = wish;
        plan->spec.restart.max_restarts = max_restarts;
        plan->node_rank = node;
        plan->world_size = roster_.world_size();
        for (int rank = roster_.first_rank(node); rank < roster_.first_rank(node + 1); ++rank) {
            RankPlan planned;
            planned.rank = rank;
            plan->ranks.push_back(planned);
        }
        return plan;
    }
    std::size_t node_of(int rank) const {
        std::size_t node = 0;
        while (roster_.first_rank(static_cast<int>(node) + 1) <= rank)
            ++node;
        return node;
    }

    asio::io_context io_;
    PostedMembers members_;
    Roster roster_;
    UniqueFd input_;
    const UniqueFd nowhere_ = open_file("/dev/null", O_RDONLY);
    std::vector<std::unique_ptr<LaunchPlan>> plans_;
    std::vector<std::unique_ptr<JobInput>> inputs_;
};

constexpr InputSpec kAll{InputSpec::To::all, 0, true};
constexpr InputSpec to_rank(int rank) { return {InputSpec::To::rank, rank, true}; }

/// Writes all of it and closes, in a thread of its own.
class Writer {
public:
    Writer(UniqueFd fd, std::string text)
        : thread_([fd = std::move(fd), text = std::move(text)] {
              std::size_t written = 0;
              while (written < text.size()) {
                  const ssize_t count =
                      ::write(fd.get(), text.data() + written, text.size() - written);
                  if (count <= 0)
                      return;
                  written += static_cast<std::size_t>(count);
              }
          }) {}
    ~Writer() { thread_.join(); }

private:
    std::thread thread_;
};

UniqueFd file_with(const TemporaryFolder& folder, const std::string& text) {
    write_file(folder.path() / "input", text);
    return open_file(folder.path() / "input", O_RDONLY);
}

}  // namespace

TEST_CASE("rank 0 gets the descriptor itself, rewound for the next generation") {
    const TemporaryFolder folder;
    UniqueFd file = file_with(folder, "header\nfirst\nsecond\n");
    REQUIRE(::lseek(file.get(), 7, SEEK_SET) == 7);  // as a shell's `read` leaves it
    const int number = file.get();
    Nodes nodes({2}, {}, std::move(file), 1);
    for (int generation = 0; generation < 2; ++generation) {
        nodes.begin(generation);
        CHECK(nodes.input(0).descriptor_for(0) == number);
        CHECK(nodes.input(0).descriptor_for(1) == -1);
        CHECK(nodes.read(nodes.start(0)) == "first\nsecond\n");
    }
}

TEST_CASE("a pipe is kept for the next generation, as far as it was read, and goes on") {
    auto [reading, writing] = pipe_ends();
    Nodes nodes({1}, {}, std::move(reading), 1);
    nodes.begin(0);
    UniqueFd rank = nodes.start(0);
    REQUIRE(::write(writing.get(), "one\n", 4) == 4);
    CHECK(nodes.read(rank, 4) == "one\n");
    REQUIRE(::write(writing.get(), "two\n", 4) == 4);
    CHECK(nodes.read(rank, 2) == "tw");
    nodes.rank_ended(0);
    nodes.begin(1);
    rank = nodes.start(0);
    CHECK(nodes.read(rank, 8) == "one\ntwo\n");
    REQUIRE(::write(writing.get(), "three\n", 6) == 6);
    writing.reset();
    CHECK(nodes.read(rank) == "three\n");
    nodes.begin(2);
    CHECK(nodes.read(nodes.start(0)) == "one\ntwo\nthree\n");
    CHECK(nodes.spent() == 0);
}

TEST_CASE("more than is kept can be given once: another generation is refused") {
    auto [reading, writing] = pipe_ends();
    const std::string text = counted(3 * kMiB);
    Nodes nodes({1}, {}, std::move(reading), 1, kMiB);
    nodes.begin(0);
    const UniqueFd rank = nodes.start(0);
    const Writer writer(std::move(writing), text);
    CHECK(nodes.read(rank) == text);
    CHECK(nodes.spent() == 1);
    CHECK_THROWS_WITH_AS(nodes.begin(1),
                         doctest::Contains("cannot be given to the ranks once more"), Error);
}

TEST_CASE("what a rank does not read stays with its writer, but for a pipe's worth") {
    auto [reading, writing] = pipe_ends();
    REQUIRE(::fcntl(writing.get(), F_SETFL, O_NONBLOCK) == 0);
    Nodes nodes({1}, {}, std::move(reading), 1);
    nodes.begin(0);
    const UniqueFd rank = nodes.start(0);
    const std::string piece(65536, 'x');
    std::size_t written = 0;
    for (int idle = 0; idle < 20; ++idle) {
        const ssize_t count = ::write(writing.get(), piece.data(), piece.size());
        if (count > 0) {
            written += static_cast<std::size_t>(count);
            idle = 0;
        }
        nodes.turn();
        REQUIRE(written < 2 * kMiB);
    }
    CHECK(written > 65536);
}

TEST_CASE("all ranks read all of a file, each at its own pace") {
    const TemporaryFolder folder;
    const std::string text = counted(3 * kMiB);
    Nodes nodes({2, 1}, kAll, file_with(folder, text));
    nodes.begin(0);
    const UniqueFd first = nodes.start(0), second = nodes.start(1), third = nodes.start(2);
    CHECK(nodes.read(second) == text);
    CHECK(nodes.read(third) == text);
    CHECK(nodes.read(first) == text);
    CHECK(nodes.members().sent_by(0).bytes > text.size());
}

TEST_CASE("a pipe reaches ranks of several nodes whole, and its end, too") {
    auto [reading, writing] = pipe_ends();
    const std::string text = counted(6 * kMiB);
    Nodes nodes({1, 2}, kAll, std::move(reading));
    nodes.begin(0);
    std::vector<UniqueFd> ranks;
    for (int rank = 0; rank < 3; ++rank)
        ranks.push_back(nodes.start(rank));
    const Writer writer(std::move(writing), text);
    std::vector<std::string> read(3);
    while (read[2].size() < text.size()) {
        const std::size_t before = read[2].size();
        for (std::size_t rank = 0; rank < 3; ++rank)
            read[rank] += nodes.read(ranks[rank], 100'000);
        REQUIRE(read[2].size() > before);
    }
    for (std::size_t rank = 0; rank < 3; ++rank) {
        CHECK(read[rank] + nodes.read(ranks[rank]) == text);
    }
}

TEST_CASE("a rank of another node that reads nothing holds up little") {
    const TemporaryFolder folder;
    const std::string text = counted(16 * kMiB);
    Nodes nodes({1, 1}, to_rank(1), file_with(folder, text));
    nodes.begin(0);
    const UniqueFd rank = nodes.start(1);
    for (int i = 0; i < 100; ++i)
        nodes.turn();
    CHECK(nodes.members().sent_by(0).bytes < 6 * kMiB);  // a window, and a little
    CHECK(nodes.read(rank) == text);
}

TEST_CASE("a rank that has ended is not waited for, here and elsewhere") {
    auto [reading, writing] = pipe_ends();
    const std::string text = counted(8 * kMiB);
    Nodes nodes({2, 1}, kAll, std::move(reading));
    nodes.begin(0);
    UniqueFd first = nodes.start(0);
    const UniqueFd second = nodes.start(1);
    UniqueFd third = nodes.start(2);
    const Writer writer(std::move(writing), text);
    CHECK(nodes.read(first, 10) == text.substr(0, 10));
    first.reset();  // it has closed its stdin, and goes on
    nodes.rank_ended(2);
    third.reset();
    CHECK(nodes.read(second) == text);
}

TEST_CASE("where nothing comes in, ranks elsewhere find the end at once") {
    Nodes nodes({1, 1}, to_rank(1), open_file("/dev/null", O_RDONLY));
    nodes.begin(0);
    CHECK(nodes.read(nodes.start(1)).empty());
}

TEST_CASE("another generation's ranks elsewhere get all of it again") {
    auto [reading, writing] = pipe_ends();
    Nodes nodes({1, 1}, to_rank(1), std::move(reading), 1);
    REQUIRE(::write(writing.get(), "all of it", 9) == 9);
    nodes.begin(0);
    CHECK(nodes.read(nodes.start(1), 3) == "all");
    nodes.rank_ended(1);
    writing.reset();
    nodes.begin(1);
    CHECK(nodes.read(nodes.start(1)) == "all of it");
}

TEST_CASE("a socket is read without a change that its other owners would notice") {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    UniqueFd writing(ends[1]);
    const int reading = ends[0];
    Nodes nodes({2}, kAll, UniqueFd(ends[0]));
    nodes.begin(0);
    const UniqueFd first = nodes.start(0), second = nodes.start(1);
    REQUIRE(::write(writing.get(), "words", 5) == 5);
    CHECK(nodes.read(first, 5) == "words");
    CHECK((::fcntl(reading, F_GETFL) & O_NONBLOCK) == 0);
    writing.reset();
    CHECK(nodes.read(second) == "words");
    CHECK(nodes.read(first).empty());
}

TEST_CASE("a pipe that others share is not made non-blocking for them") {
    auto [reading, writing] = pipe_ends();
    const int number = reading.get();
    Nodes nodes({2}, kAll, std::move(reading));
    nodes.begin(0);
    const UniqueFd first = nodes.start(0);
    REQUIRE(::write(writing.get(), "words", 5) == 5);
    CHECK(nodes.read(first, 5) == "words");
    CHECK((::fcntl(number, F_GETFL) & O_NONBLOCK) == 0);
    CHECK((::fcntl(first.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("what cannot be read is said, and is an end") {
    Nodes nodes({2}, kAll, open_file("/tmp", O_RDONLY));
    nodes.begin(0);
    CHECK(nodes.read(nodes.start(0)).empty());
    CHECK(nodes.warnings(0) == "stdin cannot be read: Is a directory\n");
}

}  // namespace job_input_test
