#pragma once
#include "readings/gpu_reader.hpp"
#include "readings/node_measures.hpp"
#include "readings/node_reading.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace autolaunch::launcher {

// What an agent and its sampler say to each other: lines of JSON over a pair of sockets. Both are
// of one program, so that there is no version.

/// The first line to the sampler: all that it has to know.
struct SamplerOrder {
    std::string run_dir = {}, node = {}, run_id = {}, job_id = {}, step_id = {}, job_name = {};
    std::int64_t interval_ms = 10'000;
    std::vector<WatchedGpu> gpus = {};
    bool asks_nvidia = true;
    std::map<std::string, std::string> file_systems = {};  ///< what each is for, by path
    std::string version = {};
    int restarts = 0;                  ///< of the sampler, before this one
    std::string textfile_folder = {};  ///< node_exporter's; empty: none is written
    std::string metrics_listen = {};   ///< an address; empty: nobody is served
    int metrics_port = 0;              ///< 0: one that is free
    std::string metrics_targets = {};  ///< the folder of file_sd files; empty: none is written
    std::string metrics_host = {};     ///< as others reach this node, for that file
    bool operator==(const SamplerOrder&) const = default;
};
/// Any time: what the agent knows; the newest counts.
using SamplerInput = std::variant<std::monostate, SamplerOrder, AgentFacts>;

/// To the agent.
struct SamplerAlive {};
/// The node is about to be measured: what do you know?
struct SamplerAsks {};
struct SamplerWarning {
    std::string text;
};
struct SamplerMeasured {
    NodeMeasures measures;
};
using SamplerOutput =
    std::variant<std::monostate, SamplerAlive, SamplerAsks, SamplerWarning, SamplerMeasured>;

std::string to_line(const SamplerOrder& order);
std::string to_line(const AgentFacts& facts);
std::string to_line(const SamplerAlive&);
std::string to_line(const SamplerAsks&);
std::string to_line(const SamplerWarning& warning);
std::string to_line(const SamplerMeasured& measured);

/// Nothing of what is no such line. Pure.
SamplerInput parse_sampler_input(std::string_view line);
SamplerOutput parse_sampler_output(std::string_view line);

}  // namespace autolaunch::launcher
