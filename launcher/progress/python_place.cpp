#include "progress/python_place.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace autolaunch::launcher {

namespace {

struct Frame {
    std::string_view file, line, function;
};

// `  File "/a/b.py", line 12 in name`
std::optional<Frame> frame_of(std::string_view text) {
    constexpr std::string_view kFile = "  File \"", kLine = "\", line ", kIn = " in ";
    if (!text.starts_with(kFile))
        return std::nullopt;
    text.remove_prefix(kFile.size());
    const std::size_t line = text.rfind(kLine);
    if (line == std::string_view::npos)
        return std::nullopt;
    const std::string_view rest = text.substr(line + kLine.size());
    const std::size_t in = rest.find(kIn);
    if (in == std::string_view::npos)
        return std::nullopt;
    return Frame{text.substr(0, line), rest.substr(0, in), trim(rest.substr(in + kIn.size()))};
}

// The main thread was the first, and faulthandler begins with the newest.
std::vector<Frame> main_thread(std::string_view stacks) {
    const std::size_t last = stacks.rfind("(most recent call first):");
    std::vector<Frame> frames;
    if (last == std::string_view::npos)
        return frames;
    std::string_view rest = stacks.substr(last);
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
        if (const auto frame = frame_of(rest.substr(0, end)))
            frames.push_back(*frame);
        rest.remove_prefix(end + 1);
    }
    return frames;
}

bool is_distributed(const Frame& frame) {
    return frame.file.find("/torch/distributed/") != std::string_view::npos;
}

bool is_backward(const Frame& frame) {
    return frame.file.find("/torch/autograd/") != std::string_view::npos &&
           (frame.function == "_engine_run_backward" || frame.function == "backward");
}

bool is_between_processes(const Frame& frame) {
    return frame.file.find("/torch/utils/data/") != std::string_view::npos ||
           frame.file.find("/multiprocessing/") != std::string_view::npos;
}

// What no user has written: torch, Python's own library, what is frozen into it.
bool is_library(const Frame& frame) {
    const auto has = [&](std::string_view part) {
        return frame.file.find(part) != std::string_view::npos;
    };
    const bool is_pythons = has("/lib/python3") && !has("-packages/");
    return has("/torch/") || is_pythons || frame.file.starts_with('<');
}

}  // namespace

PythonPlace python_place(std::string_view stacks) {
    const std::vector<Frame> frames = main_thread(stacks);
    PythonPlace found;
    found.in_backward = !frames.empty() && is_backward(frames.front());
    for (const Frame& frame : frames) {
        if (is_distributed(frame) && frame.function != "wrapper") {  // which only logs
            found.collective = frame.function;  // the outermost is what the user called
        } else if (is_between_processes(frame)) {
            found.awaits_children = true;
        } else if (!is_library(frame)) {
            const std::size_t slash = frame.file.rfind('/');
            found.place = std::string(frame.function) + " (" +
                          std::string(frame.file.substr(slash + 1)) + ":" +
                          std::string(frame.line) + ")";
            break;
        }
    }
    return found;
}

}  // namespace autolaunch::launcher
