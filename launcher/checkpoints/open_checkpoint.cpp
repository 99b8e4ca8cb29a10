#include "checkpoints/open_checkpoint.hpp"

#include "base/file_system.hpp"
#include "base/text.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/s3/routed_storage.hpp"
#include "checkpoint/s3/s3_settings.hpp"
#include "exit_codes/exit_error.hpp"
#include "report/terminal_text.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

bool has_manifest(Storage& storage, const fs::path& path) {
    const auto names = storage.list(path);
    return std::find(names.begin(), names.end(), kManifestName) != names.end();
}

// Throws where there is none that can be used, or where one that cannot be read may be newer.
Choice newest_in(Storage& storage, const fs::path& directory, const AuthenticationKeys& keys) {
    const Search search = search_newest(storage, directory, {}, keys);
    try {
        Choice choice = choose_checkpoint(std::span(&search, 1), false, directory);
        if (choice.found)
            return choice;
    } catch (const Error& error) {
        throw Error(error.code(), error.what(),
                    "autolaunch ckpt ls " + directory.string() +
                        " shows all of them; name one to look at no other");
    }
    throw SystemError(ENOENT, "find a checkpoint in " + directory.string(),
                      "autolaunch ckpt ls shows what is there");
}

}  // namespace

bool is_in_bucket(const fs::path& path) { return s3::is_s3_url(path.string()); }

void require_outside_bucket(const fs::path& path) {
    if (is_in_bucket(path))
        throw Error(ErrorCode::unsupported,
                    "cannot write " + path.string() + ": a bucket is read here, not written",
                    "name a directory, and copy it to the bucket");
}

void require_directory(const fs::path& path) {
    if (is_in_bucket(path))
        return;
    if (is_folder(path))
        return;
    throw SystemError(path_exists(path) ? ENOTDIR : ENOENT, "open the directory " + path.string(),
                      "name a checkpoint, or a directory of checkpoints");
}

void require_free(const fs::path& path) {
    try {
        if (!path_exists(path))
            return;
    } catch (const SystemError& cannot) {
        throw ExitError(exit_code::kCannotCreate, cannot.code(), cannot.what(),
                        "name another place");
    }
    throw SystemError(EEXIST, "write " + path.string(), "remove it, or name another place");
}

bool has_checkpoint(const fs::path& path) {
    const auto storage = make_routed_storage();
    return has_manifest(*storage, path) || !list_candidates(*storage, path).empty();
}

EncryptionOptions encryption_of(const CheckpointRequest& request) {
    const CheckpointKeys& keys = request.keys;
    EncryptionOptions encryption;
    encryption.recipients = keys.recipients;
    encryption.identity_file = keys.identity_file;
    encryption.identity_command = keys.identity_command;
    encryption.authentication_key_file = keys.authentication_key_file;
    encryption.authentication_key_command = keys.authentication_key_command;
    encryption.signing_key_file = keys.signing_key_file;
    return encryption;
}

std::string manifest_text(const OpenCheckpoint& open) {
    return read_whole(*open.storage, open.path / kManifestName, kMaxManifestBytes);
}

LineageParent as_parent(const OpenCheckpoint& open) {
    return {
        .step = open.manifest.step,
        .manifest_sha256 = sha256_text(manifest_text(open)),
        .path = is_in_bucket(open.path) ? open.path.string() : absolute_path(open.path).string(),
        .lineage = open.manifest.lineage};
}

std::string signer_of(const EncryptionOptions& encryption) {
    return encryption.signing_key_file.empty()
               ? std::string()
               : crypto::SigningKey::read(encryption.signing_key_file).public_text();
}

bool is_encrypted(const Manifest& manifest) {
    return std::any_of(manifest.files.begin(), manifest.files.end(),
                       [](const Manifest::File& file) { return file.plain_bytes.has_value(); });
}

OpenCheckpoint open_checkpoint(const fs::path& path, const EncryptionOptions& encryption) {
    require_directory(path);
    const AuthenticationKeys keys = AuthenticationKeys::find(encryption);
    OpenCheckpoint open{make_routed_storage(), path, {}, {}};
    if (!keys.empty())
        open.check = BlockCheck::tampering;
    if (!has_manifest(*open.storage, path)) {
        Choice choice = newest_in(*open.storage, path, keys);
        open.path = choice.found->path;
        open.skipped = std::move(choice.passed_over);
    }
    open.manifest = read_manifest(*open.storage, open.path, keys);
    return open;
}

OpenCheckpoint open_to_read(const fs::path& path, const EncryptionOptions& encryption,
                            const VaultPlace& place) {
    OpenCheckpoint open = open_checkpoint(path, encryption);
    if (!is_encrypted(open.manifest))
        return open;
    if (encryption.identity_file.empty() && encryption.identity_command.empty())
        throw Error(ErrorCode::invalid_argument,
                    open.path.string() + " is encrypted, and no key was given",
                    "--identity FILE names the secret key of one of its recipients");
    open.identities = identities_to_read(encryption, place);
    return open;
}

std::uint64_t bytes_of(const Manifest::Tensor& tensor) {
    return static_cast<std::uint64_t>(tensor.element_count()) * size_of(tensor.type);
}

std::uint64_t file_bytes_of(const Manifest& manifest) {
    std::uint64_t bytes = 0;
    for (const auto& file : manifest.files)
        bytes += file.bytes;
    return bytes;
}

bool is_selected(const std::string& name, const std::vector<std::string>& only) {
    return only.empty() || std::any_of(only.begin(), only.end(), [&](const std::string& beginning) {
               return name.starts_with(beginning);
           });
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
    std::vector<std::string> extents;
    for (const std::int64_t extent : shape)
        extents.push_back(std::to_string(extent));
    return "[" + join(extents, ", ") + "]";
}

std::string shown(const std::string& text) { return escape_for_terminal(text, Colours::strip); }

}  // namespace autolaunch::launcher
