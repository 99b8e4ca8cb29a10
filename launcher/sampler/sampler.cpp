#include "sampler/sampler.hpp"

#include "base/file_io.hpp"
#include "exposition/metrics_server.hpp"
#include "exposition/node_metrics.hpp"
#include "exposition/offered_file.hpp"
#include "readings/file_system_reader.hpp"
#include "readings/gpu_reader.hpp"
#include "readings/node_reader.hpp"
#include "readings/sample_file.hpp"
#include "sampler/background.hpp"
#include "sampler/sampler_messages.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace autolaunch::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kAgent = STDIN_FILENO;
constexpr auto kAliveTime = seconds(5), kOrderTime = seconds(10);
// For the slower answers: a sample waits no longer for them.
constexpr auto kAnswerTime = milliseconds(1000);
// Loading NVIDIA's library alone takes seconds without the persistence daemon.
constexpr auto kPatience = seconds(5);
constexpr auto kLastTime = milliseconds(1000);
constexpr std::size_t kMostWaiting = 64, kMostInput = 16U << 20;
constexpr int kNice = 10;

std::string text_of(const Error& error) {
    return error.what() + (error.hint().empty() ? "" : "; " + error.hint());
}

double in_seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

/// Measures, keeps and tells. What may hang is done in threads of its own; all else, and all that
/// is decided, in one.
class Sampler {
public:
    Sampler(asio::io_context& io, SamplerOrder order)
        : io_(io),
          order_(std::move(order)),
          socket_(io),
          alive_timer_(io),
          tick_timer_(io),
          answer_timer_(io),
          file_systems_(paths_of(order_.file_systems)),
          common_{{"job_id", order_.job_id.empty() ? order_.run_id : order_.job_id},
                  {"node", order_.node}},
          gpus_(std::make_shared<Gpus>(order_)) {}

    void start(std::string heard) {
        heard_ = std::move(heard);
        socket_.assign(asio::local::stream_protocol(), kAgent);
        take_lines();
        read();
        beat();
        open_outputs();
        next_ = Clock::now();
        tick();
    }

    /// What others read of us goes with us.
    void part() {
        server_.reset();
        for (Background* worker : {&text_worker_, &target_worker_})
            worker->give([outputs = outputs_, worker, text = &text_worker_] {
                (worker == text ? outputs->textfile : outputs->targets).reset();
            });
        const auto until = Clock::now() + kLastTime;
        for (Background* worker : {&text_worker_, &target_worker_, &sample_worker_})
            worker->finish(std::chrono::duration_cast<milliseconds>(until - Clock::now()));
    }

private:
    struct Gpus {
        explicit Gpus(const SamplerOrder& order)
            : reader(order.gpus, {.asks_nvidia = order.asks_nvidia}), any(!order.gpus.empty()) {}
        GpuReader reader;  ///< its thread's alone
        bool any;
    };
    /// Made, used and ended by their workers alone.
    struct Outputs {
        std::optional<SampleFile> samples;
        std::optional<OfferedFile> textfile, targets;
    };

    static std::vector<std::string> paths_of(const std::map<std::string, std::string>& uses) {
        std::vector<std::string> paths;
        for (const auto& [path, use] : uses)
            paths.push_back(path);
        return paths;
    }

    // From the workers' threads, too.
    void warn(const std::string& text) {
        asio::post(io_, [this, text] {
            if (warned_.insert(text).second)
                say(to_line(SamplerWarning{text}));
        });
    }

    /// In `worker`, whose errors are a warning.
    void give(Background& worker, std::function<void()> work) {
        const bool taken = worker.give([this, work = std::move(work)] {
            try {
                work();
            } catch (const Error& error) {
                warn(text_of(error));
            } catch (const std::exception& error) {
                warn(error.what());
            }
        });
        lost_lines_ += taken ? 0 : 1;
    }

    void open_outputs() {
        give(sample_worker_, [outputs = outputs_, order = order_, id = boot_id()] {
            outputs->samples.emplace(order.run_dir, order.node);
            SampleHeader header{.node = order.node,
                                .run_id = order.run_id,
                                .time_ms = clock_ms(),
                                .boot_ms = boot_ms(),
                                .interval_seconds = static_cast<double>(order.interval_ms) / 1000,
                                .restarts = order.restarts,
                                .boot_id = id};
            for (const WatchedGpu& gpu : order.gpus)
                header.gpus.push_back({gpu.bdf, gpu.uuid, gpu.model});
            outputs->samples->append(to_json_line(header));
        });
        if (!order_.textfile_folder.empty())
            give(text_worker_, [outputs = outputs_, order = order_] {
                sweep_leftovers(order.textfile_folder, ".prom");
                outputs->textfile.emplace(
                    order.textfile_folder,
                    shared_file_name(order.job_id.empty() ? order.run_id : order.job_id,
                                     order.step_id, ".prom"),
                    false);
            });
        if (!order_.metrics_listen.empty())
            serve();
    }

