#include "control/job_key.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "control/munge_credential.hpp"
#include "control/openssl_library.hpp"
#include "control/rendezvous_error.hpp"
#include "exit_codes/exit_codes.hpp"
#include "session/environment.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {
namespace {

constexpr std::size_t kShortestSecret = 16;
constexpr std::size_t kLongestSecret = 64U << 10;
constexpr std::string_view kDerivationSalt = "autolaunch job key v1";

[[noreturn]] void refuse_job_key(const std::string& what, std::string hint) {
    throw RendezvousError(exit_code::kNotPermitted, what, std::move(hint));
}

JobKey::Bytes hmac_sha256(std::string_view key, std::string_view data) {
    JobKey::Bytes digest{};
    unsigned int bytes = 0;
    openssl().HMAC(openssl().EVP_sha256(), key.data(), static_cast<int>(key.size()),
                   reinterpret_cast<const unsigned char*>(data.data()), data.size(), digest.data(),
                   &bytes);
    if (bytes != digest.size())
        throw Error(ErrorCode::system, "OpenSSL cannot compute HMAC-SHA-256");
    return digest;
}

/// HKDF (RFC 5869) with SHA-256 and one block of output: a secret that serves two jobs gives them
/// different keys.
JobKey derive(std::string_view secret, const JobIdentity& identity) {
    const JobKey::Bytes extracted = hmac_sha256(kDerivationSalt, secret);
    const std::string_view extracted_view(reinterpret_cast<const char*>(extracted.data()),
                                          extracted.size());
    return {JobKey::Source::given, hmac_sha256(extracted_view, identity.name + '\1')};
}

JobKey random_key(JobKey::Source source) {
    JobKey::Bytes bytes{};
    std::size_t filled = 0;
    while (filled < bytes.size()) {
        const ssize_t got = ::getrandom(bytes.data() + filled, bytes.size() - filled, 0);
        if (got < 0 && errno != EINTR)
            throw SystemError(errno, "read random bytes");
        if (got > 0)
            filled += static_cast<std::size_t>(got);
    }
    return {source, bytes};
}

/// Why the file must not be trusted with a secret; empty: it may be.
std::string exposure(const struct stat& status, const std::string& path) {
    if (!S_ISREG(status.st_mode))
        return path + " is not a regular file";
    if (status.st_uid != ::geteuid())
        return path + " belongs to another user (uid " + std::to_string(status.st_uid) + ")";
    if ((status.st_mode & 077) != 0)
        return fmt::format("{} may be read or written by others (mode {:04o})", path,
                           status.st_mode & 07777U);
    return {};
}

std::string read_up_to(int fd, std::size_t limit, const std::string& path) {
    std::string bytes(limit + 1, '\0');
    std::size_t filled = 0;
    while (filled < bytes.size()) {
        const ssize_t got = ::read(fd, bytes.data() + filled, bytes.size() - filled);
        if (got < 0 && errno != EINTR)
            throw SystemError(errno, "read " + path);
        if (got == 0)
            break;
        if (got > 0)
            filled += static_cast<std::size_t>(got);
    }
    bytes.resize(filled);
    return bytes;
}

std::string read_secret_file(const std::string& path) try {
    const UniqueFd file = open_file(path, O_RDONLY | O_NONBLOCK);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0)
        throw SystemError(errno, "look at " + path);
    if (const std::string why = exposure(status, path); !why.empty())
        refuse_job_key("rendezvous.secret_file: " + why,
                       "it must be yours alone: chmod 600 " + path);
    std::string secret = read_up_to(file.get(), kLongestSecret, path);
    if (secret.size() > kLongestSecret)
        refuse_job_key("rendezvous.secret_file: " + path + " has over 64 KiB", "give a secret");
    while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r'))
        secret.pop_back();
    return secret;
} catch (const SystemError& error) {
    refuse_job_key(std::string("rendezvous.secret_file: ") + error.what(),
                   "it must be there on every node");
}

void check_length(const std::string& secret, const std::string& where) {
    if (secret.size() < kShortestSecret)
        refuse_job_key(fmt::format("{} has {} bytes; a job key needs at least {}", where,
                                   secret.size(), kShortestSecret),
                       "make one: head -c 32 /dev/urandom | base64");
}

[[noreturn]] void refuse_without_key(const std::string& munge_reason,
                                     const std::string& file_reason) {
    refuse_job_key(
        "the nodes of this job have no key to prove that they belong together",
        fmt::format("MUNGE: {}\n"
                    "a file in the run directory: {}\n"
                    "either way will do, or give all nodes the same secret of at least {} "
                    "bytes: AUTOLAUNCH_JOB_KEY in "
                    "the environment, or rendezvous.secret_file, a file of mode 600",
                    munge_reason, file_reason, kShortestSecret));
}

}  // namespace

