#include "placement_watch/gpu_claims.hpp"

#include "base/deadline.hpp"
#include "base/text.hpp"
#include "topology/nvml.hpp"
#include "topology/printable.hpp"
#include "topology/system_files.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <map>

namespace autolaunch::launcher {
namespace {

constexpr int kProhibited = 2, kExclusive = 3;
constexpr std::size_t kShownProcesses = 3;
constexpr std::string_view kEnd = "end";

std::vector<GpuClaim::Process> with_programs(const std::vector<NvmlDevice::Process>& processes,
                                             const std::string& proc_root) {
    std::vector<GpuClaim::Process> named;
    for (const NvmlDevice::Process& process : processes)
        named.push_back(
            {process.pid, process.memory_bytes,
             printable(
                 read_small(fmt::format("{}/{}/comm", proc_root, process.pid)).value_or(""))});
    return named;
}

std::string describe(const std::vector<GpuClaim::Process>& processes) {
    std::vector<std::string> texts;
    for (const auto& process : processes) {
        if (texts.size() == kShownProcesses)
            break;
        std::string text = fmt::format("process {}", process.pid);
        if (!process.program.empty())
            text += fmt::format(" ({})", process.program);
        if (process.memory_bytes > 0)
            text += fmt::format(" with {} MiB", process.memory_bytes >> 20);
        texts.push_back(std::move(text));
    }
    std::string all = join(texts, ", ");
    if (processes.size() > kShownProcesses)
        all += fmt::format(" and {} more", processes.size() - kShownProcesses);
    return all;
}

bool is_of(const GpuClaim& claim, const Gpu& gpu) {
    return claim.bdf == gpu.bdf &&
           (gpu.partition_of.empty() || claim.uuid.empty() || claim.uuid == gpu.uuid);
}

std::string ranks_text(const std::vector<int>& ranks) {
    return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", format_list(ranks));
}

// One sentence a GPU: the worst that is known.
std::string describe(const GpuClaim& claim, const std::string& name,
                     const std::vector<int>& ranks) {
    if (claim.compute_mode == kProhibited)
        return fmt::format(
            "{} lets no program compute (compute mode prohibited): {} will fail; "
            "nvidia-smi -c DEFAULT",
            name, ranks_text(ranks));
    if (claim.compute_mode == kExclusive && (ranks.size() > 1 || !claim.processes.empty()))
        return fmt::format(
            "{} takes one process only (compute mode exclusive){}: {} will fail; nvidia-smi -c "
            "DEFAULT{}",
            name,
            claim.processes.empty() ? std::string() : ", and has " + describe(claim.processes),
            ranks_text(ranks), claim.processes.empty() ? "" : ", or end what has it");
    if (claim.processes.empty())
        return {};
    return fmt::format(
        "{} is in use already, by {}: {} will share its memory and time; end it, or leave this GPU "
        "out (CUDA_VISIBLE_DEVICES)",
        name, describe(claim.processes), ranks_text(ranks));
}

void write_all_of(int output, const std::string& text) {
    for (std::size_t written = 0; written < text.size();) {
        const ssize_t one = ::write(output, text.data() + written, text.size() - written);
        if (one <= 0)
            return;
        written += static_cast<std::size_t>(one);
    }
}

bool parse_numbers(const std::vector<std::string>& words, std::size_t first,
                   std::vector<long long>& numbers) {
    for (std::size_t i = first; i < first + numbers.size(); ++i)
        if (i >= words.size() || !parse_integer(words[i], numbers[i - first]))
            return false;
    return true;
}

}  // namespace

std::vector<GpuClaim> read_gpu_claims(const std::string& library, const std::string& proc_root) {
    std::string why;
    const auto nvml = Nvml::load(why, library);
    std::vector<GpuClaim> claims;
    if (!nvml)
        return claims;
    for (const NvmlDevice& device : nvml->devices({.processes = true, .health = true})) {
        const int mode = device.compute_mode.value_or(0);
        if (!device.mig_enabled)
            claims.push_back(
                {device.bdf, "", mode, with_programs(device.compute_processes, proc_root)});
        for (const NvmlDevice::MigDevice& part : device.mig_devices)
            claims.push_back(
                {device.bdf, part.uuid, mode, with_programs(part.compute_processes, proc_root)});
    }
    return claims;
}

std::vector<std::string> describe_gpu_claims(const std::vector<GpuOfRank>& planned,
                                             const std::vector<GpuClaim>& claims) {
    std::vector<std::string> sentences;
    for (const GpuClaim& claim : claims) {
        std::vector<int> ranks;
        std::string name;
        for (const GpuOfRank& one : planned) {
            if (one.gpu.vendor != "nvidia" || !is_of(claim, one.gpu))
                continue;
            ranks.push_back(one.rank);
            name = fmt::format("{} {} ({})", one.gpu.partition_of.empty() ? "GPU" : "MIG device",
                               one.number, claim.uuid.empty() ? claim.bdf : claim.uuid);
        }
        if (ranks.empty())
            continue;
        if (std::string sentence = describe(claim, name, ranks); !sentence.empty())
            sentences.push_back(std::move(sentence));
    }
    return sentences;
}

std::string encode_gpu_claims(const std::vector<GpuClaim>& claims) {
    std::string text;
    for (const GpuClaim& claim : claims) {
        text += fmt::format("gpu {} {} {}\n", claim.bdf, claim.uuid.empty() ? "-" : claim.uuid,
                            claim.compute_mode);
        for (const auto& process : claim.processes)
            text += fmt::format("process {} {} {}\n", process.pid, process.memory_bytes,
                                process.program);
    }
    return text.append(kEnd) + '\n';
}

std::vector<GpuClaim> decode_gpu_claims(std::string_view text) {
    std::vector<GpuClaim> claims;
    for (const std::string& line : split(text, '\n')) {
        const std::vector<std::string> words = split(line, ' ');
        if (line == kEnd)
            return claims;
        std::vector<long long> mode(1), process(2);
        if (words.front() == "gpu" && parse_numbers(words, 3, mode)) {
            claims.push_back(
                {words[1], words[2] == "-" ? "" : words[2], static_cast<int>(mode[0])});
        } else if (words.front() == "process" && !claims.empty() &&
                   parse_numbers(words, 1, process)) {
            const std::vector<std::string> program(words.begin() + 3, words.end());
            claims.back().processes.push_back({static_cast<int>(process[0]),
                                               static_cast<std::uint64_t>(process[1]),
                                               join(program, " ")});
        } else {
            return {};
        }
    }
    return {};
}

GpuClaimsInquiry::GpuClaimsInquiry(const NodeTopology& topology, const std::string& library) {
    if (std::none_of(topology.gpus.begin(), topology.gpus.end(),
                     [](const Gpu& gpu) { return gpu.vendor == "nvidia"; }))
        return;
    try {
        child_ = HelperProcess([&library](int output) {
            write_all_of(output, encode_gpu_claims(read_gpu_claims(library)));
        });
    } catch (const Error& cannot) {
        trouble_ = cannot.what();
    }
}

std::vector<std::string> GpuClaimsInquiry::warnings(const std::vector<GpuOfRank>& planned,
                                                    std::chrono::milliseconds wait) {
    const auto unknown = [](const std::string& why) {
        return std::vector<std::string>{"whether GPUs are in use already is not known: " + why};
    };
    if (!trouble_.empty())
        return unknown(trouble_);
    if (child_.output() < 0)
        return {};
    std::string text;
    const Deadline deadline = Deadline::after(wait);
    bool more = true;
    for (pollfd answer{child_.output(), POLLIN, 0}; more && !deadline.passed();)
        if (::poll(&answer, 1, deadline.poll_timeout_ms()) > 0)
            more = child_.read_some(text);
    child_.end();
    if (!text.ends_with(fmt::format("{}\n", kEnd)))
        return unknown("NVIDIA's driver does not answer");
    return describe_gpu_claims(planned, decode_gpu_claims(text));
}

}  // namespace autolaunch::launcher
