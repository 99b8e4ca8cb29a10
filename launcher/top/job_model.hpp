#pragma once
#include "report/event.hpp"
#include "top/job_view.hpp"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// How a job looks by the lines of its run directory that were taken in so far. Copies are
/// independent of each other, and as large as the job has ranks: whoever goes back and forth in a
/// run keeps some. Lines of one file come in their order; those of several in any. What is wrong
/// with a line is named in the view's gaps, and the line is passed over. Memory is bounded. Pure.
class JobModel {
public:
    /// Of the lines of events.jsonl, which are the head's.
    static constexpr int kHead = -1;

    /// `secrets` are what is not to be shown, besides what looks like one.
    explicit JobModel(std::string run_dir, std::vector<std::string> secrets = {});

    /// Of plan.json (kHead) or plan.node-K.json.
    void take_plan(int node, std::string_view text);
    /// Of events.jsonl (kHead) or events.node-K.jsonl.
    void take_event(int node, std::string_view line);
    /// Of samples/NODE.jsonl. Only the newest counts, and not for long.
    void take_sample(std::string_view line);
    void add_gap(std::string text);

    JobView view(ViewTime at) const;
    bool has_ended() const { return ended_.has_value(); }
    const std::optional<ViewTime>& last_heard() const { return last_heard_; }

private:
    struct KnownRank {
        RankView view;
        ViewTime started = {};
        std::optional<ViewTime> stepped = {};
        std::string why_stuck = {}, why_waited_for = {};
        ViewTime readings_until = {};  ///< they are too old from then on
    };
    /// The event that is being taken in.
    struct Now {
        ViewTime at;
        int node = kHead;
        int generation = 0;
    };

    void take_in(int node, const Event& event);
    void on(const Now& now, const JobStarted& job);
    void on(const Now& now, const GenerationStarted& started);
    void on(const Now& now, const RankStarted& started);
    void on(const Now& now, const StepReported& step);
    void on(const Now& now, const CheckpointPublished& saved);
    void on(const Now& now, const StopRequested& stop);
    void on(const Now& now, const RankSignalled& signalled);
    void on(const Now& now, const RankExited& end);
    void on(const Now& now, const GenerationFailed& failure);
    void on(const Now& now, const NodeLost& lost);
    void on(const Now& now, const WorldChanged& world);
    void on(const Now& now, const NodeJoined& joined);
    void on(const Now& now, const NodeDrained& drained);
    void on(const Now& now, const HeadChanged& changed);
    void on(const Now& now, const StandstillNoticed& found);
    void on(const Now& now, const StandstillOver& over);
    void on(const Now& now, const JobHung& hung);
    void on(const Now& now, const StragglersSeen& seen);
    void on(const Now& now, const WaitsMeasured& waits);
    void on(const Now& now, const SpawnFailed& failed);
    void on(const Now& now, const WarningRaised& warning);
    void on(const Now& now, const JobEnded& job);
    template <class Other>
    void on(const Now&, const Other&) {}

    std::string node_name(int node) const;
    KnownRank* find(int rank);
    void tell(const Now& now, std::string text);
    void forget_stuck();
    void go_on_or_end(bool restarts);

    std::string run_dir_;
    std::vector<std::string> secrets_;
    std::map<int, KnownRank> ranks_;
    std::map<int, std::string> hcas_;        ///< that ranks have by the plan
    std::map<int, std::string> node_names_;  ///< by node rank; kHead's by its events
    JobStarted job_;
    std::string state_ = "starting", cause_;
    std::optional<ViewTime> started_, last_heard_, ended_, checkpoint_at_;
    ProgressBar progress_;
    int generation_ = 0, restarts_ = 0, world_size_ = 0, node_count_ = 0;
    JobEnded end_;
    std::deque<std::string> news_;
    std::vector<std::string> gaps_;
    std::map<int, std::pair<std::int64_t, std::int64_t>> bad_lines_;  ///< count, the first's number
    std::map<int, std::int64_t> lines_;
    std::int64_t ranks_left_out_ = 0;
};

}  // namespace autolaunch::launcher
