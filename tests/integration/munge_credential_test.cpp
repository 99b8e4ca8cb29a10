// The job key through a munged of our own. Exits with 77 where munged is not installed. A build
// without MUNGE has one case: it says on both sides that it can't.

#include "control/munge_credential.hpp"

#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "control_peers.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace munge_credential_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

// A child that another user runs starts threads; ThreadSanitizer would end it, as its parent had
// some.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }

namespace {

const JobIdentity kIdentity = test_identity();

OpenedCredential open(const std::string& socket, const std::string& credential) {
    Meeting meeting;
    std::optional<OpenedCredential> result;
    open_munge_credential(meeting.io, credential, kIdentity, socket,
                          [&](const OpenedCredential& opened) { result = opened; });
    REQUIRE(meeting.run([&] { return result.has_value(); }));
    return *result;
}

void check_reason(const OpenedCredential& opened, const std::string& words) {
    CHECK_FALSE(opened.key.has_value());
    CHECK_MESSAGE(opened.reason.find(words) != std::string::npos, opened.reason);
}

#if AUTOLAUNCH_HAVE_MUNGE

std::string find_munged() {
    for (const char* path : {"/usr/sbin/munged", "/usr/local/sbin/munged"})
        if (::access(path, X_OK) == 0)
            return path;
    std::printf("skipped: munged is not installed\n");
    std::exit(77);
}

/// munged with a key and a socket of its own.
class Munged {
public:
    Munged()
        : folder_(fs::temp_directory_path() / ("autolaunch-munge-" + std::to_string(::getpid()))) {
        const std::string program = find_munged();
        fs::create_directory(folder_);
        fs::permissions(folder_,
                        fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec);
        write_file(folder_ / "key", random_hex(64), 0600);
        pid_ = ::fork();
        if (pid_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            const UniqueFd output = open_file(folder_ / "output", O_WRONLY | O_CREAT, 0600);
            ::dup2(output.get(), STDERR_FILENO);
            const auto option = [this](const char* name, const char* file) {
                return std::string("--") + name + "=" + (folder_ / file).string();
            };
            const std::string key = option("key-file", "key"), socket = option("socket", "socket"),
                              pid = option("pid-file", "pid"), seed = option("seed-file", "seed"),
                              log = option("log-file", "log");
            ::execl(program.c_str(), "munged", "--foreground", "--force", key.c_str(),
                    socket.c_str(), pid.c_str(), seed.c_str(), log.c_str(), nullptr);
            ::_exit(127);
        }
        const Deadline deadline = Deadline::after(20s);
        while (!fs::exists(socket()) && !deadline.passed())
            ::usleep(10'000);
        REQUIRE(fs::exists(socket()));
    }
    ~Munged() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        fs::remove_all(folder_);
    }
    std::string socket() const { return folder_ / "socket"; }
    fs::path folder() const { return folder_; }
    void signal(int number) const { ::kill(pid_, number); }

private:
    fs::path folder_;
    pid_t pid_ = -1;
};

MadeCredential make(const Munged& munged, const JobIdentity& identity = kIdentity) {
    return make_munge_credential(test_key('m', JobKey::Source::munge), identity, munged.socket(),
                                 Deadline::after(20s));
}

KeyPlan munge_plan(const std::string& socket) {
    KeyPlan plan;
    plan.munge_socket = socket;
    return plan;
}

#endif

}  // namespace

#if AUTOLAUNCH_HAVE_MUNGE

TEST_CASE("head and node meet with a key from munge") {
    const Munged munged;
    const KeyPlan plan = munge_plan(munged.socket());
    HeadKey key = make_head_key(plan, kIdentity, Deadline::after(20s));
    CHECK(key.described == "munge");
    const auto at_head = ControlSecurity::for_head(kIdentity, std::move(key));
    for (int i = 0; i < 3; ++i) {  // the second node of a machine replays the credential
        Meeting meeting;
        const auto at_node = ControlSecurity::for_node(meeting.io, kIdentity, plan);
        meeting.connect(at_node);
        meeting.accept(at_head);
        REQUIRE_MESSAGE(meeting.run([&] { return meeting.head.ready && meeting.node.ready; }),
                        meeting.node.how());
        CHECK(at_node->key_described() == "munge");
    }
}

