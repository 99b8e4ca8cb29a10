// What others say while a job stands still, read as data that may lie: PyTorch's dumps, NCCL's RAS
// behind a stand-in, counters of a made-up node.
#include "../write_file.hpp"
#include "hang_evidence/nccl_ras.hpp"
#include "hang_evidence/node_state.hpp"
#include "hang_evidence/pickle.hpp"
#include "hang_evidence/torch_recorder.hpp"
#include "hang_evidence/torch_request.hpp"

#include "base/unique_fd.hpp"

#include <autolaunch/error.hpp>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hang_evidence_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;
using namespace std::string_literals;

namespace {

std::string text(const std::string& value) {
    std::string size(4, '\0');
    for (std::size_t i = 0; i < 4; ++i)
        size[i] = static_cast<char>(value.size() >> (8 * i));
    return "X" + size + value;
}

// As PyTorch 2.15 writes it: one collective done, one that is not.
std::string dump() {
    const std::string entry_begin =
        "}(" + text("pg_id") + "K\x00"s + text("process_group") + text("0") + text("default_pg") +
        "\x86" + text("profiling_name") + text("nccl:all_reduce") + text("input_sizes") +
        "](](K\x03" + "ee" + text("input_dtypes") + "](" + text("Float") + "e";
    const std::string frame = "}(" + text("name") + text("train") + text("filename") +
                              text("/home/u/train.py") + text("line") + "K\x28u";
    return "\x80\x02}(" + text("version") + text("2.10") + "q\x01" + text("pg_status") + "}(" +
           text("0") + "}(" + text("last_enqueued_collective") + "K\x08" +
           text("last_started_collective") + "K\x08" + text("last_completed_collective") +
           "K\x07uu" + text("entries") + "](" + entry_begin + text("collective_seq_id") + "K\x07" +
           text("state") + text("completed") + "u" + entry_begin + text("frames") + "](" + frame +
           "q\x02" + "e" + text("collective_seq_id") + "K\x08" + text("state") + text("started") +
           "ueu.";
}

/// A folder that is gone with it.
struct Folder {
    Folder() { REQUIRE(::mkdtemp(name.data()) != nullptr); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { std::filesystem::remove_all(name); }
    std::string name = (std::filesystem::temp_directory_path() / "autolaunch-evidence-XXXXXX");
};

/// Listens on a port of its own; answers line by line, and hangs up after the last.
class RasServer {
public:
    explicit RasServer(std::vector<std::string> answers)
        : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in here{};
        here.sin_family = AF_INET;
        here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof here;
        auto* address = reinterpret_cast<sockaddr*>(&here);
        REQUIRE(::bind(listening_.get(), address, size) == 0);
        REQUIRE(::listen(listening_.get(), 1) == 0);
        REQUIRE(::getsockname(listening_.get(), address, &size) == 0);
        port_ = ntohs(here.sin_port);
        thread_ = std::thread([this, answers = std::move(answers)] { serve(answers); });
    }
    ~RasServer() {
        ::shutdown(listening_.get(), SHUT_RDWR);
        thread_.join();
    }
    RasAddress address() const { return {.host = "localhost", .port = port_}; }
    std::string heard;  // after its end

private:
    void serve(const std::vector<std::string>& answers) {
        const UniqueFd peer(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        for (const std::string& answer : answers) {
            char byte = 0;
            while (byte != '\n')
                if (::recv(peer.get(), &byte, 1, 0) != 1)
                    return;
                else
                    heard += byte;
            if (::send(peer.get(), answer.data(), answer.size(), MSG_NOSIGNAL) < 0)
                return;
        }
        char rest = 0;
        while (answers.size() < 3 && ::recv(peer.get(), &rest, 1, 0) == 1) {
        }
    }
    UniqueFd listening_;
    std::uint16_t port_ = 0;
    std::thread thread_;
};

void await_end(RasQuestion& question) {
    for (int i = 0; i < 600 && !question.advance(); ++i) {
        pollfd wait{question.fd(), POLLIN, 0};
        ::poll(&wait, 1, 100);
    }
    REQUIRE(question.fd() < 0);
}

}  // namespace

TEST_CASE("PyTorch's dump tells where a rank is in each group") {
    const auto groups = read_torch_dump(dump());
    REQUIRE(groups.size() == 1);
    CHECK(groups[0] == TorchGroup{.name = "default_pg",
                                  .enqueued = 8,
                                  .started = 8,
                                  .completed = 7,
                                  .oldest_open = "nccl:all_reduce #8 of [3] Float, started",
                                  .place = "train (train.py:40)"});
    CHECK(describe_torch_groups(groups) ==
          "default_pg: collectives enqueued up to #8, started up to #8, completed up to #7; the "
          "oldest that is open: nccl:all_reduce #8 of [3] Float, started, called in train "
          "(train.py:40)\n");
    CHECK(read_torch_dump(R"({"version":"2.10","pg_status":{"0":{"last_enqueued_collective":"2",)"
                          R"("last_started_collective":"1","last_completed_collective":"1"}}})") ==
          std::vector<TorchGroup>{{.name = "group 0",
                                   .enqueued = 2,
                                   .started = 1,
                                   .completed = 1,
                                   .oldest_open = {},
                                   .place = {}}});
}

TEST_CASE("a pickle makes plain values alone, however it was damaged") {
    CHECK(read_pickle("\x80\x02}(" + text("a") +
                      "q\x00](h\x00J\xff\xff\xff\xff\x8a\x02\x00\x01NG\x3f\xf8\0\0\0\0\0\0\x88"
                      "eu."s) == nlohmann::json::parse(R"({"a":["a",-1,256,null,1.5,true]})"));
    CHECK_THROWS_AS(read_pickle("cos\nsystem\n(S'true'\ntR."), Error);
    CHECK_THROWS_AS(read_pickle("\x80\x02\x93."), Error);  // STACK_GLOBAL
    CHECK_THROWS_AS(read_pickle(std::string(1'000'000, '(') + "."), Error);
    CHECK_THROWS_AS(read_pickle("]" + std::string(100'000, '\x85') + "."), Error);  // tuples in one
    std::string bomb = "]q\x01";  // each list holds the one before twice
    for (int i = 0; i < 64; ++i)
        bomb += "](h\x01h\x01"s + "eq\x01";
    CHECK_THROWS_AS(read_pickle(bomb + "."), Error);
    std::mt19937_64 random(7);
    for (int i = 0; i < 20'000; ++i) {
        std::string damaged = dump();
        for (int change = 0; change < 3; ++change)
            damaged[random() % damaged.size()] = static_cast<char>(random());
        damaged.resize(random() % 4 == 0 ? random() % damaged.size() : damaged.size());
        try {
            read_torch_dump(damaged);
        } catch (const Error& error) {
            CHECK(error.code() == ErrorCode::corrupt);
        }
    }
}

TEST_CASE("PyTorch is asked by its pipe, and only a file of ours that is new counts") {
    const Folder folder;
    const std::string variables = "A=1\0TORCH_NCCL_DEBUG_INFO_PIPE_FILE="s + folder.name +
                                  "/ask\0TORCH_FR_DUMP_TEMP_FILE="s + folder.name + "/dump_\0"s;
    const TorchFiles files = torch_files(variables, 3);
    CHECK(files == TorchFiles{folder.name + "/ask3.pipe", folder.name + "/dump_3"});
    CHECK(torch_files("HOME=/h\0"s, 1) == TorchFiles{"", "/h/.cache/torch/comm_lib_trace_rank_1"});
    CHECK_FALSE(ask_torch(files));  // there is none
    write_file(files.pipe, "");
    CHECK_FALSE(ask_torch(files));  // a file, which would grow
    std::filesystem::remove(files.pipe);
    REQUIRE(::mkfifo(files.pipe.c_str(), 0600) == 0);
    CHECK_FALSE(ask_torch(files));  // nobody reads
    const UniqueFd reader(::open(files.pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    CHECK(ask_torch(files));
    CHECK(read_torch(files, 0).text.empty());
    write_file(files.dump, dump());
    CHECK(read_torch(files, 0).text.find("default_pg: collectives enqueued up to #8") !=
          std::string::npos);
    CHECK(read_torch(files, std::time(nullptr) + 100).text.empty());
    CHECK(read_torch(files, 0).is_whole);
    write_file(files.dump, dump().substr(0, 100));  // it is being written
    CHECK_FALSE(read_torch(files, 0).is_whole);
    write_file(files.dump, "cos\nsystem\n.");
    CHECK(read_torch(files, 0).text.find("cannot be read: ") != std::string::npos);
    std::filesystem::rename(files.dump, folder.name + "/elsewhere");
    std::filesystem::create_symlink(folder.name + "/elsewhere", files.dump);
    CHECK(read_torch(files, 0).text.empty());
}

TEST_CASE("NCCL's RAS is asked where a rank of ours listens") {
    CHECK(ras_address("") == RasAddress{});
    CHECK(ras_address("NCCL_RAS_ADDR=localhost:12345\0"s) == RasAddress{"localhost", 12345});
    CHECK(ras_address("NCCL_RAS_ADDR=:7\0"s)->port == 7);
    CHECK_FALSE(ras_address("NCCL_RAS_ADDR=10.1.1.1:28028\0"s));
    CHECK_FALSE(ras_address("NCCL_RAS_ADDR=localhost:x\0"s));
    CHECK_FALSE(ras_address("NCCL_RAS_ENABLE=0\0"s));

    const auto ours = [](std::uint64_t inode) { return has_socket({::getpid()}, inode); };
    const std::string answer = "Job summary\n 2 ranks do not answer\n";
    {
        RasServer server({"SERVER PROTOCOL 2\n", "OK\n", answer});
        RasQuestion question(server.address(), ours);
        await_end(question);
        CHECK(question.answer() == answer);
        CHECK(question.problem().empty());
        CHECK(server.heard == "CLIENT PROTOCOL 2\nTIMEOUT 2\nVERBOSE STATUS\n");
    }
    {
        RasServer stranger({"SERVER PROTOCOL 2\n", "OK\n", answer});
        RasQuestion question(stranger.address(), [](std::uint64_t) { return false; });
        await_end(question);
        CHECK(question.answer().empty());
        CHECK(question.problem() == "no rank of this job listens there");
    }
    {
        RasServer liar({"220 mail.example.org\n"});
        RasQuestion question(liar.address(), ours);
        await_end(question);
        CHECK(question.problem() == "it does not speak NCCL's RAS protocol");
    }
    {
        RasServer talker({"SERVER PROTOCOL 2\n", "OK\n", std::string(1 << 20, '\n')});
        RasQuestion question(talker.address(), ours);
        await_end(question);
        CHECK(question.answer().size() <= 256 * 1024);
        CHECK(question.problem() == "the rest of NCCL's answer was left out");
    }
    RasQuestion nobody({.host = "localhost", .port = 1}, ours);
    CHECK(nobody.advance());
    CHECK(nobody.problem().empty());
}

TEST_CASE("a node tells its pressure, its throttling and its HCAs' counters") {
    const Folder folder;
    const std::filesystem::path root = folder.name;
    std::filesystem::create_directories(root / "pressure");
    write_file(root / "pressure/io", "some avg10=81.00 avg60=9.00 avg300=1.00 total=7\n");
    CHECK(describe_pressure(root) ==
          "pressure, io: some avg10=81.00 avg60=9.00 avg300=1.00 total=7\n");

    std::filesystem::create_directories(root / "7");
    std::filesystem::create_directories(root / "fs/cgroup/job/step");
    write_file(root / "7/cgroup", "0::/job/step\n");
    write_file(root / "fs/cgroup/job/step/cpu.stat", "nr_periods 9\nnr_throttled 0\n");
    write_file(root / "fs/cgroup/job/cpu.stat",
               "usage_usec 5\nnr_periods 100\nnr_throttled 40\nthrottled_usec 2500000\n");
    CHECK(describe_throttling(7, root, root) ==
          "cgroup /job: its CPU quota was used up in 40 of 100 periods, 2.5 s\n");
    CHECK(describe_throttling(8, root, root).empty());
    CHECK(throttled_time(7, root, root) == 2500ms);  // the one above
    CHECK(throttled_time(8, root, root) == 0ms);
    std::filesystem::create_directories(root / "9");
    std::filesystem::create_directories(root / "fs/cgroup/cpu,cpuacct/a");
    write_file(root / "9/cgroup", "5:memory:/b\n4:cpu,cpuacct:/a\n0::/\n");
    write_file(root / "fs/cgroup/cpu,cpuacct/a/cpu.stat",
               "nr_periods 9\nnr_throttled 2\nthrottled_time 80000000\n");
    CHECK(throttled_time(9, root, root) == 80ms);  // version 1, in ns

    const std::filesystem::path port = root / "class/infiniband/mlx5_0/ports/1";
    std::filesystem::create_directories(port / "counters");
    std::filesystem::create_directories(port / "hw_counters");
    const auto write = [&](const char* sent, const char* waits) {
        write_file(port / "counters/port_xmit_data", sent);
        write_file(port / "counters/port_rcv_data", "100\n");
        write_file(port / "counters/link_downed", "1\n");
        write_file(port / "counters/symbol_error", "0\n");
        write_file(port / "hw_counters/out_of_sequence", waits);
        return read_hca_counters(root);
    };
    const HcaCounters before = write("10\n", "5\n");
    CHECK(hca_bytes(before) == 4 * (10 + 100));
    CHECK(describe_hcas(before, write("1010\n", "8\n"), 0.5) ==
          "mlx5_0 port 1: 4000 bytes sent, 0 received in 0.5 s, link_downed 1, out_of_sequence 8 "
          "(3 of them now)\n");
    CHECK(read_hca_counters(root / "nowhere").empty());
}

}  // namespace hang_evidence_test
