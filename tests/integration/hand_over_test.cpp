// Files go from the node that reads them to others: over real sockets, into real folders. Each node
// is a Transfer with a cache of its own and threads that serve it.

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "hand_over/data_link.hpp"
#include "hand_over/transfer.hpp"
#include "other_user.hpp"
#include "processes.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <list>
#include <random>
#include <string>
#include <thread>

namespace hand_over_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using autolaunch::testing::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kPlenty = 1LL << 40;

std::string random_text(std::size_t bytes, unsigned seed) {
    std::string text(bytes, '\0');
    std::minstd_rand random(seed);
    for (char& byte : text)
        byte = static_cast<char>(random());
    return text;
}

void write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
}

LinkKey& job_key() {
    static LinkKey key(JobKey::Bytes{1, 2, 3});
    return key;
}

/// One node, and whoever connects to it.
class Node {
public:
    explicit Node(const fs::path& folder, std::int64_t most = kPlenty)
        : cache_(folder, most), transfer(cache_), listener_(listen_anywhere(address.port)) {
        address.host = "127.0.0.1";
        acceptor_ = std::jthread([this](const std::stop_token& stop) { accept(stop); });
    }
    ~Node() { hang_up(); }
    void hang_up() {
        acceptor_.request_stop();
        if (acceptor_.joinable())
            acceptor_.join();
        links_.clear();
        listener_.reset();
    }

private:
    NodeCache cache_;

public:
    Transfer transfer;
    MoverAddress address;
    /// Hangs up after so many answers, as a node that dies in the middle.
    std::atomic<bool> dies_early{false};
    std::atomic<int> breaks_link{-1};  ///< which one, counted from 0: in the middle
    std::atomic<int> accepted{0};

private:
    void accept(const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            pollfd waited{listener_.get(), POLLIN, 0};
            if (::poll(&waited, 1, 20) <= 0)
                continue;
            UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (dies_early) {
                links_.emplace_back([this, fd = socket.release()] {
                    std::this_thread::sleep_for(std::chrono::milliseconds(30));
                    ::shutdown(fd, SHUT_RDWR);
                    ::close(fd);
                });
                continue;
            }
            if (accepted++ == breaks_link)
                links_.emplace_back([fd = ::dup(socket.get())] {
                    std::this_thread::sleep_for(std::chrono::milliseconds(5));
                    ::shutdown(fd, SHUT_RDWR);
                    ::close(fd);
                });
            links_.emplace_back([this, fd = socket.release()] {
                try {
                    DataLink link = DataLink::accept(job_key(), UniqueFd(fd),
                                                     Deadline::after(std::chrono::seconds(5)));
                    serve_link(transfer, link, std::chrono::seconds(2));
                } catch (const Error&) {
                }
            });
        }
    }

    UniqueFd listener_;
    std::list<std::jthread> links_;
    std::jthread acceptor_;
};

struct Sources {
    TemporaryFolder folder;
    std::vector<std::string> paths;
    std::vector<std::string> texts;

    Sources() {
        const std::size_t sizes[] = {1, 1000, kChunkBytes, 5 * kChunkBytes + 17};
        for (const std::size_t bytes : sizes) {
            texts.push_back(random_text(bytes, static_cast<unsigned>(bytes)));
            paths.push_back(folder.path() / ("file" + std::to_string(bytes)));
            write(paths.back(), texts.back());
        }
    }
    std::vector<SharedFile> seen() const {
        std::vector<SharedFile> files;
        for (const auto& file : look_at_all(paths))
            files.push_back(file.value());
        return files;
    }
};

void read_all(Node& node, std::vector<SharedFile> files) {
    node.transfer.begin(std::move(files));
    read_source(node.transfer);
    node.transfer.finish("nothing is left");
}

std::string pull(Node& node, const std::vector<MoverAddress>& above) {
    const std::string why = pull_all(node.transfer, job_key(), above);
    node.transfer.finish(why);
    return why;
}

