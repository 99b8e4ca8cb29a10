// The lines of RUN_DIR/samples/NODE.jsonl, and how the file stays small.

#include "readings/sample_file.hpp"

#include "../integration/processes.hpp"
#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <variant>

namespace samples_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using autolaunch::testing::TemporaryFolder;

namespace {

NodeSample full_sample() {
    NodeSample sample{.time_ms = 1'764'411'123'456, .boot_ms = 99'000, .span_seconds = 10};
    sample.generation = 2;
    sample.cpu = {.busy_ratio = 0.5, .user_ratio = 0.25, .load1 = 3.5, .cpus = 64};
    sample.memory = {.total_bytes = 1ULL << 40, .available_bytes = 123'456'789'012};
    sample.pressure.io_full_ratio = 0.125;
    sample.cgroup = {.cpu_cores = 7.5, .throttled_ratio = 0.01, .oom_kills = 0};
    sample.checkpoint = {.step = 400, .age_seconds = 12, .stall_seconds = 0.25};
    sample.ranks = {{.rank = 8,
                     .pid = 4711,
                     .cpu_cores = 1.5,
                     .gpu = "0000:17:00.0",
                     .step = 1240,
                     .step_seconds = 0.25,
                     .loss = 2.713}};
    sample.ranks_left_out = 3;
    sample.gpus = {{.bdf = "0000:17:00.0",
                    .busy_ratio = 0.98,
                    .memory_used_bytes = 79'000'000'000,
                    .celsius = 84,
                    .watts = 690.5,
                    .sm_hertz = 1.98e9,
                    .slowed_by = {"thermal", "power"},
                    .processes = 2}};
    sample.networks = {{.device = "eth0", .received_bytes = 1000, .sent_bytes = 2000}};
    sample.infiniband = {{.device = "mlx5_0", .port = 1, .state = "ACTIVE", .link_bytes = 5e10}};
    sample.disks = {{.device = "nvme0n1", .read_bytes = 5e8, .busy_ratio = 0.5}};
    sample.file_systems = {{.path = "/scratch", .type = "nfs4", .silent_seconds = 40}};
    sample.troubles = {"NVIDIA's driver has not answered for 40 s"};
    return sample;
}

NodeSample at(std::int64_t second) { return {.time_ms = second * 1000, .boot_ms = second * 1000}; }

std::string lines(std::int64_t from, std::int64_t to) {
    std::string text;
    for (std::int64_t second = from; second < to; ++second)
        text += to_json_line(at(second));
    return text;
}

}  // namespace

TEST_CASE("a sample's line, byte by byte") {
    CHECK(to_json_line(at(7)) == "{\"t\":7000,\"up\":7000,\"span_s\":0}\n");
    NodeSample sample = at(7);
    sample.cpu = {.busy_ratio = 1.0 / 3, .cpus = 2};
    sample.networks = {{.device = "eth0", .received_bytes = 123'456'789.3}};
    CHECK(to_json_line(sample) ==
          "{\"t\":7000,\"up\":7000,\"span_s\":0,\"cpu\":{\"busy\":0.33333,\"cpus\":2},"
          "\"net\":[{\"dev\":\"eth0\",\"received\":123460000}]}\n");
    CHECK(to_json_line(SampleHeader{.node = "n1", .run_id = "7", .interval_seconds = 10}) ==
          "{\"format\":1,\"node\":\"n1\",\"run_id\":\"7\",\"t\":0,\"up\":0,\"interval_s\":10,"
          "\"restarts\":0,\"boot_id\":\"\"}\n");
}

TEST_CASE("what was written is read") {
    const NodeSample sample = full_sample();
    const SampleLine parsed = parse_sample_line(to_json_line(sample));
    REQUIRE(std::holds_alternative<NodeSample>(parsed));
    CHECK(std::get<NodeSample>(parsed) == sample);

    const SampleHeader header{.node = "n\"1",
                              .run_id = "4711",
                              .time_ms = 5,
                              .boot_ms = 6,
                              .interval_seconds = 2.5,
                              .restarts = 1,
                              .boot_id = "b",
                              .gpus = {{"0000:17:00.0", "GPU-1", "H100"}}};
    const SampleLine again = parse_sample_line(to_json_line(header));
    REQUIRE(std::holds_alternative<SampleHeader>(again));
    CHECK(std::get<SampleHeader>(again) == header);
}

TEST_CASE("what is no number is left out, and text that is no UTF-8 is made some") {
    NodeSample sample = at(1);
    sample.cpu.load1 = std::nan("");
    sample.cpu.busy_ratio = std::numeric_limits<double>::infinity();
    sample.troubles = {"caf\xe9"};
    const SampleLine parsed = parse_sample_line(to_json_line(sample));
    REQUIRE(std::holds_alternative<NodeSample>(parsed));
    CHECK(std::get<NodeSample>(parsed).cpu == CpuSample{});
    CHECK(std::get<NodeSample>(parsed).troubles.size() == 1);
}

TEST_CASE("a line that somebody else wrote is read as far as it makes sense, or not at all") {
    for (const char* line :
         {"", "{", "[]", "7", "{}", R"({"t":-5})", R"({"t":"x"})", R"({"format":2,"node":"n"})",
          R"({"format":"1"})", R"({"t":1,"cpu":[[[[[[[[]]]]]]]]})"})
        CHECK_MESSAGE(std::holds_alternative<std::monostate>(parse_sample_line(line)), line);
    const SampleLine odd = parse_sample_line(
        R"({"t":1e3,"up":99999999999999999999,"cpu":{"busy":"much","cpus":4},"new":{"x":1},)"
        R"("gpus":[7,{"bdf":"a","mem_used":-1}],"ranks":{"rank":1},"t":5})");
    REQUIRE(std::holds_alternative<NodeSample>(odd));
    const auto& sample = std::get<NodeSample>(odd);
    CHECK(sample.time_ms == 5);
    CHECK(sample.boot_ms == 0);
    CHECK_FALSE(sample.cpu.busy_ratio);
    CHECK(sample.cpu.cpus == 4);
    REQUIRE(sample.gpus.size() == 1);
    CHECK(sample.gpus[0].bdf == "a");
    CHECK_FALSE(sample.gpus[0].memory_used_bytes);
    CHECK(sample.ranks.empty());
}

TEST_CASE("thinning keeps the newest, the first, and between them the fewer the older") {
    const std::string text = to_json_line(SampleHeader{.node = "n1"}) + lines(1, 10'001);
    const std::size_t limit = text.size() / 50;
    const std::string thin = thin_samples(text, limit);
    CHECK(thin.size() <= limit);
    CHECK(thin.size() > limit / 2);
    const SampleHistory thinned = parse_samples(thin);
    CHECK(thinned.header.node == "n1");
    CHECK(thinned.damaged == 0);
    const auto& samples = thinned.samples;
    CHECK(samples.front().boot_ms == 1000);
    for (std::size_t i = 0; i < 10; ++i)
        CHECK(samples[samples.size() - 1 - i].boot_ms ==
              10'000'000 - static_cast<std::int64_t>(i) * 1000);
    std::int64_t widest = 0;
    for (std::size_t i = samples.size() - 1; i-- > 1;) {
        const std::int64_t gap = samples[i + 1].boot_ms - samples[i].boot_ms;
        CHECK(gap >= widest / 2);
        widest = std::max(widest, gap);
    }
    CHECK(widest > 100'000);
}

TEST_CASE("thinning keeps a header where samples of its own follow, and the newest") {
    std::string text;
    for (int i = 0; i < 9; ++i)
        text += to_json_line(SampleHeader{.node = "n" + std::to_string(i)});
    text += lines(1, 3);
    text += to_json_line(SampleHeader{.node = "last"});
    CHECK(thin_samples(text, text.size() - 1) == to_json_line(SampleHeader{.node = "n8"}) +
                                                     lines(1, 3) +
                                                     to_json_line(SampleHeader{.node = "last"}));
    CHECK(thin_samples("", 100) == "");
    CHECK(thin_samples("torn", 100) == "");
}

TEST_CASE("where the clock was set back, or stands still, the newest stay") {
    std::string text;
    for (int i = 1; i <= 1000; ++i)
        text += to_json_line(NodeSample{.time_ms = 5000, .boot_ms = i});
    const SampleHistory still = parse_samples(thin_samples(text, text.size() / 10));
    CHECK(still.samples.size() > 50);
    CHECK(still.samples.back().boot_ms == 1000);

    const std::string back = lines(100'000, 100'500) + lines(1, 501);
    const std::string thinned = thin_samples(back, back.size() / 4);
    CHECK(thinned.size() <= back.size() / 4);
    CHECK(parse_samples(thinned).samples.back().boot_ms == 500'000);
}

TEST_CASE("a file never grows beyond its limit, and has the oldest and the newest") {
    const TemporaryFolder folder;
    constexpr std::size_t kLimit = 20'000;
    constexpr std::int64_t kSamples = 20'000;
    {
        SampleFile file(folder.path(), "n1", kLimit);
        file.append(to_json_line(SampleHeader{.node = "n1"}));
        for (std::int64_t second = 1; second <= kSamples; ++second) {
            file.append(to_json_line(at(second)));
            if (second % 100 == 0)
                REQUIRE(std::filesystem::file_size(folder.path() / "samples/n1.jsonl") <= kLimit);
        }
    }
    const SampleHistory history = read_sample_file(folder.path() / "samples/n1.jsonl");
    CHECK(history.damaged == 0);
    CHECK(history.header.node == "n1");
    CHECK(history.samples.back().boot_ms == kSamples * 1000);
    CHECK(history.samples.front().boot_ms < kSamples * 1000 / 10);
    CHECK(history.samples.size() > 100);
}

TEST_CASE("after a sampler that was killed while it wrote, the next line is whole") {
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder.path() / "samples");
    write_file(folder.path() / "samples/n1.jsonl", lines(1, 3) + "{\"t\":30");
    SampleFile(folder.path(), "n1").append(to_json_line(at(9)));
    const SampleHistory history = read_sample_file(folder.path() / "samples/n1.jsonl");
    REQUIRE(history.samples.size() == 3);
    CHECK(history.samples[2].boot_ms == 9000);
    CHECK(history.damaged == 1);
}

TEST_CASE("a node's name leads nowhere else") {
    CHECK(sample_file_name("node-1.example.org") == "node-1.example.org.jsonl");
    CHECK(sample_file_name("../../etc/passwd") == "_._.._etc_passwd.jsonl");
    CHECK(sample_file_name("..") == "_..jsonl");
    CHECK(sample_file_name("") == "_.jsonl");
}

}  // namespace samples_test
