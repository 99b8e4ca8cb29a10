#pragma once
#include "ledger/ledger_book.hpp"
#include "report/event.hpp"
#include "run_report/run_record.hpp"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Makes a record of a run of its events, one line after the other. What is wrong with a line is
/// named in the record's gaps, and the line is passed over. Memory is bounded. Pure.
///
/// Steps are most of a file of gigabytes, and those of one rank are enough: a line of another
/// rank's step is known by its first bytes and not parsed.
class RecordBuilder {
public:
    /// `secrets` are what the record may not hold, besides what looks like one.
    explicit RecordBuilder(std::string run_dir, std::vector<std::string> secrets = {});

    void line(std::string_view text);
    /// The file ends within a line.
    void torn_line(const std::string& file, std::string_view text);
    /// What comes now is of events.node-K.jsonl: how that node's ranks were started and ended, and
    /// whether it lost the head. Before its plan.
    void begin_node(int node, const std::string& file);
    void node_line(std::string_view text);
    void gap(std::string text);
    /// plan.json or plan.node-K.json.
    void plan(const std::string& name, std::string_view text);
    /// exit.json or exit.node-K.json.
    void certificate(const std::string& name, std::string_view text);

    RunRecord take();

private:
    bool is_other_step(std::string_view text) const;
    void see(nlohmann::json json);
    void see_end_record(const nlohmann::json& json);
    void see_data(const std::string& event, const nlohmann::json& json);
    void add_data(std::string text);
    void take_in(const Event& event);
    void on(const Event& event, const JobStarted& job);
    void on(const Event& event, const QueueTimeKnown& queue);
    void on(const Event& event, const GenerationStarted& started);
    void on(const Event& event, const RankStarted& started);
    void on(const Event& event, const StepReported& step);
    void on(const Event& event, const CheckpointPublished& saved);
    void on(const Event& event, const WaitsMeasured& waits);
    void on(const Event& event, const StopRequested& stop);
    void on(const Event& event, const RankExited& end);
    void on(const Event& event, const GenerationFailed& failure);
    void on(const Event& event, const NodeLost& lost);
    void on(const Event& event, const WorldChanged& world);
    void on(const Event& event, const JobHung& hung);
    void on(const Event& event, const SpawnFailed& failed);
    void on(const Event& event, const WarningRaised& warning);
    void on(const Event& event, const JobEnded& job);
    template <class Other>
    void on(const Event&, const Other&) {}

    void begin_span(RecordTime at, std::optional<LedgerKind> kind);
    void add_failure(RecordFailure failure);
    static void explain(RecordFailure& failure, const nlohmann::json& end);
    void explain_ends();
    void note_killed_agent();
    void add_pace(const RecordPace& pace);
    void plan_gpus(const nlohmann::json& plan, const std::string& hostname);
    void warn(std::string text);

    /// Data that ranks run on, and that is not all there.
    struct Coming {
        std::string amount = {};
        std::optional<int> rank = {};  ///< whose steps tell how long it waited for input
        double waited_seconds = 0;
        std::string waited_words() const;
    };

    bool is_smaller_ = false;  ///< the job goes on with fewer nodes than it began with
    int node_ = 0;             ///< whose lines come
    std::string node_file_;
    bool node_is_torn_ = false;  ///< said that lines of it cannot be understood
    RunRecord record_;
    std::vector<std::string> secrets_;
    LedgerBook book_;
    std::int64_t lines_ = 0, bad_lines_ = 0, others_ = 0;
    std::string first_bad_;
    std::map<std::string, std::int64_t> unknown_;  ///< events by name
    std::map<int, RecordRank> ranks_;
    std::map<std::string, Coming> coming_;  ///< by name
    std::optional<LedgerKind> doing_;
    RecordTime since_{};
    std::optional<RecordTime> seen_before_;  ///< the event before this one
    int generation_ = 0, attempts_ = 0;
    std::optional<int> step_rank_;
    std::int64_t pace_every_ = 1, pace_steps_ = 0;  ///< steps in one pace, and in the open one
    double pace_tokens_ = 0;
    std::optional<RecordTime> pace_since_;
    std::map<int, nlohmann::json> ends_;  ///< why generations ended, from events of their own
};

}  // namespace autolaunch::launcher
