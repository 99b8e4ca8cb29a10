#pragma once
#include "checkpoint/commit/authentication.hpp"
#include "checkpoint/commit/lineage.hpp"
#include "checkpoint/format/tensor_index.hpp"
#include "checkpoint/load/read_keys.hpp"
#include "checkpoint/storage/storage.hpp"
#include "checkpoints/checkpoint_command.hpp"

#include <autolaunch/checkpoint/manifest.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A complete checkpoint that somebody named.
struct OpenCheckpoint {
    std::shared_ptr<Storage> storage;
    std::filesystem::path path;
    Manifest manifest;
    std::vector<std::string>
        skipped;  ///< newer ones in the directory that are not complete, with the reason
    std::vector<age::Identity> identities = {};
    BlockCheck check = BlockCheck::accidents;

    ReadKeys keys() const { return {identities, check}; }
};

/// As the library has it.
EncryptionOptions encryption_of(const CheckpointRequest& request);

/// `path` is a checkpoint, or a directory of checkpoints, whose newest complete one is meant; also
/// in a bucket, "s3://bucket/prefix". With an authentication key one without its MAC counts as not
/// complete. One that cannot be read is not passed over. Throws Error{corrupt} that says what is
/// wrong with it, SystemError where there is nothing. Identities are not looked for.
OpenCheckpoint open_checkpoint(const std::filesystem::path& path,
                               const EncryptionOptions& encryption);
/// The same, to read what it holds. Throws Error{invalid_argument} where it is encrypted and there
/// is no identity.
OpenCheckpoint open_to_read(const std::filesystem::path& path, const EncryptionOptions& encryption,
                            const VaultPlace& place);
/// As find_identities(); and a file may have one that Vault has wrapped: then `place` is asked.
/// Throws ExitError as launcher/vault. Blocks: 15 s, with a command a minute.
std::vector<age::Identity> identities_to_read(const EncryptionOptions& encryption,
                                              const VaultPlace& place);

/// As it stands there.
std::string manifest_text(const OpenCheckpoint& open);
/// For the lineage of what is made of it.
LineageParent as_parent(const OpenCheckpoint& open);
/// The public key of who signs what is made; empty: nobody.
std::string signer_of(const EncryptionOptions& encryption);

/// There is a checkpoint at `path` or in it, whole or not.
bool has_checkpoint(const std::filesystem::path& path);
bool is_encrypted(const Manifest& manifest);

bool is_in_bucket(const std::filesystem::path& path);
/// Throws SystemError{ENOENT} unless it is a directory. A bucket has none.
void require_directory(const std::filesystem::path& path);
/// Throws Error{unsupported} where it is in a bucket: files are made here alone.
void require_outside_bucket(const std::filesystem::path& path);
/// Throws where something is there already, or where nobody can tell: exit code 73.
void require_free(const std::filesystem::path& path);

/// Parameters are what is neither opaque nor an optimizer's state.
enum class TensorRole { parameter, optimizer, opaque };
TensorRole role_of(const TensorIndex& tensors, const Manifest::Tensor& tensor);
/// A line for each role that some of the tensors have: how many, elements and bytes.
std::string counts_by_role(const Manifest& manifest,
                           const std::vector<const Manifest::Tensor*>& tensors);

std::uint64_t bytes_of(const Manifest::Tensor& tensor);
std::uint64_t file_bytes_of(const Manifest& manifest);
/// Its name begins with one of these; all do when there are none.
bool is_selected(const std::string& name, const std::vector<std::string>& only);
/// "[64, 24]"
std::string shape_text(const std::vector<std::int64_t>& shape);
/// As a person may see it: a name of somebody else's file must not write to the terminal.
std::string shown(const std::string& text);

}  // namespace autolaunch::launcher
