// What the kernel's texts and two readings make: rates, ratios, and nothing where nothing is known.

#include "readings/file_system_reader.hpp"
#include "readings/gpu_reader.hpp"
#include "readings/kernel_texts.hpp"
#include "readings/node_reader.hpp"
#include "sampler/job_measures.hpp"
#include "sampler/sampler_messages.hpp"

#include "../integration/processes.hpp"
#include "../write_file.hpp"
#include "control/control_message.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <variant>

namespace readings_test {

namespace fs = std::filesystem;
using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;
using autolaunch::testing::TemporaryFolder;

namespace {

constexpr const char* kStat =
    "cpu  1000 200 300 5000 40 10 20 30 0 0\ncpu0 500 100 150 2500 20 5 10 15 0 0\n"
    "cpu1 500 100 150 2500 20 5 10 15 0 0\nintr 1 2 3\nctxt 5\n";
constexpr const char* kDiskstats =
    "   7       0 loop0 5 0 10 1 0 0 0 0 0 1 1\n"
    " 259       0 nvme0n1 100 0 2000 50 200 0 4000 60 0 700 110 0 0 0 0\n"
    " 259       1 nvme0n1p1 90 0 1800 40 190 0 3900 50 0 600 90\n"
    "   8       0 sda 0 0 0 0 0 0 0 0 0 0 0\n"
    " 253       0 dm-0 9 9 9 9 9 9 9 9 9 9 9\n";
constexpr const char* kNetDev =
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
    "    lo: 999 9 0 0 0 0 0 0 999 9 0 0 0 0 0 0\n"
    "  eth0:1000 10 1 2 0 0 0 0 2000 20 3 4 0 0 0 0\n"
    "  ib0:    0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

void put(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    write_file(path, text);
}

}  // namespace

TEST_CASE("CPU time, memory, pressure and quota, as the kernel writes them") {
    const auto cpu = parse_proc_stat(kStat, 100);
    REQUIRE(cpu);
    CHECK(cpu->user == 10);
    CHECK(cpu->idle == 50);
    CHECK(cpu->steal == doctest::Approx(0.3));
    CHECK(cpu->cpus == 2);
    CHECK_FALSE(parse_proc_stat("", 100));
    CHECK_FALSE(parse_proc_stat("cpu 1 2\n", 100));
    const MemorySample memory = parse_meminfo(
        "MemTotal:       1000 kB\nMemAvailable:    400 kB\nShmem: 5 kB\nSwapTotal: 10 kB\n"
        "SwapFree:  4 kB\nHugePages_Total:       0\nDirty: odd kB\n");
    CHECK(memory.total_bytes == 1'024'000);
    CHECK(memory.available_bytes == 409'600);
    CHECK(memory.swap_used_bytes == 6144);
    CHECK_FALSE(memory.dirty_bytes);
    const Stalls stalls = parse_pressure(
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=123\nfull avg10=1.00 avg60=0.00 "
        "avg300=0.00 total=45\n");
    CHECK(stalls.some == 123);
    CHECK(stalls.full == 45);
    CHECK_FALSE(parse_pressure("some avg10=0.00 total=x\n").some);
    CgroupCounters v2, v1;
    parse_cpu_stat("usage_usec 2500000\nnr_throttled 3\nthrottled_usec 500000\n", v2);
    CHECK(v2.cpu_seconds == 2.5);
    CHECK(v2.throttled_seconds == 0.5);
    parse_cpu_stat("nr_periods 9\nnr_throttled 3\nthrottled_time 500000000\n", v1);
    CHECK(v1.throttled_seconds == 0.5);
    CHECK_FALSE(v1.cpu_seconds);
    const char* own = "12:cpu,cpuacct:/slurm/job_7\n1:name=systemd:/x\n0::/system.slice/slurmd\n";
    CHECK(cgroup_path(own, "") == "/system.slice/slurmd");
    CHECK(cgroup_path(own, "cpu") == "/slurm/job_7");
    CHECK_FALSE(cgroup_path(own, "memory"));
}

TEST_CASE("networks, disks, processes and links") {
    const auto nets = parse_net_dev(kNetDev);
    REQUIRE(nets.size() == 1);
    CHECK(nets[0].device == "eth0");
    CHECK(nets[0].received_bytes == 1000);
    CHECK(nets[0].sent_bytes == 2000);
    CHECK(nets[0].errors == 4);
    CHECK(nets[0].dropped == 6);
    const auto disks = parse_diskstats(kDiskstats, {"loop0", "nvme0n1", "sda", "dm-0"});
    REQUIRE(disks.size() == 1);
    CHECK(disks[0].read_bytes == 2000 * 512);
    CHECK(disks[0].written_bytes == 4000 * 512);
    CHECK(disks[0].busy_ms == 700);
    const auto process = parse_process_stat(
        "4711 (a ) b (c) S 12 4711 4711 0 -1 4194304 100 0 0 0 10 20 30 40 20 0 7 0 12345 "
        "1000000 250 18446744073709551615 1 1 0\n");
    REQUIRE(process);
    CHECK(process->parent == 12);
    CHECK(process->ticks == 100);
    CHECK(process->threads == 7);
    CHECK(process->resident_pages == 250);
    CHECK_FALSE(parse_process_stat("4711 (a) S 12"));
    CHECK_FALSE(parse_process_stat(""));
    CHECK(parse_link_rate("400 Gb/sec (4X NDR)") == 5e10);
    CHECK_FALSE(parse_link_rate("fast"));
    CHECK(slowed_by(0) == std::vector<std::string>{});
    CHECK(slowed_by(0x40 | 0x4) == std::vector<std::string>{"thermal", "power_cap"});
}

TEST_CASE("rates are of the time between two readings; a counter that went back has none") {
    NodeReading before{.time_ms = 50'000, .boot_ms = 10'000};
    before.cpu = CpuCounters{.user = 10, .idle = 10, .cpus = 2};
    before.networks = {{"eth0", 1000, 5000, 0, 0}};
    before.disks = {{"sda", 0, 0, 0}};
    before.cgroup.throttled_seconds = 1;
    before.ranks = {{.rank = 3, .pid = 5, .cpu_seconds = 10}};
    NodeReading now = before;
    now.time_ms = 20'000;  // the clock was set back
    now.boot_ms = 12'000;
    now.cpu = CpuCounters{.user = 13, .idle = 11, .cpus = 2};
    now.networks = {{"eth0", 3000, 10, 0, 0}, {"eth1", 5, 5, 0, 0}};
    now.disks = {{"sda", 4096, 0, 500}};
    now.cgroup.throttled_seconds = 1.5;
    now.ranks = {{.rank = 3, .pid = 5, .cpu_seconds = 13}};
    AgentFacts facts;
    facts.ranks = {{.rank = 3, .pid = 5, .gpu = "0000:17:00.0", .step = 7}, {.rank = 4, .pid = 6}};
    facts.checkpoint_time_ms = 49'000;
    const NodeSample sample = make_sample(&before, now, facts);
    CHECK(sample.time_ms == 20'000);
    CHECK(sample.span_seconds == 2);
    CHECK(sample.cpu.busy_ratio == 0.75);
    CHECK(sample.networks[0].received_bytes == 1000);
    CHECK_FALSE(sample.networks[0].sent_bytes);
    CHECK_FALSE(sample.networks[1].received_bytes);
    CHECK(sample.disks[0].read_bytes == 2048);
    CHECK(sample.disks[0].busy_ratio == 0.25);
    CHECK(sample.cgroup.throttled_ratio == 0.25);
    REQUIRE(sample.ranks.size() == 2);
    CHECK(sample.ranks[0].cpu_cores == 1.5);
    CHECK(sample.ranks[0].step == 7);
    CHECK_FALSE(sample.ranks[1].cpu_cores);
    CHECK(sample.checkpoint.age_seconds == 0);
    const NodeSample first = make_sample(nullptr, now, facts);
    CHECK(first.span_seconds == 0);
    CHECK_FALSE(first.cpu.busy_ratio);
    CHECK_FALSE(first.networks[0].received_bytes);
}

TEST_CASE("a node's own trees of procfs and sysfs, InfiniBand's words times four") {
    const TemporaryFolder root;
    const fs::path proc = root.path() / "proc", sys = root.path() / "sys",
                   cgroups = root.path() / "cgroup";
    put(proc / "stat", kStat);
    put(proc / "loadavg", "1.50 1 1 1/2 3\n");
    put(proc / "meminfo", "MemTotal: 10 kB\n");
    put(proc / "net/dev", kNetDev);
    put(proc / "diskstats", kDiskstats);
    put(proc / "self/cgroup", "0::/slurm/job_7\n");
    put(proc / "pressure/io", "some avg10=0 total=7\nfull avg10=0 total=5\n");
    for (const char* disk : {"nvme0n1", "sda"})
        fs::create_directories(sys / "block" / disk);
    put(cgroups / "slurm/job_7/cpu.stat", "usage_usec 1000000\nthrottled_usec 7\n");
    put(cgroups / "slurm/job_7/memory.current", "4096\n");
    put(cgroups / "slurm/job_7/memory.max", "max\n");
    put(cgroups / "slurm/job_7/memory.events", "low 0\noom 3\noom_kill 2\n");
    const fs::path port = sys / "class/infiniband/mlx5_0/ports/1";
    put(port / "state", "4: ACTIVE\n");
    put(port / "rate", "400 Gb/sec (4X NDR)\n");
    put(port / "counters/port_rcv_data", "1000\n");
    put(port / "counters/port_xmit_data", "2000\n");
    put(port / "counters/symbol_error", "3\n");
    put(port / "counters/port_rcv_errors", "4\n");
    const auto stat = [](int pid, int parent) {
        return std::to_string(pid) + " (p) S " + std::to_string(parent) +
               " 1 1 0 -1 0 0 0 0 0 100 0 0 0 20 0 2 0 5 1000 10 0\n";
    };
    put(proc / "100/stat", stat(100, 1));
    put(proc / "101/stat", stat(101, 100));
    put(proc / "102/stat", stat(102, 101));
    put(proc / "200/stat", stat(200, 1));
    put(proc / "101/io", "rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\n");
    const NodeReading reading =
        NodeReader({.proc = proc, .sys = sys, .cgroups = cgroups}).read({{3, 100}, {4, 999}});
    CHECK(reading.load1 == 1.5);
    CHECK(reading.pressure.io_full == 5);
    CHECK_FALSE(reading.pressure.cpu_some);
    CHECK(reading.cgroup.cpu_seconds == 1);
    CHECK(reading.cgroup.memory_bytes == 4096);
    CHECK_FALSE(reading.cgroup.memory_limit_bytes);
    CHECK(reading.cgroup.oom_kills == 2);
    REQUIRE(reading.infiniband.size() == 1);
    CHECK(reading.infiniband[0].received_bytes == 4000);
    CHECK(reading.infiniband[0].sent_bytes == 8000);
    CHECK(reading.infiniband[0].errors == 7);
    CHECK(reading.infiniband[0].state == "ACTIVE");
    CHECK_FALSE(reading.infiniband[0].wait_ticks);
    REQUIRE(reading.ranks.size() == 1);
    CHECK(reading.ranks[0].rank == 3);
    CHECK(reading.ranks[0].threads == 6);
    CHECK(reading.ranks[0].read_bytes == 4096);
    CHECK(reading.disks.size() == 1);
    CHECK(reading.troubles.empty());
    CHECK(NodeReader({.proc = root.path(), .sys = root.path(), .cgroups = root.path()})
              .read({})
              .troubles.size() == 1);
}

TEST_CASE("one of AMD's GPUs, by the files of amdgpu") {
    const TemporaryFolder root;
    const fs::path gpu = root.path() / "bus/pci/devices/0000:c1:00.0";
    CHECK_FALSE(read_amd_gpu("0000:c1:00.0", root.path()));
    put(gpu / "mem_info_vram_total", "68702699520\n");
    put(gpu / "mem_info_vram_used", "1000\n");
    put(gpu / "gpu_busy_percent", "97\n");
    put(gpu / "hwmon/hwmon3/temp1_input", "61000\n");
    put(gpu / "hwmon/hwmon3/temp2_input", "72000\n");
    put(gpu / "hwmon/hwmon3/power1_average", "300000000\n");
    put(gpu / "hwmon/hwmon3/freq1_input", "1700000000\n");
    const auto told = read_amd_gpu("0000:c1:00.0", root.path());
    REQUIRE(told);
    CHECK(told->busy_ratio == doctest::Approx(0.97));
    CHECK(told->celsius == 72);
    CHECK(told->watts == 300);
    CHECK(told->sm_hertz == 1.7e9);
    CHECK_FALSE(told->memory_celsius);
}

TEST_CASE("a file system that does not answer is named, and others answer meanwhile") {
    struct Server {
        std::mutex mutex;
        std::condition_variable changed;
        bool dead = true;
    };
    const auto server = std::make_shared<Server>();
    FileSystemReader reader({"/dead", "/ok"}, 0ms, [server](const std::string& path, auto& into) {
        into.total_bytes = 100;
        std::unique_lock lock(server->mutex);
        if (path == "/dead")
            server->changed.wait(lock, [&] { return !server->dead; });
        return true;
    });
    const auto until = [&](auto condition) {
        for (int i = 0; i < 2000 && !condition(); ++i)
            std::this_thread::sleep_for(1ms);
        return condition();
    };
    reader.ask({});
    CHECK(until([&] { return reader.answers()[1].total_bytes.has_value(); }));
    CHECK(reader.waits());
    CHECK(reader.answers()[0].path == "/dead");
    CHECK(reader.answers()[0].silent_seconds > 0);
    CHECK_FALSE(reader.answers()[0].total_bytes);
    reader.ask({});  // it is not asked twice
    {
        const std::lock_guard lock(server->mutex);
        server->dead = false;
        server->changed.notify_all();
    }
    CHECK(until([&] { return !reader.waits(); }));
    REQUIRE(reader.answers().size() == 2);
    CHECK(reader.answers()[0].total_bytes == 100);
}

TEST_CASE("what agent and sampler say is heard") {
    SamplerOrder order{.run_dir = "/r", .node = "n1", .run_id = "7"};
    order.interval_ms = 1000;
    order.gpus = {{"0000:17:00.0", "nvidia", "GPU-1", "H100"}};
    order.asks_nvidia = false;
    order.file_systems = {{"/r", "run"}};
    order.metrics_port = 9842;
    const SamplerInput ordered = parse_sampler_input(to_line(order));
    REQUIRE(std::holds_alternative<SamplerOrder>(ordered));
    CHECK(std::get<SamplerOrder>(ordered) == order);
    AgentFacts facts{.generation = 3};
    facts.ranks = {{.rank = 1, .pid = 5, .gpu = "a", .step = 9, .loss = 0.5}};
    facts.steps.add(1, 0.3, 1000);
    facts.job = JobFacts{.nodes = 2, .state = "running", .restarts = {{"oom", 1}}};
    const SamplerInput told = parse_sampler_input(to_line(facts));
    REQUIRE(std::holds_alternative<AgentFacts>(told));
    CHECK(std::get<AgentFacts>(told) == facts);
    NodeMeasures measures{.span_ms = 5, .cpu_busy = 7};
    measures.gpus = {{900, 84, 1, 2, 3, true}};
    const SamplerOutput said = parse_sampler_output(to_line(SamplerMeasured{measures}));
    REQUIRE(std::holds_alternative<SamplerMeasured>(said));
    CHECK(std::get<SamplerMeasured>(said).measures == measures);
    CHECK(std::holds_alternative<SamplerAlive>(parse_sampler_output(to_line(SamplerAlive{}))));
    CHECK(std::holds_alternative<SamplerAsks>(parse_sampler_output(to_line(SamplerAsks{}))));
    for (const char* odd : {"", "{", "[]", "{\"facts\":1}", "{\"x\":{}}"})
        CHECK(std::holds_alternative<std::monostate>(parse_sampler_input(odd)));
}

TEST_CASE("4,096 nodes with 16 GPUs say less than 2 MB a second to the head, once a second each") {
    NodeSample sample{.time_ms = 1, .span_seconds = 1};
    for (int i = 0; i < 20; ++i)
        sample.gpus.push_back({.bdf = "0000:17:00.0",
                               .busy_ratio = 0.98,
                               .memory_used_bytes = 80ULL << 30,
                               .memory_total_bytes = 141ULL << 30,
                               .celsius = 84,
                               .watts = 700,
                               .slowed_by = {"thermal"}});
    const NodeMeasures measures = measures_of(sample, 1);
    CHECK(measures.gpus.size() == NodeMeasures::kMostGpus);
    const std::string bytes = control::encode(control::Report(control::NodeMeasured{measures}));
    constexpr std::size_t kRecord = 22;  // TLS 1.3 adds to each
    MESSAGE("a message of ", bytes.size(), " bytes, ", 4096 * (bytes.size() + kRecord) / 1000,
            " kB a second");
    CHECK(4096 * (bytes.size() + kRecord) < 2'000'000);
}

TEST_CASE("the head names the nodes that are unlike the others, and forgets old measures") {
    JobMeasures job;
    const auto now = std::chrono::steady_clock::time_point(1000s);
    std::vector<std::string> names;
    for (int i = 0; i < 8; ++i) {
        NodeMeasures told{.span_ms = 10'000, .cpu_busy = 500'000, .network_bytes = 10};
        told.gpus = {{990, 70, 600'000, 70'000, 80'000, false},
                     {980, 71, 600'000, 70'000, 80'000, false}};
        names.push_back("n" + std::to_string(i));
        if (i == 3)
            told.gpus[1] = {300, 91, 300'000, 70'000, 80'000, true};
        if (i == 5)
            told.silent_file_systems = 1;
        job.add(names.back(), told, i == 6 ? now - 100s : now);
    }
    names.push_back("never");
    const JobSample sample = job.sample(names, now);
    CHECK(sample.nodes == 9);
    CHECK(sample.nodes_heard == 7);
    CHECK(sample.gpus == 14);
    CHECK(sample.gpu_busy_least_ratio == doctest::Approx(0.3));
    CHECK(sample.gpu_hottest_celsius == 91);
    CHECK(sample.network_bytes == 70);
    std::string all;
    for (const std::string& sentence : sample.odd)
        all += sentence + "\n";
    CHECK(all ==
          "n6: was not measured for 100 s\n"
          "n3: its GPU 1 has 91 °C, others 71\n"
          "n3: its GPU 1 is busy for 30 % of the time, others for 99\n"
          "n3: its GPU 1 is slowed down, by heat or its power supply\n"
          "n5: 1 of its file systems does not answer\n");
    CHECK(JobMeasures().sample({}, now) == JobSample{});
}

}  // namespace readings_test
