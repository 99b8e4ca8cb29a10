#include "base/read_at_most.hpp"
#include "base/text.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/format/read_plan.hpp"
#include "checkpoint/load/block_reader.hpp"
#include "checkpoint/load/decrypting_reader.hpp"
#include "checkpoint/s3/routed_storage.hpp"
#include "checkpoints/byte_progress.hpp"
#include "checkpoints/commands.hpp"
#include "checkpoints/open_checkpoint.hpp"
#include "exit_codes/exit_error.hpp"
#include "report/units.hpp"

#include <autolaunch/checkpoint/safetensors.hpp>
#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <span>
#include <tuple>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMaxShown = 20;  // damages of one checkpoint, for people

/// What was found in one checkpoint.
struct Verdict {
    std::string path;
    std::vector<std::string> damages;
    std::size_t files = 0;
    std::size_t sealed_files = 0;  // encrypted, and there was no key to open them
    std::uint64_t bytes = 0;
    std::chrono::milliseconds elapsed{0};
    std::string lineage;    // what was found of it, in words
    std::string signature;  // the same
};

std::vector<std::size_t> numbers_to(std::size_t count) {
    std::vector<std::size_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
}

// The first bytes of a file's content, opened where it is encrypted.
std::string content_start(const OpenCheckpoint& open, const Manifest::File& file,
                          std::uint64_t bytes) {
    constexpr std::uint64_t kBlock = Manifest::kBlockBytes;
    std::string start(std::min(bytes, file.content_bytes()), '\0');
    if (!file.plain_bytes) {
        open.storage->open(open.path / file.name)
            ->read_at(0, std::as_writable_bytes(std::span(start)));
        return start;
    }
    DecryptingReader reader(*open.storage, open.path, file, open.keys());
    reader.read(numbers_to((start.size() + kBlock - 1) / kBlock),
                [&](std::size_t index, std::span<const std::byte> content) {
                    const std::size_t at = index * kBlock;
                    std::memcpy(&start[at], content.data(),
                                std::min(content.size(), start.size() - at));
                });
    return start;
}

/// A piece of a tensor in a file.
struct Placed {
    const Manifest::Tensor* tensor = nullptr;
    std::uint64_t begin = 0, end = 0;
};
using PlacedByFile = std::vector<std::vector<Placed>>;

PlacedByFile placed_by_file(const Manifest& manifest) {
    PlacedByFile files(manifest.files.size());
    for (const auto& tensor : manifest.tensors)
        for (const auto& piece : tensor.pieces)
            files[piece.file_index].push_back(
                {&tensor, piece.file_offset,
                 piece.file_offset +
                     static_cast<std::uint64_t>(piece.count) * size_of(tensor.type)});
    return files;
}

// The header must say of every tensor what the manifest says.
void verify_header(const OpenCheckpoint& open, std::size_t file_index,
                   std::span<const Placed> placed, std::vector<std::string>& damages) {
    const Manifest::File& file = open.manifest.files[file_index];
    try {
        const std::uint64_t bytes =
            safetensors::header_bytes(content_start(open, file, 8), file.content_bytes());
        const auto header =
            safetensors::parse_header(content_start(open, file, 8 + bytes), file.content_bytes());
        std::set<std::tuple<std::string, std::uint64_t, std::uint64_t>> entries;
        for (const auto& entry : header.entries)
            entries.emplace(entry.name, header.data_begin + entry.begin,
                            header.data_begin + entry.end);
        for (const Placed& one : placed)
            if (!entries.contains({one.tensor->name, one.begin, one.end}))
                damages.push_back((open.path / file.name).string() +
                                  ": its header does not place tensor " + one.tensor->name +
                                  " as the manifest does");
    } catch (const Error& error) {
        damages.push_back((open.path / file.name).string() + ": " + error.what());
    }
}

