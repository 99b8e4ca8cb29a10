#include "allocation/slurm_conf.hpp"

#include <doctest/doctest.h>

#include <string>

namespace slurm_conf_test {

using namespace autolaunch::launcher;

TEST_CASE("lines of slurm.conf: names in any case, quotes, comments") {
    const ConfFile conf = parse_slurm_conf(
        "# KillWait=1\n"
        "\n"
        "killwait=60 # a minute\n"
        "NodeName=n1 CPUs=8 Comment=\"two words\" Gres=gpu:4\n");
    REQUIRE(conf.lines.size() == 2);
    CHECK(conf.lines[0].line == 3);
    CHECK(conf.lines[0].value("KillWait") == "60");
    CHECK(conf.lines[1].value("comment") == "two words");
    CHECK(conf.lines[1].value("Gres") == "gpu:4");
    CHECK(conf.first_with("CPUS")->line == 4);
    CHECK(conf.first_with("Sockets") == nullptr);
}

TEST_CASE("lines of slurm.conf that go on, and blanks around the sign") {
    const ConfFile conf = parse_slurm_conf(
        "NodeName=n1 \\\n  CPUs=8 # of it\\\n Gres=gpu:1\n"
        "KillWait = 45\n"
        "Prolog=/a\\#b\n"
        "MailProg=\n"
        "SlurmctldPort=1 \\");
    REQUIRE(conf.lines.size() == 6);
    CHECK(conf.lines[0].value("CPUs") == "8");
    CHECK_FALSE(conf.lines[0].has("Gres"));  // the comment hides its own backslash
    CHECK(conf.lines[1].value("Gres") == "gpu:1");
    CHECK(conf.lines[2].value("KillWait") == "45");
    CHECK(conf.lines[2].line == 4);
    CHECK(conf.lines[3].value("Prolog") == "/a\\#b");
    CHECK(conf.lines[4].line == 6);
    CHECK(conf.lines[4].value("MailProg").empty());
}

TEST_CASE("files that slurm.conf includes") {
    const ConfFile conf = parse_slurm_conf(
        "include nodes.conf\n  INCLUDE /etc/slurm/%c.conf # all\nIncludes x\nInclude=y\nInclude\n");
    REQUIRE(conf.lines.size() == 3);
    CHECK(conf.lines[0].include == "nodes.conf");
    CHECK(conf.lines[1].include == "/etc/slurm/%c.conf");
    CHECK(conf.lines[2].include.empty());
    CHECK(conf.lines[2].value("Include") == "y");
}

TEST_CASE("what is no slurm.conf has no lines") {
    for (const char* text : {"", "\n\n", "words alone\n", "\\\n\\\n", "\"", "#=#"})
        CHECK(parse_slurm_conf(text).lines.empty());
    CHECK(parse_slurm_conf("====").lines.size() == 1);
    CHECK(parse_slurm_conf("a=\"").lines.size() == 1);
    CHECK(parse_slurm_conf("a=\"b\"c=d").lines[0].value("c") == "d");
}

}  // namespace slurm_conf_test
