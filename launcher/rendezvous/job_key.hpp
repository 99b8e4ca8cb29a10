#pragma once
#include "allocation/allocation.hpp"
#include "rendezvous/job_identity.hpp"
#include "spec/job_spec.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace autolaunch::launcher {

/// The secret that proves who belongs to the job: 32 bytes, the pre-shared key of TLS 1.3. Wiped when it goes; never
/// printed, never on a command line.
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

/// How this node comes by the key, decided from the spec and the environment; equal decisions on all nodes.
struct KeyPlan {
    JobKey::Source source = JobKey::Source::given;
    std::string path;               ///< of the secret file, or of the file in the run directory
    std::string given;              ///< AUTOLAUNCH_JOB_KEY's value; empty: read the secret file
    std::string described() const;  ///< "munge", "AUTOLAUNCH_JOB_KEY", "the file /x", for the banner
};

/// In this order: rendezvous.secret_file, AUTOLAUNCH_JOB_KEY, MUNGE (a credential can be made here), a 0600 file in the
/// shared run directory. Throws RendezvousError with instructions when none can be had.
KeyPlan plan_job_key(const JobSpec& spec, const EnvironmentMap& environment, const std::string& shared_directory);

}  // namespace autolaunch::launcher
