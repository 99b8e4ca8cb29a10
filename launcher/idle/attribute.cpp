#include "idle/attribute.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace autolaunch::launcher {

namespace {

using std::chrono::milliseconds;

constexpr std::size_t kPooled = 64;
constexpr double kBusyEnough = 0.5;  // for its clock to be the one that it works at
constexpr int kAgeParts = 8;  // a thinned file's samples are an eighth of their age apart, or less

double seconds_of(milliseconds time) { return static_cast<double>(time.count()) / 1000; }

/// Stalls, joined where they overlap: several ranks report the same.
std::vector<JobCourse::Stall> joined(std::vector<JobCourse::Stall> stalls) {
    std::sort(stalls.begin(), stalls.end(),
              [](const auto& a, const auto& b) { return a.from < b.from; });
    std::vector<JobCourse::Stall> all;
    for (const JobCourse::Stall& stall : stalls)
        if (!all.empty() && stall.from <= all.back().to)
            all.back().to = std::max(all.back().to, stall.to);
        else
            all.push_back(stall);
    return all;
}

/// The one of these, which do not overlap, that holds a moment.
template <class Span>
const Span* span_at(const std::vector<Span>& spans, JobTime at) {
    const auto after = std::upper_bound(spans.begin(), spans.end(), at,
                                        [](JobTime t, const Span& span) { return t < span.from; });
    if (after == spans.begin() || (after - 1)->to <= at)
        return nullptr;
    return &*(after - 1);
}

/// By how much longer a rank waited in collectives than the one that waited least, and which that
/// is.
struct Excess {
    double share = 0;
    int waited_for = 0;
};
Excess excess_of(const JobCourse::Waits& window, int rank) {
    const auto own = std::lower_bound(window.ranks.begin(), window.ranks.end(), rank);
    if (own == window.ranks.end() || *own != rank)
        return {};
    const auto least = std::min_element(window.shares.begin(), window.shares.end());
    const double more =
        static_cast<double>(window.shares[static_cast<std::size_t>(own - window.ranks.begin())]) -
        static_cast<double>(*least);
    return {more >= kLeastWait ? more : 0,
            window.ranks[static_cast<std::size_t>(least - window.shares.begin())]};
}

/// The clock at which a GPU works when nothing holds it down: the middle of what was seen.
std::optional<double> usual_clock(const std::vector<const GpuTrace*>& gpus) {
    std::vector<float> clocks;
    for (const GpuTrace* gpu : gpus)
        for (const GpuMoment& moment : gpu->moments)
            if (moment.busy.value_or(0) >= kBusyEnough && moment.sm_hertz &&
                moment.slowed_by.empty())
                clocks.push_back(*moment.sm_hertz);
    if (clocks.empty())
        return std::nullopt;
    const auto middle = clocks.begin() + static_cast<std::ptrdiff_t>(clocks.size() / 2);
    std::nth_element(clocks.begin(), middle, clocks.end());
    return *middle;
}

// Its own, else that of its like on the node.
std::optional<double> usual_clock(const NodeTrace& node, const GpuTrace& gpu) {
    if (const auto own = usual_clock({&gpu}))
        return own;
    std::vector<const GpuTrace*> alike;
    for (const GpuTrace& other : node.gpus)
        if (!gpu.model.empty() && other.model == gpu.model)
            alike.push_back(&other);
    return usual_clock(alike);
}

/// Cuts the time of one GPU.
class GpuCut {
public:
    GpuCut(const JobCourse& course, const std::vector<JobCourse::Stall>& stalls,
           const NodeTrace& node, const GpuTrace& gpu, std::size_t parts)
        : course_(course),
          stalls_(stalls),
          node_(node),
          gpu_(gpu),
          clock_(usual_clock(node, gpu)),
          time_{.node = node.node, .bdf = gpu.bdf, .model = gpu.model, .ranks = gpu.ranks} {
        time_.course.resize(parts);
        if (!course.spans.empty()) {
            begin_ = course.spans.front().from;
            end_ = course.spans.back().to;
        }
        if (!gpu.moments.empty())
            newest_ = gpu.moments.back().at;
        time_.input_told = std::any_of(gpu.moments.begin(), gpu.moments.end(),
                                       [](const GpuMoment& m) { return m.input.has_value(); });
    }

    GpuTime take() {
        for (const JobSpan& span : course_.spans)
            cut(span);
        return std::move(time_);
    }

private:
    /// Steps about one sample.
    struct Cell {
        JobTime from, to;
        const GpuMoment* moment = nullptr;
        double busy = 0, idle = 0;  ///< seconds
    };

    void add(GpuUse use, JobTime from, JobTime to, double seconds);
    void cut(const JobSpan& span);
    void cut_steps(const JobSpan& span);
    void cut_cell(JobTime from, JobTime to, const GpuMoment* moment);
    void explain_cells();
    double lost_by_clock(const GpuMoment& moment, double working);
    std::vector<const GpuMoment*> moments_in(const JobSpan& span) const;
    std::optional<JobTime> rank_end(const JobSpan& span) const;
    milliseconds reach(const GpuMoment& moment) const;