    void serve() {
        try {
            server_.emplace(io_, order_.metrics_listen, order_.metrics_port,
                            [this](MetricFormat format) { return text(format); });
        } catch (const Error& error) {
            return warn(text_of(error));
        }
        if (order_.metrics_targets.empty())
            return;
        const std::string host =
            order_.metrics_host.empty() ? order_.metrics_listen : order_.metrics_host;
        const bool is_ipv6 = host.find(':') != host.npos;
        const std::string target =
            fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", server_->port());
        const nlohmann::json list = {
            {{"targets", {target}},
             {"labels",
              {{"autolaunch_job", common_[0].second}, {"autolaunch_node", common_[1].second}}}}};
        give(target_worker_, [outputs = outputs_, order = order_, text = list.dump() + '\n'] {
            outputs->targets.emplace(
                order.metrics_targets,
                shared_file_name(order.job_id.empty() ? order.run_id : order.job_id,
                                 order.step_id + "_" + order.node, ".json"),
                true);
            outputs->targets->replace(text);
        });
    }

    static std::string boot_id() {
        try {
            std::string id = read_file("/proc/sys/kernel/random/boot_id");
            id.resize(std::min(id.find('\n'), id.size()));
            return id;
        } catch (const Error&) {
            return {};
        }
    }

    std::string text(MetricFormat format) const { return metrics_text(metrics_, common_, format); }

    // Two readings are an interval apart, however long they take; those that were missed are not
    // made up for.
    void tick() {
        const auto interval = milliseconds(order_.interval_ms);
        next_ = std::max(next_ + interval, Clock::now());
        tick_timer_.expires_at(next_);
        tick_timer_.async_wait([this](const std::error_code& error) {
            if (!error)
                tick();
        });
        facts_came_ = gpus_came_ = false;
        say(to_line(SamplerAsks{}));
        file_systems_.ask([this] { asio::post(io_, [this] { measure_if_all_came(); }); });
        ask_gpus();
        measuring_ = true;
        answer_timer_.expires_after(std::min(kAnswerTime, interval / 2));
        answer_timer_.async_wait([this](const std::error_code& error) {
            if (!error)
                measure();
        });
    }

    void ask_gpus() {
        gpus_came_ = !gpus_->any;
        if (!gpus_->any || gpu_worker_.busy_for())
            return;  // it hangs: measure() says so
        gpu_worker_.give([this, gpus = gpus_] {
            auto answer = std::make_shared<GpuReader::Answer>(gpus->reader.read());
            asio::post(io_, [this, answer] {
                gpu_answer_ = std::move(*answer);
                gpus_came_ = true;
                measure_if_all_came();
            });
        });
    }

    void measure_if_all_came() {
        if (measuring_ && facts_came_ && gpus_came_ && !file_systems_.waits())
            measure();
    }

    void measure() {
        if (!std::exchange(measuring_, false))
            return;
        answer_timer_.cancel();
        std::vector<std::pair<int, int>> ranks;
        for (const RankFacts& rank : facts_.ranks)
            ranks.emplace_back(rank.rank, rank.pid);
        NodeReading reading = node_.read(ranks);
        if (gpus_came_) {
            reading.gpus = std::exchange(gpu_answer_.gpus, {});
            std::move(gpu_answer_.troubles.begin(), gpu_answer_.troubles.end(),
                      std::back_inserter(reading.troubles));
            gpu_answer_ = {};
        } else if (const auto busy = gpu_worker_.busy_for(); busy && *busy >= kPatience) {
            reading.troubles.push_back(
                fmt::format("the GPUs' driver has not answered for {:.0f} s", in_seconds(*busy)));
        }
        reading.file_systems = file_systems_.answers();
        add_troubles(reading);
        facts_.sampler_restarts = order_.restarts;
        const NodeSample sample = make_sample(before_ ? &*before_ : nullptr, reading, facts_);
        tell(sample);
        metrics_ =
            node_metrics(reading, facts_, order_.file_systems, order_.version, order_.job_name);
        write_textfile();
        before_ = std::move(reading);
    }

    void add_troubles(NodeReading& reading) {
        for (const FileSystemSample& file_system : reading.file_systems)
            if (file_system.silent_seconds)
                reading.troubles.push_back(fmt::format("{} has not answered for {:.0f} s",
                                                       file_system.path,
                                                       *file_system.silent_seconds));
        if (lost_lines_ > 0)
            reading.troubles.push_back(fmt::format(
                "{} things were not written: a file system did not answer", lost_lines_));
        // Each is said once, with the seconds of its first time.
        for (const std::string& trouble : reading.troubles)
            if (told_troubles_.insert(trouble.substr(0, trouble.rfind(" for "))).second)
                say(to_line(SamplerWarning{trouble}));
    }

