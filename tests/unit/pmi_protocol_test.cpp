// What agent, autolaunch-pmixd and MPI ranks say to each other: the frames, the lines of PMI-1, the
// environment.

#include "pmi/mpi_environment.hpp"
#include "pmi/pmi1_table.hpp"
#include "pmi/pmix_relay.hpp"
#include "pmi/pmixd_message.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

namespace pmi_protocol_test {

using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

bool has(const std::vector<std::string>& environment, const std::string& line) {
    return std::find(environment.begin(), environment.end(), line) != environment.end();
}

Pmi1Table table_of(int local_size, int world_size) {
    return {local_size, world_size, "kvs_0", "(vector,(0,1,2))"};
}

std::string reply_to(Pmi1Table& table, int rank, const std::string& line) {
    const auto outcome = table.on_line(rank, line);
    REQUIRE(outcome.broken.empty());
    REQUIRE(outcome.replies.size() == 1);
    CHECK(outcome.replies[0].first == rank);
    return outcome.replies[0].second;
}

void init(Pmi1Table& table, int rank) {
    CHECK(reply_to(table, rank, "cmd=init pmi_version=1 pmi_subversion=1").find(" rc=0") !=
          std::string::npos);
}

}  // namespace

TEST_CASE("frames of autolaunch-pmixd come back as they went") {
    pmixd::Start start{"/dev/shm/x", "job.0", 1, {{"node1", 2}, {"node2", 3}}};
    std::string stream = pmixd::encode(start);
    stream += pmixd::encode(pmixd::Ready{"4.2.2", {{"A=1", "B=2"}, {}}});
    stream += pmixd::encode(pmixd::Fence{1ULL << 40, {0, 7}, std::string("a\0b", 3)});
    stream += pmixd::encode(pmixd::Aborted{3, -1, "no"});
    pmixd::MessageReader reader;
    std::vector<pmixd::Message> got;
    for (const char byte : stream) {
        reader.feed({&byte, 1});
        while (auto message = reader.next())
            got.push_back(std::move(*message));
    }
    REQUIRE(got.size() == 4);
    CHECK(std::get<pmixd::Start>(got[0]).nodes == start.nodes);
    CHECK(std::get<pmixd::Start>(got[0]).name_space == "job.0");
    CHECK(std::get<pmixd::Ready>(got[1]).environments ==
          std::vector<std::vector<std::string>>{{"A=1", "B=2"}, {}});
    CHECK(std::get<pmixd::Fence>(got[2]).call == 1ULL << 40);
    CHECK(std::get<pmixd::Fence>(got[2]).blob.size() == 3);
    CHECK(std::get<pmixd::Aborted>(got[3]).status == -1);
}

TEST_CASE("a frame that is none is refused, and takes no memory") {
    const auto read = [](const std::string& bytes) {
        pmixd::MessageReader reader;
        reader.feed(bytes);
        while (reader.next()) {
        }
    };
    CHECK_THROWS_AS(read(std::string("\xff\xff\xff\xff\x04", 5)), Error);  // 4 GiB
    CHECK_THROWS_AS(read(std::string("\0\0\0\0\x63", 5)), Error);          // type 99
    CHECK_THROWS_AS(read(std::string("\1\0\0\0\x0a\0", 6)), Error);  // too short for its fields
    CHECK_THROWS_AS(read(pmixd::encode(pmixd::Log{"x"}).replace(0, 1, "\x06") + "y"),
                    Error);  // too long
    std::mt19937 random(5);
    const std::string good = pmixd::encode(pmixd::Ready{"4", {{"A=1"}, {"B=2"}}});
    for (int round = 0; round < 20'000; ++round) {
        std::string bad = good;
        bad[5 + random() % (bad.size() - 5)] = static_cast<char>(random());
        try {
            read(bad);
        } catch (const Error& error) {
            CHECK(error.code() == ErrorCode::corrupt);
        }
    }
}

TEST_CASE("relays come back as they went") {
    const auto question = decode_relay(encode_relay(ModexQuestion{9, 1'000'000}));
    REQUIRE(question);
    CHECK(std::get<ModexQuestion>(*question).rank == 1'000'000);
    const auto reply = decode_relay(encode_relay(ModexReply{9, false, "blob"}));
    REQUIRE(reply);
    CHECK(std::get<ModexReply>(*reply).blob == "blob");
    CHECK_FALSE(std::get<ModexReply>(*reply).good);
    for (const std::string bad : {"", "\1", "\2abcdefghijkl"})
        CHECK_FALSE(decode_relay(bad));
}

