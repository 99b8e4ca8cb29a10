#include "placement_watch/gpu_events.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr int kKinds = 4;
constexpr std::size_t kMostBytes = 64 * 1024;  // a GPU that repeats itself

}  // namespace

std::string encode_gpu_event(const NvmlEvent& event) {
    return fmt::format("{} {} {}\n", static_cast<int>(event.kind), event.number, event.bdf);
}

std::vector<NvmlEvent> decode_gpu_events(std::string_view text) {
    std::vector<NvmlEvent> events;
    for (std::size_t end = 0; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
        const auto words = split(std::string(text.substr(0, end)), ' ');
        long long kind = 0, number = 0;
        if (words.size() == 3 && parse_integer(words[0], kind) && kind >= 0 && kind < kKinds &&
            parse_integer(words[1], number) && number >= 0)
            events.push_back(
                {static_cast<NvmlEvent::Kind>(kind), words[2], static_cast<std::uint64_t>(number)});
    }
    return events;
}

GpuEvents::GpuEvents(std::vector<std::string> bdfs, const Options& options) try {
    if (bdfs.empty())
        return;
    child_ = HelperProcess([&](int output) {
        std::string why;
        const auto nvml = Nvml::load(why, options.library);
        if (!nvml)
            return;
        std::size_t told = 0;
        nvml->follow_events(bdfs, options.pause, [&](const NvmlEvent& event) {
            const std::string line = encode_gpu_event(event);
            write_all(output, line, "the pipe");
            return (told += line.size()) < kMostBytes;
        });
    });
} catch (const std::exception&) {  // no process is left: the ranks need them more
}

std::vector<NvmlEvent> GpuEvents::of(const std::string& bdf) {
    child_.read_some(text_);
    std::vector<NvmlEvent> events = decode_gpu_events(text_);
    std::erase_if(events, [&](const NvmlEvent& event) { return event.bdf != bdf; });
    return events;
}

}  // namespace autolaunch::launcher
