#include "topology/smi_topology.hpp"

#include "base/text.hpp"
#include "topology/capture_parts.hpp"
#include "topology/natural_order.hpp"
#include "topology/system_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>

namespace autolaunch::launcher {
namespace {

constexpr std::size_t kMostDevices = 512;

struct Row {
    std::string device;
    std::vector<std::string> cells;           ///< one for each device column
    std::string cpu_affinity, numa_affinity;  ///< empty: blank, or no such column
    bool gpu_has_node = false;                ///< its memory is a NUMA node of its own, as on Grace
    int line = 0;
};

/// The header's columns: devices, then some of "CPU Affinity", "NUMA Affinity", "GPU NUMA ID".
struct Header {
    std::vector<std::string> devices;
    bool cpu_affinity = false, numa_affinity = false, gpu_numa_id = false;
    int line = 0;
};

// nvidia-smi underlines the header: ESC [ 4 m.
std::string without_escapes(std::string_view line) {
    std::string plain;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
            for (i += 2; i < line.size() && !(line[i] >= '@' && line[i] <= '~');)
                ++i;
            continue;
        }
        if (line[i] != '\r')
            plain += line[i];
    }
    return plain;
}

std::vector<std::string> words_of(std::string_view line) {
    std::vector<std::string> words;
    for (std::size_t begin = line.find_first_not_of(" \t"); begin != line.npos;) {
        const std::size_t end = std::min(line.find_first_of(" \t", begin), line.size());
        words.emplace_back(line.substr(begin, end - begin));
        begin = line.find_first_not_of(" \t", end);
    }
    return words;
}

// -1: no "GPU7".
long long gpu_number(std::string_view word) {
    long long number = 0;
    const bool is_gpu =
        word.starts_with("GPU") && word.size() > 3 && word[3] >= '0' && word[3] <= '9';
    return is_gpu && parse_integer(word.substr(3), number) && number < 4096 ? number : -1;
}

std::optional<Header> parse_header(const std::string& line, int line_number) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() < 2 || gpu_number(words[0]) < 0)
        return std::nullopt;
    Header header;
    header.line = line_number;
    std::size_t i = 0;
    for (; i < words.size(); ++i) {
        const bool rest =
            (words[i] == "CPU" || words[i] == "NUMA" || words[i] == "GPU") && i + 1 < words.size();
        if (rest)
            break;
        header.devices.push_back(words[i]);
    }
    const std::string rest = join(std::span(words).subspan(i), " ");
    header.cpu_affinity = rest.find("CPU Affinity") != rest.npos;
    header.numa_affinity = rest.find("NUMA Affinity") != rest.npos;
    header.gpu_numa_id = rest.find("GPU NUMA ID") != rest.npos;
    // A row may look alike in a table of GPUs alone: only a header has the columns after them or a
    // second device.
    if (header.devices.size() > 1 && gpu_number(header.devices[1]) < 0 && !header.cpu_affinity)
        return std::nullopt;
    return header;
}

std::optional<PathClass> parse_cell(const std::string& cell, int& links) {
    long long number = 0;
    links = 0;
    if (cell.starts_with("NV") && parse_integer(std::string_view(cell).substr(2), number) &&
        number > 0 && number <= 1024) {
        links = static_cast<int>(number);
        return PathClass::nvlink;
    }
    // PSB and SOC are what older drivers call a board's own switch and the way between sockets.
    static const std::map<std::string, PathClass> kClasses = {
        {"X", PathClass::unknown}, {"N/A", PathClass::unknown}, {"PIX", PathClass::pix},
        {"PSB", PathClass::pix},   {"PXB", PathClass::pxb},     {"PHB", PathClass::phb},
        {"NODE", PathClass::node}, {"SYS", PathClass::sys},     {"SOC", PathClass::sys},
    };
    const auto found = kClasses.find(cell);
    return found == kClasses.end() ? std::nullopt : std::optional(found->second);
}

// With tabs a blank cell is seen. Without, a row that lacks one lacks its CPU affinity: a cpuset
// can empty that, while the NUMA node is told all the same.
void take_affinities(const Header& header, const std::string& line, std::size_t words_before,
                     const std::vector<std::string>& words, Row& row) {
    std::vector<std::string> rest;
    if (line.find('\t') != line.npos) {
        const std::vector<std::string> cells =
            split(line.substr(line.find_first_not_of(" \t")), '\t');
        for (std::size_t i = words_before; i < cells.size(); ++i)
            rest.emplace_back(trim(cells[i]));
    } else {
        const std::size_t expected = static_cast<std::size_t>(
            header.cpu_affinity + header.numa_affinity + header.gpu_numa_id);
        rest.assign(words.begin() + static_cast<std::ptrdiff_t>(words_before), words.end());
        if (rest.size() + 1 == expected && expected > 1)
            rest.insert(rest.begin(), "");
    }
    const auto last = std::find_if(rest.rbegin(), rest.rend(),
                                   [](const std::string& cell) { return !cell.empty(); });
    long long node = 0;
    row.gpu_has_node = header.gpu_numa_id && last != rest.rend() && parse_integer(*last, node);
    rest.resize(std::max<std::size_t>(rest.size(), 2));
    if (header.cpu_affinity)
        row.cpu_affinity = rest[0];
    if (header.numa_affinity)
        row.numa_affinity = rest[header.cpu_affinity ? 1 : 0];
    if (row.cpu_affinity == "N/A")
        row.cpu_affinity.clear();
    if (row.numa_affinity == "N/A")
        row.numa_affinity.clear();
}