TEST_CASE("PMI-1: what one rank puts, all get after a barrier") {
    Pmi1Table here = table_of(2, 3), there = table_of(1, 3);
    init(here, 0);
    init(here, 1);
    init(there, 0);
    CHECK(reply_to(here, 0, "cmd=get_my_kvsname") == "cmd=my_kvsname kvsname=kvs_0 rc=0\n");
    CHECK(reply_to(here, 0, "cmd=get_universe_size") == "cmd=universe_size size=3 rc=0\n");
    CHECK(reply_to(here, 0, "cmd=put kvsname=kvs_0 key=P0 value=a b=c key=d").find("rc=0") !=
          std::string::npos);
    CHECK(reply_to(there, 0, "cmd=get kvsname=kvs_0 key=P0").find("rc=-1") != std::string::npos);
    CHECK_FALSE(here.on_line(0, "cmd=barrier_in").all_in_barrier);
    CHECK(here.on_line(1, "cmd=barrier_in").all_in_barrier);
    CHECK(there.on_line(0, "cmd=barrier_in").all_in_barrier);
    const std::vector<std::pair<int, std::string>> blobs = {{0, here.take_puts()},
                                                            {1, there.take_puts()}};
    CHECK(here.on_barrier_over(blobs).replies.size() == 2);
    CHECK(there.on_barrier_over(blobs).replies ==
          std::vector<std::pair<int, std::string>>{{0, "cmd=barrier_out rc=0\n"}});
    CHECK(reply_to(there, 0, "cmd=get kvsname=kvs_0 key=P0") ==
          "cmd=get_result rc=0 msg=success value=a b=c key=d\n");
    CHECK(here.take_puts().empty());
    CHECK_FALSE(here.has_finalised(0));
    reply_to(here, 0, "cmd=finalize");
    CHECK(here.has_finalised(0));
}

TEST_CASE("PMI-1: what is out of order or garbage breaks that rank's link") {
    for (const std::string line :
         {"", "garbage", "cmd", "cmd=", "cmd=get_maxes", "CMD=init", "\x01\xff", "key=1"}) {
        Pmi1Table table = table_of(1, 1);
        INFO(line);
        CHECK_FALSE(table.on_line(0, line).broken.empty());
    }
    Pmi1Table table = table_of(2, 2);
    init(table, 0);
    CHECK_FALSE(table.on_line(0, "cmd=put").broken.empty());
    CHECK_FALSE(table.on_line(0, "cmd=put kvsname=other key=a value=b").broken.empty());
    CHECK_FALSE(table.on_line(0, "cmd=get kvsname=kvs_0").broken.empty());
    CHECK(table.on_line(0, "cmd=barrier_in").broken.empty());
    CHECK_FALSE(table.on_line(0, "cmd=barrier_in").broken.empty());
    const std::string shown = table.on_line(1, std::string(4000, '\x1b')).broken;
    CHECK(shown.size() < 200);
    CHECK(shown.find('\x1b') == std::string::npos);
    CHECK_FALSE(table.on_barrier_over({{1, "5:ab"}}).broken.empty());
    CHECK_FALSE(table.on_barrier_over({{1, "-1:"}}).broken.empty());
    CHECK_FALSE(table.on_barrier_over({{1, "99999999999999999999:"}}).broken.empty());
}

TEST_CASE("PMI-1: one program after the other may be a rank, two at a time not") {
    const std::string init_line = "cmd=init pmi_version=1 pmi_subversion=1";
    Pmi1Table table = table_of(1, 1);
    init(table, 0);
    CHECK(table.on_line(0, "cmd=finalize").broken.empty());
    CHECK(table.on_line(0, init_line).broken.empty());
    CHECK_FALSE(table.has_finalised(0));
    CHECK(table.on_line(0, init_line).broken.find("two programs cannot be one rank") !=
          std::string::npos);
}

