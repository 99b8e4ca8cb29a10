// autolaunch-mover: one node's part of a hand-over (docs/hand-over-protocol.md). The agent starts
// it, says on its stdin what is wanted and whom to ask, and reads there what has come of it. A
// process of its own, which may hang with a shared file system while the agent does not.
#include "base/hash.hpp"
#include "base/json_nesting.hpp"
#include "base/whole_number.hpp"
#include "hand_over/agent_socket.hpp"
#include "hand_over/data_link.hpp"
#include "hand_over/mount_door.hpp"
#include "hand_over/transfer.hpp"

#include <autolaunch/error.hpp>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <cerrno>
#include <thread>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::json;

constexpr auto kWord = std::chrono::seconds(60);  // of the agent
constexpr auto kProgress = std::chrono::seconds(1);
constexpr auto kHandshake = std::chrono::seconds(5);
constexpr auto kIdle = std::chrono::seconds(120);       // then nobody needs us any more
constexpr auto kFileAnswer = std::chrono::seconds(60);  // of the shared system, to a rank
constexpr int kMostLinks = 256, kDeepest = 4;
constexpr int kDoor = 3;  // descriptor of who mounts
constexpr std::size_t kMostLine = 256U << 20;

void say(const Json& json) {
    send_to_agent(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json hear(std::string& buffer) {
    const Deadline deadline = Deadline::after(kWord);
    for (std::size_t end; (end = buffer.find('\n')) == std::string::npos;) {
        pollfd waited{0, POLLIN, 0};
        char bytes[65536];
        if (buffer.size() > kMostLine || ::poll(&waited, 1, deadline.poll_timeout_ms()) <= 0)
            ::_exit(0);
        const ssize_t got = ::recv(0, bytes, sizeof bytes, 0);
        if (got <= 0)
            ::_exit(0);
        buffer.append(bytes, static_cast<std::size_t>(got));
    }
    const std::size_t end = buffer.find('\n');
    const std::string line = buffer.substr(0, end);
    if (!nests_at_most(line, kDeepest))
        throw Error(ErrorCode::corrupt, "it was asked for what makes no sense");
    const Json json = Json::parse(line);
    buffer.erase(0, end + 1);
    return json;
}

/// Serves the nodes below.
class Server {
public:
    Server(Transfer& transfer, PieceFiles& files, LinkKey& key, UniqueFd listener)
        : transfer_(transfer), files_(files), key_(key), listener_(std::move(listener)) {}

    /// Does not return before nobody has connected, and no link was open, for a while.
    void run() {
        Deadline deadline = Deadline::after(kIdle);
        while (!deadline.passed()) {
            pollfd waited{listener_.get(), POLLIN, 0};
            if (::poll(&waited, 1, std::min(deadline.poll_timeout_ms(), 1000)) > 0)
                accept();
            // Files in pieces are there for the node's ranks until the agent ends us.
            if (links_ > 0 || !transfer_.is_over() || !transfer_.stores().empty())
                deadline = Deadline::after(kIdle);
        }
    }

private:
    void accept() {
        UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket || links_ >= kMostLinks)
            return;
        ++links_;
        std::thread([this, socket = std::move(socket)]() mutable {
            try {
                DataLink link =
                    DataLink::accept(key_, std::move(socket), Deadline::after(kHandshake));
                serve_link(transfer_, link, kIdle,
                           [this](std::size_t file, std::size_t piece, Transfer::Chunk& into) {
                               return files_.fetch(file, piece, into);
                           });
            } catch (const Error&) {
                // It has what it wanted, or asks another node.
            }
            --links_;
        }).detach();
    }

    Transfer& transfer_;
    PieceFiles& files_;
    LinkKey& key_;
    UniqueFd listener_;
    std::atomic<int> links_{0};
};

/// Path, and then offset and bytes of each part.
FileUse use_in(const Json& json) {
    FileUse use{json.at(0).get<std::string>(), {}};
    for (std::size_t at = 1; at + 1 < json.size(); at += 2)
        use.parts.push_back(
            {whole_number<std::int64_t>(json[at]), whole_number<std::int64_t>(json[at + 1])});
    return use;
}

void read_here(Transfer& transfer, const Json& order) {
    std::vector<std::string> paths;
    std::vector<FileUse> uses;
    for (const Json& file : order.at("files")) {
        uses.push_back(use_in(file));
        paths.push_back(uses.back().path);
    }
    const auto seen = look_at_all(paths);
    const bool in_pieces = order.at("in_pieces").get<bool>();
    std::vector<SharedFile> files;
    for (std::size_t at = 0; at < seen.size(); ++at) {
        const std::int64_t used = used_bytes(uses[at].parts);
        if (!seen[at] || used <= 0 || seen[at]->bytes <= 0)
            continue;
        if (!in_pieces && !is_worth_it(seen[at]->bytes, used, whole_number<int>(order.at("nodes"))))
            continue;
        files.push_back(*seen[at]);
        if (in_pieces)
            files.back().pieces = pieces_of(uses[at].parts, files.back().bytes);
    }
    transfer.begin(std::move(files));
    read_source(transfer);
    transfer.finish("it was not read");
}

/// Files that this node's agent has made for it, one after the other.
void await_here(Transfer& transfer, const Json& order) {
    transfer.begin(parse_manifest(order.at("coming").dump()));
    await_files(transfer);
    transfer.finish("it did not come");
}

void watch_agent() {
    std::thread([] {
        pollfd waited{0, POLLIN, 0};
        while (::poll(&waited, 1, -1) < 0 && errno == EINTR) {
        }
        ::_exit(0);  // it says nothing any more, so it is gone
    }).detach();
}

void tell_progress(const Transfer& transfer) {
    std::thread([&transfer] {
        while (!transfer.is_over()) {
            if (std::chrono::steady_clock::now() - transfer.moved_at() > transfer.patience()) {
                say({{"failed", "nothing came for a minute"}});
                ::_exit(0);
            }
            say({{"alive", true}, {"bytes", transfer.summary().come_bytes}});
            std::this_thread::sleep_for(kProgress);
        }
    }).detach();
}

void tell_end(const Transfer& transfer) {
    const Transfer::Summary summary = transfer.summary();
    const auto as_pairs = [](const std::vector<Transfer::Copy>& copies) {
        Json pairs = Json::array();
        for (const Transfer::Copy& copy : copies)
            pairs.push_back({copy.original, copy.path});
        return pairs;
    };
    say({{"done",
          {{"copies", as_pairs(summary.copies)},
           {"in_pieces", as_pairs(summary.in_pieces)},
           {"found_bytes", summary.found_bytes},
           {"come_bytes", summary.come_bytes},
           {"left_bytes", summary.left_bytes},
           {"why_left", summary.why_left}}}});
}

JobKey::Bytes key_in(const std::string& text) {
    JobKey::Bytes bytes{};
    if (!parse_hex(text, bytes))
        throw Error(ErrorCode::corrupt, "a key that is none");
    return bytes;
}

/// A file in pieces takes three descriptors.
void take_all_descriptors() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

void run() {
    std::string heard;
    take_all_descriptors();
    const Json order = hear(heard);
    NodeCache cache(order.at("cache").get<std::string>(),
                    whole_number<std::int64_t>(order.at("most_bytes")),
                    order.at("are_programs").get<bool>());
    std::uint16_t port = 0;
    UniqueFd listener = listen_anywhere(port);
    say({{"port", port}});
    const Json place = hear(heard);
    watch_agent();
    LinkKey key(key_in(place.at("key").get<std::string>()));
    Transfer transfer(cache);
    if (order.contains("patience_ms"))
        transfer.set_patience(
            std::chrono::milliseconds(whole_number<std::int64_t>(order.at("patience_ms"))));
    if (order.value("one_by_one", false))
        transfer.set_on_copy([](const Transfer::Copy& copy) {
            say({{"copy", Json::array({copy.original, copy.path})}});
        });
    tell_progress(transfer);
    std::vector<MoverAddress> above;
    for (const Json& node : place.at("above"))
        above.push_back({node.at(0).get<std::string>(), whole_number<std::uint16_t>(node.at(1))});
    PieceFiles files(transfer, key, above);
    Server server(transfer, files, key, std::move(listener));
    std::jthread serving([&] { server.run(); });
    std::thread([&files] { MountDoor(UniqueFd(kDoor), files, kFileAnswer).serve(); }).detach();
    if (above.empty() && order.contains("coming")) {
        await_here(transfer, order);
    } else if (above.empty()) {
        read_here(transfer, order);
    } else {
        const std::string why = pull_all(transfer, key, above);
        transfer.finish(why);
    }
    tell_end(transfer);
    serving.join();
    ::_exit(0);  // with links' threads
}

}  // namespace

}  // namespace autolaunch::launcher

int main() {
    using namespace autolaunch;
    try {
        launcher::run();
    } catch (const Error& error) {
        launcher::say({{"failed", error.what()}, {"hint", error.hint()}});
    } catch (const nlohmann::json::exception& error) {
        launcher::say(
            {{"failed", std::string("it was asked for what makes no sense: ") + error.what()}});
    }
    return 0;
}
