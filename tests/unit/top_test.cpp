// `autolaunch top`: what events make of a job, what keys do, and the screens that are drawn of it.
#include "base/file_io.hpp"
#include "readings/sample.hpp"
#include "report/event_log.hpp"
#include "report/run_files.hpp"
#include "top/job_model.hpp"
#include "top/run_follower.hpp"
#include "top/run_replay.hpp"
#include "top/step_line.hpp"
#include "top/top_keys.hpp"
#include "top/top_rows.hpp"
#include "top/top_screen.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace top_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr int kOthers = 1;  // events.node-1.jsonl
const auto kStart = ViewTime(1'700'000'000'000ms);

template <class What>
std::string line(std::int64_t ms, int generation, const What& what) {
    return to_json_line({kStart + std::chrono::milliseconds(ms), generation, what});
}

StepReported step_of(int rank, std::int64_t step, std::optional<double> seconds = 0.25) {
    return {.rank = rank,
            .step = step,
            .total_steps = 1000,
            .tokens = rank == 0 ? std::optional<std::int64_t>(8192) : std::nullopt,
            .loss = rank == 0 ? std::optional(2.5) : std::nullopt,
            .seconds = seconds};
}

JobStarted job_of(int nodes, int ranks) {
    JobStarted job;
    job.job_name = "gpt-small";
    job.run_id = "4711";
    job.hostname = "node1";
    job.node_count = nodes;
    job.world_size = ranks;
    job.preparation = 100ms;
    return job;
}

constexpr const char* kPlan = R"({"format":1,"hostname":"node1","nodes":)"
                              R"({"count":2,"names":["node1","node2"],"rank":0},"ranks":[]})";

/// Lines of a run by their file, in the order of time.
using RunLines = std::map<std::string, std::vector<std::string>>;

