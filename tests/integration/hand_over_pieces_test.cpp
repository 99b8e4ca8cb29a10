// Files of which only pieces are handed over: from node to node, into stores, and seen whole
// through a FUSE file system that the test mounts, in a namespace of a child's own.

#include "base/hash.hpp"
#include "hand_over/data_link.hpp"
#include "hand_over/mount_door.hpp"
#include "hand_over/positioned_io.hpp"
#include "hand_over/transfer.hpp"
#include "processes.hpp"
#include "python_start/mount_copies.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>

namespace hand_over_pieces_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using autolaunch::testing::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kPlenty = 1LL << 40;
constexpr std::size_t kFilePieces = 100, kTail = 17;
constexpr auto kPatience = std::chrono::milliseconds(300),
               kLongPatience = std::chrono::milliseconds(20'000);
constexpr auto kStuck = std::chrono::milliseconds(1500);

std::string random_text(std::size_t bytes) {
    std::string text(bytes, '\0');
    std::minstd_rand random(7);
    for (char& byte : text)
        byte = static_cast<char>(random());
    return text;
}

/// A file of 100 pieces and a bit, of which some are used: 3 to 5, and the last two.
struct Original {
    TemporaryFolder folder;
    std::string path = folder.path() / "library.so";
    std::string text = random_text(kFilePieces * kPieceBytes + kTail);
    static constexpr std::size_t kUsed = 5;

    Original() {
        std::ofstream(path, std::ios::binary) << text;
        ::chmod(path.c_str(), 0751);
    }
    SharedFile seen() const {
        SharedFile file = look_at(path).value();
        constexpr auto kPiece = static_cast<std::int64_t>(kPieceBytes);
        file.pieces =
            pieces_of({{3 * kPiece, 2 * kPiece + 1}, {99 * kPiece + 5, kPiece}}, file.bytes);
        return file;
    }
};

struct Node {
    NodeCache cache;
    Transfer transfer{cache};
    explicit Node(const fs::path& folder) : cache(folder, kPlenty) {}

    void read(const SharedFile& file) {
        transfer.begin({file});
        read_source(transfer);
        transfer.finish("nothing is left");
    }
};

/// The mount of a node's files in pieces, and a door that it is handed in at.
class Mounted {
public:
    explicit Mounted(FuseServer::Files files, std::chrono::milliseconds patience = kPatience)
        : files_(std::move(files)), patience_(patience) {}

    /// What a child finds that has the original's place taken by the file system; its exit code.
    int child(const fs::path& folder, const std::string& original, const std::function<int()>& look,
              const std::function<void()>& meanwhile = {}) {
        int door[2], done[2];
        REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, door) == 0);
        REQUIRE(::pipe2(done, O_CLOEXEC) == 0);
        const std::string pairs = "0" + std::string(1, '\0') + original + std::string(1, '\0');
        const pid_t pid = ::fork();
        if (pid == 0) {
            const MountedCopies mounted =
                mount_copies(pairs.data(), pairs.size(), folder.c_str(), door[1]);
            if (mounted.mounted != 1) {
                ::dprintf(2, "not mounted: %s\n", mounted.why);
                ::_exit(99);
            }
            ::_exit(look());
        }
        serve(door[0]);
        if (meanwhile)
            meanwhile();
        int status = 0;
        for (int i = 0; i < 1000 && ::waitpid(pid, &status, WNOHANG) == 0; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ::kill(pid, SIGKILL);
        for (const int fd : {door[0], door[1], done[0], done[1]})
            ::close(fd);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    void end() { server_.reset(); }
    FuseServer* server() { return server_.get(); }

private:
    // As MountDoor does, with files of the test's.
    void serve(int door) {
        char byte = 0;
        iovec part{&byte, 1};
        alignas(cmsghdr) char space[CMSG_SPACE(2 * sizeof(int))];
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = space;
        message.msg_controllen = sizeof space;
        REQUIRE(::recvmsg(door, &message, MSG_CMSG_CLOEXEC) == 1);
        int fds[2];
        std::memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fds);
        server_ = std::make_unique<FuseServer>(UniqueFd(fds[0]), files_, patience_);
        REQUIRE(::send(fds[1], "r", 1, MSG_NOSIGNAL) == 1);
        ::close(fds[1]);
    }

    FuseServer::Files files_;
    const std::chrono::milliseconds patience_;
    std::unique_ptr<FuseServer> server_;
};

bool can_mount() {
    if (::access("/dev/fuse", R_OK | W_OK) == 0 && ::geteuid() == 0)
        return true;
    MESSAGE("not checked: no /dev/fuse here, or not root");
    return false;
}

