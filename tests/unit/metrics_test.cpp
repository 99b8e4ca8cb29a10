// What Prometheus reads: the text of metrics, the table of docs/metrics.md, requests, and files in
// folders of others. promtool, where it is installed, checks the names.

#include "exposition/http_request.hpp"
#include "exposition/node_metrics.hpp"
#include "exposition/offered_file.hpp"

#include "../integration/processes.hpp"
#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <string>

namespace metrics_test {

namespace fs = std::filesystem;
using namespace autolaunch;
using namespace autolaunch::launcher;
using autolaunch::testing::TemporaryFolder;

namespace {

const Labels kCommon = {{"job_id", "7"}, {"node", "n1"}};

/// A reading in which nothing is missing, with what was reported.
NodeReading full_reading() {
    NodeReading reading{.time_ms = 1'764'411'123'456, .boot_ms = 99'000};
    reading.cpu = CpuCounters{.user = 1, .nice = 2, .system = 3, .idle = 4, .cpus = 8};
    reading.load1 = 0.5;
    reading.memory = {.total_bytes = 1000, .available_bytes = 500};
    reading.pressure = {
        .cpu_some = 1, .memory_some = 2, .memory_full = 3, .io_some = 4, .io_full = 5};
    reading.cgroup = {1.5, 0.5, 100, 200, 1};
    reading.ranks = {{.rank = 3,
                      .pid = 5,
                      .cpu_seconds = 2,
                      .resident_bytes = 7,
                      .threads = 9,
                      .read_bytes = 1,
                      .written_bytes = 2}};
    reading.gpus = {{.bdf = "0000:17:00.0",
                     .uuid = "GPU-1",
                     .model = "H100 \"80\\GB\"",
                     .busy_ratio = 0.98,
                     .memory_busy_ratio = 0.4,
                     .memory_used_bytes = 79,
                     .memory_total_bytes = 85,
                     .celsius = 84,
                     .memory_celsius = 90,
                     .watts = 690,
                     .watts_limit = 700,
                     .sm_hertz = 1e9,
                     .memory_hertz = 2e9,
                     .joules = 5,
                     .nvlink_bytes = 6,
                     .ecc_errors = 0,
                     .slowed_by = std::vector<std::string>{"thermal"},
                     .processes = 1}};
    reading.networks = {{"eth0", 1, 2, 3, 4}};
    reading.infiniband = {{.device = "mlx5_0",
                           .port = 1,
                           .state = "ACTIVE",
                           .link_bytes = 5e10,
                           .received_bytes = 4,
                           .sent_bytes = 8,
                           .wait_ticks = 3,
                           .errors = 0,
                           .link_downs = 1}};
    reading.disks = {{"nvme0n1", 512, 1024, 1500}};
    reading.file_systems = {
        {.path = "/s", .total_bytes = 10, .available_bytes = 5, .total_files = 9, .free_files = 3}};
    return reading;
}

AgentFacts full_facts() {
    AgentFacts facts{.generation = 2};
    facts.ranks = {{.rank = 3,
                    .pid = 5,
                    .gpu = "0000:17:00.0",
                    .step = 1240,
                    .step_seconds = 0.25,
                    .loss = 2.5,
                    .tokens_per_second = 1000,
                    .input_ratio = 0.25}};
    facts.steps.add(3, 0.25, 1'764'411'123'000);
    facts.steps.add(3, 100, 1'764'411'123'000);
    facts.checkpoint_step = 1200;
    facts.checkpoint_stall_seconds = 0.5;
    facts.checkpoint_save_seconds = 3;
    facts.checkpoint_time_ms = 1'764'411'000'000;
    facts.checkpoints = 4;
    JobFacts job{.nodes = 4, .world_size = 32, .state = "running"};
    job.restarts = {{"network", 2}};
    job.unit_ms = {{"steps", 5000}};
    job.measured = JobSample{.nodes = 4,
                             .nodes_heard = 3,
                             .gpus = 32,
                             .gpu_busy_ratio = 0.9,
                             .gpu_busy_least_ratio = 0.1,
                             .gpu_hottest_celsius = 91,
                             .gpu_watts = 20'000,
                             .odd = {"n3: …"}};
    facts.job = job;
    return facts;
}

std::vector<Metric> full_metrics() {
    return node_metrics(full_reading(), full_facts(), {{"/s", "run"}}, "0.1.0", "gpt");
}

bool has_line(const std::string& text, const std::string& line) {
    return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

const char* word_of(MetricType type) {
    constexpr const char* kWords[] = {"gauge", "counter", "histogram", "info"};
    return kWords[static_cast<int>(type)];
}

}  // namespace

TEST_CASE("the text that Prometheus reads, line by line") {
    const std::string text = metrics_text(full_metrics(), kCommon, MetricFormat::prometheus);
    for (
        const char* line :
        {"# HELP autolaunch_gpu_busy_ratio Part of the driver's last sample in which a kernel ran",
         "# TYPE autolaunch_gpu_busy_ratio gauge",
         R"(autolaunch_gpu_busy_ratio{job_id="7",node="n1",gpu="0000:17:00.0"} 0.98)",
         R"(autolaunch_gpu_info{job_id="7",node="n1",gpu="0000:17:00.0",uuid="GPU-1",model="H100 \"80\\GB\""} 1)",
         R"(autolaunch_gpu_slowed{job_id="7",node="n1",gpu="0000:17:00.0",reason="thermal"} 1)",
         R"(autolaunch_gpu_slowed{job_id="7",node="n1",gpu="0000:17:00.0",reason="power"} 0)",
         R"(autolaunch_infiniband_receive_bytes_total{job_id="7",node="n1",device="mlx5_0",port="1"} 4)",
         R"(autolaunch_step_duration_seconds_bucket{job_id="7",node="n1",le="0.2"} 0)",
         R"(autolaunch_step_duration_seconds_bucket{job_id="7",node="n1",le="0.5"} 1)",
         R"(autolaunch_step_duration_seconds_bucket{job_id="7",node="n1",le="+Inf"} 2)",
         R"(autolaunch_step_duration_seconds_sum{job_id="7",node="n1"} 100.25)",
         R"(autolaunch_step_duration_seconds_count{job_id="7",node="n1"} 2)",
         R"(autolaunch_filesystem_size_bytes{job_id="7",node="n1",use="run"} 10)",
         R"(autolaunch_job_restarts_total{job_id="7",node="n1",cause="network"} 2)",
         R"(autolaunch_job_state{job_id="7",node="n1",state="running"} 1)",
         R"(autolaunch_job_state{job_id="7",node="n1",state="ended"} 0)"})
        CHECK_MESSAGE(has_line(text, line), line);
    CHECK(text.find("# {") == text.npos);
    CHECK(text.find("# EOF") == text.npos);
}

TEST_CASE("OpenMetrics names families without their endings, has exemplars and an end") {
    const std::string text = metrics_text(full_metrics(), kCommon, MetricFormat::openmetrics);
    for (
        const char* line :
        {"# TYPE autolaunch_job_restarts counter", "# TYPE autolaunch_gpu info",
         R"(autolaunch_job_restarts_total{job_id="7",node="n1",cause="network"} 2)",
         R"(autolaunch_step_duration_seconds_bucket{job_id="7",node="n1",le="0.5"} 1 # {rank="3"} 0.25 1764411123.000)"})
        CHECK_MESSAGE(has_line(text, line), line);
    CHECK(text.ends_with("\n# EOF\n"));
}

TEST_CASE("every metric is told when everything is known, and nothing is told of nothing") {
    const std::string text = metrics_text(full_metrics(), {}, MetricFormat::prometheus);
    for (const MetricKind& kind : metric_kinds())
        CHECK_MESSAGE(text.find("# TYPE " + std::string(kind.name) + " ") != text.npos, kind.name);
    const std::string little = metrics_text(node_metrics({}, {}, {}, "1", ""), {}, {});
    CHECK(little.find("gpu") == little.npos);
    CHECK(little.find("nan") == little.npos);
    CHECK(metrics_text({}, {}, MetricFormat::openmetrics) == "# EOF\n");
}

TEST_CASE("names follow Prometheus' rules, each once") {
    std::set<std::string_view> names;
    for (const MetricKind& kind : metric_kinds()) {
        CAPTURE(kind.name);
        CHECK(names.insert(kind.name).second);
        CHECK(kind.name.ends_with("_total") == (kind.type == MetricType::counter));
        CHECK(kind.name.ends_with("_info") == (kind.type == MetricType::info));
        CHECK(std::regex_match(std::string(kind.name), std::regex("autolaunch_[a-z0-9_]+")));
        CHECK_FALSE(kind.help.empty());
        CHECK_FALSE(kind.help.ends_with("."));
        const std::string unit = "_" + std::string(kind.unit);
        std::string stem(kind.name);
        if (kind.type == MetricType::counter)
            stem.resize(stem.size() - 6);
        CHECK((kind.unit.empty() || stem.ends_with(unit)));
    }
}

TEST_CASE("docs/metrics.md has each of them, and no other") {
    const std::string doc = read_file(fs::path(AUTOLAUNCH_SOURCE_DIR) / "docs/metrics.md");
    std::set<std::string> documented;
    for (const std::string& line : split(doc, '\n'))
        if (line.starts_with("| `autolaunch_"))
            documented.insert(line);
    std::set<std::string> told;
    for (const MetricKind& kind : metric_kinds()) {
        std::string labels(kind.labels);
        for (std::size_t at = 0; (at = labels.find(',', at)) != labels.npos; at += 2)
            labels.insert(at + 1, " ");
        std::string row = "| `" + std::string(kind.name) + "` | " + word_of(kind.type) + " | " +
                          std::string(kind.unit) + " | " + labels + " | " + std::string(kind.help) +
                          " |";
        told.insert(std::move(row));
    }
    for (const std::string& row : told)
        CHECK_MESSAGE(documented.contains(row), "docs/metrics.md lacks: ", row);
    for (const std::string& row : documented)
        CHECK_MESSAGE(told.contains(row), "docs/metrics.md has what is told no more: ", row);
}

TEST_CASE("promtool finds nothing in them") {
    if (std::system("command -v promtool >/dev/null") != 0) {
        MESSAGE("skipped: promtool is not installed (apt-get install prometheus)");
        return;
    }
    const TemporaryFolder folder;
    write_file(folder.path() / "m",
               metrics_text(full_metrics(), kCommon, MetricFormat::prometheus));
    const std::string command = "promtool check metrics <" + (folder.path() / "m").string() + " >" +
                                (folder.path() / "said").string() + " 2>&1";
    const int status = std::system(command.c_str());
    CHECK_MESSAGE(status == 0, read_file(folder.path() / "said"));
}

TEST_CASE("which text a client wants") {
    CHECK(format_wanted("") == MetricFormat::prometheus);
    CHECK(format_wanted("*/*") == MetricFormat::prometheus);
    CHECK(format_wanted("text/plain;version=0.0.4;q=0.5,*/*;q=0.1") == MetricFormat::prometheus);
    CHECK(format_wanted("application/openmetrics-text;version=1.0.0,text/plain;q=0.5") ==
          MetricFormat::openmetrics);
    CHECK(format_wanted("application/openmetrics-text;version=0.0.1;q=0.75,"
                        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1") == MetricFormat::openmetrics);
    CHECK(format_wanted("application/openmetrics-text;q=0, text/plain") ==
          MetricFormat::prometheus);
}

TEST_CASE("a request is whole, not yet, or none") {
    const auto whole = parse_http_request(
        "GET /metrics?x=1 HTTP/1.1\r\nHost: n1\r\nACCEPT: text/plain\r\naccept: a/b\r\n\r\n");
    REQUIRE(whole);
    CHECK(whole->method == "GET");
    CHECK(whole->path == "/metrics");
    CHECK(whole->accept == "text/plain,a/b");
    CHECK_FALSE(parse_http_request("GET /metrics HTTP/1.1\r\nHost: n1\r\n"));
    CHECK_FALSE(parse_http_request(""));
    for (const char* bad : {"\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/2\r\n\r\n",
                            "GET metrics HTTP/1.1\r\n\r\n", "\x16\x03\x01 x y\r\n\r\n"}) {
        const auto none = parse_http_request(bad);
        REQUIRE(none);
        CHECK(none->method.empty());
    }
    const auto endless = parse_http_request(std::string(kMostRequestBytes + 1, 'x'));
    REQUIRE(endless);
    CHECK(endless->method.empty());
}

TEST_CASE("a file in somebody's folder is whole, readable, and gone in the end") {
    const TemporaryFolder folder;
    const std::string name = shared_file_name("4711", "0", ".prom");
    CHECK(name == "autolaunch_4711_0.prom");
    CHECK(shared_file_name("../x", "a b", ".prom") == "autolaunch_.._x_a_b.prom");
    const mode_t before = ::umask(077);
    {
        OfferedFile file(folder.path(), name, false);
        CHECK_FALSE(fs::exists(folder.path() / name));
        file.replace(writer_mark() + "a 1\n");
        file.replace(writer_mark() + "a 2\n");
        CHECK(read_file(folder.path() / name).ends_with("\na 2\n"));
        CHECK((fs::status(folder.path() / name).permissions() & fs::perms::others_read) !=
              fs::perms::none);
        CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
        CHECK(sweep_leftovers(folder.path(), ".prom") == 0);  // we are its writer, and live
    }
    ::umask(before);
    CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("leftovers of dead jobs go, others' files and those of live ones stay") {
    const TemporaryFolder folder;
    std::string dead = writer_mark();
    const std::string own = std::to_string(::getpid());
    dead.replace(dead.find(own), own.size(), "4194399");  // beyond any process's number
    write_file(folder.path() / "autolaunch_1_0.prom", dead + "a 1\n");
    write_file(folder.path() / ".autolaunch_1_0.prom.abcd", dead + "a 1\n");
    write_file(folder.path() / "autolaunch_2_0.prom", writer_mark() + "a 1\n");
    write_file(folder.path() / "autolaunch_3_0.prom", "a 1\n");  // nobody knows; it is new
    write_file(folder.path() / "smart.prom", dead);
    fs::create_symlink("/etc/passwd", folder.path() / "autolaunch_5_0.prom");
    CHECK(sweep_leftovers(folder.path(), ".prom") == 2);
    CHECK_FALSE(fs::exists(folder.path() / "autolaunch_1_0.prom"));
    for (const char* stays : {"autolaunch_2_0.prom", "autolaunch_3_0.prom", "smart.prom"})
        CHECK_MESSAGE(fs::exists(folder.path() / stays), stays);
    CHECK(fs::is_symlink(folder.path() / "autolaunch_5_0.prom"));
    fs::last_write_time(folder.path() / "autolaunch_3_0.prom",
                        fs::file_time_type::clock::now() - std::chrono::hours(2));
    CHECK(sweep_leftovers(folder.path(), ".prom") == 1);
}

TEST_CASE("a folder that is not there, or may not be written to, is said with what to do") {
    const TemporaryFolder folder;
    CHECK_THROWS_AS(OfferedFile(folder.path() / "none", "a.prom", false), Error);
    if (::geteuid() == 0) {
        MESSAGE("skipped: root may write anywhere");
        return;
    }
    fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
    CHECK_THROWS_AS(OfferedFile(folder.path(), "a.prom", false), Error);
    fs::permissions(folder.path(), fs::perms::owner_all);
}

}  // namespace metrics_test