// Every block, also behind damaged ones.
void verify_blocks(const OpenCheckpoint& open, std::size_t file_index, ByteProgress& progress,
                   std::vector<std::string>& damages) {
    const Manifest::File& file = open.manifest.files[file_index];
    const std::vector<std::size_t> blocks = numbers_to(file.block_digests.size());
    BlockReader::Describe describe;  // what is sealed says nothing of where its tensors are
    if (!file.plain_bytes)
        describe = [&](std::uint64_t begin, std::uint64_t end) {
            return content_at(open.manifest, file_index, begin, end);
        };
    std::size_t next = 0;
    while (next < blocks.size()) {
        try {
            BlockReader reader(*open.storage, open.path, file, describe, open.check);
            reader.read(std::span(blocks).subspan(next),
                        [&](std::size_t, std::span<const std::byte> content) {
                            progress.add(content.size());
                            ++next;
                        });
        } catch (const Error& error) {
            damages.push_back(error.what());
            ++next;
            if (error.code() != ErrorCode::corrupt)
                return;  // it cannot be read at all
        }
    }
}

// Also what no digest says: that every chunk opens. Where one does not, all blocks are looked at.
void verify_sealed(const OpenCheckpoint& open, std::size_t file_index, ByteProgress& progress,
                   std::vector<std::string>& damages) {
    const Manifest::File& file = open.manifest.files[file_index];
    try {
        DecryptingReader reader(*open.storage, open.path, file, open.keys());
        const std::uint64_t blocks =
            (*file.plain_bytes + Manifest::kBlockBytes - 1) / Manifest::kBlockBytes;
        reader.read(numbers_to(blocks), [&](std::size_t, std::span<const std::byte> content) {
            progress.add(content.size());
        });
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt)
            throw;
        const std::size_t before = damages.size();
        verify_blocks(open, file_index, progress, damages);
        if (damages.size() == before)
            damages.push_back(error.what());
    }
}

void verify_file(const OpenCheckpoint& open, std::size_t file_index, std::span<const Placed> placed,
                 ByteProgress& progress, Verdict& verdict) {
    const bool encrypted = open.manifest.files[file_index].plain_bytes.has_value();
    if (encrypted && open.identities.empty()) {
        ++verdict.sealed_files;
        return verify_blocks(open, file_index, progress, verdict.damages);
    }
    const std::size_t before = verdict.damages.size();
    if (encrypted)
        verify_sealed(open, file_index, progress, verdict.damages);
    // Nothing can be read of what is sealed and damaged.
    if (verdict.damages.size() == before)
        verify_header(open, file_index, placed, verdict.damages);
    if (!encrypted)
        verify_blocks(open, file_index, progress, verdict.damages);
}

// The parent that it names, where it lies beside it. Another one may be there by right: its step
// was saved again.
std::string look_at_lineage(const OpenCheckpoint& open) {
    if (open.manifest.lineage.empty())
        return "no lineage";
    const auto parent = parent_of_lineage(open.manifest.lineage);
    if (!parent)
        return "the first of its lineage";
    const std::filesystem::path path = parent->path.empty()
                                           ? open.path.parent_path() / checkpoint_name(parent->step)
                                           : std::filesystem::path(parent->path);
    const std::string name = fmt::format("after step {}", parent->step);
    if (parent->manifest_sha256.empty())
        return name + ", of which no digest is known";
    try {
        const auto storage = make_routed_storage();
        const std::string digest =
            sha256_text(read_whole(*storage, path / kManifestName, kMaxManifestBytes));
        if (digest.empty())
            return name + "; without libcrypto it is not compared";
        return digest == parent->manifest_sha256 ? name + ", which is there and is that one"
                                                 : name + "; what is there now is another one";
    } catch (const Error&) {
        return name + ", which is not there any more";
    }
}

