#include "base/hash.hpp"
#include "hand_over/data_link.hpp"
#include "hand_over/link_message.hpp"
#include "hand_over/transfer.hpp"

#include <autolaunch/error.hpp>

#include <deque>
#include <string>
#include <thread>

namespace autolaunch::launcher {

namespace {

constexpr auto kSilence = std::chrono::seconds(5);  // of a node that is to send something

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

/// All that one node above has of what is missing here.
class Pull {
public:
    Pull(Transfer& transfer, DataLink& link)
        : transfer_(transfer),
          link_(link),
          files_(*transfer.files(Deadline::after(std::chrono::seconds(0)))),
          missing_(transfer.missing()) {}

    void run() {
        for (;;) {
            while (asked_.size() < kAsked && ask_next()) {
            }
            if (asked_.empty())
                return;
            receive_next();
        }
    }

private:
    struct Asked {
        std::size_t file = 0, chunk = 0;
    };

    bool ask_next() {
        while (chunks_.empty()) {
            if (at_ == missing_.size())
                return false;
            file_ = missing_[at_++];
            if (!transfer_.make_place(file_))
                continue;
            const auto chunks = transfer_.missing_chunks(file_);
            chunks_.assign(chunks.begin(), chunks.end());
        }
        asked_.push_back({file_, chunks_.front()});
        chunks_.pop_front();
        link_.send(view_of(ask_text(LinkAsk::chunk, file_, asked_.back().chunk)),
                   Deadline::after(kSilence));
        return true;
    }

    void receive_next() {
        const AnswerHead head = receive_answer(link_, transfer_.patience());
        const Asked asked = asked_.front();
        asked_.pop_front();
        if (static_cast<LinkAnswer>(head[0]) == LinkAnswer::never) {
            if (asked.file == file_)
                chunks_.clear();  // from the next node, perhaps
            return;
        }
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
    DataLink& link_;
    const std::vector<SharedFile>& files_;
    const std::vector<std::size_t> missing_;
    std::size_t at_ = 0, file_ = 0;
    std::deque<std::size_t> chunks_;
    std::deque<Asked> asked_;
    std::string bytes_;
};

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
            Pull(transfer, link).run();
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