/// Two nodes of four ranks each; rank 5 is waited for, rank 6 reads what does not come, and rank 7
/// has ended; saved at step 120.
RunLines lines_of_two_nodes() {
    RunLines lines;
    auto& head = lines["events.jsonl"];
    auto& other = lines["events.node-1.jsonl"];
    head.push_back(line(100, 0, job_of(2, 8)));
    for (int rank = 0; rank < 8; ++rank)
        (rank < 4 ? head : other)
            .push_back(line(
                200, 0,
                RankStarted{
                    .rank = rank, .local_rank = rank % 4, .pid = 100 + rank, .gpu = rank % 4}));
    head.push_back(line(300, 0, GenerationStarted{.gpus = 8}));
    for (int step = 1; step <= 124; ++step)
        for (int rank = 0; rank < 8; ++rank)
            (rank < 4 ? head : other).push_back(line(1000 + 250 * step, 0, step_of(rank, step)));
    head.push_back(
        line(31'000, 0,
             CheckpointPublished{.rank = 0, .step = 120, .path = "/c", .stall_seconds = 0.02}));
    head.push_back(
        line(33'000, 0, WaitsMeasured{{0, 1, 2, 3, 4, 5}, {0.4, 0.41, 0.4, 0.4, 0.42, 0.03}}));
    head.push_back(
        line(33'100, 0,
             StragglersSeen{{5}, {"rank 5 is busy for 97 % of the time, the others for 60 %"}}));
    other.push_back(line(34'000, 0,
                         RankExited{.rank = 7,
                                    .local_rank = 3,
                                    .pid = 107,
                                    .exit_code = 3,
                                    .signal = {},
                                    .last_step = 124}));
    StandstillNoticed stands;
    stands.headline = "no step for 2.1 s, where one takes 0.3 s";
    stands.ranks = {6};
    stands.lines = {"rank 6 (pid 106) reads /data/shard-7.bin"};
    head.push_back(line(36'000, 0, stands));
    return lines;
}

/// In the order of time.
JobModel model_of(const RunLines& lines) {
    std::multimap<ViewTime, std::pair<int, std::string>> all;
    for (const auto& [file, texts] : lines)
        for (const std::string& text : texts)
            all.emplace(time_of_line(text).value(),
                        std::pair(node_of_file(file, "events").value(), text));
    JobModel model("/runs/4711");
    model.take_plan(JobModel::kHead, kPlan);
    for (const auto& [time, line] : all)
        model.take_event(line.first, line.second);
    return model;
}

/// A run directory in memory.
class MemorySource : public RunSource {
public:
    std::map<std::string, std::string> files;
    std::size_t read_bytes = 0;

    explicit MemorySource(const RunLines& lines = {}) {
        for (const auto& [file, texts] : lines)
            for (const std::string& text : texts)
                files[file] += text + '\n';
    }
    std::vector<RunFile> list() override {
        std::vector<RunFile> found;
        for (const auto& [name, text] : files)
            found.push_back({name, text.size()});
        return found;
    }
    RunFilePart read(const std::string& name, std::uint64_t offset, std::size_t most) override {
        const auto found = files.find(name);
        if (found == files.end())
            return {.wrong = "is not there"};
        const std::string& text = found->second;
        if (offset == kFromEnd)
            offset = text.size() - std::min(text.size(), most);
        const std::string bytes = offset < text.size() ? text.substr(offset, most) : "";
        read_bytes += bytes.size();
        return {.bytes = bytes, .covered = bytes.size(), .file_bytes = text.size()};
    }
};

const std::vector<std::string> kLog = {
    "loading shard 6", "\x1b[31mred\x1b[0m and \x1b]0;title\x07 words\x07", "tab\there",
    "日本語 wide, and e\xcc\x81 combined", "\xff no UTF-8"};

CellGrid draw(const JobView& view, int rows, int columns, TopState state = {},
              Charset charset = Charset::utf8) {
    const auto table = rows_of(view, state.order, state.by_node);
    state = settled(std::move(state), table, layout_of(rows, state).table);
    return draw_top({view, state, table, kLog}, rows, columns, charset);
}

// Set AUTOLAUNCH_UPDATE_GOLDEN=1 after a wanted change, and read the difference.
void check_golden(const std::string& name, const std::string& text) {
    const std::string path = std::string(AUTOLAUNCH_SOURCE_DIR) + "/tests/data/top/" + name;
    if (std::getenv("AUTOLAUNCH_UPDATE_GOLDEN") != nullptr)
        std::ofstream(path) << text;
    CHECK_MESSAGE(autolaunch::read_file(path) == text, name, " differs:\n", text);
}

const RankView& rank_of(const JobView& view, int rank) {
    for (const RankView& one : view.ranks)
        if (one.rank == rank)
            return one;
    FAIL("no rank ", rank);
    return view.ranks.front();
}

}  // namespace

TEST_CASE("a step's line is read as to_json_line() writes it, and nothing else is") {
    const std::string full = line(42, 3, step_of(0, 7));
    const auto event = parse_step_line(full);
    REQUIRE(event);
    CHECK(to_json_line(*event) == full);
    const std::string bare =
        line(42, 0,
             StepReported{
                 .rank = 5, .step = 7, .total_steps = {}, .tokens = {}, .loss = {}, .seconds = {}});
    REQUIRE(parse_step_line(bare));
    CHECK(to_json_line(*parse_step_line(bare)) == bare);
    for (const std::string& other :
         {line(42, 0, RankStarted{.rank = 1}), full + " ", full.substr(0, full.size() - 1),
          std::string("{}"), std::string(), std::string(R"({"time":"x)"),
          std::string(R"({"event":"step","rank":0,"step":1})")})
        CHECK_FALSE(parse_step_line(other));
    // Only what JSON has as a number.
    const std::size_t end = bare.rfind('7');
    for (const char* number : {"07", "00", "-07", "+7", ""})
        CHECK_FALSE(parse_step_line(std::string(bare).replace(end, 1, number)));
    const std::size_t loss = full.find(R"("loss":)") + 7;
    const std::size_t digits = full.find_first_of(",}", loss) - loss;
    for (const char* number : {".5", "1.", "inf", "nan", "-.5", "01.5"})
        CHECK_FALSE(parse_step_line(std::string(full).replace(loss, digits, number)));
    for (const char* number : {"0", "-0.5", "1e-7", "2.5"})
        CHECK(parse_step_line(std::string(full).replace(loss, digits, number)));
    CHECK(rank_of_step_line(full) == 0);
    CHECK(rank_of_step_line(bare) == 5);
    CHECK_FALSE(rank_of_step_line(line(42, 0, RankStarted{.rank = 1})));
}

TEST_CASE("of steps that another machine is sent the newest of each rank is left") {
    const std::string other = line(1, 0, WarningRaised{"w"}) + '\n';
    const auto step = [](int rank, int number) {
        return line(number, 0, step_of(rank, number)) + '\n';
    };
    CHECK(without_older_steps(step(0, 1) + step(1, 1) + other + step(0, 2) + step(0, 3)) ==
          step(1, 1) + other + step(0, 3));
    CHECK(without_older_steps("") == "");
    CHECK(without_older_steps("no event\n\n") == "no event\n\n");
}

TEST_CASE("names that are files of a run") {
    for (const char* name :
         {"events.jsonl", "events.node-3.jsonl", "plan.json", "plan.node-12.json",
          "samples/node1.jsonl", "samples/gpu-01.cluster.jsonl", "generation-0/rank-5/stderr",
          "generation-12/rank-4095/stdout"})
        CHECK_MESSAGE(is_run_file(name), name);
    for (const char* name :
         {"", "head.json", "trainer_config.json", "exit.json", "events.node-.jsonl",
          "events.node-../x.jsonl", "../events.jsonl", "samples/../events.jsonl",
          "samples/a/b.jsonl", "samples/.jsonl", "samples/.hidden.jsonl",
          "generation-0/rank-5/secrets", "generation-0/../rank-5/stderr", "/etc/passwd",
          "generation--1/rank-0/stderr", "events.jsonl/", "checkpoints/manifest.json"})
        CHECK_FALSE_MESSAGE(is_run_file(name), name);
}

TEST_CASE("what ranks do is what their events say") {
    const JobView view = model_of(lines_of_two_nodes()).view(kStart + 36'500ms);
    CHECK(view.job_name == "gpt-small");
    CHECK(view.state == "stands still");
    CHECK(view.started == kStart);
    CHECK(view.node_count == 2);
    REQUIRE(view.ranks.size() == 8);
    CHECK(rank_of(view, 0).node == "node1");
    CHECK(rank_of(view, 0).doing == RankDoing::running);
    CHECK(rank_of(view, 0).step == 124);
    CHECK(rank_of(view, 0).step_seconds.value() == doctest::Approx(0.25));
    CHECK(rank_of(view, 0).silent_seconds.value() == doctest::Approx(4.5));
    CHECK(rank_of(view, 0).wait_share.value() == doctest::Approx(0.4));
    CHECK(rank_of(view, 4).node == "node2");
    CHECK(rank_of(view, 5).straggler);
    CHECK(rank_of(view, 5).note == "is busy for 97 % of the time, the others for 60 %");
    CHECK(rank_of(view, 6).doing == RankDoing::stuck);
    CHECK(rank_of(view, 6).note == "(pid 106) reads /data/shard-7.bin");
    CHECK_FALSE(rank_of(view, 6).wait_share);
    CHECK(rank_of(view, 7).doing == RankDoing::failed);
    CHECK(rank_of(view, 7).note == "exited with code 3");
    CHECK(view.progress.step() == 124);
    CHECK(view.progress.saved_step() == 120);
    CHECK(count_ranks(view) == "6 running, 1 stuck, 1 failed, 1 waited for");
}

TEST_CASE("steps end a standstill, and a look at which a rank waits as the others its being slow") {
    JobModel model = model_of(lines_of_two_nodes());
    model.take_event(JobModel::kHead, line(37'000, 0, StandstillOver{.lasted = 3s}));
    model.take_event(kOthers, line(37'000, 0, step_of(6, 125)));
    model.take_event(JobModel::kHead, line(38'000, 0, WaitsMeasured{{0, 4, 5}, {0.4, 0.4, 0.38}}));
    const JobView view = model.view(kStart + 38s);
    CHECK(view.state == "running");
    CHECK(rank_of(view, 6).doing == RankDoing::running);
    CHECK(rank_of(view, 6).note == "");
    CHECK_FALSE(rank_of(view, 5).straggler);
    CHECK(rank_of(view, 5).note == "");
}

TEST_CASE("without a rank's own word a step's time is what lies between two") {
    JobModel model("/r");
    model.take_event(JobModel::kHead, line(0, 0, job_of(1, 1)));
    model.take_event(JobModel::kHead, line(0, 0, RankStarted{.rank = 0}));
    model.take_event(JobModel::kHead, line(1000, 0, step_of(0, 10, std::nullopt)));
    model.take_event(JobModel::kHead, line(3000, 0, step_of(0, 20, std::nullopt)));
    CHECK(model.view(kStart).ranks[0].step_seconds.value() == doctest::Approx(0.2));
}

TEST_CASE("a restart, a smaller world, and the job's end") {
    JobModel model = model_of(lines_of_two_nodes());
    model.take_event(JobModel::kHead, line(40'000, 0,
                                           NodeLost{.node = "node2",
                                                    .ranks = {4, 5, 6, 7},
                                                    .why = "node2 has fallen silent",
                                                    .goes_on = true}));
    JobView view = model.view(kStart + 40s);
    CHECK(view.state == "between generations");
    CHECK(rank_of(view, 4).doing == RankDoing::lost);
    WorldChanged world;
    world.nodes = 1;
    world.world_size = 4;
    model.take_event(JobModel::kHead, line(40'100, 1, world));
    for (int rank = 0; rank < 4; ++rank)
        model.take_event(JobModel::kHead, line(40'200, 1, RankStarted{.rank = rank, .pid = 200}));
    model.take_event(JobModel::kHead, line(40'300, 1, GenerationStarted{.generation = 1}));
    view = model.view(kStart + 41s);
    CHECK(view.ranks.size() == 4);
    CHECK(view.restarts == 1);
    CHECK(view.generation == 1);
    CHECK_FALSE(rank_of(view, 0).step);
    // A step of the generation before that another node's file brings late counts no more.
    model.take_event(kOthers, line(33'000, 0, step_of(0, 99)));
    CHECK_FALSE(rank_of(model.view(kStart + 41s), 0).step);
    model.take_event(JobModel::kHead,
                     line(50'000, 1, JobEnded{.exit_code = 0, .outcome = "succeeded"}));
    CHECK(model.has_ended());
    view = model.view(kStart + 60s);
    CHECK(view.state == "ended");
    CHECK(view.ended == kStart + 50s);
    CHECK(headline_of(view) ==
          "gpt-small · job 4711 · ended: succeeded (0) · generation 1 · 1 restart · 1 node · 4 "
          "ranks · 50 s");
    CHECK(progress_of(view, 80).find("left") == std::string::npos);
    // Another job in its folder begins anew.
    model.take_event(JobModel::kHead, line(90'000, 2, job_of(1, 2)));
    view = model.view(kStart + 91s);
    CHECK(view.ranks.empty());
    CHECK(view.state == "starting");
    CHECK(view.gaps.front() == "an earlier job of this folder is left out");
}

TEST_CASE("lines of others are passed over, and said") {
    JobModel model("/r");
    const std::string deep =
        R"({"time":"2026-01-31T12:00:00.042Z","generation":0,"event":"warning","text":)" +
        std::string(100'000, '[') + std::string(100'000, ']') + "}";
    for (
        const std::string& text :
        {deep, std::string("no JSON"), std::string(R"({"event":5})"), std::string("[]"),
         std::string(
             R"({"time":"2026-01-31T12:00:00.042Z","generation":0,"event":"rank_started","rank":"x"})"),
         std::string(
             R"({"time":"2026-01-31T12:00:00.042Z","generation":0,"event":"waits","ranks":[1,2],"shares":"x"})")})
        model.take_event(JobModel::kHead, text);
    model.take_event(JobModel::kHead, line(0, 0, RankStarted{.rank = -5}));
    model.take_event(JobModel::kHead, line(0, 0, step_of(77, 1)));  // of a rank that has not begun
    model.take_event(JobModel::kHead, line(0, 0, WaitsMeasured{{1, 2, 3}, {0.5}}));
    model.take_event(
        JobModel::kHead,
        R"({"time":"2026-01-31T12:00:00.042Z","generation":0,"event":"of_next_year"})");
    model.take_plan(JobModel::kHead, "[[[");
    const JobView view = model.view(kStart);
    CHECK(view.ranks.empty());
    REQUIRE(view.gaps.size() == 2);
    CHECK(view.gaps[0] == "plan.json is not what autolaunch writes: names of nodes are missing");
    CHECK(view.gaps[1] == "events.jsonl: 6 lines cannot be understood, first line 1; passed over");
}

TEST_CASE("as many ranks and news as are kept, whatever comes") {
    JobModel model("/r");
    model.take_event(JobModel::kHead, line(0, 0, job_of(1, 1)));
    for (int at = 0; at < 1000; ++at)
        model.take_event(JobModel::kHead, line(at, 0, WarningRaised{std::string(100'000, 'x')}));
    const JobView view = model.view(kStart + 1s);
    CHECK(view.news.size() == 8);
    for (const std::string& news : view.news)
        CHECK(news.size() < 600);
}

TEST_CASE("files are followed as they grow, line by line") {
    MemorySource source(lines_of_two_nodes());
    source.files["plan.json"] = kPlan;
    RunFollower follower(source, JobModel("/runs/4711"));
    std::string& head = source.files["events.jsonl"];
    const std::string rest = head.substr(head.size() / 2);
    head.erase(head.size() / 2);  // within a line
    follower.look();
    CHECK(follower.advance());
    const auto before = rank_of(follower.model().view(kStart), 0).step.value();
    CHECK(before < 124);
    head += rest;
    source.read_bytes = 0;
    follower.look();
    CHECK(follower.advance());
    CHECK(rank_of(follower.model().view(kStart), 0).step == 124);
    CHECK(rank_of(follower.model().view(kStart), 0).node == "node1");
    CHECK(source.read_bytes < rest.size() + 1000);
    CHECK(follower.model().view(kStart).gaps.empty());
    CHECK(follower.share_read() == 1.0);
}

TEST_CASE("a line without end is passed over, and one that is torn waits") {
    MemorySource source;
    std::string& text = source.files["events.jsonl"];
    text = line(0, 0, job_of(1, 1)) + '\n' + std::string(9U << 20, 'x') + '\n' +
           line(1, 0, RankStarted{.rank = 0}) + '\n' + line(2, 0, step_of(0, 3));
    RunFollower follower(source, JobModel("/r"));
    follower.look();
    while (!follower.advance({}, 1U << 20))
        ;
    JobView view = follower.model().view(kStart);
    REQUIRE(view.ranks.size() == 1);
    CHECK_FALSE(view.ranks[0].step);
    REQUIRE(view.gaps.size() == 1);
    CHECK(view.gaps[0] == "events.jsonl has a line of more than 4 MiB: passed over");
    text += '\n';
    follower.look();
    CHECK(follower.advance());
    CHECK(follower.model().view(kStart).ranks[0].step == 3);
    text.resize(10);  // somebody has written another file there
    follower.look();
    CHECK(follower.advance());
    CHECK(follower.model().view(kStart).gaps.size() == 2);
}

TEST_CASE("a replay shows every moment as those who watched saw it, forward and back") {
    const RunLines lines = lines_of_two_nodes();
    MemorySource source(lines);
    source.files["plan.json"] = kPlan;
    RunReplay replay(source, JobModel("/runs/4711"));
    CHECK(replay.first() == kStart + 100ms);
    CHECK(replay.last() == kStart + 36s);
    const auto expected = [&](ViewTime moment) {
        RunLines until;
        for (const auto& [file, texts] : lines)
            for (const std::string& text : texts)
                if (time_of_line(text).value() <= moment)
                    until[file].push_back(text);
        return top_json(model_of(until).view(moment));
    };
    for (const int ms :
         {36'000, 100, 1249, 1250, 1251, 20'000, 19'999, 5'000, 33'100, 33'099, 250, 36'000, 299}) {
        const ViewTime moment = kStart + std::chrono::milliseconds(ms);
        CHECK_MESSAGE(top_json(replay.at(moment)) == expected(moment), ms, " ms");
    }
    source.read_bytes = 0;
    for (int at = 0; at < 10; ++at) {
        replay.at(kStart + 30s);
        replay.at(kStart + 29'900ms);
    }
    CHECK(source.read_bytes < 40U << 20);  // chunks, not all of the files
    CHECK(replay.at(kStart + 99h).at == replay.last());
    MemorySource nothing;
    nothing.files["events.jsonl"] = "no events\n";
    CHECK_THROWS(RunReplay(nothing, JobModel("/r")));
}

namespace {

std::string sample_at(std::int64_t ms, double busy) {
    NodeSample sample;
    sample.time_ms = (kStart + std::chrono::milliseconds(ms)).time_since_epoch().count();
    sample.span_seconds = 1;
    sample.generation = 0;
    RankSample rank{.rank = 1};
    rank.resident_bytes = 1'500'000'000;
    rank.gpu = "0000:17:00.0";
    sample.ranks = {rank};
    GpuSample gpu;
    gpu.bdf = "0000:17:00.0";
    gpu.busy_ratio = busy;
    gpu.memory_used_bytes = 60'000'000'000;
    gpu.memory_total_bytes = 80'000'000'000;
    gpu.celsius = 61;
    sample.gpus = {gpu};
    InfinibandSample port;
    port.device = "mlx5_0";
    port.received_bytes = 2e9;
    port.sent_bytes = 1e9;
    sample.infiniband = {port};
    return to_json_line(sample);
}

}  // namespace

TEST_CASE("what a node has measured is its ranks', as long as it is new") {
    MemorySource source(lines_of_two_nodes());
    source.files["plan.json"] =
        R"({"hostname":"node1","nodes":{"names":["node1","node2"],"rank":0},)"
        R"("ranks":[{"rank":1,"hca":{"name":"mlx5_0"}},{"rank":2,"hca":null}]})";
    source.files["samples/node1.jsonl"] =
        "no JSON\n" + sample_at(20'000, 0.5) + sample_at(36'000, 0.97) + "{\"t\":";
    RunFollower follower(source, JobModel("/runs/4711"));
    follower.look();
    follower.take_newest_samples();  // of ranks that have not begun yet they are nobody's
    CHECK(follower.advance());
    source.files["samples/node1.jsonl"] += "torn\n" + sample_at(36'400, 0.98);
    follower.look();
    follower.take_newest_samples();
    const JobView view = follower.model().view(kStart + 37s);
    const RankReadings& readings = rank_of(view, 1).readings;
    CHECK(readings.gpu_percent.value() == doctest::Approx(98));
    CHECK(readings.gpu_celsius.value() == doctest::Approx(61));
    CHECK(readings.hca_bytes_per_second.value() == doctest::Approx(3e9));
    CHECK(readings.rss_bytes.value() == doctest::Approx(1.5e9));
    CHECK_FALSE(rank_of(view, 2).readings.rss_bytes);
    const auto rows = rows_of(view, TopOrder::rank, false);
    CHECK(rows[1].cells[static_cast<std::size_t>(TopColumn::gpu)] == "98%");
    CHECK(rows[1].cells[static_cast<std::size_t>(TopColumn::gpu_memory)] == "75%");
    CHECK(rows[1].cells[static_cast<std::size_t>(TopColumn::heat)] == "61C");
    CHECK(rows[1].cells[static_cast<std::size_t>(TopColumn::hca)] == "3.0G");
    CHECK(rows[1].cells[static_cast<std::size_t>(TopColumn::rss)] == "1.5G");
    CHECK_FALSE(rank_of(follower.model().view(kStart + 80s), 1).readings.gpu_percent);

    RunReplay replay(source, JobModel("/runs/4711"));
    CHECK(rank_of(replay.at(kStart + 36s), 1).readings.gpu_percent.value() == doctest::Approx(97));
    CHECK(rank_of(replay.at(kStart + 21s), 1).readings.gpu_percent.value() == doctest::Approx(50));
    CHECK_FALSE(rank_of(replay.at(kStart + 19s), 1).readings.gpu_percent);
}

TEST_CASE("a log's last lines, without a half one") {
    MemorySource source;
    source.files["generation-1/rank-2/stderr"] =
        std::string(30'000, 'x') + "\na\nb\r\n10%\r20%\nlast";
    CHECK(log_tail(source, 1, 2, "stderr", 3) == std::vector<std::string>{"b", "20%", "last"});
    CHECK(log_tail(source, 1, 2, "stderr", 10) ==
          std::vector<std::string>{"a", "b", "20%", "last"});
    CHECK(log_tail(source, 1, 2, "stdout", 3) ==
          std::vector<std::string>{"generation-1/rank-2/stdout is not there"});
}

TEST_CASE("screens, as they look") {
    const JobView view = model_of(lines_of_two_nodes()).view(kStart + 36'500ms);
    check_golden("80x24.txt", draw(view, 24, 80, {.rank = 6}).text());
    check_golden("120x40.txt", draw(view, 40, 120, {.rank = 6}).text());
    check_golden("200x50.txt", draw(view, 50, 200, {.rank = 6, .order = TopOrder::wait}).text());
    check_golden("40x10.txt", draw(view, 10, 40).text());
    check_golden("80x24_nodes.txt", draw(view, 24, 80, {.rank = 4, .by_node = true}).text());
    check_golden("80x24_ascii.txt", draw(view, 24, 80, {.rank = 6}, Charset::ascii).text());
    check_golden("80x24_help.txt", draw(view, 24, 80, {.help = true}).text());
    TopState replay{.rank = 6, .stream = "stdout"};
    replay.replay = ReplayState{
        .first = kStart, .last = kStart + 72s, .at = kStart + 36s, .plays = true, .speed = 4};
    check_golden("80x24_replay.txt", draw(view, 24, 80, replay).text());
    check_golden("table.txt", top_table(view));
    check_golden("view.json", top_json(view));
}

TEST_CASE("a screen of any size is a grid of that size, of plain characters") {
    JobView view = model_of(lines_of_two_nodes()).view(kStart + 36'500ms);
    for (RankView& rank : view.ranks) {
        rank.node = "\x1b[2J日本語\x07\xff node with a long name";
        rank.note = "\x1b]0;title\x07" + std::string(500, 'n');
    }
    for (const Charset charset : {Charset::utf8, Charset::ascii})
        for (int rows = 0; rows < 60; rows += 7)
            for (const int columns : {0, 1, 2, 20, 79, 80, 81, 133, 400}) {
                const CellGrid grid = draw(view, rows, columns, {}, charset);
                CHECK(grid.rows() == rows);
                CHECK(grid.columns() == columns);
                const std::string text = grid.text();
                bool plain = true;
                for (const char c : text)
                    plain = plain && (c == '\n' || static_cast<unsigned char>(c) >= ' ') &&
                            (charset == Charset::utf8 || static_cast<unsigned char>(c) < 127);
                CHECK(plain);
            }
}

TEST_CASE("a grid cuts wide characters and those that combine") {
    CellGrid grid(1, 5, Charset::utf8);
    CHECK(grid.put(0, 0, "日本語") == 5);
    CHECK(grid.text() == "日本…\n");
    CHECK(grid.at(0, 0).text == "日");
    CHECK(grid.at(0, 1).text.empty());
    CellGrid small(1, 4, Charset::utf8);
    CHECK(small.put(0, 0, "e\xcc\x81x") == 2);
    CHECK(small.at(0, 0).text == "e\xcc\x81");
    CHECK(small.put(0, 9, "x") == 0);
    CHECK(small.put(3, 0, "x") == 0);
    small.put_right(0, 4, "ab");
    CHECK(small.text() == "e\xcc\x81xab\n");
}

TEST_CASE("keys") {
    const JobView view = model_of(lines_of_two_nodes()).view(kStart + 36'500ms);
    auto rows = rows_of(view, TopOrder::rank, false);
    TopState state = settled({}, rows, 3);
    const auto press = [&](TopKey key) { state = settled(on_key(state, key, rows, 3), rows, 3); };
    press(TopKey::up);
    CHECK(state.rank == 0);
    press(TopKey::down);
    press(TopKey::down);
    press(TopKey::down);
    CHECK(state.rank == 3);
    CHECK(state.first_row == 1);
    press(TopKey::last);
    CHECK(state.rank == 7);
    CHECK(state.first_row == 5);
    press(TopKey::down);
    CHECK(state.rank == 7);
    press(TopKey::page_up);
    CHECK(state.rank == 5);
    press(TopKey::stream);
    CHECK(state.stream == "stdout");
    press(TopKey::order);
    CHECK(state.order == TopOrder::step);
    press(TopKey::space);
    CHECK(state.paused);
    press(TopKey::by_node);
    CHECK(state.by_node);
    rows = rows_of(view, state.order, state.by_node);
    REQUIRE(rows.size() == 2);
    state = settled(state, rows, 3);
    CHECK(state.rank == 4);  // its node's
    press(TopKey::help);
    CHECK(state.help);
    press(TopKey::down);
    CHECK_FALSE(state.help);
    CHECK(state.rank == 4);
    press(TopKey::quit);
    CHECK(state.quits);
    CHECK(settled({.rank = 9}, {}, 3).first_row == 0);
}

TEST_CASE("keys of a replay") {
    TopState state;
    state.replay = ReplayState{.first = kStart, .last = kStart + 100s, .at = kStart};
    const auto press = [&](TopKey key) { state = on_key(state, key, {}, 3); };
    press(TopKey::left);
    CHECK(state.replay->at == kStart);
    press(TopKey::right);
    CHECK(state.replay->at == kStart + 1s);
    press(TopKey::end);
    CHECK(state.replay->at == kStart + 100s);
    press(TopKey::space);  // from the beginning again
    CHECK(state.replay->plays);
    CHECK(state.replay->at == kStart);
    press(TopKey::faster);
    press(TopKey::faster);
    state.replay = played(*state.replay, 2s);
    CHECK(state.replay->at == kStart + 8s);
    state.replay = played(*state.replay, 99h);
    CHECK(state.replay->at == kStart + 100s);
    CHECK_FALSE(state.replay->plays);
    press(TopKey::slower);
    CHECK(state.replay->speed == 2);
    press(TopKey::home);
    CHECK(state.replay->at == kStart);
    CHECK_FALSE(state.quits);
}

TEST_CASE("numbers are short") {
    CHECK(short_time(0.031) == "31 ms");
    CHECK(short_time(0.31) == "0.31 s");
    CHECK(short_time(9.999) == "10 s");
    CHECK(short_time(12'000) == "200 min");
    CHECK(short_time(1e300).size() <= 7);
    CHECK(short_bytes(812) == "812");
    CHECK(short_bytes(12'345'678'901.0) == "12G");
    CHECK(short_bytes(-1) == "0.0");
}

}  // namespace top_test
