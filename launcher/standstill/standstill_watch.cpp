#include "standstill/standstill_watch.hpp"

#include "progress/python_place.hpp"
#include "spawn/process_condition.hpp"
#include "standstill/rank_look.hpp"

#include <algorithm>
#include <system_error>
#include <utility>
#include <variant>

namespace autolaunch::launcher {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLookEvery{200};
constexpr milliseconds kLongestGap{2000};
constexpr milliseconds kBetweenActivityLooks{800}, kBetweenLastLooks{400};
constexpr milliseconds kTellAgain{5000};
constexpr std::size_t kLongestText = 200;

}  // namespace

StandstillWatch::StandstillWatch(asio::io_context& io, const std::filesystem::path& run_dir,
                                 std::optional<milliseconds> told, Ranks ranks, Gpus gpus,
                                 Tell tell, std::function<bool()> data_comes)
    : told_(told),
      ranks_(std::move(ranks)),
      gpus_(std::move(gpus)),
      tell_(std::move(tell)),
      data_comes_(std::move(data_comes)),
      look_timer_(io),
      answer_timer_(io),
      run_dir_(run_dir),
      stacks_(
          io, run_dir, python_, [this] { return ranks_(); },
          [this](const RankStacks::Written& written) {
              tell_(
                  control::StacksWritten{generation_, written.rank, written.path, written.problem});
          }) {}

void StandstillWatch::begin_generation(int generation) {
    stop();
    python_.forget();
    generation_ = generation;
    pace_ = {};
    reports_steps_ = false;
    is_on_ = true;
    if (told_)
        pace_.tell_limit(*told_);
    told_of_traffic_ = false;
    signs_ = SignsOfLife(run_dir_, generation, told_, {.is_ours = has_whole_node(), .gpus = gpus_});
    look();
}

void StandstillWatch::stop() {
    look_timer_.cancel();
    answer_timer_.cancel();
    stacks_.stop();
    is_on_ = is_overdue_ = was_far_ = false;
    looked_at_ = {};
}

void StandstillWatch::note(const Happening& happening) {
    const auto now = steady_clock::now();
    if (const auto* step = std::get_if<StepReported>(&happening)) {
        pace_.step(step->rank, now);
        reports_steps_ = true;
        if (is_on_ && is_overdue_)
            look();
    } else if (const auto* saved = std::get_if<CheckpointPublished>(&happening)) {
        pace_.alive(saved->rank, now);
    } else if (const auto* message = std::get_if<MessageReported>(&happening)) {
        pace_.alive(message->rank, now);
    } else if (const auto* ended = std::get_if<RankExited>(&happening)) {
        pace_.ended(ended->rank);
    }
}

void StandstillWatch::phase(int rank, bool begins) {
    pace_.phase(rank, begins, steady_clock::now());
}

// What is overdue is told at once, then every 5 s, so that the head looks again. Where nobody
// looked for long, the agent was stopped or had no CPU, and so perhaps its ranks.
void StandstillWatch::look() {
    const auto now = steady_clock::now();
    const auto before = std::exchange(looked_at_, now);
    const auto gap = std::chrono::duration_cast<milliseconds>(now - before);
    if (before != StepWatch::Moment{} && gap > kLongestGap)
        pace_.forgive(gap), signs_.forgive(gap);
    if (!reports_steps_)
        signs_.look(ranks_(), now);
    const auto overdue = reports_steps_ ? pace_.look(now) : signs_.overdue(now);
    if (overdue) {
        const bool is_news = !is_overdue_ || (overdue->far && !was_far_);
        if (is_news || now - told_at_ >= kTellAgain) {
            told_at_ = now;
            tell_(control::StepsOverdue{.generation = generation_,
                                        .rank = overdue->rank,
                                        .silence = overdue->silence,
                                        .usual = overdue->usual,
                                        .far = overdue->far,
                                        .by_signs = overdue->by_signs});
            if (overdue->by_signs && signs_.has_strange_traffic())
                tell_of_strange_traffic();
        }
        was_far_ = overdue->far;
    } else if (is_overdue_) {
        was_far_ = false;
        tell_(control::StepsAgain{generation_});
    }
    is_overdue_ = overdue.has_value();
    look_timer_.expires_after(kLookEvery);
    look_timer_.async_wait([this](const std::error_code& error) {
        if (!error)
            look();
    });
}