// `file`: whose signature is wanted; empty: only whether it has that of the key that it names.
std::string look_at_signature(const OpenCheckpoint& open, const std::string& file,
                              std::vector<std::string>& damages) {
    constexpr std::size_t kLongestKey = 1 << 16;
    const std::string named = signer_of_lineage(open.manifest.lineage);
    if (file.empty() && named.empty())
        return {};
    const crypto::Point key = file.empty()
                                  ? crypto::parse_public_key(named, "the manifest's signed_by")
                                  : crypto::parse_public_key(read_at_most(file, kLongestKey), file);
    const std::string place = (open.path / kManifestName).string();
    switch (signature_of(manifest_text(open), key)) {
        case Signed::no:
            damages.push_back(place + (named.empty() ? " has no signature"
                                                     : " says that it is signed, and is not"));
            return {};
        case Signed::otherwise:
            damages.push_back(place + " does not have the signature of the key " +
                              (file.empty() ? named : file));
            return {};
        case Signed::by_key:
            break;
    }
    return file.empty() ? "signed with a key that it names itself; --public-key FILE says whether "
                          "it is the right one"
                        : "signed with the key of " + file;
}

bool has_identity(const EncryptionOptions& encryption) {
    return !encryption.identity_file.empty() || !encryption.identity_command.empty();
}

Verdict verify(const std::string& path, const CheckpointRequest& request) {
    const EncryptionOptions encryption = encryption_of(request);
    const std::string& public_key = request.keys.public_key_file;
    Verdict verdict;
    verdict.path = path;
    require_directory(path);
    try {
        OpenCheckpoint open = open_checkpoint(path, encryption);
        if (is_encrypted(open.manifest) && has_identity(encryption))
            open.identities = identities_to_read(encryption, request.vault);
        verdict.damages = open.skipped;
        verdict.lineage = look_at_lineage(open);
        verdict.signature = look_at_signature(open, public_key, verdict.damages);
        if (!verdict.signature.empty())
            open.check = BlockCheck::tampering;
        verdict.path = open.path.string();
        verdict.files = open.manifest.files.size();
        verdict.bytes = file_bytes_of(open.manifest);
        const PlacedByFile placed = placed_by_file(open.manifest);
        ByteProgress progress("verifying", verdict.bytes);
        for (std::size_t i = 0; i < open.manifest.files.size(); ++i)
            verify_file(open, i, placed[i], progress, verdict);
        verdict.elapsed = progress.elapsed();
    } catch (const ExitError&) {
        throw;  // Vault opens no key
    } catch (const Error& error) {
        // A key that does not fit, or is none, is no damage.
        if (error.code() == ErrorCode::mismatch || error.code() == ErrorCode::invalid_argument)
            throw;
        if (!has_checkpoint(path))
            throw;
        verdict.damages.push_back(path + ": " + error.what());
    }
    return verdict;
}

std::string verdict_text(const Verdict& verdict) {
    if (verdict.damages.empty())
        return fmt::format("{}: whole: {} files, {} in {}{}\n", shown(verdict.path), verdict.files,
                           format_bytes(verdict.bytes), format_duration(verdict.elapsed),
                           verdict.sealed_files > 0
                               ? "; encrypted, not opened: --identity FILE does"
                               : "") +
               fmt::format("  lineage: {}\n", shown(verdict.lineage)) +
               (verdict.signature.empty()
                    ? ""
                    : fmt::format("  signature: {}\n", shown(verdict.signature)));
    std::string text =
        fmt::format("{}: damaged in {} places\n", shown(verdict.path), verdict.damages.size());
    for (std::size_t i = 0; i < std::min(kMaxShown, verdict.damages.size()); ++i)
        text += "  " + shown(verdict.damages[i]) + '\n';
    if (verdict.damages.size() > kMaxShown)
        text += "  … all of them with --json\n";
    return text;
}

}  // namespace

CheckpointOutcome verify_checkpoints(const CheckpointRequest& request) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    CheckpointOutcome outcome;
    for (const std::string& path : request.paths) {
        const Verdict verdict = verify(path, request);
        if (!verdict.damages.empty())
            outcome.exit_code = exit_code::kFindings;
        outcome.text += verdict_text(verdict);
        json.push_back({{"path", verdict.path},
                        {"whole", verdict.damages.empty()},
                        {"files", verdict.files},
                        {"bytes", verdict.bytes},
                        {"not_opened", verdict.sealed_files},
                        {"lineage", verdict.lineage},
                        {"signature", verdict.signature},
                        {"damages", verdict.damages}});
    }
    if (request.json)
        outcome.text =
            json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
    return outcome;
}

}  // namespace autolaunch::launcher
