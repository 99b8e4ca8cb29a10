#include "doctor/meeting.hpp"

#include "doctor/rail_probe.hpp"
#include "doctor/rails.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_codes.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <memory>
#include <utility>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

constexpr auto kChannel = control::RelayChannel::doctor;
constexpr int kGeneration = 0;
constexpr auto kSlice = 10ms;  // the event loop is served as often while checks run
constexpr int kClockRounds = 3;
constexpr auto kRailPatience = 3s;

// The first byte of a message.
constexpr char kReport = 'R', kAskClock = 'C', kTellClock = 'T', kAskRails = 'A', kTellRails = 'B',
               kOutcome = 'O';

using Nanoseconds = std::chrono::nanoseconds;

// Of CLOCK_REALTIME by system call, as a C++ library may not see a clock that was put before it.
Nanoseconds now() {
    timespec time{};
    ::clock_gettime(CLOCK_REALTIME, &time);
    return std::chrono::seconds(time.tv_sec) + Nanoseconds(time.tv_nsec);
}

/// What the head knows of one node.
struct Attendance {
    std::optional<NodeReport> report;
    std::string lost;  ///< why it is gone
    std::optional<ClockReading> clock;
    int clock_rounds = 0;
    Nanoseconds asked{0};
    bool owes_rails = false;
    bool is_done() const { return !lost.empty() || (report && clock_rounds >= kClockRounds); }
};

// Shared with handlers, which may be called after the meeting is over.
class Meeting : public std::enable_shared_from_this<Meeting> {
public:
    Meeting(Joined& joined) : joined_(joined), nodes_(joined.roster.nodes.size()) {}

    void open();
    void close();
    void send_report(const NodeReport& report) {
        member().relay(kChannel, kGeneration, 0, kReport + encode_report(report));
    }
    bool all_done() const {
        return std::all_of(nodes_.begin(), nodes_.end(),
                           [](const Attendance& node) { return node.is_done(); });
    }
    /// Asks neighbours for one another's rails, where there are any. False: there are none.
    bool ask_rails();
    bool rails_told() const {
        return std::none_of(nodes_.begin(), nodes_.end(), [](const Attendance& node) {
            return node.owes_rails && node.lost.empty();
        });
    }
    /// Goes on with what this node was asked for.
    void probe_rails();
    Verdict conclude();
    void announce(bool fail, bool warn);

    std::optional<std::string> outcome;  ///< as the head told it
    std::string head_lost;

private:
    Member& member() { return *joined_.member; }
    void receive(int source, std::string_view bytes);
    void take_report(int source, std::string_view text);
    void ask_clock(int node);
    void take_clock(int node, std::string_view text);
    void take_rails(int node, std::string_view text);

    Joined& joined_;
    std::vector<Attendance> nodes_;
    std::vector<RailTarget> rail_targets_;
    std::optional<RailProbe> probe_;
    bool is_open_ = true;
};

void Meeting::open() {
    const auto self = shared_from_this();
    if (joined_.head)
        joined_.head->set_handlers({.on_report = [](int, control::Report&&) {},
                                    .on_node_lost =
                                        [self](int node, const std::string& why) {
                                            self->nodes_.at(static_cast<std::size_t>(node)).lost =
                                                why;
                                        }});
    else
        member().set_handlers({.on_command = {}, .on_head_lost = [self](const std::string& why) {
                                   self->head_lost = why;
                               }});
    member().on_relay(kChannel, kGeneration, [self](int source, std::string_view bytes) {
        if (self->is_open_)
            self->receive(source, bytes);
    });
}

void Meeting::close() {
    is_open_ = false;
    member().on_relay(kChannel, kGeneration, nullptr);
    if (joined_.head)
        joined_.head->set_handlers({});
    member().set_handlers({});
}