    void tell(const NodeSample& sample) {
        give(sample_worker_, [outputs = outputs_, line = to_json_line(sample)] {
            if (outputs->samples)  // else it was said why there is none
                outputs->samples->append(line);
        });
        if (sample.span_seconds > 0)
            say(to_line(SamplerMeasured{measures_of(sample, order_.restarts)}));
    }

    void write_textfile() {
        if (order_.textfile_folder.empty())
            return;
        give(text_worker_,
             [outputs = outputs_, text = writer_mark() + text(MetricFormat::prometheus)] {
                 if (outputs->textfile)
                     outputs->textfile->replace(text);
             });
    }

    void beat() {
        say(to_line(SamplerAlive{}));
        alive_timer_.expires_after(kAliveTime);
        alive_timer_.async_wait([this](const std::error_code& error) {
            if (!error)
                beat();
        });
    }

    // An agent that does not read gets nothing: it is stopped, and will be told later.
    void say(const std::string& line) {
        [[maybe_unused]] const ssize_t sent =
            ::send(kAgent, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }

    void read() {
        socket_.async_read_some(asio::buffer(bytes_),
                                [this](const std::error_code& error, std::size_t count) {
                                    heard_.append(bytes_.data(), count);
                                    if (error || heard_.size() > kMostInput)
                                        return io_.stop();  // our agent has ended, or wants us to
                                    take_lines();
                                    read();
                                });
    }

    void take_lines() {
        for (std::size_t end = 0; (end = heard_.find('\n')) != std::string::npos;) {
            SamplerInput input = parse_sampler_input(std::string_view(heard_).substr(0, end));
            heard_.erase(0, end + 1);
            if (auto* facts = std::get_if<AgentFacts>(&input)) {
                facts_ = std::move(*facts);
                facts_came_ = true;
                measure_if_all_came();
            }
        }
    }

    asio::io_context& io_;
    const SamplerOrder order_;
    asio::local::stream_protocol::socket socket_;
    asio::steady_timer alive_timer_, tick_timer_, answer_timer_;
    Clock::time_point next_;
    NodeReader node_;
    FileSystemReader file_systems_;
    Labels common_;
    std::shared_ptr<Gpus> gpus_;
    GpuReader::Answer gpu_answer_;
    AgentFacts facts_;
    std::optional<NodeReading> before_;
    std::vector<Metric> metrics_;
    bool facts_came_ = false, gpus_came_ = false, measuring_ = false;
    std::shared_ptr<Outputs> outputs_ = std::make_shared<Outputs>();
    Background gpu_worker_{1}, sample_worker_{kMostWaiting}, text_worker_{2}, target_worker_{2};
    std::optional<MetricsServer> server_;
    std::set<std::string> warned_, told_troubles_;
    std::uint64_t lost_lines_ = 0;
    std::string heard_;
    std::array<char, 65536> bytes_{};
};

/// The first line, and what came behind it.
std::optional<SamplerOrder> read_order(std::string& heard) {
    std::array<char, 65536> bytes;
    const auto until = Clock::now() + kOrderTime;
    for (std::size_t end; Clock::now() < until && heard.size() < kMostInput;) {
        if ((end = heard.find('\n')) != std::string::npos) {
            SamplerInput input = parse_sampler_input(std::string_view(heard).substr(0, end));
            heard.erase(0, end + 1);
            auto* order = std::get_if<SamplerOrder>(&input);
            return order != nullptr ? std::optional(std::move(*order)) : std::nullopt;
        }
        pollfd waiting{kAgent, POLLIN, 0};
        if (::poll(&waiting, 1, static_cast<int>(milliseconds(kOrderTime).count())) <= 0)
            break;
        const ssize_t got = ::read(kAgent, bytes.data(), bytes.size());
        if (got <= 0)
            break;
        heard.append(bytes.data(), static_cast<std::size_t>(got));
    }
    return std::nullopt;
}

// The ranks come first: for CPU time, and where memory runs out.
void stand_back() {
    ::setpriority(PRIO_PROCESS, 0, kNice);
    ::prctl(PR_SET_NAME, "autolaunch-samp");
    const rlimit no_core = {0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    const int score = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (score >= 0) {
        [[maybe_unused]] const ssize_t written = ::write(score, "500", 3);
        ::close(score);
    }
}

}  // namespace

void run_sampler() {
    stand_back();
    try {
        std::string heard;
        if (auto order = read_order(heard)) {
            asio::io_context io{1};
            Sampler sampler(io, std::move(*order));
            sampler.start(std::move(heard));
            io.run();
            sampler.part();
            ::_exit(0);  // its threads may be in the kernel
        }
    } catch (const std::exception&) {
        ::_exit(1);  // the agent starts another one, and says so
    }
    ::_exit(1);
}

}  // namespace autolaunch::launcher
