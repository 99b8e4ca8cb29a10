#include "base/json_nesting.hpp"
#include "base/text.hpp"
#include "readings/json_fields.hpp"
#include "readings/sample.hpp"
#include "readings/sample_fields.hpp"

#include <utility>

namespace autolaunch::launcher {
namespace {

using json_fields::Json;

constexpr int kDeepest = 4;
// More than a line of a node with 16 GPUs and kSampleRanks ranks has.
constexpr std::size_t kLongestLine = 256U << 10;

template <class Line>
std::string line_of(const Line& line) {
    return json_fields::json_of(line).dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

std::string to_json_line(const NodeSample& sample) { return line_of(sample); }
std::string to_json_line(const SampleHeader& header) { return line_of(header); }

SampleLine parse_sample_line(std::string_view line) {
    line = trim(line);
    if (line.empty() || line.size() > kLongestLine || !nests_at_most(line, kDeepest))
        return {};
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object())
        return {};
    if (json.contains("format")) {
        SampleHeader header{.format = 0};
        json_fields::take(json, header);
        return header.format == kSampleFormat ? SampleLine(std::move(header)) : SampleLine();
    }
    NodeSample sample;
    if (!json.contains("t") || !json_fields::take(json, sample) || sample.time_ms <= 0)
        return {};
    return sample;
}

std::string sample_file_name(std::string_view node) {
    std::string name;
    for (const char c : node) {
        const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                              (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_';
        name += is_plain && !(c == '.' && name.empty()) ? c : '_';
    }
    constexpr std::size_t kLongestName = 200;
    return (name.empty() ? "_" : name.substr(0, kLongestName)) + ".jsonl";
}

}  // namespace autolaunch::launcher