void Meeting::receive(int source, std::string_view bytes) {
    if (bytes.empty())
        return;
    const std::string_view rest = bytes.substr(1);
    switch (bytes.front()) {
        case kReport:
            if (joined_.head)
                take_report(source, rest);
            break;
        case kAskClock:
            member().relay(kChannel, kGeneration, source,
                           kTellClock + std::to_string(now().count()));
            break;
        case kTellClock:
            if (joined_.head)
                take_clock(source, rest);
            break;
        case kAskRails:
            if (source != 0)
                break;
            rail_targets_ = decode_targets(rest);
            probe_.emplace(rail_targets_);
            break;
        case kTellRails:
            if (joined_.head)
                take_rails(source, rest);
            break;
        case kOutcome:
            if (source == 0)
                outcome = std::string(rest);
            break;
        default:
            break;
    }
}

void Meeting::take_report(int source, std::string_view text) {
    Attendance& node = nodes_.at(static_cast<std::size_t>(source));
    try {
        node.report = decode_report(text);
    } catch (const Error& error) {
        node.lost = error.what();
        return;
    }
    node.report->node = joined_.roster.nodes[static_cast<std::size_t>(source)].name;
    if (source == 0)
        node.clock_rounds = kClockRounds;  // it is the clock to compare with
    else
        ask_clock(source);
}

void Meeting::ask_clock(int node) {
    nodes_[static_cast<std::size_t>(node)].asked = now();
    member().relay(kChannel, kGeneration, node, std::string(1, kAskClock));
}

// The node read its clock some time between question and answer: the shortest round trip tells
// most.
void Meeting::take_clock(int source, std::string_view text) {
    Attendance& node = nodes_.at(static_cast<std::size_t>(source));
    long long there = 0;
    if (node.clock_rounds >= kClockRounds || !parse_integer(text, there))
        return;
    const Nanoseconds end = now();
    const Nanoseconds half = (end - node.asked) / 2;
    const ClockReading reading = {std::chrono::duration_cast<std::chrono::microseconds>(
                                      Nanoseconds(there) - node.asked - half),
                                  std::chrono::duration_cast<std::chrono::microseconds>(half)};
    if (!node.clock || reading.uncertainty < node.clock->uncertainty)
        node.clock = reading;
    if (++node.clock_rounds < kClockRounds)
        ask_clock(source);
}

bool Meeting::ask_rails() {
    std::vector<NodeReport> reports;
    for (const Attendance& node : nodes_)
        reports.push_back(node.report.value_or(NodeReport{}));
    for (std::size_t i = 0; i < reports.size(); ++i)
        reports[i].node = joined_.roster.nodes[i].name;
    bool any = false;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const auto targets = rail_targets(reports, i);
        if (targets.empty() || !nodes_[i].lost.empty())
            continue;
        any = nodes_[i].owes_rails = true;
        member().relay(kChannel, kGeneration, static_cast<int>(i),
                       kAskRails + encode_targets(targets));
    }
    return any;
}

void Meeting::probe_rails() {
    if (!probe_ || !probe_->step())
        return;
    const NodeReport report = judge_rails(rail_targets_, probe_->answers());
    probe_.reset();
    member().relay(kChannel, kGeneration, 0, kTellRails + encode_report(report));
}

void Meeting::take_rails(int source, std::string_view text) {
    Attendance& node = nodes_.at(static_cast<std::size_t>(source));
    if (!node.report || !std::exchange(node.owes_rails, false))
        return;
    try {
        NodeReport rails = decode_report(text);
        node.report->merge(std::move(rails));
    } catch (const Error& error) {
        node.lost = error.what();
    }
}

Verdict Meeting::conclude() {
    std::vector<NodeReport> reports;
    std::vector<std::optional<ClockReading>> clocks;
    std::vector<NodesFinding> findings;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        Attendance& node = nodes_[i];
        NodeReport report;
        if (node.report)
            report = std::move(*node.report);
        report.node = joined_.roster.nodes[i].name;
        if (!node.report || !node.lost.empty())
            report.findings.push_back({"nodes", Severity::fail,
                                       node.lost.empty() ? "it sent no results in time" : node.lost,
                                       std::string(find_check("nodes")->fix)});
        reports.push_back(std::move(report));
        clocks.push_back(node.clock);
    }
    findings = compare_nodes(reports);
    for (NodesFinding& finding : compare_clocks(reports, clocks))
        findings.push_back(std::move(finding));
    return judge(std::move(reports), std::move(findings));
}

