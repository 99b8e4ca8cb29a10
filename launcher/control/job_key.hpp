#pragma once
#include "allocation/allocation.hpp"
#include "base/deadline.hpp"
#include "control/job_identity.hpp"
#include "spec/rendezvous_spec.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// The secret that proves who belongs to the job: 32 bytes, the pre-shared key of TLS 1.3. Wiped
/// when it goes; never printed, never on a command line.
class JobKey {
public:
    using Bytes = std::array<std::uint8_t, 32>;
    enum class Source { given, munge, run_directory };

    JobKey(Source source, const Bytes& bytes) : source_(source), bytes_(bytes) {}
    JobKey(const JobKey&) = default;
    JobKey& operator=(const JobKey&) = default;
    ~JobKey();

    Source source() const { return source_; }
    const Bytes& bytes() const { return bytes_; }

private:
    Source source_;
    Bytes bytes_;
};

/// How this node can come by the key. Where one was given, all nodes use it; otherwise the head
/// decides, and tells the nodes in its preamble.
struct KeyPlan {
    std::optional<JobKey>
        given;  ///< made of the secret file or AUTOLAUNCH_JOB_KEY, and of the job's identity
    std::string given_by;  ///< "AUTOLAUNCH_JOB_KEY", "the file /x"
    std::string
        shared_file;  ///< the key file's path in the shared run directory; empty: no such directory
    std::string munge_socket;  ///< AUTOLAUNCH_MUNGE_SOCKET; empty: where MUNGE expects it

    std::string described(
        JobKey::Source source) const;  ///< "munge", "AUTOLAUNCH_JOB_KEY", … for the banner
};

/// rendezvous.secret_file, else AUTOLAUNCH_JOB_KEY; at least 16 bytes, any bytes.
/// `shared_directory` may be empty. Throws RendezvousError(77) for a secret that is too short, or a
/// file that others may read.
KeyPlan plan_job_key(const RendezvousSpec& spec, const EnvironmentMap& environment,
                     const JobIdentity& identity, const std::string& shared_directory);

/// The 0600 file in the shared run directory that carries the key to the other nodes. Removed with
/// its owner, the head.
class KeyFile {
public:
    KeyFile() = default;
    KeyFile(std::string path, const JobKey& key);
    KeyFile(KeyFile&& other) noexcept;
    KeyFile& operator=(KeyFile&& other) noexcept;
    ~KeyFile();

private:
    std::string path_;
};

/// What the head proves the job with, and what it hands to the nodes so that they can.
struct HeadKey {
    JobKey key;
    std::string credential;  ///< from MUNGE: goes out in the preamble
    KeyFile file;
    std::string described;
};

/// The given key, else a random one that goes through MUNGE, else through the shared file. Blocks
/// while munged works, at most until the deadline. Throws RendezvousError(77) with instructions
/// when there is no way.
HeadKey make_head_key(const KeyPlan& plan, const JobIdentity& identity, const Deadline& deadline);

/// Of an agent that has the key from the head before: with a credential or a file of its own where
/// the key is not given. Where that fails, those who were not there when the job began cannot come
/// by it: nothing is thrown.
HeadKey head_key_again(const KeyPlan& plan, const JobIdentity& identity, const JobKey& key,
                       const Deadline& deadline);

/// What a node reads from the shared file: the key, or the reason why not (yet).
struct SharedKey {
    std::optional<JobKey> key;
    std::string reason;
};
SharedKey read_shared_key(const std::string& path);

}  // namespace autolaunch::launcher