class SmiReader {
public:
    explicit SmiReader(const std::string& file) : file_(file) {}
    NodeTopology read(std::string_view text);

private:
    [[noreturn]] void refuse(int line, const std::string& what) const {
        refuse_capture(file_, line, what, "save the whole output of: nvidia-smi topo -m");
    }
    std::size_t find_header(const std::vector<std::string>& lines);
    void find_table(const std::vector<std::string>& lines);
    Row parse_row(const std::string& line, int line_number) const;
    void find_legend(const std::vector<std::string>& lines);
    void add_gpu(const Row& row);
    void add_hcas();
    void tell_paths(const Row& row);
    void add_numa_nodes();
    void add_notes();

    const std::string& file_;
    Header header_;
    std::vector<Row> rows_;  ///< of GPUs, in the header's order
    std::map<std::string, std::string> legend_;
    std::map<int, std::vector<int>> cpus_of_node_;
    bool some_cpus_are_blank_ = false;
    NodeTopology result_;
};

Row SmiReader::parse_row(const std::string& line, int line_number) const {
    const std::vector<std::string> words = words_of(line);
    Row row;
    row.line = line_number;
    row.device = words.front();
    const std::size_t columns = header_.devices.size();
    if (words.size() < 1 + columns)
        refuse(line_number, fmt::format("the row of {} has {} cells, its header {}", row.device,
                                        words.size() - 1, columns));
    row.cells.assign(words.begin() + 1, words.begin() + static_cast<std::ptrdiff_t>(1 + columns));
    int ignored = 0;
    for (const std::string& cell : row.cells)
        if (!parse_cell(cell, ignored))
            refuse(line_number,
                   fmt::format("'{:.40}' is no path; expected X, NV#, PIX, PXB, PHB, NODE or SYS",
                               cell));
    take_affinities(header_, line, 1 + columns, words, row);
    return row;
}

// The first table counts. Prose may speak of "GPU0 GPU1" too: a header has the row of its first
// device below it.
std::size_t SmiReader::find_header(const std::vector<std::string>& lines) {
    for (std::size_t at = 0; at < lines.size(); ++at) {
        auto header = parse_header(lines[at], static_cast<int>(at + 1));
        if (!header)
            continue;
        if (header_.devices.empty())
            header_ = *header;
        const auto below =
            std::find_if(lines.begin() + static_cast<std::ptrdiff_t>(at) + 1, lines.end(),
                         [](const std::string& line) { return !trim(line).empty(); });
        const auto row = below == lines.end() ? std::vector<std::string>{} : words_of(*below);
        if (row.empty() || row[0] != header->devices[0] ||
            (row.size() > 1 && gpu_number(row[1]) >= 0))
            continue;
        header_ = std::move(*header);
        break;
    }
    if (header_.devices.empty())
        refuse_capture(file_, 0,
                       "it is no topology: expected a folder with sys/, hwloc's XML (<topology>), "
                       "NCCL's XML (<system>) "
                       "or the output of nvidia-smi topo -m");
    return static_cast<std::size_t>(header_.line);
}

void SmiReader::find_table(const std::vector<std::string>& lines) {
    std::size_t at = find_header(lines);
    const auto& devices = header_.devices;
    if (devices.size() > kMostDevices)
        refuse(header_.line, "the table is too wide");
    const auto is_gpu = [](const std::string& device) { return gpu_number(device) >= 0; };
    const auto gpus = static_cast<std::size_t>(
        std::find_if_not(devices.begin(), devices.end(), is_gpu) - devices.begin());
    if (std::any_of(devices.begin() + static_cast<std::ptrdiff_t>(gpus), devices.end(), is_gpu))
        refuse(header_.line, "a GPU comes after a NIC");
    for (; at < lines.size() && rows_.size() < gpus; ++at) {
        if (trim(lines[at]).empty())
            continue;
        if (words_of(lines[at]).front() != devices[rows_.size()])
            break;
        rows_.push_back(parse_row(lines[at], static_cast<int>(at + 1)));
    }
    if (rows_.size() < gpus)
        refuse(static_cast<int>(std::min(at + 1, lines.size())),
               fmt::format("expected the row of {}", devices[rows_.size()]));
}