    const JobCourse& course_;
    const std::vector<JobCourse::Stall>& stalls_;
    const NodeTrace& node_;
    const GpuTrace& gpu_;
    const std::optional<double> clock_;
    GpuTime time_;
    std::vector<Cell> cells_;  ///< measured, and not yet told what for
    JobTime begin_{}, end_{}, newest_{};
};

void GpuCut::add(GpuUse use, JobTime from, JobTime to, double seconds) {
    if (seconds <= 0)
        return;
    time_.time.of(use) += seconds;
    if (time_.course.empty() || end_ <= begin_)
        return;
    const double part = seconds_of(end_ - begin_) / static_cast<double>(time_.course.size());
    const double first = seconds_of(from - begin_) / part, last = seconds_of(to - begin_) / part;
    const double length = std::max(last - first, 1e-9);
    for (auto at = static_cast<std::size_t>(std::max(first, 0.0));
         at < time_.course.size() && static_cast<double>(at) < last; ++at) {
        const double low = std::max(first, static_cast<double>(at));
        const double high = std::min(last, static_cast<double>(at + 1));
        time_.course[at].of(use) += seconds * std::max(high - low, 0.0) / length;
    }
}

void GpuCut::cut(const JobSpan& span) {
    const double seconds = seconds_of(span.to - span.from);
    if (seconds <= 0 || span.kind == LedgerKind::queue)
        return;
    const bool is_step =
        span.kind == LedgerKind::steps || span.kind == LedgerKind::checkpoint_stall;
    if (is_step)
        return cut_steps(span);
    if (gpu_.ranks.empty())
        return add(GpuUse::nobody, span.from, span.to, seconds);
    GpuUse use = GpuUse::start;
    if (span.kind == LedgerKind::detection || span.kind == LedgerKind::recovery)
        use = GpuUse::recovery;
    else if (span.kind == LedgerKind::lost_work)
        use = GpuUse::lost_work;
    else if (span.kind == LedgerKind::idle)
        use = GpuUse::ended;
    add(use, span.from, span.to, seconds);
}

// Of steps, and not of a stall: what a sample saw then is not how steps are.
std::vector<const GpuMoment*> GpuCut::moments_in(const JobSpan& span) const {
    std::vector<const GpuMoment*> moments;
    auto moment = std::lower_bound(gpu_.moments.begin(), gpu_.moments.end(), span.from,
                                   [](const GpuMoment& m, JobTime t) { return m.at < t; });
    for (; moment != gpu_.moments.end() && moment->at <= span.to; ++moment)
        if (moment->busy && span_at(stalls_, moment->at) == nullptr)
            moments.push_back(&*moment);
    return moments;
}

// All of those that share it.
std::optional<JobTime> GpuCut::rank_end(const JobSpan& span) const {
    std::optional<JobTime> end;
    for (const int rank : gpu_.ranks) {
        const auto found = std::find_if(
            course_.ends.begin(), course_.ends.end(),
            [&](const auto& one) { return one.rank == rank && one.generation == span.generation; });
        if (found == course_.ends.end())
            return std::nullopt;
        end = std::max(end.value_or(found->at), found->at);
    }
    return end;
}

// Each sample stands for the time about it, up to a half more than the interval; in a file that was
// thinned, the older it is the longer.
milliseconds GpuCut::reach(const GpuMoment& moment) const {
    return std::max<milliseconds>(node_.interval * 3 / 2, (newest_ - moment.at) / kAgeParts);
}

void GpuCut::cut_steps(const JobSpan& span) {
    const std::vector<const GpuMoment*> moments = moments_in(span);
    const std::optional<JobTime> ended = rank_end(span);
    const JobTime end = ended ? std::clamp(*ended, span.from, span.to) : span.to;
    std::vector<JobTime> cuts{span.from, end};
    const auto cut_at = [&](JobTime at) {
        if (at > span.from && at < end)
            cuts.push_back(at);
    };
    for (std::size_t at = 0; at < moments.size(); ++at) {
        if (at > 0)
            cut_at(moments[at - 1]->at + (moments[at]->at - moments[at - 1]->at) / 2);
        cut_at(moments[at]->at - reach(*moments[at]));
        cut_at(moments[at]->at + reach(*moments[at]));
    }
    for (const JobCourse::Stall& stall : stalls_)
        cut_at(stall.from), cut_at(stall.to);
    for (const JobCourse::Waits& window : course_.waits)
        cut_at(window.from), cut_at(window.to);
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    const std::size_t pools = std::max<std::size_t>(moments.size() / kPooled, 1);
    std::size_t next = 0, pool = 0;
    for (std::size_t at = 0; at + 1 < cuts.size(); ++at) {
        const JobTime middle = cuts[at] + (cuts[at + 1] - cuts[at]) / 2;
        while (next + 1 < moments.size() && std::chrono::abs(moments[next + 1]->at - middle) <=
                                                std::chrono::abs(moments[next]->at - middle))
            ++next;
        if (const std::size_t own = next * pools / std::max<std::size_t>(moments.size(), 1);
            std::exchange(pool, own) != own)
            explain_cells();
        const GpuMoment* nearest = next < moments.size() ? moments[next] : nullptr;
        if (nearest != nullptr && std::chrono::abs(nearest->at - middle) > reach(*nearest))
            nearest = nullptr;
        cut_cell(cuts[at], cuts[at + 1], nearest);
    }
    explain_cells();
    add(gpu_.ranks.empty() ? GpuUse::nobody : GpuUse::ended, end, span.to,
        seconds_of(span.to - end));
}

void GpuCut::cut_cell(JobTime from, JobTime to, const GpuMoment* moment) {
    const double seconds = seconds_of(to - from);
    const JobTime middle = from + (to - from) / 2;
    if (!gpu_.ranks.empty() && span_at(stalls_, middle) != nullptr)
        return add(GpuUse::checkpoint, from, to, seconds);
    if (moment == nullptr)
        return add(GpuUse::unmeasured, from, to, seconds);
    Cell cell{from, to, moment, seconds * static_cast<double>(*moment->busy), 0};
    cell.idle = seconds - cell.busy;
    if (gpu_.ranks.empty() || (cell.busy == 0 && moment->processes == 0)) {
        add(GpuUse::nobody, from, to, cell.idle);
        cell.idle = 0;
    }
    cells_.push_back(cell);
}

// A sample sees a second or so, and a step may be longer than that, so that it sees a GPU that
// idles for a third of each step idle in a third of the samples. What was seen idle is therefore
// pooled over many samples before it is told what for. Claims are taken in the order of how sure
// they are, and never more than there is: input out of what was seen idle; a wait for others also
// out of what was seen busy, for NCCL's kernels run while they wait.
void GpuCut::explain_cells() {
    double idle = 0, busy = 0, input = 0, wait = 0;
    std::map<int, double> waits;
    for (const Cell& cell : cells_) {
        const double seconds = seconds_of(cell.to - cell.from);
        idle += cell.idle;
        busy += cell.busy;
        input += seconds * static_cast<double>(cell.moment->input.value_or(0.0F));
        const JobCourse::Waits* window =
            span_at(course_.waits, cell.from + (cell.to - cell.from) / 2);
        if (window == nullptr || !cell.moment->rank)
            continue;
        const Excess excess = excess_of(*window, *cell.moment->rank);
        wait += excess.share * seconds;
        waits[excess.waited_for] += excess.share * seconds;
    }
    input = std::min(input, idle);
    const double waited = std::min(wait, idle - input + busy);
    const double idle_wait = std::min(waited, idle - input);
    const auto part = [](double some, double all) { return all > 0 ? some / all : 0; };
    const double of_input = part(input, idle), of_idle_wait = part(idle_wait, idle),
                 of_busy_wait = part(waited - idle_wait, busy);
    for (const Cell& cell : cells_) {
        const auto add_part = [&](GpuUse use, double seconds) {
            add(use, cell.from, cell.to, seconds);
        };
        add_part(GpuUse::input, cell.idle * of_input);
        add_part(GpuUse::peer, cell.idle * of_idle_wait + cell.busy * of_busy_wait);
        add_part(GpuUse::unexplained, cell.idle * (1 - of_input - of_idle_wait));
        const double working = cell.busy * (1 - of_busy_wait);
        const double lost = working * lost_by_clock(*cell.moment, working);
        add_part(GpuUse::throttled, lost);
        add_part(GpuUse::used, working - lost);
        if (lost > 0)
            time_.throttled_by[cell.moment->slowed_by] += lost;
    }
    for (const auto& [rank, seconds] : waits)
        if (seconds > 0)
            time_.waited_for[rank] += seconds * part(waited, wait);
    cells_.clear();
}

double GpuCut::lost_by_clock(const GpuMoment& moment, double working) {
    if (moment.slowed_by.empty() || working <= 0)
        return 0;
    if (!clock_ || !moment.sm_hertz) {
        time_.clock_unknown[moment.slowed_by] += working;
        return 0;
    }
    return std::max(1 - static_cast<double>(*moment.sm_hertz) / *clock_, 0.0);
}

}  // namespace

std::vector<GpuTime> attribute(const JobCourse& course, const NodeTrace& node, std::size_t parts) {
    const std::vector<JobCourse::Stall> stalls = joined(course.stalls);
    std::vector<GpuTime> times;
    for (const GpuTrace& gpu : node.gpus)
        times.push_back(GpuCut(course, stalls, node, gpu, parts).take());
    return times;
}

}  // namespace autolaunch::launcher