FuseServer::Files files_of(const Transfer& transfer) {
    FuseServer::Files files;
    for (const auto& [name, store] : transfer.stores())
        files[name] = std::make_shared<PieceFile>(store);
    return files;
}

bool reads_as(const std::string& path, const std::string& text, std::size_t from,
              std::size_t count) {
    std::string bytes(count, '\0');
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const bool same = fd >= 0 && read_at(fd, bytes, static_cast<off_t>(from)) &&
                      std::memcmp(bytes.data(), text.data() + from, count) == 0;
    ::close(fd);
    return same;
}

}  // namespace

TEST_CASE("pieces that are used come from node to node, and no others") {
    const Original original;
    TemporaryFolder caches;
    Node root(caches.path() / "root"), other(caches.path() / "other");
    root.read(original.seen());
    const auto summary = root.transfer.summary();
    CHECK(summary.come_bytes == (Original::kUsed - 1) * kPieceBytes + kTail);
    CHECK(summary.left_bytes == 0);
    CHECK(summary.copies.empty());
    REQUIRE(summary.in_pieces.size() == 1);

    LinkKey key(JobKey::Bytes{1, 2, 3});
    MoverAddress address{"127.0.0.1", 0};
    UniqueFd listener = listen_anywhere(address.port);
    std::jthread serving([&] {
        pollfd waited{listener.get(), POLLIN, 0};
        ::poll(&waited, 1, 10'000);
        UniqueFd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        try {
            DataLink link =
                DataLink::accept(key, std::move(socket), Deadline::after(std::chrono::seconds(5)));
            serve_link(root.transfer, link, std::chrono::seconds(2));
        } catch (const Error&) {
        }
    });
    CHECK(pull_all(other.transfer, key, {address}).empty());
    other.transfer.finish("");
    const auto store = other.transfer.stores().at("0");
    std::string bytes;
    for (std::size_t piece = 0; piece <= kFilePieces; ++piece) {
        const bool is_used = (piece >= 3 && piece <= 5) || piece >= 99;
        CHECK(store->read(piece, bytes) == is_used);
        if (is_used)
            CHECK(bytes == original.text.substr(piece * kPieceBytes, kPieceBytes));
    }
    struct stat facts {};
    REQUIRE(::stat((other.cache.path() / (copy_key(store->file()) + ".pieces")).c_str(), &facts) ==
            0);
    CHECK((facts.st_mode & 0777) == 0600);
    CHECK(facts.st_blocks * 512 < static_cast<std::int64_t>(20 * kPieceBytes));

    // The next job has them, and takes what else its record lists.
    Node again(caches.path() / "other");
    SharedFile more = original.seen();
    more.pieces.front().first = 2;
    more.pieces.front().count += 1;
    again.transfer.begin({more});
    CHECK(again.transfer.missing_chunks(0) == std::vector<std::size_t>{2});
}

TEST_CASE("a piece of no record is asked for at the node above, which reads it once for all") {
    const Original original;
    TemporaryFolder caches;
    LinkKey key(JobKey::Bytes{1, 2, 3});
    MoverAddress address{"127.0.0.1", 0}, nobody{"127.0.0.1", 0};
    { const UniqueFd unused = listen_anywhere(nobody.port); }
    UniqueFd listener = listen_anywhere(address.port);
    Node root(caches.path() / "root"), other(caches.path() / "other"),
        third(caches.path() / "third");
    for (Node* node : {&root, &other, &third})
        node->read(original.seen());
    PieceFiles roots(root.transfer, key, {}), others(other.transfer, key, {nobody, address}),
        thirds(third.transfer, key, {address});
    std::vector<std::jthread> links;
    std::jthread accepting([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            pollfd waited{listener.get(), POLLIN, 0};
            if (::poll(&waited, 1, 20) <= 0)
                continue;
            links.emplace_back([&, fd = ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)] {
                try {
                    DataLink link = DataLink::accept(key, UniqueFd(fd),
                                                     Deadline::after(std::chrono::seconds(5)));
                    serve_link(root.transfer, link, std::chrono::milliseconds(200),
                               [&](std::size_t file, std::size_t piece, Transfer::Chunk& into) {
                                   return roots.fetch(file, piece, into);
                               });
                } catch (const Error&) {
                }
            });
        }
    });
    const auto file_of = [](PieceFiles& files) { return files.all().at("0"); };
    std::string bytes;
    for (const std::size_t piece : {50U, 51U, 70U}) {
        CHECK(file_of(others)->read(piece, bytes) == 0);
        CHECK(bytes == original.text.substr(piece * kPieceBytes, kPieceBytes));
        CHECK(file_of(thirds)->read(piece, bytes) == 0);
        CHECK(bytes == original.text.substr(piece * kPieceBytes, kPieceBytes));
        std::this_thread::sleep_for(std::chrono::milliseconds(250));  // and it hangs up meanwhile
    }
    CHECK(file_of(roots)->fetched_bytes() >= static_cast<std::int64_t>(3 * kPieceBytes));
    CHECK(file_of(others)->fetched_bytes() == 0);
    CHECK(file_of(thirds)->fetched_bytes() == 0);
    CHECK(other.transfer.stores().at("0")->read(70, bytes));
    // Whoever has nobody above any more reads by itself.
    accepting.request_stop();
    accepting.join();
    links.clear();
    listener.reset();
    CHECK(file_of(thirds)->read(20, bytes) == 0);
    CHECK(file_of(thirds)->fetched_bytes() == kPieceBytes);
}

