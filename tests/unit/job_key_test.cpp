// Who a job is, where its head listens, and where its key comes from.

#include "control/job_key.hpp"

#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "control/preamble.hpp"
#include "control/rendezvous_error.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

namespace job_key_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
namespace fs = std::filesystem;

namespace {

Allocation slurm(const std::string& job_id, int restart_count = 0) {
    Allocation allocation;
    allocation.source = "slurm";
    allocation.job_id = job_id;
    allocation.restart_count = restart_count;
    allocation.node_names = {"node1", "node2"};
    return allocation;
}

const JobIdentity kIdentity{"slurm/4711.0", {}};

class SecretFile {
public:
    SecretFile(const std::string& content, mode_t mode)
        : path_(fs::temp_directory_path() / ("autolaunch-secret-" + std::to_string(::getpid()))) {
        write_file(path_, content, mode);
        fs::permissions(path_, static_cast<fs::perms>(mode));
    }
    ~SecretFile() { fs::remove(path_); }
    RendezvousSpec spec() const {
        RendezvousSpec spec;
        spec.secret_file = path_;
        return spec;
    }
    std::string path() const { return path_; }

private:
    fs::path path_;
};

JobKey::Bytes given_bytes(const RendezvousSpec& spec, const EnvironmentMap& environment,
                          const JobIdentity& identity = kIdentity) {
    return plan_job_key(spec, environment, identity, "").given.value().bytes();
}

void check_refused(const RendezvousSpec& spec, const EnvironmentMap& environment,
                   const std::string& what, const std::string& hint) {
    try {
        plan_job_key(spec, environment, kIdentity, "/run/dir");
        FAIL("expected a refusal");
    } catch (const RendezvousError& error) {
        CHECK(error.exit_code() == 77);
        CHECK_MESSAGE(std::string(error.what()).find(what) != std::string::npos,
                      std::string(error.what()));
        CHECK_MESSAGE(error.hint().find(hint) != std::string::npos, error.hint());
    }
}

Preamble preamble(ControlRole role) {
    Preamble made;
    made.protocol = 1;
    made.role = role;
    made.job_digest = 0x1122334455667788;
    if (role == ControlRole::head) {
        made.key_source = JobKey::Source::munge;
        made.credential = "MUNGE:xyz:";
    }
    return made;
}

}  // namespace

TEST_CASE("the identity is that of the step, and another after a requeue") {
    CHECK(job_identity(slurm("4711.0"), {}, "").name == "slurm/4711.0");
    CHECK(job_identity(slurm("4711.0", 2), {}, "").name == "slurm/4711.0/restart-2");
    CHECK(job_identity(slurm("4711.0"), {}, "run7").name == "slurm/4711.0/run7");
    Allocation list;
    list.source = "static";
    list.node_names = {"a", "b"};
    RendezvousSpec spec;
    spec.port = 29500;
    CHECK(job_identity(list, spec, "").name == "static/a:29500");
    list.head_address = "10.0.0.1";
    CHECK(job_identity(list, spec, "").name == "static/10.0.0.1:29500");
}

TEST_CASE(
    "sixteen ports below the ephemeral range, the same on all nodes, others for another job") {
    const auto ports = job_identity(slurm("4711.0"), {}, "").ports;
    CHECK(ports.size() == 16);
    CHECK(std::set<int>(ports.begin(), ports.end()).size() == 16);
    CHECK(std::all_of(ports.begin(), ports.end(),
                      [](int port) { return port >= 20'000 && port < 32'768; }));
    CHECK(ports == job_identity(slurm("4711.0"), {}, "").ports);
    CHECK(ports != job_identity(slurm("4711.1"), {}, "").ports);
    RendezvousSpec spec;
    spec.port = ports[0];
    const auto others = job_identity(slurm("4711.0"), spec, "").ports;
    CHECK(std::find(others.begin(), others.end(), ports[0]) ==
          others.end());  // that is where the ranks meet
}

TEST_CASE("a given secret makes another key for every job, and never itself") {
    const std::string secret(16, 's');
    const EnvironmentMap environment = {{"AUTOLAUNCH_JOB_KEY", secret}};
    CHECK(given_bytes({}, environment) == given_bytes({}, environment));
    CHECK(given_bytes({}, environment) != given_bytes({}, environment, {"slurm/4712.0", {}}));
    CHECK(given_bytes({}, environment) != given_bytes({}, {{"AUTOLAUNCH_JOB_KEY", secret + "s"}}));
    // HKDF-SHA256 of RFC 5869 with salt "autolaunch job key v1" and the identity as info: from
    // another implementation.
    const JobKey::Bytes expected = {0xe1, 0x44, 0x49, 0x95, 0xa1, 0xe1, 0x21, 0xbb,
                                    0xff, 0xa8, 0xed, 0xdc, 0xc3, 0x17, 0xbb, 0x5d,
                                    0xe9, 0xe7, 0x65, 0x93, 0x15, 0x04, 0x43, 0x89,
                                    0x18, 0x87, 0x70, 0x58, 0xb2, 0xec, 0x2e, 0x2e};
    CHECK(given_bytes({}, environment) == expected);
}

