#include "allocation/kill_wait.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace kill_wait_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using std::chrono::seconds;

namespace {

using Files = std::map<std::string, std::string>;

// A text that is one of errno's numbers is a file that cannot be read.
KillWaitReading read_among(const Files& files, const EnvironmentMap& environment = {}) {
    return read_kill_wait(environment, [&](const std::string& path) -> std::string {
        const auto found = files.find(path);
        if (found == files.end())
            throw SystemError(ENOENT, "open " + path);
        if (found->second == "EACCES")
            throw SystemError(EACCES, "open " + path);
        return found->second;
    });
}

std::optional<seconds> in(const std::string& text) { return kill_wait_in(parse_slurm_conf(text)); }

}  // namespace

TEST_CASE("KillWait of a slurm.conf") {
    CHECK_FALSE(in(""));
    CHECK(in("SlurmdTimeout=300\nKillWait=5\n") == seconds(5));
    CHECK(in("  killwait=60 # a minute\n#KillWait=7\n") == seconds(60));
    CHECK(in("KillWait=5\nKillWait=9") == seconds(9));
    CHECK(in("UnkillableStepTimeout=60 KillWait=12") == seconds(12));
    CHECK(in("UnkillableStepTimeout=60 \\\n  KillWait = \"12\"") == seconds(12));
    CHECK(in("KillWait=INFINITE") == seconds(65'535));
    for (const char* wrong : {"KillWait=soon", "KillWait=-1", "KillWait=99999", "KillWait="})
        CHECK_FALSE(in(wrong));
}

TEST_CASE("slurm.conf is the file that SLURM_CONF names, or where Slurm keeps it") {
    const Files files = {{"/run/slurm/conf/slurm.conf", "KillWait=5"}, {"/named", "KillWait=6"}};
    CHECK(read_among(files).kill_wait == seconds(5));
    CHECK(read_among(files).notes.empty());
    CHECK(read_among(files, {{"SLURM_CONF", "/named"}}).kill_wait == seconds(6));
    CHECK(read_among({{"/etc/slurm/slurm.conf", "ClusterName=a"}}).kill_wait == seconds(30));
    CHECK_FALSE(read_among({}).kill_wait);
    CHECK(read_among({}).notes.empty());  // a container: nobody named one
}

TEST_CASE("a slurm.conf that is named and cannot be read is said") {
    const auto lost = read_among({}, {{"SLURM_CONF", "/gone"}});
    CHECK_FALSE(lost.kill_wait);
    REQUIRE(lost.notes.size() == 2);
    CHECK(lost.notes[0].starts_with("SLURM_CONF names /gone, which cannot be read here ("));
    CHECK(lost.notes[1].find("is not known") != std::string::npos);

    const auto other = read_among({{"/etc/slurm/slurm.conf", "KillWait=7"}, {"/mine", "EACCES"}},
                                  {{"SLURM_CONF", "/mine"}});
    CHECK(other.kill_wait == seconds(7));
    REQUIRE(other.notes.size() == 2);
    CHECK(other.notes[1].find("is taken for 7 s") != std::string::npos);

    const auto forbidden = read_among({{"/etc/slurm/slurm.conf", "EACCES"}});
    CHECK_FALSE(forbidden.kill_wait);
    REQUIRE(forbidden.notes.size() == 2);
    CHECK(forbidden.notes[0].starts_with("Slurm's /etc/slurm/slurm.conf cannot be read here ("));
}

TEST_CASE("what slurm.conf includes counts, in its place") {
    Files files = {{"/etc/slurm/slurm.conf", "KillWait=5\nInclude times.conf\n"},
                   {"/etc/slurm/times.conf", "Include /shared/more.conf\n"},
                   {"/shared/more.conf", "KillWait=8"}};
    CHECK(read_among(files).kill_wait == seconds(8));
    files["/etc/slurm/slurm.conf"] += "KillWait=9\n";
    CHECK(read_among(files).kill_wait == seconds(9));

    files.erase("/shared/more.conf");
    const auto lost = read_among(files);
    CHECK(lost.kill_wait == seconds(9));
    REQUIRE(lost.notes.size() == 2);
    CHECK(lost.notes[0].starts_with("slurm.conf includes /shared/more.conf, which cannot be read"));

    files["/shared/more.conf"] = "Include /etc/slurm/times.conf\nKillWait=3\n";  // a circle ends
    files["/etc/slurm/slurm.conf"] = "Include times.conf";
    CHECK(read_among(files).kill_wait == seconds(3));
}

}  // namespace kill_wait_test
