// The real sampler, started by the agent's side of it: with a management library that is a fake
// (heat that rises, a driver that hangs and one that crashes), killed, stopped, and read by clients
// of its port that behave and that do not.

#include "sampler/node_sampler.hpp"

#include "../write_file.hpp"
#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "base/unique_fd.hpp"
#include "processes.hpp"
#include "readings/sample_file.hpp"

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace node_sampler_test {

namespace fs = std::filesystem;
using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::testing;
using namespace std::chrono_literals;

namespace {

const char* const kTwoGpus =
    "driver 570.86.15\n"
    "gpu 0000:17:00.0 GPU-a H100\nmemory 85520809984\nuse 98 40 79000000000\nheat 60 5 90 70\n"
    "power 650000 700000 5000\nspeed 1980 2619\nclocks 64\necc 0\n"
    "gpu 0000:81:00.0 GPU-b H100\nmemory 85520809984\n";

class Node {
public:
    Node() {
        ::setenv("AUTOLAUNCH_NVML_LIBRARY", FAKE_NVML, 1);
        ::setenv("FAKE_NVML_MACHINE", (folder.path() / "driver").c_str(), 1);
        write_file(folder.path() / "driver", kTwoGpus);
        fs::create_directory(folder.path() / "text");
        fs::create_directory(folder.path() / "targets");
        settings.enabled = true;
        settings.program = SAMPLER_PROGRAM;
        settings.pause = 50ms;
        SamplerOrder& order = settings.order;
        order.run_dir = folder.path();
        order.node = "n1";
        order.run_id = order.job_id = "7";
        order.step_id = "0";
        order.version = "1";
        order.interval_ms = 100;
        order.gpus = {{"0000:17:00.0", "nvidia"}, {"0000:81:00.0", "nvidia"}};
        order.file_systems = {{folder.path(), "run"}};
        order.textfile_folder = folder.path() / "text";
    }
    ~Node() {
        sampler.reset();
        ::unsetenv("AUTOLAUNCH_NVML_LIBRARY");
    }

    void start() {
        sampler.emplace(io, settings,
                        NodeSampler::Handlers{
                            .warn = [this](const std::string& text) { warnings += text + "\n"; },
                            .measured = [this](const NodeMeasures& m) { measured.push_back(m); }});
        sampler->note(RankStarted{.rank = 3, .local_rank = 0, .pid = ::getpid(), .gpu = {}}, 1);
        sampler->note(StepReported{.rank = 3,
                                   .step = 7,
                                   .total_steps = {},
                                   .tokens = {},
                                   .loss = 2.5,
                                   .seconds = 0.25},
                      1);
    }
    template <class Condition>
    bool run_until(Condition condition, std::chrono::milliseconds limit = 20s) {
        const Deadline deadline = Deadline::after(limit);
        while (!condition() && !deadline.passed()) {
            io.restart();
            io.run_for(5ms);
        }
        return condition();
    }
    SampleHistory samples() const {
        const fs::path path = folder.path() / "samples/n1.jsonl";
        return fs::exists(path) ? read_sample_file(path) : SampleHistory{};
    }
    std::string textfile() const { return slurp(folder.path() / "text/autolaunch_7_0.prom"); }

    TemporaryFolder folder;
    asio::io_context io;
    SamplerSettings settings;
    std::optional<NodeSampler> sampler;
    std::string warnings;
    std::vector<NodeMeasures> measured;
};

UniqueFd connect_to(int port) {
    UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{10, 0};
    ::setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    REQUIRE(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    return client;
}

std::string ask(int port, const std::string& request) {
    const UniqueFd client = connect_to(port);
    write_all(client.get(), request, "the port");
    std::string answer;
    char bytes[4096];
    for (ssize_t got; (got = ::read(client.get(), bytes, sizeof bytes)) > 0;)
        answer.append(bytes, static_cast<std::size_t>(got));
    return answer;
}

}  // namespace

TEST_CASE("a node is measured: file, textfile, and the head's message; nothing of it stays") {
    Node node;
    node.start();
    CHECK(node.run_until([&] { return node.measured.size() >= 4; }));
    CHECK(node.measured.back().gpus.size() == 2);
    CHECK(node.measured.back().gpus[0].busy == 980);
    CHECK(node.measured.back().gpus[0].slowed);
    const SampleHistory history = node.samples();
    CHECK(history.header.run_id == "7");
    REQUIRE(history.samples.size() >= 4);
    const NodeSample& last = history.samples.back();
    CHECK(last.generation == 1);
    CHECK(last.span_seconds > 0.05);
    CHECK(last.cpu.busy_ratio.has_value());
    REQUIRE(last.ranks.size() == 1);
    CHECK(last.ranks[0].step == 7);
    CHECK(last.ranks[0].resident_bytes > 1000);
    REQUIRE(last.gpus.size() == 2);
    CHECK(last.gpus[0].watts == 650);
    CHECK(last.gpus[0].memory_used_bytes == 79'000'000'000);
    CHECK(last.gpus[0].celsius > history.samples.front().gpus[0].celsius);  // a curve of the fake's
    CHECK_FALSE(last.gpus[1].celsius);
    CHECK(last.file_systems.size() == 1);
    const std::string text = node.textfile();
    CHECK(text.find("\nautolaunch_rank_step{job_id=\"7\",node=\"n1\",rank=\"3\"} 7\n") !=
          text.npos);
    CHECK(text.find("autolaunch_gpu_busy_ratio{job_id=\"7\",node=\"n1\",gpu=\"0000:17:00.0\"} "
                    "0.98") != text.npos);
    CHECK_MESSAGE(node.warnings.empty(), node.warnings);
    node.sampler->end();
    CHECK(node.textfile().empty());
    CHECK(fs::is_empty(node.folder.path() / "text"));
    CHECK(node.sampler->pid() == -1);
}

TEST_CASE("one that is killed, and one that hangs, is started anew and counted") {
    Node node;
    int signal = SIGKILL;
    SUBCASE("killed") {}
    SUBCASE("hangs") { signal = SIGSTOP; }
    node.settings.silence = signal == SIGSTOP ? 6s : 30s;
    node.start();
    CHECK(node.run_until([&] { return node.measured.size() >= 2; }));
    const pid_t first = node.sampler->pid();
    ::kill(first, signal);
    CHECK(node.run_until([&] { return node.sampler->restarts() == 1; }));
    node.measured.clear();
    CHECK(node.run_until([&] { return node.measured.size() >= 2; }));
    CHECK(node.measured.back().sampler_restarts == 1);
    CHECK(node.sampler->pid() != first);
    CHECK(node.samples().header.restarts == 1);
    CHECK(node.warnings.find("was started anew") != std::string::npos);
    CHECK(node.textfile().find("autolaunch_sampler_restarts_total{job_id=\"7\",node=\"n1\"} 1") !=
          std::string::npos);
}

TEST_CASE("a driver that hangs is named, and the rest is measured") {
    Node node;
    write_file(node.folder.path() / "driver",
               std::string("hangs nvmlDeviceGetUtilizationRates\n") + kTwoGpus);
    node.start();
    CHECK(node.run_until([&] {
        return node.measured.size() >= 3 &&
               node.warnings.find("the GPUs' driver has not answered") != std::string::npos;
    }));
    CHECK(node.measured.back().gpus.empty());
    CHECK(node.samples().samples.back().cpu.busy_ratio.has_value());
    CHECK(node.sampler->restarts() == 0);
}

TEST_CASE("a driver that ends the sampler each time is not asked any more") {
    Node node;
    write_file(node.folder.path() / "driver",
               std::string("crashes nvmlDeviceGetUtilizationRates\n") + kTwoGpus);
    node.start();
    CHECK(node.run_until([&] { return node.measured.size() >= 2; }));
    CHECK(node.sampler->restarts() == 3);
    CHECK(node.measured.back().gpus.empty());
    CHECK(node.warnings.find("is not asked any more") != std::string::npos);
}

TEST_CASE("Prometheus is answered, and no client holds it up") {
    Node node;
    node.settings.order.metrics_listen = "127.0.0.1";
    node.settings.order.metrics_targets = node.folder.path() / "targets";
    node.start();
    CHECK(node.run_until([&] { return node.measured.size() >= 2; }));
    const std::string list = slurp(node.folder.path() / "targets/autolaunch_7_0_n1.json");
    const std::size_t colon = list.find("127.0.0.1:");
    REQUIRE_MESSAGE(colon != list.npos, list);
    const int port = std::atoi(list.c_str() + colon + 10);

    std::vector<UniqueFd> slow;  // half-open, and more of them than it takes
    for (int i = 0; i < 20; ++i) {
        slow.push_back(connect_to(port));
        write_all(slow.back().get(), "GET /metr", "the port");
    }
    const std::string plain = ask(port, "GET /metrics HTTP/1.1\r\nHost: n1\r\n\r\n");
    CHECK(plain.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"));
    CHECK(plain.find("\nautolaunch_ranks{job_id=\"7\",node=\"n1\"} 1\n") != plain.npos);
    const std::string open =
        ask(port, "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n");
    CHECK(open.find("Content-Type: application/openmetrics-text; version=1.0.0") != open.npos);
    CHECK(open.find(" # {rank=\"3\"} 0.25 ") != open.npos);
    CHECK(open.ends_with("# EOF\n"));
    CHECK(ask(port, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    CHECK(ask(port, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    CHECK(ask(port, "\x16\x03\x01\r\n\r\n").starts_with("HTTP/1.1 400 "));
    CHECK(ask(port, std::string(10'000, 'x')).starts_with("HTTP/1.1 400 "));
    for (int i = 0; i < 40; ++i)
        slow.push_back(connect_to(port));
    const std::size_t seen = node.measured.size();
    CHECK(node.run_until([&] { return node.measured.size() >= seen + 3; }));
    slow.clear();
    CHECK(node.run_until(
        [&] { return ask(port, "HEAD /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "); }));
    node.sampler->end();
    CHECK(fs::is_empty(node.folder.path() / "targets"));
}

TEST_CASE("a port that is taken, and a folder that is not there, are said with what to do") {
    Node node;
    UniqueFd taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(taken.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(taken.get(), 1) == 0);
    REQUIRE(::getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    node.settings.order.metrics_listen = "127.0.0.1";
    node.settings.order.metrics_port = ntohs(address.sin_port);
    node.settings.order.textfile_folder = "/nonexistent/textfiles";
    node.start();
    CHECK(node.run_until([&] { return node.measured.size() >= 2; }));
    CHECK_MESSAGE(node.warnings.find("monitoring.metrics_port: 0 takes one that is free") !=
                      std::string::npos,
                  node.warnings);
    CHECK(node.warnings.find("/nonexistent/textfiles") != std::string::npos);
    CHECK(node.sampler->restarts() == 0);
    CHECK(node.samples().samples.size() >= 2);
}

TEST_CASE("what a second of measuring costs") {
    Node node;
    node.settings.order.interval_ms = 1000;
    node.start();
    CHECK(node.run_until([&] { return node.measured.size() >= 1; }));
    const auto cpu_ms = [&] {
        const std::string stat = slurp("/proc/" + std::to_string(node.sampler->pid()) + "/stat");
        std::vector<long> numbers;
        const char* at = stat.c_str() + stat.rfind(')') + 4;
        for (char* end = nullptr; numbers.size() < 15; at = end)
            numbers.push_back(std::strtol(at, &end, 10));
        return (numbers[10] + numbers[11]) * 1000 / ::sysconf(_SC_CLK_TCK);
    };
    const long before = cpu_ms();
    const std::size_t seen = node.measured.size();
    CHECK(node.run_until([&] { return node.measured.size() >= seen + 3; }));
    const double share = static_cast<double>(cpu_ms() - before) / 3000;
    MESSAGE("measuring once a second: ", share * 100, " % of a core; once in 10 s a tenth of it");
    CHECK(share < 0.05);  // a tenth of it is 0.5 %
}

}  // namespace node_sampler_test