void check_copies(const Node& node, const Sources& sources) {
    const auto summary = node.transfer.summary();
    REQUIRE(summary.copies.size() == sources.paths.size());
    for (std::size_t at = 0; at < sources.paths.size(); ++at) {
        CHECK(summary.copies[at].original == sources.paths[at]);
        CHECK(read_file(summary.copies[at].path) == sources.texts[at]);
        struct stat copy {
        }, original{};
        REQUIRE(::stat(summary.copies[at].path.c_str(), &copy) == 0);
        REQUIRE(::stat(sources.paths[at].c_str(), &original) == 0);
        CHECK(copy.st_mtim.tv_nsec == original.st_mtim.tv_nsec);
        CHECK((copy.st_mode & 0222) == 0);
    }
    CHECK(summary.left_bytes == 0);
}

}  // namespace

TEST_CASE("one node reads, and a chain of others has the same bytes while it still reads") {
    Sources sources;
    TemporaryFolder caches;
    Node root(caches.path() / "root"), middle(caches.path() / "middle"),
        last(caches.path() / "last");
    std::jthread first([&] { pull(middle, {root.address}); });
    std::jthread second([&] { pull(last, {middle.address, root.address}); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // who is early waits
    read_all(root, sources.seen());
    first.join();
    second.join();
    check_copies(root, sources);
    check_copies(middle, sources);
    check_copies(last, sources);
    CHECK(last.transfer.summary().found_bytes == 0);
}

TEST_CASE("the next job finds them, and asks nobody for a byte") {
    Sources sources;
    TemporaryFolder caches;
    {
        Node root(caches.path() / "root");
        read_all(root, sources.seen());
    }
    Node again(caches.path() / "root");
    const auto files = sources.seen();
    for (const auto& path : sources.paths)
        ::chmod(path.c_str(), 0);  // root may read it all the same: what counts is come_bytes
    again.transfer.begin(files);
    CHECK(again.transfer.missing().empty());
    again.transfer.finish("");
    CHECK(again.transfer.summary().come_bytes == 0);
    CHECK(again.transfer.summary().copies.size() == files.size());
}

TEST_CASE("a copy that was damaged on the disk is not used, and not given on") {
    Sources sources;
    TemporaryFolder caches;
    Node root(caches.path() / "root"), middle(caches.path() / "middle"),
        last(caches.path() / "last");
    read_all(root, sources.seen());
    pull(middle, {root.address});
    const std::string damaged = middle.transfer.summary().copies.back().path;
    ::chmod(damaged.c_str(), 0600);
    {
        std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(3 * kChunkBytes);
        file << "damage";
    }
    SUBCASE("who is asked for it is passed over") {
        CHECK(pull(last, {middle.address, root.address}).empty());
        check_copies(last, sources);
    }
    SUBCASE("where nobody else has it, it is read where it is") {
        CHECK(pull(last, {middle.address}) == "no other node has them whole");
        CHECK(last.transfer.summary().copies.size() == sources.paths.size() - 1);
        CHECK(last.transfer.summary().left_bytes ==
              static_cast<std::int64_t>(sources.texts.back().size()));
    }
    SUBCASE("the next job on that node gets it anew") {
        middle.hang_up();
        Node next(caches.path() / "middle");
        CHECK(pull(next, {root.address}).empty());
        check_copies(next, sources);
        CHECK(next.transfer.summary().come_bytes ==
              static_cast<std::int64_t>(sources.texts.back().size()));
    }
}

TEST_CASE("a large file comes over several links, and one that breaks loses nothing") {
    TemporaryFolder folder, caches;
    const std::string text = random_text(80 * kChunkBytes + 17, 7);
    write(folder.path() / "large", text);
    Node root(caches.path() / "root"), last(caches.path() / "last");
    read_all(root, {look_at_all({folder.path() / "large"}).front().value()});
    SUBCASE("none breaks") {}
    SUBCASE("the second breaks") { root.breaks_link = 1; }
    CHECK(pull(last, {root.address}).empty());
    REQUIRE(last.transfer.summary().copies.size() == 1);
    CHECK(read_file(last.transfer.summary().copies[0].path) == text);
    CHECK(root.accepted == static_cast<int>(std::min(4U, std::thread::hardware_concurrency())));
}

TEST_CASE("a node that dies in the middle is replaced by those above it") {
    Sources sources;
    TemporaryFolder caches;
    Node root(caches.path() / "root"), middle(caches.path() / "middle"),
        last(caches.path() / "last");
    read_all(root, sources.seen());
    SUBCASE("while it is connected to") { middle.dies_early = true; }
    SUBCASE("before") { middle.hang_up(); }
    CHECK(pull(last, {middle.address, root.address}).empty());
    check_copies(last, sources);
}

TEST_CASE("without any other node left the rest is to be read where it is") {
    Sources sources;
    TemporaryFolder caches;
    Node root(caches.path() / "root"), last(caches.path() / "last");
    root.hang_up();
    CHECK_FALSE(pull(last, {root.address}).empty());
    CHECK(last.transfer.summary().copies.empty());
}

TEST_CASE("a file that changes while it is read is nobody's copy") {
    Sources sources;
    TemporaryFolder caches;
    Node root(caches.path() / "root"), last(caches.path() / "last");
    auto files = sources.seen();
    write(sources.paths[3], random_text(files[3].bytes, 99));  // behind the list's back
    read_all(root, files);
    pull(last, {root.address});
    for (const Node* node : {&root, &last}) {
        CHECK(node->transfer.summary().copies.size() == 3);
        CHECK(node->transfer.summary().left_bytes == files[3].bytes);
    }
    CHECK(root.transfer.summary().why_left.contains("it changed while it was read"));
}

TEST_CASE("a cache that is full takes what fits, and its node still gives that") {
    Sources sources;
    TemporaryFolder caches;
    Node root(caches.path() / "root"), middle(caches.path() / "middle", 2 * kChunkBytes),
        last(caches.path() / "last");
    read_all(root, sources.seen());
    pull(middle, {root.address});
    CHECK(middle.transfer.summary().copies.size() == 3);
    CHECK(pull(last, {middle.address, root.address}).empty());
    check_copies(last, sources);
}

TEST_CASE("old copies make room for new ones, and those of today stay") {
    Sources sources;
    TemporaryFolder caches;
    {
        Node node(caches.path() / "c");
        read_all(node, sources.seen());
    }
    const fs::path folder = caches.path() / "c/files";
    const timespec old[2] = {{1, 0}, {0, UTIME_OMIT}};
    std::string newest;
    for (const auto& path : list_folder(folder))
        if (file_bytes(path) > kChunkBytes)
            ::utimensat(AT_FDCWD, path.c_str(), old, 0);
    NodeCache cache(folder.parent_path(), 6 * kChunkBytes);
    cache.make_room(2 * kChunkBytes);
    CHECK(list_folder(folder).size() == 3);
}

TEST_CASE("another key is no way in") {
    Sources sources;
    TemporaryFolder caches;
    Node root(caches.path() / "root");
    read_all(root, sources.seen());
    LinkKey other(JobKey::Bytes{9});
    CHECK_THROWS_AS(
        DataLink::connect(other, root.address, Deadline::after(std::chrono::seconds(5))), Error);
}

TEST_CASE("a folder that is not this user's alone is refused") {
    TemporaryFolder place;
    const fs::path folder = place.path() / "cache";
    SUBCASE("another user's") {
        if (!autolaunch::testing::can_be_other_user())
            return;
        fs::create_directory(folder);
        REQUIRE(::chown(folder.c_str(), 12345, 12345) == 0);
    }
    SUBCASE("one that lets others in") {
        fs::create_directories(folder / "files");
        ::chmod((folder / "files").c_str(), 0777);
    }
    CHECK_THROWS_AS(NodeCache(folder, kPlenty), Error);
}

TEST_CASE("what a killed mover was writing is never taken for a copy") {
    Sources sources;
    TemporaryFolder caches;
    const auto files = sources.seen();
    {
        NodeCache cache(caches.path() / "c", kPlenty);
        const auto part = cache.start(files[3]);
        write_all(part.fd.get(), sources.texts[3], "a part");
    }
    NodeCache cache(caches.path() / "c", kPlenty);
    for (const SharedFile& file : files)
        CHECK_FALSE(cache.find(file).has_value());
    CHECK(list_folder(caches.path() / "c/files").size() == 1);  // it may be somebody's, a minute
}

}  // namespace hand_over_test
