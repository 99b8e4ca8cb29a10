#include "input/input_pump.hpp"

#include <asio/post.hpp>

#include <algorithm>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kPiece = std::size_t{64} << 10;
constexpr int kPiecesATurn = 16;  // then the event loop has its turn

}  // namespace

bool InputPump::all_have_room() const {
    return std::all_of(sinks_.begin(), sinks_.end(),
                       [](const InputSink* sink) { return sink->has_room(); });
}

void InputPump::run_later() {
    asio::post(io_, [this, alive = std::weak_ptr(alive_)] {
        if (!alive.expired())
            run();
    });
}

// A sink may say that it has room while it is given something: the loop sees that by itself.
void InputPump::run() {
    if (over_ || running_)
        return;
    running_ = true;
    for (int piece = 0;; ++piece) {
        std::erase_if(sinks_, [](const InputSink* sink) { return sink->is_gone(); });
        if (sinks_.empty()) {
            over_ = true;
            supply_.leave();
            break;
        }
        if (!all_have_room())
            break;
        if (piece == kPiecesATurn) {
            run_later();
            break;
        }
        piece_.clear();
        const InputState state = supply_.read(piece_, kPiece);
        if (state == InputState::nothing_yet) {
            supply_.wait([this] { run(); });
            break;
        }
        for (InputSink* sink : sinks_)
            state == InputState::ended ? sink->finish() : sink->put(piece_);
        if (state == InputState::ended) {
            over_ = true;
            break;
        }
    }
    running_ = false;
}

}  // namespace autolaunch::launcher
