#include "checkpoint/age/age_keys.hpp"

#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "checkpoint/age/bech32.hpp"
#include "checkpoint/crypto/key_file.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace autolaunch::age {
namespace {

using crypto::SecretBytes;

constexpr char kRecipientPrefix[] = "age";
constexpr char kIdentityPrefix[] = "AGE-SECRET-KEY-";
constexpr std::size_t kKeyBytes = 32;

[[noreturn]] void refuse(const std::string& what, const std::string& hint = {}) {
    throw Error(ErrorCode::invalid_argument, what, hint);
}

/// `/bin/sh -c COMMAND` in a process group of its own, with a pipe from its stdout. Ends it when it goes.
class Command {
public:
    explicit Command(const std::string& command) : name_("the command \"" + command + "\"") {
        std::array<int, 2> ends = {-1, -1};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw SystemError(errno, "make a pipe for " + name_);
        output_.reset(ends[0]);
        const UniqueFd writing(ends[1]);
        ::posix_spawn_file_actions_t actions;
        ::posix_spawnattr_t attributes;
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawnattr_init(&attributes);
        ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
        ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
        std::string shell = "sh", option = "-c", text = command;
        std::array<char*, 4> arguments = {shell.data(), option.data(), text.data(), nullptr};
        const int error = ::posix_spawn(&pid_, "/bin/sh", &actions, &attributes, arguments.data(), environ);
        ::posix_spawn_file_actions_destroy(&actions);
        ::posix_spawnattr_destroy(&attributes);
        if (error != 0) throw SystemError(error, "start " + name_);
    }
    Command(const Command&) = delete;
    Command& operator=(const Command&) = delete;
    ~Command() {
        if (pid_ <= 0) return;
        ::kill(-pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }

    SecretBytes output(const Deadline& deadline) {
        SecretBytes text;
        for (std::size_t before = text.size() + 1; before != text.size();) {
            pollfd readable = {output_.get(), POLLIN, 0};
            const int ready = ::poll(&readable, 1, deadline.poll_timeout_ms());
            if (ready < 0 && errno != EINTR) throw SystemError(errno, "wait for " + name_);
            if (deadline.passed()) throw TimeoutError(name_ + " printed no key in time");
            if (ready <= 0) continue;
            before = text.size();
            crypto::read_some(output_.get(), text, name_);
        }
        return text;
    }

    // It closed its output; it should end soon.
    void require_success(const Deadline& deadline) {
        int status = 0;
        pid_t ended = 0;
        while ((ended = ::waitpid(pid_, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
            if (deadline.passed()) throw TimeoutError(name_ + " did not end in time");
            ::usleep(1000);
        }
        pid_ = -1;
        if (ended < 0) return;  // somebody else reaped it: its output must speak for it
        if (WIFSIGNALED(status)) refuse(name_ + " was killed by " + signal_name(WTERMSIG(status)));
        if (WEXITSTATUS(status) != 0) refuse(name_ + " exited with " + std::to_string(WEXITSTATUS(status)));
    }

    const std::string& name() const { return name_; }

private:
    std::string name_;
    UniqueFd output_;
    pid_t pid_ = -1;
};

}  // namespace

Recipient Recipient::parse(std::string_view text) {
    Bech32 decoded = decode_bech32(text);
    if (decoded.prefix == kIdentityPrefix)
        refuse("a secret key was given where a recipient belongs", "give its public key, which starts with age1");
    if (decoded.prefix != kRecipientPrefix || decoded.data.size() != kKeyBytes)
        refuse("not a recipient of age", "only keys that start with age1 and have 62 characters are known");
    Recipient recipient;
    std::copy(decoded.data.begin(), decoded.data.end(), recipient.point.begin());
    return recipient;
}

std::string Recipient::to_text() const { return std::string(crypto::as_text(encode_bech32(kRecipientPrefix, point))); }

Identity::Identity(SecretBytes secret) : secret_(std::move(secret)), recipient_{crypto::x25519_public(secret_)} {}

Identity Identity::generate() { return Identity(crypto::random_secret(kKeyBytes)); }

Identity Identity::parse(std::string_view text) {
    Bech32 decoded = decode_bech32(text);
    if (decoded.prefix != kIdentityPrefix || decoded.data.size() != kKeyBytes)
        refuse("not a secret key of age", "it starts with AGE-SECRET-KEY-1 and has 74 characters");
    return Identity(std::move(decoded.data));
}

SecretBytes Identity::to_text() const { return encode_bech32(kIdentityPrefix, secret_); }

std::vector<Identity> parse_identities(std::string_view text, const std::string& source) {
    std::vector<Identity> identities;
    for (std::size_t line_number = 1; !text.empty(); ++line_number) {
        const std::string_view line = trim(text.substr(0, text.find('\n')));
        text.remove_prefix(
            std::min(text.size(), text.find('\n') == std::string_view::npos ? text.size() : text.find('\n') + 1));
        if (line.empty() || line.starts_with('#')) continue;
        try {
            identities.push_back(Identity::parse(line));
        } catch (const Error& error) {
            if (error.code() != ErrorCode::invalid_argument) throw;
            refuse(source + ", line " + std::to_string(line_number) + ": " + error.what(), error.hint());
        }
    }
    if (identities.empty()) refuse(source + " has no key in it", "age-keygen makes one");
    return identities;
}

std::vector<Identity> read_identities(const std::filesystem::path& file) {
    const SecretBytes text = crypto::read_key_file(file);
    return parse_identities(crypto::as_text(text), file.string());
}

std::vector<Identity> identities_of_command(const std::string& command, const Deadline& deadline) {
    Command running(command);
    const SecretBytes text = running.output(deadline);
    running.require_success(deadline);
    return parse_identities(crypto::as_text(text), running.name());
}

}  // namespace autolaunch::age
