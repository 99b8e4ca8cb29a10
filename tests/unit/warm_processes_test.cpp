// What a spare process is told, and what it knows before.
#include "session/session_protocol.hpp"
#include "warm_processes/environment_change.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

namespace warm_processes_test {

using namespace autolaunch;
using namespace autolaunch::launcher;

TEST_CASE("of two environments, what makes one of the other") {
    const EnvironmentChange change = change_between(
        {"A=1", "B=2", "C=x=y", "TWICE=1", "TWICE=2", "=odd"}, {"A=1", "C=x=z", "D=", "TWICE=2"});
    CHECK(change.set == std::map<std::string, std::string>{{"C", "x=z"}, {"D", ""}});
    CHECK(change.unset == std::vector<std::string>{"B"});
    CHECK(change_between({"A=1"}, {"A=1"}).set.empty());
}

TEST_CASE("a spare has its rank's environment, and no way into the job") {
    const std::vector<std::string> rank{"AUTOLAUNCH_SOCKET=/run/x",
                                        "AUTOLAUNCH_STORE=h:1",
                                        "AUTOLAUNCH_STORE_TOKEN=secret",
                                        "CUDA_VISIBLE_DEVICES=3",
                                        "MASTER_ADDR=h",
                                        "MASTER_PORT=1",
                                        "MASTER_PORTS=mine",
                                        "RANK=3",
                                        "TORCHELASTIC_ERROR_FILE=/e"};
    CHECK(environment_of_spare(rank) ==
          std::vector<std::string>{"CUDA_VISIBLE_DEVICES=3", "MASTER_PORTS=mine", "RANK=3"});
}

TEST_CASE("the lines of a spare") {
    using namespace autolaunch::session;
    CHECK(format(RankMessage(Spare{.state = "waits"})) ==
          "{\"state\":\"waits\",\"type\":\"spare\"}\n");
    const auto spare = parse_rank_line(R"({"type":"spare","state":"cannot","cannot":"MPI"})");
    REQUIRE(spare);
    CHECK(std::get<Spare>(*spare).cannot == "MPI");
    const std::string line =
        format(AgentMessage(BecomeRank{.set = {{"RANK", "3"}}, .unset = {"OLD"}}));
    const auto become = parse_agent_line(line.substr(0, line.size() - 1));
    REQUIRE(become);
    CHECK(std::get<BecomeRank>(*become).set.at("RANK") == "3");
    CHECK(std::get<BecomeRank>(*become).unset == std::vector<std::string>{"OLD"});
    CHECK_THROWS_AS(parse_agent_line(R"({"type":"become","set":[1],"unset":[]})"), Error);
    CHECK_THROWS_AS(parse_rank_line(R"({"type":"spare"})"), Error);

    const std::string hello = R"({"type":"hello","protocol":3,"rank":0,"local_rank":0,)"
                              R"("generation":0,"pid":9)";
    CHECK_FALSE(std::get<Hello>(*parse_rank_line(hello + "}")).spares);
    CHECK(std::get<Hello>(*parse_rank_line(hello + ",\"spares\":true}")).spares);
}

}  // namespace warm_processes_test