TEST_CASE("the secret file wins over the environment, and its last line end does not count") {
    const EnvironmentMap environment = {{"AUTOLAUNCH_JOB_KEY", std::string(16, 'e')}};
    const SecretFile file(std::string(16, 's') + "\n", 0600);
    CHECK(given_bytes(file.spec(), environment) ==
          given_bytes({}, {{"AUTOLAUNCH_JOB_KEY", std::string(16, 's')}}));
    CHECK(plan_job_key(file.spec(), {}, kIdentity, "").described(JobKey::Source::given) ==
          "the file " + file.path());
    CHECK(plan_job_key({}, environment, kIdentity, "").described(JobKey::Source::given) ==
          "AUTOLAUNCH_JOB_KEY");
}

TEST_CASE("a secret that others may know is refused, and it is said how to mend that") {
    for (const mode_t mode : {0644, 0640, 0602, 0604, 0660}) {
        const SecretFile file(std::string(16, 's'), mode);
        check_refused(file.spec(), {}, "may be read or written by others",
                      "chmod 600 " + file.path());
    }
    const SecretFile strict(std::string(16, 's'), 0400);
    CHECK(plan_job_key(strict.spec(), {}, kIdentity, "").given.has_value());
    const SecretFile brief("short\n", 0600);
    check_refused(brief.spec(), {}, "has 5 bytes; a job key needs at least 16",
                  "head -c 32 /dev/urandom");
    check_refused({}, {{"AUTOLAUNCH_JOB_KEY", "short"}}, "AUTOLAUNCH_JOB_KEY has 5 bytes",
                  "urandom");
    RendezvousSpec spec;
    spec.secret_file = "/nonexistent/key";
    check_refused(spec, {}, "cannot open /nonexistent/key", "on every node");
    spec.secret_file = "/";
    check_refused(spec, {}, "is not a regular file", "chmod 600");
}

TEST_CASE("without any key the job is refused, with what to do") {
    KeyPlan plan;
    plan.munge_socket = "/nonexistent/munge.socket";
    for (const char* path : {"", "/nonexistent/.key"}) {
        plan.shared_file = path;
        try {
            make_head_key(plan, kIdentity, Deadline::after(std::chrono::seconds(5)));
            FAIL("expected a refusal");
        } catch (const RendezvousError& error) {
            CHECK(error.exit_code() == 77);
            for (const char* words :
                 {"MUNGE: ", "a file in the run directory: ", "AUTOLAUNCH_JOB_KEY", "secret_file"})
                CHECK_MESSAGE(error.hint().find(words) != std::string::npos, error.hint());
        }
    }
}

TEST_CASE("preambles of head and node welcome each other, at the last byte and not before") {
    for (const auto& [from, to] : {std::pair(ControlRole::head, ControlRole::node),
                                   {ControlRole::node, ControlRole::head}}) {
        const std::string bytes = encode_preamble(preamble(from));
        for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
            const auto verdict =
                judge_preamble(std::string_view(bytes).substr(0, cut), preamble(to));
            CHECK(verdict.kind == PreambleVerdict::Kind::incomplete);
            CHECK(verdict.wanted > cut);
            CHECK(verdict.wanted <= bytes.size());
        }
        const auto verdict = judge_preamble(bytes, preamble(to));
        REQUIRE(verdict.kind == PreambleVerdict::Kind::welcome);
        CHECK(verdict.theirs.credential == preamble(from).credential);
        CHECK(verdict.theirs.key_source == preamble(from).key_source);
    }
}

TEST_CASE("no bytes of a preamble do harm: each is read, waited for or refused") {
    const std::string good = encode_preamble(preamble(ControlRole::head));
    for (std::size_t at = 0; at < good.size(); ++at)
        for (int value = 0; value < 256; ++value) {
            std::string bytes = good;
            bytes[at] = static_cast<char>(value);
            const auto verdict = judge_preamble(bytes, preamble(ControlRole::node));
            if (verdict.kind == PreambleVerdict::Kind::refused)
                CHECK_FALSE(verdict.reason.empty());
            if (verdict.kind == PreambleVerdict::Kind::incomplete)
                CHECK(verdict.wanted <= 22 + kCredentialLimit);
        }
}

TEST_CASE("the preamble's bytes are those of docs/control-protocol.md") {
    CHECK(encode_preamble(preamble(ControlRole::node)) ==
          std::string("autolnch\x01\0\x01\0\x88\x77\x66\x55\x44\x33\x22\x11\0\0", 22));
    CHECK(
        encode_preamble(preamble(ControlRole::head)) ==
        std::string("autolnch\x01\0\x02\x02\x88\x77\x66\x55\x44\x33\x22\x11\x0A\0MUNGE:xyz:", 32));
}

}  // namespace job_key_test