void Meeting::announce(bool fail, bool warn) {
    const char worst = fail ? '2' : warn ? '1' : '0';
    for (std::size_t node = 1; node < nodes_.size(); ++node)
        if (nodes_[node].lost.empty())
            member().relay(kChannel, kGeneration, static_cast<int>(node),
                           std::string{kOutcome, worst});
}

void serve(asio::io_context& io, std::chrono::milliseconds slice) {
    if (io.stopped())
        io.restart();
    io.run_one_for(slice);
    io.poll();
}

void check_wanted(const MeetingOptions& options) {
    pollfd cancel = {options.cancel_fd, POLLIN, 0};
    if (options.cancel_fd >= 0 && ::poll(&cancel, 1, 0) > 0)
        throw RendezvousError(exit_code::kNoHost,
                              "gave up the checks of the nodes: nobody waits for them", "");
}

NodeReport examine_meanwhile(asio::io_context& io, const NodeSources& sources,
                             const CheckChoice& choice, const MeetingOptions& options) {
    CheckRunner runner(sources, choice);
    while (!runner.wait(Deadline::after(kSlice))) {
        check_wanted(options);
        if (io.stopped())
            io.restart();
        io.poll();
    }
    return runner.take(sources.hostname);
}

MeetingOutcome outcome_of(bool fail, bool warn) {
    return {.has_failures = fail, .has_warnings = warn, .verdict = {}};
}

MeetingOutcome lead(asio::io_context& io, Meeting& meeting, const CheckChoice& choice,
                    const MeetingOptions& options) {
    const Deadline deadline = Deadline::after(options.patience);
    while (!meeting.all_done() && !deadline.passed()) {
        check_wanted(options);
        serve(io, kSlice);
    }
    if (choice.has("rails") && meeting.ask_rails())
        for (const Deadline answer = Deadline::after(kRailPatience);
             !meeting.rails_told() && !answer.passed();) {
            check_wanted(options);
            serve(io, kSlice);
            meeting.probe_rails();
        }
    Verdict verdict = meeting.conclude();
    auto left_out =
        options.leave_out ? options.leave_out(verdict) : std::map<std::string, std::string>();
    const bool fail = std::any_of(
        verdict.findings.begin(), verdict.findings.end(), [&](const NodesFinding& entry) {
            return entry.finding.severity == Severity::fail &&
                   std::any_of(entry.nodes.begin(), entry.nodes.end(),
                               [&](const std::string& node) { return !left_out.contains(node); });
        });
    const bool warn = verdict.has(Severity::warn);
    meeting.announce(fail, warn);
    MeetingOutcome outcome = outcome_of(fail, warn);
    outcome.verdict = std::move(verdict);
    outcome.left_out = std::move(left_out);
    return outcome;
}

MeetingOutcome follow(asio::io_context& io, Meeting& meeting, const MeetingOptions& options) {
    const Deadline deadline = Deadline::after(CheckRunner::kTotalLimit + 2 * options.patience);
    while (!meeting.outcome) {
        check_wanted(options);
        if (!meeting.head_lost.empty())
            throw RendezvousError(exit_code::kNoHost,
                                  "the head was lost during the checks: " + meeting.head_lost, "");
        if (deadline.passed())
            throw RendezvousError(exit_code::kNoHost,
                                  "the head did not say what came of the checks", "");
        serve(io, kSlice);
        meeting.probe_rails();
    }
    return outcome_of(*meeting.outcome == "2", *meeting.outcome != "0");
}

}  // namespace

MeetingOutcome hold_meeting(asio::io_context& io, Joined& joined, const NodeSources& sources,
                            const CheckChoice& choice, const MeetingOptions& options) {
    const auto meeting = std::make_shared<Meeting>(joined);
    meeting->open();
    meeting->send_report(examine_meanwhile(io, sources, choice, options));
    MeetingOutcome outcome =
        joined.head ? lead(io, *meeting, choice, options) : follow(io, *meeting, options);
    meeting->close();
    return outcome;
}

}  // namespace autolaunch::launcher