TEST_CASE("what is damaged in a store is not here, and an index that was cut is none") {
    const Original original;
    TemporaryFolder caches;
    {
        Node node(caches.path() / "c");
        node.read(original.seen());
    }
    const std::string key = caches.path() / "c/files" / copy_key(original.seen());
    SUBCASE("a piece") {
        std::fstream(key + ".pieces", std::ios::in | std::ios::out | std::ios::binary)
            .seekp(4 * kPieceBytes + 9)
            .write("damage", 6);
        Node node(caches.path() / "c");
        node.transfer.begin({original.seen()});
        std::string bytes;
        const auto store = node.transfer.stores().at("0");
        CHECK_FALSE(store->read(4, bytes));
        CHECK(store->read(5, bytes));
    }
    SUBCASE("an entry") {
        std::fstream(key + ".index", std::ios::in | std::ios::out | std::ios::binary)
            .seekp(24 + 7)
            .write("x", 1);
        Node node(caches.path() / "c");
        node.transfer.begin({original.seen()});
        CHECK(node.transfer.missing_chunks(0).size() == 1);
    }
    SUBCASE("the end of the index") {
        fs::resize_file(key + ".index", 3 * 24 - 1);
        Node node(caches.path() / "c");
        node.transfer.begin({original.seen()});
        CHECK(node.transfer.missing_chunks(0).size() == Original::kUsed);
    }
}

