#include "hand_over/data_link.hpp"
#include "hand_over/link_message.hpp"
#include "hand_over/transfer.hpp"

#include <autolaunch/error.hpp>

namespace autolaunch::launcher {

namespace {

constexpr auto kSignOfLife = std::chrono::seconds(1);
constexpr auto kTaken = std::chrono::seconds(10);  // one answer, by who asked for it

void answer(DataLink& link, LinkAnswer kind, const Digest128& digest, std::string_view bytes) {
    const Deadline deadline = Deadline::after(kTaken);
    link.send(view_of(answer_head(kind, bytes.size(), digest)), deadline);
    link.send(bytes, deadline);
}

void answer_list(Transfer& transfer, DataLink& link) {
    for (;;) {
        if (const auto* files = transfer.files(Deadline::after(kSignOfLife)))
            return answer(link, LinkAnswer::here, {}, as_manifest(*files));
        if (transfer.is_over())
            return answer(link, LinkAnswer::never, {}, {});
        answer(link, LinkAnswer::wait, {}, {});
    }
}

void answer_chunk(Transfer& transfer, DataLink& link, const AskText& ask, Transfer::Chunk& chunk) {
    for (;;) {
        switch (transfer.take(get_u32(ask.data() + 1), get_u32(ask.data() + 5), chunk,
                              Deadline::after(kSignOfLife))) {
            case Transfer::Taken::here:
                return answer(link, LinkAnswer::here, chunk.digest, chunk.bytes);
            case Transfer::Taken::never:
                return answer(link, LinkAnswer::never, {}, {});
            case Transfer::Taken::not_yet:
                answer(link, LinkAnswer::wait, {}, {});
        }
    }
}

void answer_fetch(const FetchPiece& fetch, DataLink& link, const AskText& ask,
                  Transfer::Chunk& chunk) {
    const bool is_here = fetch && fetch(get_u32(ask.data() + 1), get_u32(ask.data() + 5), chunk);
    if (is_here)
        return answer(link, LinkAnswer::here, chunk.digest, chunk.bytes);
    answer(link, LinkAnswer::never, {}, {});
}

}  // namespace

void serve_link(Transfer& transfer, DataLink& link, std::chrono::milliseconds idle,
                const FetchPiece& fetch) {
    Transfer::Chunk chunk;
    for (;;) {
        AskText ask;
        link.receive(ask, Deadline::after(idle));
        if (static_cast<LinkAsk>(ask[0]) == LinkAsk::list)
            answer_list(transfer, link);
        else if (static_cast<LinkAsk>(ask[0]) == LinkAsk::chunk)
            answer_chunk(transfer, link, ask, chunk);
        else if (static_cast<LinkAsk>(ask[0]) == LinkAsk::fetch)
            answer_fetch(fetch, link, ask, chunk);
        else
            throw Error(ErrorCode::corrupt, "another node asks for what there is not");
    }
}

}  // namespace autolaunch::launcher