JobKey::~JobKey() { ::explicit_bzero(bytes_.data(), bytes_.size()); }

std::string KeyPlan::described(JobKey::Source source) const {
    switch (source) {
        case JobKey::Source::given:
            return given_by;
        case JobKey::Source::munge:
            return "munge";
        case JobKey::Source::run_directory:
            break;
    }
    return "the file " + shared_file;
}

KeyPlan plan_job_key(const RendezvousSpec& spec, const EnvironmentMap& environment,
                     const JobIdentity& identity, const std::string& shared_directory) {
    KeyPlan plan;
    if (const auto socket = environment.find(env::kMungeSocket); socket != environment.end())
        plan.munge_socket = socket->second;
    if (!shared_directory.empty())
        plan.shared_file = shared_directory + "/.key";
    if (!spec.secret_file.empty()) {
        const std::string secret = read_secret_file(spec.secret_file);
        plan.given_by = "the file " + spec.secret_file;
        check_length(secret, plan.given_by);
        plan.given = derive(secret, identity);
    } else if (const auto found = environment.find(env::kJobKey); found != environment.end()) {
        plan.given_by = env::kJobKey;
        check_length(found->second, plan.given_by);
        plan.given = derive(found->second, identity);
    }
    return plan;
}

HeadKey make_head_key(const KeyPlan& plan, const JobIdentity& identity, const Deadline& deadline) {
    if (plan.given)
        return {*plan.given, {}, {}, plan.described(JobKey::Source::given)};

    const JobKey munge_key = random_key(JobKey::Source::munge);
    MadeCredential made = make_munge_credential(munge_key, identity, plan.munge_socket, deadline);
    if (made.credential)
        return {munge_key, *std::move(made.credential), {}, plan.described(JobKey::Source::munge)};

    std::string file_reason = "there is no run directory yet";
    if (!plan.shared_file.empty()) {
        const JobKey file_key = random_key(JobKey::Source::run_directory);
        try {
            KeyFile file(plan.shared_file, file_key);
            return {file_key, {}, std::move(file), plan.described(JobKey::Source::run_directory)};
        } catch (const SystemError& error) {
            file_reason = error.what();
        }
    }
    refuse_without_key(made.reason, file_reason);
}

HeadKey head_key_again(const KeyPlan& plan, const JobIdentity& identity, const JobKey& key,
                       const Deadline& deadline) {
    HeadKey again{key, {}, {}, plan.described(key.source())};
    if (key.source() == JobKey::Source::munge)
        again.credential = make_munge_credential(key, identity, plan.munge_socket, deadline)
                               .credential.value_or(std::string());
    try {
        if (key.source() == JobKey::Source::run_directory && !plan.shared_file.empty())
            again.file = KeyFile(plan.shared_file, key);
    } catch (const SystemError&) {
    }
    return again;
}

// Under its name it is complete from the first moment: a node may look at any time. What an earlier
// head left is replaced.
KeyFile::KeyFile(std::string path, const JobKey& key) : path_(std::move(path)) {
    const std::string temporary = path_ + "." + std::to_string(::getpid());
    ::unlink(temporary.c_str());
    {
        const UniqueFd file = open_file(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        write_all(file.get(),
                  {reinterpret_cast<const char*>(key.bytes().data()), key.bytes().size()},
                  temporary);
    }
    if (::rename(temporary.c_str(), path_.c_str()) == 0)
        return;
    const int error = errno;
    ::unlink(temporary.c_str());
    throw SystemError(error, "rename " + temporary);
}

KeyFile::KeyFile(KeyFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}

KeyFile& KeyFile::operator=(KeyFile&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
}

KeyFile::~KeyFile() {
    if (!path_.empty())
        ::unlink(path_.c_str());
}

SharedKey read_shared_key(const std::string& path) try {
    if (path.empty())
        return {std::nullopt,
                "the head's key is a file in its run directory, and this node knows none"};
    const UniqueFd file = open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0)
        throw SystemError(errno, "look at " + path);
    if (const std::string why = exposure(status, path); !why.empty())
        return {std::nullopt, "the key file " + why};
    JobKey::Bytes bytes{};
    const std::string content = read_up_to(file.get(), bytes.size(), path);
    if (content.size() != bytes.size())
        return {std::nullopt, "the key file " + path + " is no job key"};
    std::copy(content.begin(), content.end(), bytes.begin());
    return {JobKey(JobKey::Source::run_directory, bytes), {}};
} catch (const SystemError& error) {
    return {std::nullopt, std::string(error.what()) +
                              ": the head's key is there; is that folder on a file system that all "
                              "nodes share? If not, "
                              "give all nodes the same AUTOLAUNCH_JOB_KEY"};
}

}  // namespace autolaunch::launcher