// "  NIC0: mlx5_0"
void SmiReader::find_legend(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
        const std::vector<std::string> words = words_of(line);
        if (words.size() == 2 && words[0].starts_with("NIC") && words[0].ends_with(':'))
            legend_.emplace(words[0].substr(0, words[0].size() - 1), words[1]);
    }
}

void SmiReader::add_gpu(const Row& row) {
    Gpu gpu;
    gpu.vendor = "nvidia";
    gpu.index = static_cast<int>(gpu_number(row.device));
    const auto cpus = parse_list(row.cpu_affinity);
    if (!cpus)
        refuse(row.line, fmt::format("'{:.40}' is no list of CPUs", row.cpu_affinity));
    const auto nodes = parse_list(row.numa_affinity);
    if (!nodes)
        refuse(row.line, fmt::format("'{:.40}' is no list of NUMA nodes", row.numa_affinity));
    gpu.local_cpus = *cpus;
    if (cpus->empty())
        some_cpus_are_blank_ = true;
    if (!cpus->empty() || !nodes->empty())
        gpu.numa_source = "nvidia-smi's affinity";
    // Where GPUs' memory is NUMA nodes too, those with CPUs have the lowest numbers.
    if (nodes->size() == 1 || (row.gpu_has_node && !nodes->empty())) {
        gpu.numa_node = nodes->front();
        std::vector<int>& known = cpus_of_node_[nodes->front()];
        known.insert(known.end(), cpus->begin(), cpus->end());
    }
    auto& allowed = result_.allowed_cpus;
    allowed.insert(allowed.end(), cpus->begin(), cpus->end());
    result_.gpus.push_back(std::move(gpu));
}

void SmiReader::add_hcas() {
    for (const std::string& device : header_.devices) {
        if (gpu_number(device) >= 0)
            continue;
        Hca hca;
        const auto named = legend_.find(device);
        hca.name = named == legend_.end() ? device : named->second;
        hca.is_named = named != legend_.end() || !device.starts_with("NIC");
        hca.ports.push_back({1, true, "", 0});
        result_.hcas.push_back(std::move(hca));
    }
}

// A path inside a NUMA node places the NIC where the GPU is.
void SmiReader::tell_paths(const Row& row) {
    const auto self = static_cast<std::size_t>(&row - rows_.data());
    std::size_t hca = 0;
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
        const bool is_gpu = gpu_number(header_.devices[i]) >= 0;
        ToldPath told;
        told.from = row.device;
        told.to = is_gpu ? header_.devices[i] : result_.hcas[hca].name;
        told.path = *parse_cell(row.cells[i], told.links);
        if (!is_gpu) {
            Hca& nic = result_.hcas[hca++];
            const bool near = told.path != PathClass::sys && told.path != PathClass::unknown;
            if (near && !nic.numa_node)
                nic.numa_node = result_.gpus[self].numa_node;
        }
        if (told.path != PathClass::unknown && (!is_gpu || i > self))
            result_.told_paths.push_back(std::move(told));
    }
}

void sort_unique(std::vector<int>& numbers) {
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

void SmiReader::add_numa_nodes() {
    sort_unique(result_.allowed_cpus);
    for (auto& [index, cpus] : cpus_of_node_) {
        sort_unique(cpus);
        if (!cpus.empty())
            result_.numa_nodes.push_back({index, 0, cpus, {}});
    }
}

void SmiReader::add_notes() {
    auto& notes = result_.notes;
    if (cpus_of_node_.empty())
        notes.push_back("NUMA nodes are not told");
    if (some_cpus_are_blank_)
        notes.push_back(
            "some GPUs have no CPU affinity: none of the CPUs near them was allowed there, or it "
            "was not "
            "told");
    if (!result_.hcas.empty())
        notes.push_back(
            "ports of NICs are not told: each is shown with one port taken as active, of unknown "
            "speed");
    notes.push_back(
        "PCI addresses, models, memory, interfaces and CPUs that are near no GPU are not told");
}

NodeTopology SmiReader::read(std::string_view text) {
    std::vector<std::string> lines = split(text, '\n');
    for (std::string& line : lines)
        line = without_escapes(line);
    find_table(lines);
    find_legend(lines);
    for (const Row& row : rows_)
        add_gpu(row);
    add_hcas();
    for (const Row& row : rows_)
        tell_paths(row);
    std::stable_sort(result_.hcas.begin(), result_.hcas.end(),
                     [](const Hca& a, const Hca& b) { return natural_less(a.name, b.name); });
    add_numa_nodes();
    count_cpus_as_cores(result_);
    add_notes();
    return std::move(result_);
}

}  // namespace

NodeTopology read_smi_topology(std::string_view text, const std::string& file) {
    return SmiReader(file).read(text);
}

}  // namespace autolaunch::launcher
