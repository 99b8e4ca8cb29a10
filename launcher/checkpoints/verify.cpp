#include "base/text.hpp"
#include "checkpoint/format/read_plan.hpp"
#include "checkpoint/load/block_reader.hpp"
#include "checkpoints/byte_progress.hpp"
#include "checkpoints/commands.hpp"
#include "checkpoints/open_checkpoint.hpp"
#include "report/exit_codes.hpp"
#include "report/units.hpp"

#include <autolaunch/checkpoint/safetensors.hpp>
#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMaxShown = 20;  // damages of one checkpoint, for people

/// What was found in one checkpoint.
struct Verdict {
    std::string path;
    std::vector<std::string> damages;
    std::size_t files = 0;
    std::uint64_t bytes = 0;
    std::chrono::milliseconds elapsed{0};
};

// The header must say of every tensor what the manifest says.
void verify_header(const OpenCheckpoint& open, std::size_t file_index, std::vector<std::string>& damages) {
    const Manifest::File& file = open.manifest.files[file_index];
    try {
        const auto opened = open.storage->open(open.path / file.name);
        std::string start(std::min<std::uint64_t>(8, file.bytes), '\0');
        opened->read_at(0, std::as_writable_bytes(std::span(start)));
        start.resize(8 + safetensors::header_bytes(start, file.bytes));
        opened->read_at(0, std::as_writable_bytes(std::span(start)));
        const auto header = safetensors::parse_header(start, file.bytes);
        std::set<std::tuple<std::string, std::uint64_t, std::uint64_t>> entries;
        for (const auto& entry : header.entries)
            entries.emplace(entry.name, header.data_begin + entry.begin, header.data_begin + entry.end);
        for (const auto& tensor : open.manifest.tensors)
            for (const auto& piece : tensor.pieces) {
                const std::uint64_t end =
                    piece.file_offset + static_cast<std::uint64_t>(piece.count) * size_of(tensor.type);
                if (piece.file_index == file_index && !entries.contains({tensor.name, piece.file_offset, end}))
                    damages.push_back((open.path / file.name).string() + ": its header does not place tensor " +
                                      tensor.name + " as the manifest does");
            }
    } catch (const Error& error) {
        damages.push_back((open.path / file.name).string() + ": " + error.what());
    }
}

// Every block, also behind damaged ones.
void verify_blocks(const OpenCheckpoint& open, std::size_t file_index, ByteProgress& progress,
                   std::vector<std::string>& damages) {
    const Manifest::File& file = open.manifest.files[file_index];
    std::vector<std::size_t> blocks(file.block_digests.size());
    std::iota(blocks.begin(), blocks.end(), 0);
    std::size_t next = 0;
    while (next < blocks.size()) {
        try {
            BlockReader reader(*open.storage, open.path, file, [&](std::uint64_t begin, std::uint64_t end) {
                return content_at(open.manifest, file_index, begin, end);
            });
            reader.read(std::span(blocks).subspan(next), [&](std::size_t, std::span<const std::byte> content) {
                progress.add(content.size());
                ++next;
            });
        } catch (const Error& error) {
            damages.push_back(error.what());
            ++next;
            if (error.code() != ErrorCode::corrupt) return;  // it cannot be read at all
        }
    }
}

Verdict verify(const std::string& path) {
    Verdict verdict;
    verdict.path = path;
    require_directory(path);
    try {
        const OpenCheckpoint open = open_checkpoint(path);
        verdict.damages = open.skipped;
        verdict.path = open.path.string();
        verdict.files = open.manifest.files.size();
        verdict.bytes = file_bytes_of(open.manifest);
        ByteProgress progress("verifying", verdict.bytes);
        for (std::size_t i = 0; i < open.manifest.files.size(); ++i) {
            verify_header(open, i, verdict.damages);
            verify_blocks(open, i, progress, verdict.damages);
        }
        verdict.elapsed = progress.elapsed();
    } catch (const Error& error) {
        if (!has_checkpoint(path)) throw;
        verdict.damages.push_back(path + ": " + error.what());
    }
    return verdict;
}

std::string verdict_text(const Verdict& verdict) {
    if (verdict.damages.empty())
        return fmt::format("{}: whole: {} files, {} in {}\n", shown(verdict.path), verdict.files,
                           format_bytes(verdict.bytes), format_duration(verdict.elapsed));
    std::string text = fmt::format("{}: damaged in {} places\n", shown(verdict.path), verdict.damages.size());
    for (std::size_t i = 0; i < std::min(kMaxShown, verdict.damages.size()); ++i)
        text += "  " + shown(verdict.damages[i]) + '\n';
    if (verdict.damages.size() > kMaxShown) text += "  … all of them with --json\n";
    return text;
}

}  // namespace

CheckpointOutcome verify_checkpoints(const CheckpointRequest& request) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    CheckpointOutcome outcome;
    for (const std::string& path : request.paths) {
        const Verdict verdict = verify(path);
        if (!verdict.damages.empty()) outcome.exit_code = exit_code::kFindings;
        outcome.text += verdict_text(verdict);
        json.push_back({{"path", verdict.path},
                        {"whole", verdict.damages.empty()},
                        {"files", verdict.files},
                        {"bytes", verdict.bytes},
                        {"damages", verdict.damages}});
    }
    if (request.json) outcome.text = json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
    return outcome;
}

}  // namespace autolaunch::launcher
