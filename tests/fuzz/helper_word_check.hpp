#pragma once
#include "containers/container_probe.hpp"
#include "doctor/finding.hpp"
#include "doctor/rails.hpp"
#include "job_secrets/secret_messages.hpp"
#include "placement_watch/compute_processes.hpp"
#include "placement_watch/gpu_claims.hpp"
#include "placement_watch/gpu_events.hpp"
#include "placement_watch/gpu_gauges.hpp"
#include "python_start/preload_record.hpp"
#include "rank_services/connection_vouching.hpp"
#include "require.hpp"
#include "sampler/sampler_messages.hpp"
#include "stage_out/out_journal.hpp"
#include "stage_out/out_words.hpp"

#include <autolaunch/error.hpp>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace autolaunch::launcher {

namespace helper_word {

using fuzz::require;

/// What `read` makes of the bytes is written to read the same; it may throw Error{corrupt}.
template <class Read, class Write>
std::size_t reads_back(std::string_view bytes, Read read, Write write) {
    try {
        const auto value = read(bytes);
        const std::string text = write(value);
        require(write(read(text)) == text);
        return 1;
    } catch (const Error& error) {
        require(error.code() == ErrorCode::corrupt);
        return 0;
    }
}

/// The same of what reads nothing of other bytes.
template <class Read, class Write>
std::size_t may_read_back(std::string_view bytes, Read read, Write write) {
    const auto value = read(bytes);
    if (!value)
        return 0;
    const auto again = read(write(*value));
    require(again && write(*again) == write(*value));
    return 1;
}

inline std::string gauges_text(const std::vector<NvmlGauge>& gauges) {
    std::string text;
    for (const NvmlGauge& gauge : gauges)
        text += encode_gpu_gauge(gauge);
    return text;
}
inline std::string events_text(const std::vector<NvmlEvent>& events) {
    std::string text;
    for (const NvmlEvent& event : events)
        text += encode_gpu_event(event);
    return text;
}
inline std::string order_text(const SamplerInput& input) {
    if (const auto* order = std::get_if<SamplerOrder>(&input))
        return to_line(*order);
    const auto* facts = std::get_if<AgentFacts>(&input);
    return facts == nullptr ? std::string() : to_line(*facts);
}
inline std::string measured_text(const SamplerOutput& output) {
    if (const auto* warning = std::get_if<SamplerWarning>(&output))
        return to_line(*warning);
    const auto* measured = std::get_if<SamplerMeasured>(&output);
    return measured == nullptr ? std::string() : to_line(*measured);
}

inline std::size_t check_vouching(std::string_view bytes) {
    using namespace vouching;
    return may_read_back(bytes, parse_addresses, encode_addresses) +
           may_read_back(
               bytes, parse_question,
               [](const Question& one) { return encode_question(one.ticket, one.ends); }) +
           may_read_back(bytes, parse_answer,
                         [](const Answer& one) { return encode_answer(one.ticket, one.is_ours); });
}

inline std::string journal_text(const std::map<std::string, CopiedFile>& known) {
    std::string text;
    for (const auto& [path, file] : known)
        text += journal_line(path, file);
    return text;
}

inline std::size_t check_stage_out(std::string_view bytes) {
    reads_back(bytes, parse_journal, journal_text);
    return reads_back(bytes, parse_out_order, [](const OutOrder& one) { return as_text(one); }) +
           reads_back(bytes, parse_copy_order, [](const CopyOrder& one) { return as_line(one); }) +
           reads_back(bytes, parse_out_word, [](const OutWord& one) { return as_line(one); }) +
           reads_back(bytes, parse_out_ask, [](const OutAsk& one) { return as_line(one); });
}

}  // namespace helper_word

/// What processes of ours that may lie or be cut off say through pipes (the doctor's, those that
/// ask drivers, the sampler's, an interpreter's, a container's), and agents of other nodes on
/// secrets and connections: it is written to read the same, or refused. Aborts where that is not
/// so. How much was understood.
inline std::size_t check_helper_bytes(std::string_view bytes) {
    using namespace helper_word;
    std::size_t found = reads_back(bytes, decode_report, encode_report) +
                        reads_back(bytes, decode_targets, encode_targets) +
                        reads_back(bytes, decode_names, encode_names) +
                        reads_back(bytes, decode_answers, encode_answers) + check_vouching(bytes) +
                        check_stage_out(bytes);
    reads_back(bytes, decode_gpu_gauges, gauges_text);
    reads_back(bytes, decode_gpu_events, events_text);
    reads_back(bytes, decode_gpu_claims, encode_gpu_claims);
    reads_back(bytes, parse_sampler_input, order_text);
    reads_back(bytes, parse_sampler_output, measured_text);
    if (decode_compute_processes(bytes).trouble.empty())
        found += reads_back(bytes, decode_compute_processes, encode_compute_processes);
    rails_from(bytes);
    const std::string text(bytes);
    const ContainerProbe probe = parse_probe(text);
    require(probe.trouble.size() <= bytes.size());
    parse_walk(text);
    return found + probe.said.size();
}

}  // namespace autolaunch::launcher
