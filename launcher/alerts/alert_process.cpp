#include "alerts/alert_process.hpp"

#include "alerts/alert_settings.hpp"
#include "alerts/delivery.hpp"
#include "alerts/observe.hpp"
#include "base/file_io.hpp"
#include "base/owned_folder.hpp"
#include "base/text.hpp"
#include "readings/sample.hpp"
#include "top/run_follower.hpp"

#include <autolaunch/error.hpp>

#include <sys/prctl.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

namespace autolaunch::launcher::alerts {

namespace {

using namespace std::chrono_literals;

constexpr char kStateFile[] = "alerts.json";
constexpr char kHeadFile[] = "head.json";
constexpr std::size_t kMostState = 1 << 20;
constexpr std::size_t kSampleTail = 1 << 18;
constexpr auto kShortestInterval = 1s;
constexpr auto kLongestInterval = 10s;
// Before it is said that a metric is not seen, or at the job's end: samples come by and by.
constexpr auto kTimeForMetrics = 1min;

ViewTime view_now() {
    return std::chrono::time_point_cast<std::chrono::milliseconds>(
        std::chrono::system_clock::now());
}

// The newest sample among a file's last lines.
std::optional<NodeSample> newest_sample(RunSource& source, const std::string& file) {
    const RunFilePart part = source.read(file, kFromEnd, kSampleTail);
    std::optional<NodeSample> newest;
    const std::size_t whole = part.bytes.rfind('\n');
    if (whole == std::string::npos)
        return newest;
    const std::size_t before = whole == 0 ? std::string::npos : part.bytes.rfind('\n', whole - 1);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    SampleLine line = parse_sample_line(std::string_view(part.bytes).substr(begin, whole - begin));
    if (auto* sample = std::get_if<NodeSample>(&line))
        newest = std::move(*sample);
    return newest;
}

class AlertProcess {
public:
    AlertProcess(const AlertTask& task, int output)
        : task_(task),
          output_(output),
          job_(task.job),
          source_(task.run_dir),
          follower_(source_, JobModel(task.run_dir.string())),
          book_(rules_of(task.spec), task.spec.messages_a_day),
          delivery_(channels(), [this](const std::string& line) { say(line); }),
          folder_(OwnedFolder::open(task.run_dir)),
          head_(folder_.read(kHeadFile, kMostState)) {
        const auto kept = folder_.read(kStateFile, kMostState);
        if (kept && !book_.restore(*kept))
            say("alerting: alerts.json of the run directory is damaged: what was open before is "
                "told anew");
        saved_ = book_.to_json();
    }

    void run() {
        for (const AlertChannelSpec& channel : task_.spec.channels)
            if (const std::string caution = caution_of(channel); !caution.empty())
                say(caution);
        while (look() && is_head())
            std::this_thread::sleep_for(std::clamp<std::chrono::milliseconds>(
                task_.interval, kShortestInterval, kLongestInterval));
        say(kAlertsDone);
    }

private:
    std::vector<std::unique_ptr<MessageChannel>> channels() const {
        std::vector<std::unique_ptr<MessageChannel>> made;
        for (const AlertChannelSpec& spec : task_.spec.channels)
            made.push_back(make_channel(spec, task_.environment));
        return made;
    }

    /// False: the job has ended, and that was told.
    bool look() {
        follower_.look();
        while (!follower_.advance()) {
        }
        const ViewTime now = view_now();
        const JobView view = follower_.model().view(now);
        const auto seen = observe(view, nodes(), now);
        history_.add(seen);
        name_unseen(seen, view.ended.has_value());
        job_.cause = view.cause;
        job_.has_ended = view.ended.has_value();
        std::vector<std::vector<Match>> matches;
        for (const AlertRule& rule : book_.rules())
            matches.push_back(matches_of(rule.condition, seen, history_));
        for (const Notice& notice : book_.look(now, matches))
            delivery_.add(notice, job_);
        if (view.ended)
            return end(status_word(view), now), false;
        delivery_.send(book_.firing(), job_, std::chrono::steady_clock::now());
        keep();
        return true;
    }

    // A requeued job goes on: so does what is open.
    void end(const std::string& status, WallTime now) {
        if (status != "requeued")
            for (const Notice& notice : book_.finish(now))
                delivery_.add(notice, job_);
        delivery_.finish(Deadline::after(kAlertsLastWords));
        keep();
    }

    std::vector<NodeNow> nodes() {
        std::vector<NodeNow> result;
        constexpr std::string_view kFolder = "samples/", kEnd = ".jsonl";
        for (const RunFile& file : follower_.files()) {
            if (!file.name.starts_with(kFolder) || !file.name.ends_with(kEnd))
                continue;
            if (auto sample = newest_sample(source_, file.name))
                result.push_back({file.name.substr(kFolder.size(),
                                                   file.name.size() - kFolder.size() - kEnd.size()),
                                  std::move(*sample)});
        }
        return result;
    }

    void name_unseen(const std::vector<Observation>& seen, bool has_ended) {
        for (const Observation& one : seen)
            if (std::none_of(ever_seen_.begin(), ever_seen_.end(),
                             [&](const Observation& known) { return known.metric == one.metric; }))
                ever_seen_.push_back(one);
        const bool is_time = has_ended || Clock::now() - began_ > kTimeForMetrics;
        if (!is_time || std::exchange(named_unseen_, true))
            return;
        for (const AlertRule& rule : book_.rules())
            for (const std::string& metric : unseen_metrics(rule.condition, ever_seen_))
                say("alerting: " + rule.name + " waits for " + metric +
                    ", which nothing has measured so far in this job");
    }

    // Another node's agent leads the job by now, and has a process of its own for this.
    bool is_head() const { return folder_.read(kHeadFile, kMostState) == head_; }

    // Where the disk is full, the next look tries again.
    void keep() {
        std::string state = book_.to_json();
        if (state == saved_)
            return;
        try {
            folder_.replace(kStateFile, state, 0600);
            saved_ = std::move(state);
        } catch (const Error& error) {
            if (!std::exchange(said_unsaved_, true))
                say(std::string("alerting: what is open cannot be kept: ") + error.what());
        }
    }

    void say(const std::string& line) {
        std::string one = line;
        std::replace(one.begin(), one.end(), '\n', ' ');
        write_all(output_, one + '\n', "the agent");
    }

    const AlertTask& task_;
    int output_;
    AlertedJob job_;
    FolderSource source_;
    RunFollower follower_;
    IncidentBook book_;
    Delivery delivery_;
    MetricHistory history_;
    OwnedFolder folder_;
    std::optional<std::string> head_;
    std::string saved_;
    bool said_unsaved_ = false;
    using Clock = std::chrono::steady_clock;
    Clock::time_point began_ = Clock::now();
    std::vector<Observation> ever_seen_;  ///< one of each metric
    bool named_unseen_ = false;
};

}  // namespace

void run_alerts(const AlertTask& task, int output) {
    ::prctl(PR_SET_NAME, "autolaunch-tell");  // as ps shows it
    AlertProcess(task, output).run();
}

}  // namespace autolaunch::launcher::alerts
