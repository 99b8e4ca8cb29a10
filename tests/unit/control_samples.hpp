#pragma once
#include "control/control_message.hpp"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

/// One message of every type, small and with every field away from its default: for round trips and
/// as fuzzing seeds.
namespace autolaunch::launcher::control {

inline RankExited sample_end() {
    return {13, 5, 8123, 1, std::nullopt, true, true, std::chrono::milliseconds(192'000), 1243};
}

inline RankFailed sample_failure() {
    return {
        2,
        {14, 6, 8124, std::nullopt, 11, false, false, std::chrono::milliseconds(7), std::nullopt},
        "node2",
        5,
        400'000,
        "rank-14/stderr.log",
        "stdout",
        "error.json",
        "tail\n",
        "out\n",
        "{\"message\": \"no\"}",
        3,
        "No space left on device",
        true,
        "none of them can be used",
        "core.8124: gdb ./trainer core.8124",
        {Cause::crash,
         Certainty::likely,
         14,
         "node2",
         "SIGSEGV",
         {"a", "b"},
         "gdb",
         "vain",
         12,
         true,
         3,
         4}};
}

inline flight::RecordedRank sample_recorded() {
    const flight::RecordedCall call{412, 3,    2,          1,  4, true,
                                    -1,  4096, 31'000'000, -1, 5, "h.0 gradients"};
    return {13, true, "x", {{~std::uint64_t{0}, "world", "shm", 8, 5, true, 412, 1, 2, {call}}}};
}

inline std::vector<std::pair<std::string, Message>> sample_messages() {
    return {
        {"join", Join{7, "0.1", "node1", "node1.cluster", 8, 1, "s0.s3.node1", 1,
                      std::uint64_t{1} << 63, 3, 40123, 9}},
        {"ask_environment", AskEnvironment{}},
        {"environment_table",
         EnvironmentTable{{{"HOME", 17}, {"PATH", ~std::uint64_t{0}}, {"", 0}}}},
        {"refused", Refused{"another program", "install the same one on all nodes"}},
        {"welcome", Welcome{3,
                            "runs/4711",
                            "gpu[08-10],login",
                            "8(x3),4",
                            "8(x2),0(x2)",
                            {":40123", "10.0.0.2:40124"},
                            {7, 9}}},
        {"succession", Succession{"a word"}},
        {"follow", Follow{2, 9, 4}},
        {"start_generation",
         Command(StartGeneration{
             1, "10.0.0.1", 29500, "0123456789abcdef", "5ec2e7", {8, 8, 0, 4}, {0, 3, 1}})},
        {"stop_ranks", Command(StopRanks{1, true, "SIGTERM", 15, 15'000})},
        {"leave_generation", Command(LeaveGeneration{1, "rank 3 failed", 15'000, true, true})},
        {"node_added", Command(NodeAdded{4, "gpu11", 8})},
        {"check_node", Command(CheckNode{1, 2, {"10.0.0.1", "", "10.0.0.3"}, "5ec2e7"})},
        {"ask_who_is_here", Command(AskWhoIsHere{1, 2})},
        {"go_on", Command(GoOn{1})},
        {"write_stacks", Command(WriteStacks{1, {3, 37}})},
        {"ask_activity", Command(AskActivity{1, 3, true})},
        {"kill_ranks", Command(KillRanks{1})},
        {"finish", Command(Finish{139, "rank 13 failed", 3})},
        {"ask_flight", Command(AskFlight{1, 7})},
        {"generation_running", Report(GenerationRunning{1, 12'345'678'901, 8, 2, 8})},
        {"start_failed",
         Report(StartFailed{1, 13, 127, true, "no such program", "check the path"})},
        {"rank_failed", Report(sample_failure())},
        {"ranks_ended",
         Report(
             RanksEnded{1, true, {sample_end(), sample_failure().end}, -1, 5, {sample_failure()}})},
        {"ranks_given_up", Report(RanksGivenUp{1, "no head was heard of"})},
        {"stop_asked", Report(StopAsked{15})},
        {"overslept", Report(Overslept{1})},
        {"here", Report(Here{1, 2})},
        {"steps_overdue", Report(StepsOverdue{1, 3, std::chrono::milliseconds(4100),
                                              std::chrono::milliseconds(300), true, false})},
        {"stacks_written", Report(StacksWritten{1, 37, "runs/1/stacks-rank-37.txt", "no gdb"})},
        {"steps_again", Report(StepsAgain{1})},
        {"activity_read", Report(ActivityRead{1,
                                              3,
                                              {{13, 812, Doing::still, 2, "reads /data/7.bin"}},
                                              std::chrono::milliseconds(4100)})},
        {"node_warning", Report(NodeWarning{"NCCL_IB_DISABLE=1"})},
        {"flight_asked", Report(FlightAsked{})},
        {"flight_read",
         Report(FlightRead{1, 7, true, {sample_recorded(), {14, false, "no communicator", {}}}})},
        {"input_spent", Report(InputSpent{})},
        {"fence", Fence{1, "pmix.3", {0, 2, 3}, std::string("\0\xFF", 2)}},
        {"fence_done", FenceDone{1, "pmix.3", false, {{0, "a"}, {3, std::string(100, 'b')}}}},
        {"relay", Relay{1, 1, 2, -3, "bytes"}},
        {"heartbeat", Heartbeat{}},
        {"ready", Report(Ready{})},
        {"node_checked",
         Report(NodeChecked{1, 2, {"GPU 3: Xid 79"}, {2}, {{2, 4 << 20, 913, 1, "timed out"}}})},
        {"node_measured", Report(NodeMeasured{{10'000,
                                               500'000,
                                               NodeMeasures::kUnknown,
                                               0,
                                               7,
                                               1'000'000,
                                               50'000'000'000,
                                               1,
                                               2,
                                               3,
                                               {{980, 84, 690'500, 75'000, 81'559, true}}}})},
        {"ask", Ask{2, "gpu11"}},
        {"answer", Answer{69, "it is the head's node", "hint"}},
        {"console_text", ConsoleText{2, "a line"}},
        {"file_piece", FilePiece{"a line\n", 812, 4096, "why"}},
    };
}

}  // namespace autolaunch::launcher::control