// They would have been a sign of life on a node that is the job's alone.
void StandstillWatch::tell_of_strange_traffic() {
    if (std::exchange(told_of_traffic_, true))
        return;
    tell_(control::NodeWarning{
        "bytes went over this node's network or HCAs, and did not count as a sign of life: the job "
        "has not all of its CPUs, so they may be another job's"});
}

void StandstillWatch::asked(const control::AskActivity& ask) {
    asked_ = ask;
    first_looks_.clear();
    for (const auto& rank : ranks_())
        first_looks_.emplace_back(rank, look_at_tree(rank.second));
    if (ask.request < 0)  // of stragglers; by the answer the driver has told
        gpus_();
    if (ask.with_stacks)
        for (const auto& rank : ranks_())
            python_.ask(rank.first);
    // Who is asked for stacks is one that stood still in the looks before.
    answer_timer_.expires_after(ask.with_stacks ? kBetweenLastLooks : kBetweenActivityLooks);
    answer_timer_.async_wait([this](const std::error_code& error) {
        if (!error)
            answer();
    });
}

void StandstillWatch::write_stacks(const control::WriteStacks& wanted) {
    NodeEvidence::Ranks named;
    for (const auto& rank : ranks_())
        if (std::find(wanted.ranks.begin(), wanted.ranks.end(), rank.first) != wanted.ranks.end())
            named.push_back(rank);
    stacks_.write(wanted.generation, named);
}

void StandstillWatch::answer() {
    control::ActivityRead read;
    read.generation = asked_.generation;
    read.request = asked_.request;
    const std::vector<GpuPace> gpus = asked_.request < 0 ? gpus_() : std::vector<GpuPace>();
    read.quiet = (reports_steps_ ? pace_ : signs_.pace()).quiet(steady_clock::now());
    for (const auto& [rank, first] : first_looks_) {
        const auto& [number, pid] = rank;
        char state = state_of(pid);
        if (state == 't' && stacks_.looks_at(number))
            state = 'S';
        if (state == '\0' || state == 'Z')
            continue;  // it has ended meanwhile
        RankActivity activity = compare_looks(first, look_at_tree(pid), state);
        activity.rank = number;
        activity.pid = pid;
        if (activity.doing != Doing::working)  // else what it lacks is said
            activity.what = process_condition(pid);
        if (activity.doing == Doing::still)
            activity.what = describe_standing(pid);
        if (const std::string pace = describe_gpu_pace(number, gpus); !pace.empty())
            activity.what += (activity.what.empty() ? "" : "; it ") + pace;
        if (asked_.with_stacks)
            add_python_place(activity);
        if (activity.doing == Doing::still && data_comes_()) {
            activity.doing = Doing::awaits_data;
            activity.what = "may wait for data that comes (storage.stage_in)";
        }
        activity.what.resize(std::min(activity.what.size(), kLongestText));
        read.ranks.push_back(std::move(activity));
    }
    tell_(std::move(read));
}

// Who is stopped has not answered, or did before.
void StandstillWatch::add_python_place(RankActivity& activity) const {
    const PythonPlace found = python_place(python_.read(activity.rank));
    if (activity.doing == Doing::still && found.awaits_children)
        if (std::string child = describe_busy_child(activity.pid); !child.empty())
            activity.what = std::move(child);
    const bool is_free = activity.doing == Doing::working || activity.doing == Doing::still;
    if (activity.doing == Doing::still && found.in_backward) {
        activity.doing = Doing::waits;
        activity.what = "in backward" + (found.place.empty() ? "" : ", called in " + found.place);
    } else if (is_free && !found.collective.empty()) {
        activity.doing = Doing::waits;
        activity.what =
            "in " + found.collective + (found.place.empty() ? "" : ", called in " + found.place);
    } else if (!found.place.empty()) {
        activity.what += (activity.what.empty() ? "in " : ", in ") + found.place;
    }
}

}  // namespace autolaunch::launcher
