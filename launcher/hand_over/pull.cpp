#include "base/hash.hpp"
#include "hand_over/data_link.hpp"
#include "hand_over/link_message.hpp"
#include "hand_over/transfer.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace autolaunch::launcher {

namespace {

constexpr auto kSilence = std::chrono::seconds(5);  // of a node that is to send something
// A link is one core's work at each end, to encrypt and to hash, and a fast disk takes more.
constexpr std::size_t kMostLinks = 4;
constexpr std::size_t kChunksOfLink = 16;  // for fewer a connection more is not worth its making

/// Waits for an answer that is none of "wait".
AnswerHead receive_answer(DataLink& link, std::chrono::milliseconds most) {
    const Deadline patience = Deadline::after(most);
    for (;;) {
        AnswerHead head;
        link.receive(head, Deadline::after(kSilence));
        if (static_cast<LinkAnswer>(head[0]) != LinkAnswer::wait)
            return head;
        if (patience.passed())
            throw Error(ErrorCode::timeout, "nothing came for a minute");
    }
}

std::vector<SharedFile> ask_for_list(DataLink& link) {
    link.send(view_of(ask_text(LinkAsk::list, 0, 0)), Deadline::after(kSilence));
    const AnswerHead head = receive_answer(link, Transfer::kPatience);
    const std::uint32_t bytes = get_u32(head.data() + 1);
    if (static_cast<LinkAnswer>(head[0]) != LinkAnswer::here || bytes > kMostListBytes)
        throw Error(ErrorCode::closed, "the other node has no list of files");
    std::string text(bytes, '\0');
    link.receive(text, Deadline::after(kSilence));
    return parse_manifest(text);
}

struct Asked {
    std::size_t file = 0, chunk = 0;
};

/// What is missing here, in the order of use. Threads: any.
class PullList {
public:
    explicit PullList(Transfer& transfer) : transfer_(transfer), missing_(transfer.missing()) {}

    std::optional<Asked> next() {
        const std::lock_guard lock(mutex_);
        while (chunks_.empty()) {
            if (at_ == missing_.size())
                return std::nullopt;
            file_ = missing_[at_++];
            if (!transfer_.make_place(file_))
                continue;
            const auto chunks = transfer_.missing_chunks(file_);
            chunks_.assign(chunks.begin(), chunks.end());
        }
        const Asked asked{file_, chunks_.front()};
        chunks_.pop_front();
        return asked;
    }
    /// From the next node, perhaps.
    void leave(std::size_t file) {
        const std::lock_guard lock(mutex_);
        if (file == file_)
            chunks_.clear();
    }

private:
    Transfer& transfer_;
    const std::vector<std::size_t> missing_;
    std::mutex mutex_;
    std::size_t at_ = 0, file_ = 0;
    std::deque<std::size_t> chunks_;
};

/// What one link gets of it: it asks for the next while `window` are on their way.
class Pull {
public:
    Pull(Transfer& transfer, PullList& list, DataLink& link, std::size_t window)
        : transfer_(transfer),
          list_(list),
          link_(link),
          window_(window),
          files_(*transfer.files(Deadline::after(std::chrono::seconds(0)))) {}

    void run() {
        for (;;) {
            while (asked_.size() < window_ && ask_next()) {
            }
            if (asked_.empty())
                return;
            receive_next();
        }
    }

private:
    bool ask_next() {
        const auto next = list_.next();
        if (!next)
            return false;
        asked_.push_back(*next);
        link_.send(view_of(ask_text(LinkAsk::chunk, next->file, next->chunk)),
                   Deadline::after(kSilence));
        return true;
    }

    void receive_next() {
        const AnswerHead head = receive_answer(link_, transfer_.patience());
        const Asked asked = asked_.front();
        asked_.pop_front();
        if (static_cast<LinkAnswer>(head[0]) == LinkAnswer::never)
            return list_.leave(asked.file);
        const std::uint32_t bytes = get_u32(head.data() + 1);
        if (static_cast<LinkAnswer>(head[0]) != LinkAnswer::here ||
            bytes != chunk_bytes(files_[asked.file], asked.chunk))
            throw Error(ErrorCode::corrupt, "the other node sent what was not asked for");
        bytes_.resize(bytes);
        link_.receive(bytes_, Deadline::after(kSilence));
        const Digest128 digest = hash128(bytes_.data(), bytes_.size());
        if (digest != digest_in(head))
            return;  // damaged there: it stays missing, and the next node is asked
        transfer_.put(asked.file, asked.chunk, digest, bytes_);
    }

    Transfer& transfer_;
    PullList& list_;
    DataLink& link_;
    const std::size_t window_;
    const std::vector<SharedFile>& files_;
    std::deque<Asked> asked_;
    std::string bytes_;
};

/// How many links are worth it for what is missing.
std::size_t links_for(const Transfer& transfer) {
    std::size_t chunks = 0;
    for (const std::size_t file : transfer.missing())
        chunks += chunks_of((*transfer.files(Deadline::after(std::chrono::seconds(0))))[file]);
    const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
    return std::clamp(chunks / kChunksOfLink, std::size_t{1}, std::min(cores, kMostLinks));
}

/// All that one node above has of what is missing here. The first link is there already.
void pull_from(Transfer& transfer, LinkKey& key, const MoverAddress& node, DataLink& first) {
    const std::size_t links = links_for(transfer), window = kAsked / links;
    PullList list(transfer);
    std::atomic<bool> one_broke{false};
    {
        std::vector<std::jthread> others;
        for (std::size_t i = 1; i < links; ++i)
            others.emplace_back([&] {
                try {
                    DataLink link = DataLink::connect(key, node, Deadline::after(kConnectTime));
                    Pull(transfer, list, link, window).run();
                } catch (const Error&) {
                    one_broke = true;
                }
            });
        Pull(transfer, list, first, window).run();
    }
    if (!one_broke)
        return;
    PullList rest(transfer);  // what that one had asked for
    Pull(transfer, rest, first, kAsked).run();
}

/// So that this node's own looks at them, when they are mounted over, find its client's memory of
/// them.
void look_at_files(const std::vector<SharedFile>& files) {
    std::vector<std::string> paths;
    for (const SharedFile& file : files)
        paths.push_back(file.path);
    look_at_all(paths);
}

}  // namespace

std::string pull_all(Transfer& transfer, LinkKey& key, const std::vector<MoverAddress>& above) {
    std::string why = "no other node has them";
    std::jthread looker;
    for (const MoverAddress& node : above) {
        try {
            DataLink link = DataLink::connect(key, node, Deadline::after(kConnectTime));
            const auto* files = transfer.files(Deadline::after(std::chrono::seconds(0)));
            if (files == nullptr) {
                transfer.begin(ask_for_list(link));
                files = transfer.files(Deadline::after(std::chrono::seconds(0)));
                looker = std::jthread([files] { look_at_files(*files); });
            }
            pull_from(transfer, key, node, link);
            if (transfer.missing().empty())
                return {};
            why = "no other node has them whole";
        } catch (const Error& error) {
            why = error.what();
        }
    }
    return why;
}

}  // namespace autolaunch::launcher