TEST_CASE("a file in pieces is the original to who reads it") {
    if (!can_mount())
        return;
    const Original original;
    TemporaryFolder caches;
    Node node(caches.path() / "c");
    node.read(original.seen());
    struct stat facts {};
    REQUIRE(::stat(original.path.c_str(), &facts) == 0);
    auto files = files_of(node.transfer);
    Mounted mounted(files);
    const int code = mounted.child(node.cache.path(), original.path, [&] {
        struct stat seen {};
        if (::stat(original.path.c_str(), &seen) != 0 || seen.st_dev == facts.st_dev)
            return 1;
        if (seen.st_ino != facts.st_ino || seen.st_mode != facts.st_mode ||
            seen.st_uid != facts.st_uid || seen.st_size != facts.st_size ||
            seen.st_nlink != facts.st_nlink || seen.st_mtim.tv_nsec != facts.st_mtim.tv_nsec)
            return 2;
        if (::open(original.path.c_str(), O_RDWR | O_CLOEXEC) >= 0 || errno != EROFS)
            return 3;
        if (!reads_as(original.path, original.text, 3 * kPieceBytes + 5, 2 * kPieceBytes))
            return 4;
        const int fd = ::open(original.path.c_str(), O_RDONLY | O_CLOEXEC);
        const void* mapped =
            ::mmap(nullptr, original.text.size(), PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        if (mapped == MAP_FAILED)
            return 5;
        // A used one, one that is not here, and the end.
        for (const std::size_t at :
             {4 * kPieceBytes, 50 * kPieceBytes + 1, kFilePieces * kPieceBytes})
            if (std::memcmp(static_cast<const char*>(mapped) + at, original.text.data() + at,
                            kTail) != 0)
                return 6;
        return 0;
    });
    CHECK(code == 0);
    CHECK(files.at("0")->fetched_bytes() == kPieceBytes);  // of all that is not here, once
    std::string bytes;
    CHECK(node.transfer.stores().at("0")->read(50, bytes));  // and kept for the next time
    for (int i = 0; i < 200 && !mounted.server()->is_over(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    CHECK(mounted.server()->is_over());
}

TEST_CASE("who reads all of it in turn asks the shared file system in large requests") {
    if (!can_mount())
        return;
    const Original original;
    TemporaryFolder caches;
    Node node(caches.path() / "c");
    node.read(original.seen());
    auto files = files_of(node.transfer);
    Mounted mounted(files);
    CHECK(mounted.child(node.cache.path(), original.path, [&] {
        return reads_as(original.path, original.text, 0, original.text.size()) ? 0 : 1;
    }) == 0);
    CHECK(files.at("0")->fetched_bytes() ==
          static_cast<std::int64_t>((kFilePieces + 1 - Original::kUsed) * kPieceBytes));
    CHECK(mounted.server()->reads() < 8 * static_cast<std::int64_t>(kFilePieces));
}

TEST_CASE("an original that has changed is not mounted, and later what is missing is stale") {
    if (!can_mount())
        return;
    const Original original;
    TemporaryFolder caches;
    Node node(caches.path() / "c");
    node.read(original.seen());
    const auto change = [&] {
        std::ofstream(original.path, std::ios::binary | std::ios::app) << "more";
    };
    Mounted mounted(files_of(node.transfer));
    SUBCASE("before") {
        change();
        CHECK(mounted.child(node.cache.path(), original.path, [] { return 0; }) == 99);
    }
    SUBCASE("while it is mounted") {
        const int code = mounted.child(
            node.cache.path(), original.path,
            [&] {
                ::usleep(300'000);
                char byte = 0;
                const int fd = ::open(original.path.c_str(), O_RDONLY | O_CLOEXEC);
                if (::pread(fd, &byte, 1, 4 * kPieceBytes) != 1)
                    return 1;  // what is here stays
                return ::pread(fd, &byte, 1, 70 * kPieceBytes) < 0 && errno == ESTALE ? 0 : 2;
            },
            [&] {
                std::this_thread::sleep_for(std::chrono::milliseconds(100));
                change();
            });
        CHECK(code == 0);
    }
}

TEST_CASE("when the server ends, who reads gets an error and does not hang") {
    if (!can_mount())
        return;
    const Original original;
    TemporaryFolder caches;
    Node node(caches.path() / "c");
    node.read(original.seen());
    Mounted mounted(files_of(node.transfer));
    const int code = mounted.child(
        node.cache.path(), original.path,
        [&] {
            char byte = 0;
            const int fd = ::open(original.path.c_str(), O_RDONLY | O_CLOEXEC);
            ::usleep(300'000);
            if (::pread(fd, &byte, 1, 4 * kPieceBytes) != 1)
                return 1;  // it is in the page cache
            return ::pread(fd, &byte, 1, 70 * kPieceBytes) < 0 && errno == ENOTCONN ? 0 : 2;
        },
        [&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            mounted.end();
        });
    CHECK(code == 0);
}

namespace {

/// As a shared file system that does not answer.
class StuckFile : public PieceFile {
public:
    using PieceFile::PieceFile;
    int read(std::size_t piece, std::string& bytes) override {
        if (piece == 70)
            std::this_thread::sleep_for(kStuck);
        return PieceFile::read(piece, bytes);
    }
};

}  // namespace

TEST_CASE("what the shared file system does not answer ends with EIO, and others go on") {
    if (!can_mount())
        return;
    const Original original;
    TemporaryFolder caches;
    Node node(caches.path() / "c");
    node.read(original.seen());
    const FuseServer::Files files{
        {"0", std::make_shared<StuckFile>(node.transfer.stores().at("0"))}};
    const auto stuck = [&](int page) {
        char byte = 0;
        const int fd = ::open(original.path.c_str(), O_RDONLY | O_CLOEXEC);
        return ::pread(fd, &byte, 1, 70 * kPieceBytes + page * 4096) < 0 ? errno : 0;
    };
    SUBCASE("of more readers than threads") {
        Mounted mounted(files);
        const int code = mounted.child(node.cache.path(), original.path, [&] {
            for (int i = 0; i < 6; ++i)
                if (::fork() == 0)
                    ::_exit(stuck(i));
            ::usleep(100'000);
            char byte = 0;
            const int fd = ::open(original.path.c_str(), O_RDONLY | O_CLOEXEC);
            const bool read = ::pread(fd, &byte, 1, 60 * kPieceBytes) == 1;
            int status = 0, failed = 0;
            while (::wait(&status) > 0)
                failed += WEXITSTATUS(status) == EIO ? 1 : 0;
            return read ? failed : -1;
        });
        CHECK(code == 6);
    }
    SUBCASE("and who is killed does not wait for it") {
        Mounted mounted(files, kLongPatience);
        const auto begun = std::chrono::steady_clock::now();
        CHECK(mounted.child(node.cache.path(), original.path, [&] {
            const pid_t pid = ::fork();
            if (pid == 0)
                ::_exit(stuck(0));
            ::usleep(50'000);
            ::kill(pid, SIGKILL);
            int status = 0;
            ::waitpid(pid, &status, 0);
            return WIFSIGNALED(status) ? 0 : 1;
        }) == 0);
        CHECK(std::chrono::steady_clock::now() - begun < kStuck);
    }
}

}  // namespace hand_over_pieces_test
