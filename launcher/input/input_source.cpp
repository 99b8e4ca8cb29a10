#include "input/input_source.hpp"

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

InputSource::InputSource(asio::io_context& io, int fd, bool keep, Handlers handlers,
                         std::size_t most_kept)
    : reader_(io, fd),
      is_file_(kind_of_input(fd) == InputKind::file),
      keep_(keep && !is_file_),
      handlers_(std::move(handlers)),
      most_kept_(most_kept) {}

bool InputSource::begin() {
    if (is_file_) {
        reader_.rewind();
        ended_ = false;
    }
    given_ = 0;
    return !is_spent_;
}

InputState InputSource::read(std::string& into, std::size_t most) {
    if (given_ < kept_.size()) {
        const std::size_t count = std::min(most, kept_.size() - given_);
        into.append(kept_, given_, count);
        given_ += count;
        return InputState::bytes;
    }
    if (ended_)
        return InputState::ended;
    const std::size_t before = into.size();
    const InputState state = reader_.read(into, most);
    ended_ = state == InputState::ended;
    if (ended_ && !reader_.failure().empty())
        handlers_.on_failure(reader_.failure());
    if (keep_ && !is_spent_ && state == InputState::bytes)
        keep_piece(std::string_view(into).substr(before));
    return state;
}

void InputSource::keep_piece(std::string_view piece) {
    if (kept_.size() + piece.size() > most_kept_) {
        is_spent_ = true;
        kept_ = {};
        given_ = 0;
        return handlers_.on_spent();
    }
    kept_.append(piece);
    given_ = kept_.size();
}

}  // namespace autolaunch::launcher
