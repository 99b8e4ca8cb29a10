#include "hand_over/piece_files.hpp"

#include "base/hash.hpp"
#include "hand_over/link_message.hpp"

#include <autolaunch/error.hpp>

namespace autolaunch::launcher {

namespace {

constexpr auto kAnswer = std::chrono::seconds(10);  // it may be read there first

}  // namespace

bool NodesAbove::ask(std::size_t file, std::size_t piece, Transfer::Chunk& into,
                     std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    bool is_second = false;
    while (!nodes_.empty()) {
        try {
            if (!link_)
                link_.emplace(
                    DataLink::connect(key_, nodes_.front(), Deadline::after(kConnectTime)));
            return ask_linked(file, piece, into, bytes);
        } catch (const Error&) {
            // It hangs up on who was silent for long: that is no reason to give it up.
            link_.reset();
            if (std::exchange(is_second, !is_second))
                nodes_.erase(nodes_.begin());
        }
    }
    return false;
}

bool NodesAbove::ask_linked(std::size_t file, std::size_t piece, Transfer::Chunk& into,
                            std::size_t bytes) {
    const Deadline deadline = Deadline::after(kAnswer);
    link_->send(view_of(ask_text(LinkAsk::fetch, file, piece)), deadline);
    AnswerHead head;
    link_->receive(head, deadline);
    if (static_cast<LinkAnswer>(head[0]) == LinkAnswer::never)
        return false;
    if (static_cast<LinkAnswer>(head[0]) != LinkAnswer::here || get_u32(head.data() + 1) != bytes)
        throw Error(ErrorCode::corrupt, "the other node sent what was not asked for");
    into.bytes.resize(bytes);
    link_->receive(into.bytes, deadline);
    into.digest = digest_in(head);
    return hash128(into.bytes.data(), bytes) == into.digest;
}

const PieceFiles::Files& PieceFiles::all() {
    std::call_once(made_, [this] {
        for (const auto& [name, store] : transfer_.stores()) {
            const std::size_t place = std::stoul(name);
            files_[name] = std::make_shared<PieceFile>(
                store, [this, place, store = store](std::size_t piece, Transfer::Chunk& into) {
                    return above_.ask(place, piece, into, chunk_bytes(store->file(), piece));
                });
        }
    });
    return files_;
}

bool PieceFiles::fetch(std::size_t file, std::size_t piece, Transfer::Chunk& into) {
    if (!transfer_.is_over())
        return false;
    const auto found = all().find(std::to_string(file));
    if (found == all().end() || found->second->read(piece, into.bytes) != 0)
        return false;
    into.digest = hash128(into.bytes.data(), into.bytes.size());
    return true;
}

}  // namespace autolaunch::launcher
