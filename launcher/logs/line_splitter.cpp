#include "logs/line_splitter.hpp"

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

namespace {

// Of `text`, how many bytes are whole UTF-8 characters: a cut behind them splits none. At most
// three bytes are held back, so text that is not UTF-8 passes too.
std::size_t whole_characters(std::string_view text) {
    std::size_t lead = text.size();
    for (std::size_t back = 1; back <= std::min<std::size_t>(4, text.size()); ++back) {
        const auto byte = static_cast<unsigned char>(text[text.size() - back]);
        if ((byte & 0xC0) == 0x80)
            continue;
        const std::size_t length = byte >= 0xF5   ? 1
                                   : byte >= 0xF0 ? 4
                                   : byte >= 0xE0 ? 3
                                   : byte >= 0xC0 ? 2
                                                  : 1;
        if (length > back)
            lead = text.size() - back;
        break;
    }
    return lead;
}

}  // namespace

void LineSplitter::feed(std::string_view bytes, Time now, std::vector<LogLine>& lines) {
    stream_bytes_ += bytes.size();
    last_fed_ = now;
    while (!bytes.empty()) {
        const std::size_t end = bytes.find('\n');
        take(bytes.substr(0, end), lines);
        if (end == std::string_view::npos)
            return;
        complete(lines);
        bytes.remove_prefix(end + 1);
    }
}

// A part of a line, with carriage returns perhaps. Those at a line's very end belong to its end
// ("\r\n").
void LineSplitter::take(std::string_view bytes, std::vector<LogLine>& lines) {
    if (bytes.empty())
        return;
    const std::size_t last = bytes.find_last_not_of('\r');
    std::string_view body = bytes.substr(0, last == std::string_view::npos ? 0 : last + 1);
    if (!body.empty()) {
        const std::size_t overwritten = body.rfind('\r');
        if (pending_return_ || overwritten != std::string_view::npos)
            overwrite();
        if (overwritten != std::string_view::npos)
            body.remove_prefix(overwritten + 1);
        partial_ += body;
        shown_ = false;
        while (partial_.size() >= kLongLineBytes)
            give_piece(kLongLineBytes, lines);
    }
    pending_return_ = body.size() < bytes.size() && bytes.back() == '\r';
}

void LineSplitter::overwrite() {
    partial_.clear();
    continues_ = false;
    if (!progress_since_)
        progress_since_ = last_fed_;
}

void LineSplitter::give_piece(std::size_t bytes, std::vector<LogLine>& lines) {
    const std::size_t whole = whole_characters(std::string_view(partial_).substr(0, bytes));
    if (whole == 0)
        return;
    lines.push_back({partial_.substr(0, whole), continues_});
    partial_.erase(0, whole);
    continues_ = true;
}

void LineSplitter::complete(std::vector<LogLine>& lines) {
    const bool nothing_new = shown_ || (continues_ && partial_.empty());
    if (!nothing_new)
        lines.push_back({std::move(partial_), continues_});
    partial_.clear();
    continues_ = shown_ = pending_return_ = false;
    progress_since_.reset();
}

void LineSplitter::idle(Time now, std::vector<LogLine>& lines) {
    if (partial_.empty() || shown_)
        return;
    if (progress_since_) {
        if (now - *progress_since_ < kProgressInterval)
            return;
        lines.push_back({partial_, false});
        shown_ = true;
        progress_since_ = now;
        return;
    }
    const bool buffer_was_full = stream_bytes_ % kStdioBlockBytes == 0;
    if (now - last_fed_ >= (buffer_was_full ? kBlockDelay : kPromptDelay))
        give_piece(partial_.size(), lines);
}

void LineSplitter::finish(std::vector<LogLine>& lines) {
    if (!partial_.empty())
        complete(lines);
    continues_ = shown_ = pending_return_ = false;
    progress_since_.reset();
}

}  // namespace autolaunch::launcher
