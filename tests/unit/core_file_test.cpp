// Where a core file is, by the kernel's rules, and what opens it.

#include "post_mortem/core_file.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <string>

namespace core_file_test {

using namespace autolaunch::launcher;

namespace {

CoreProcess segfault() {
    return {.pid = 812,
            .signal = SIGSEGV,
            .dumped = true,
            .program = "/opt/a long trainer name",
            .workdir = "/data/run",
            .hostname = "node3"};
}

std::string path_by(const std::string& pattern, bool appends_pid = false) {
    return core_path({.pattern = pattern, .appends_pid = appends_pid, .is_forbidden = false},
                     segfault());
}

std::string said(const std::string& pattern, const CoreProcess& process,
                 const std::string& found = {}, bool is_forbidden = false) {
    return describe_core({.pattern = pattern, .appends_pid = false, .is_forbidden = is_forbidden},
                         process, found);
}

}  // namespace

TEST_CASE("core_pattern becomes a path") {
    CHECK(path_by("core") == "/data/run/core");
    CHECK(path_by("core", true) == "/data/run/core.812");
    CHECK(path_by("core.%p", true) == "/data/run/core.812");
    CHECK(path_by("/var/cores/%h/%e-%s.%p") == "/var/cores/node3/a long trainer -11.812");
    CHECK(path_by("%E.%t.%%") == "/data/run/!opt!a long trainer name.*.%");
    CHECK(path_by("../cores/%P%") == "/data/cores/*");
}

TEST_CASE("the screen names the command that opens a core") {
    CoreProcess process = segfault();
    process.program = "/opt/trainer";
    CHECK(said("core", process, "/data/run/core") == "core file: gdb /opt/trainer /data/run/core");
    CHECK(said("|/lib/systemd/systemd-coredump %P %u", process) ==
          "core file: coredumpctl gdb 812");
    CHECK(said("|/usr/share/apport/apport -p%p", process) ==
          "core file: apport has it, in /var/lib/apport/coredump or /var/crash");
    CHECK(said("| /opt/keep-core %p", process) ==
          "core file: /opt/keep-core has it (/proc/sys/kernel/core_pattern)");
    CHECK(said("core", process) ==
          "it dumped core, by /proc/sys/kernel/core_pattern as /data/run/core, where nothing is");
}

TEST_CASE("without a core it says why, if it is known and if there could have been one") {
    CoreProcess process = segfault();
    process.dumped = false;
    CHECK(said("core", process, "", true) ==
          "no core file: the limit is 0; ulimit -c unlimited before autolaunch");
    CHECK(said("core", process).empty());
    CHECK(said("core", process, "/data/run/core").empty());  // another's, of this second
    CHECK(said("|/lib/systemd/systemd-coredump", process, "", true).empty());
    CHECK(said("", process, "", true).empty());
    process.signal = SIGKILL;
    CHECK(said("core", process, "", true).empty());
}

}  // namespace core_file_test