TEST_CASE("the credential hides the key, and is for this job and this user") {
    const Munged munged;
    const std::string credential = make(munged).credential.value();
    CHECK(open(munged.socket(), credential).key->bytes() == test_key('m').bytes());
    CHECK(credential.size() < kCredentialLimit);
    check_reason(open(munged.socket(), make(munged, test_identity("slurm/1.0")).credential.value()),
                 "of another job");
    check_reason(open(munged.socket(), "MUNGE:AwQDAAD:"), "cannot be decoded here");
    check_reason(open(munged.socket(), "no credential"), "cannot be decoded here");
}

TEST_CASE("a credential that has expired still carries the key") {
    const Munged munged;
    write_file(munged.folder() / "payload",
                       "autolaunch job key 1" + std::string(32, 'm') + kIdentity.name, 0600);
    const std::string made = (munged.folder() / "credential").string();
    const std::string command =
        "munge --ttl=1 --cipher=aes128 --uid=" + std::to_string(::geteuid()) +
        " --socket=" + munged.socket() + " --input=" + (munged.folder() / "payload").string() +
        " --output=" + made;
    REQUIRE(std::system(command.c_str()) == 0);
    ::sleep(3);
    const OpenedCredential opened = open(munged.socket(), std::string(trim(read_file(made))));
    REQUIRE_MESSAGE(opened.key.has_value(), opened.reason);
    CHECK(opened.key->bytes() == test_key('m').bytes());
}

TEST_CASE("another user cannot open it") {
    if (::geteuid() != 0) {
        MESSAGE("not checked: only root can become another user");
        return;
    }
    const Munged munged;
    const std::string credential = make(munged).credential.value();
    const pid_t child = ::fork();
    if (child == 0) {
        if (::setuid(65534) != 0)
            ::_exit(2);
        asio::io_context io;
        std::optional<OpenedCredential> result;
        open_munge_credential(io, credential, kIdentity, munged.socket(),
                              [&](const OpenedCredential& opened) { result = opened; });
        io.run_for(10s);
        ::_exit(result && !result->key && result->reason.find("another user") != std::string::npos
                    ? 0
                    : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

TEST_CASE("a node without munge says so, and so does the head's plan") {
    const Munged munged;
    const std::string credential = make(munged).credential.value();
    check_reason(open("/nonexistent/socket", credential),
                 "the head's key comes from munge, and munge does not run here");
    const MadeCredential none =
        make_munge_credential(test_key(), kIdentity, "/nonexistent/socket", Deadline::after(20s));
    CHECK_FALSE(none.credential.has_value());
    CHECK_MESSAGE(none.reason.find("/nonexistent/socket") != std::string::npos, none.reason);
}

TEST_CASE("a munged that is stuck holds nobody up for longer than the deadline") {
    const Munged munged;
    const std::string credential = make(munged).credential.value();
    munged.signal(SIGSTOP);
    const auto begin = std::chrono::steady_clock::now();
    const MadeCredential made =
        make_munge_credential(test_key(), kIdentity, munged.socket(), Deadline::after(300ms));
    CHECK_FALSE(made.credential.has_value());
    CHECK_MESSAGE(made.reason.find("munged did not answer") != std::string::npos, made.reason);
    check_reason(open(munged.socket(), credential), "munged did not answer");
    CHECK(std::chrono::steady_clock::now() - begin < 15s);
}

#else

TEST_CASE("a build without munge says so at the head and at a node") {
    const MadeCredential none =
        make_munge_credential(test_key(), kIdentity, "", Deadline::after(20s));
    CHECK_FALSE(none.credential.has_value());
    CHECK(none.reason == "this autolaunch was built without it");
    check_reason(open("", "MUNGE:AwQDAAD:"), "this node's autolaunch was built without it");
}

#endif

}  // namespace munge_credential_test