TEST_CASE("PMI-1: limits, abort, and what is refused") {
    Pmi1Table table = table_of(1, 1);
    init(table, 0);
    CHECK(reply_to(table, 0, "cmd=put kvsname=kvs_0 key=a value=" + std::string(1025, 'x'))
              .find("rc=-1") != std::string::npos);
    CHECK(reply_to(table, 0, "cmd=publish_name service=x port=y").find("rc=-1") !=
          std::string::npos);
    CHECK(table.on_line(0, "mcmd=spawn").replies.empty());
    CHECK(table.on_line(0, "nprocs=2").replies.empty());
    CHECK(reply_to(table, 0, "endcmd").find("rc=-1") != std::string::npos);
    const auto outcome = table.on_line(0, "cmd=abort exitcode=42");
    CHECK(outcome.abort_code == 42);
    CHECK(outcome.replies.empty());
    std::string broken;
    for (int i = 0; i < 40'000 && broken.empty(); ++i)
        broken = table
                     .on_line(0, "cmd=put kvsname=kvs_0 key=" + std::to_string(i) +
                                     " value=" + std::string(1024, 'x'))
                     .broken;
    CHECK_FALSE(broken.empty());
}

TEST_CASE("PMI-1's process mapping counts nodes of equal size together") {
    CHECK(process_mapping({4}) == "(vector,(0,1,4))");
    CHECK(process_mapping({4, 4, 4}) == "(vector,(0,3,4))");
    CHECK(process_mapping({4, 4, 3, 1, 1}) == "(vector,(0,2,4),(2,1,3),(3,2,1))");
}

TEST_CASE("nodes are told apart, whatever they are called") {
    Roster roster;
    for (const char* name : {"a1", "b,c;d", "a1", "", "", "a1.node2"})
        roster.nodes.push_back({name, 1});
    const auto labels = node_labels(roster);
    CHECK(labels[0] == "a1");
    CHECK(labels[1] == "b-c-d");
    CHECK(std::set<std::string>(labels.begin(), labels.end()).size() == roster.nodes.size());
}

TEST_CASE("a rank's environment has who it is, and the user's settings before ours") {
    OpenMpiNode node;
    node.shared_memory = "/x/job";
    node.oversubscribed = true;
    const MpiEnvironment mpi =
        open_mpi_environment({.rank = 3, .world_size = 4, .local_rank = 1, .local_size = 3}, node,
                             {"PMIX_RANK=3", "PMIX_NAMESPACE=job.0"});
    const auto plain = with_mpi({"PATH=/bin"}, mpi);
    CHECK(has(plain, "PMIX_RANK=3"));
    CHECK(has(plain, "JSM_JSRUN_PORT=0"));
    CHECK(has(plain, "AUTOLAUNCH_MPI=pmix"));
    CHECK(has(plain, "OMPI_COMM_WORLD_LOCAL_RANK=1"));
    CHECK(has(plain, "OMPI_MCA_mpi_oversubscribe=1"));
    CHECK(has(plain, "OMPI_MCA_btl_vader_backing_directory=/x/job"));
    CHECK(has(plain, "OMPI_MCA_pml=ob1"));

    const auto kept =
        with_mpi({"OMPI_MCA_btl=self,tcp", "PMIX_RANK=0", "PMIX_MCA_gds=hash", "PMI_FD=9"}, mpi);
    CHECK(has(kept, "OMPI_MCA_btl=self,tcp"));
    CHECK(has(kept, "PMIX_MCA_gds=hash"));
    CHECK_FALSE(has(kept, "PMIX_RANK=0"));
    CHECK_FALSE(has(kept, "PMI_FD=9"));
    CHECK_FALSE(has(kept, "OMPI_MCA_pml=ob1"));  // transports are the user's now

    const auto nested = with_mpi({"OMPI_COMM_WORLD_SIZE=1", "OMPI_MCA_orte_hnp_uri=x"}, mpi);
    CHECK_FALSE(has(nested, "OMPI_MCA_orte_hnp_uri=x"));
    CHECK(has(with_mpi({"OMPI_MCA_orte_tmpdir_base=/y"}, mpi), "OMPI_MCA_orte_tmpdir_base=/y"));

    CHECK_FALSE(has(with_mpi({"JSM_JSRUN_PORT=0", "AUTOLAUNCH_MPI=pmix"}, {}), "JSM_JSRUN_PORT=0"));
    node.has_fabric = true;
    node.oversubscribed = false;
    node.shared_memory.clear();
    const auto fast = with_mpi({}, open_mpi_environment({.local_size = 2}, node, {}));
    CHECK_FALSE(has(fast, "OMPI_MCA_pml=ob1"));
    CHECK_FALSE(has(fast, "OMPI_MCA_mpi_oversubscribe=1"));
    CHECK_FALSE(has(fast, "OMPI_MCA_btl_vader_backing_directory=/x/job"));
}

}  // namespace pmi_protocol_test
