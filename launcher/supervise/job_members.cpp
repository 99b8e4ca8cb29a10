#include "base/deadline.hpp"
#include "control/peer_text.hpp"
#include "exit_codes/exit_codes.hpp"
#include "rendezvous/welcome.hpp"
#include "report/run_files.hpp"
#include "report/units.hpp"
#include "supervise/job_supervisor.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

// Nodes that come to the running job, and nodes that somebody wants out of it.

namespace autolaunch::launcher {

namespace {

constexpr auto kFiles = static_cast<std::uint8_t>(control::Wish::files);
constexpr std::size_t kMostPieceBytes = std::size_t{48} << 10;  // with its frame below kJoinLimit

std::shared_ptr<Caller> caller_of(const HeadDoor::Guest& guest) {
    return std::make_shared<Caller>(Caller{
        .send = [guest](const control::Message& message) { guest->send(message); },
        .close = [guest] { guest->close(); },
        .when_gone =
            [guest](const std::function<void()>& gone) {
                guest->set_handlers(
                    {.on_ready = {}, .on_message = {}, .on_end = [gone](const ConnectionEnd&) {
                         if (gone)
                             gone();
                     }});
            },
        .who = numeric_address(guest->remote_endpoint()) + ", with the job's key"});
}

const char* state_name(JobState state) {
    switch (state) {
        case JobState::starting:
            return "starting";
        case JobState::running:
            return "running";
        case JobState::stopping:
            return "stopping";
        case JobState::restarting:
            return "ending, the next follows";
        case JobState::failing:
            return "failing";
        case JobState::waiting:
            return "between generations";
        case JobState::finished:
            break;
    }
    return "finished";
}

}  // namespace

void JobSupervisor::open_door() {
    if (!joined_.door)
        return;
    joined_.door->set_handlers(
        {.on_node = [this](const control::Join& join, const HeadDoor::Guest& guest,
                           std::string& refusal) { return on_newcomer(join, guest, refusal); },
         .on_ask = [this](const control::Ask& ask,
                          const HeadDoor::Guest& guest) { take_guest(ask, guest); },
         .on_warning = [this](const std::string& text) { report(WarningRaised{text}); }});
}

// Nothing that is to come is left of the job otherwise.
bool JobSupervisor::takes_in_nodes() const {
    return state_ != JobState::finished && state_ != JobState::stopping &&
           state_ != JobState::failing && !is_ended_from_outside();
}

// A node whose earlier agent has not been found lost is in the job still: that is waited for.
HeadDoor::Admission JobSupervisor::on_newcomer(const control::Join& join,
                                               const HeadDoor::Guest& guest, std::string& refusal) {
    if (!takes_in_nodes()) {
        refusal = "the job is ending";
        return HeadDoor::Admission::refused;
    }
    if (members_.present(join.node_name)) {
        refusal = join.node_name + " is in the job already, and its agent there lives";
        return HeadDoor::Admission::later;
    }
    for (std::string& line : members_.leave_out(restart_book_.unfit_nodes()))
        report(WarningRaised{std::move(line)});
    refusal = members_.admit({join.node_name, join.ranks});
    if (!refusal.empty())
        return HeadDoor::Admission::refused;
    const int node = head_.take_in(join.node_name, guest);
    roster_.nodes.push_back({join.node_name, 0, join.ranks});
    if (quorum_ != nullptr) {
        doors_.push_back(numeric_address(guest->remote_endpoint()) + ':' +
                         std::to_string(join.door));
        quorum_->admit(node, join.incarnation);
    }
    control::Welcome welcome = make_late_welcome(roster_);
    welcome.self = node;
    guest->send(welcome);
    head_.command(control::NodeAdded{.node = node, .name = join.node_name, .ranks = join.ranks});
    return HeadDoor::Admission::taken;
}

// It is planned and checked.
void JobSupervisor::on(int node, control::Ready&&) {
    members_.ready(node);
    const bool grows = members_.can_grow();
    const bool now = grows && plan_.spec.resources.grow == "now";
    const auto addresses = head_.addresses();
    report(NodeJoined{.node = name_of(node),
                      .address = addresses.at(static_cast<std::size_t>(node)),
                      .ranks = members_.node(node).ranks,
                      .when = now     ? "at once"
                              : grows ? "when a generation ends"
                                      : "when one is lost"});
    if (now)
        renew(name_of(node) + " has come");
}

// As soon as all ranks run; between generations the next one is of the new nodes anyway.
void JobSupervisor::renew(const std::string& reason) {
    renewal_ = reason;
    if (state_ != JobState::running)
        return;
    renewing_ = true;
    failed_at_ = std::chrono::steady_clock::now();
    stop_reason_ = reason;
    dispatch(JobEvent::renew);
}

void JobSupervisor::ask_ranks_to_save() {
    const auto grace = plan_.spec.restart.grace_period;
    report(StopRequested{.reason = stop_reason_, .failed = false, .grace = grace});
    head_.command(control::LeaveGeneration{.generation = generation_number_,
                                           .reason = stop_reason_,
                                           .grace_ms = static_cast<std::uint64_t>(grace.count()),
                                           .saves = true});
    kill_in(grace);
}

void JobSupervisor::note_ask(const control::Ask& ask, const Caller& caller) {
    JobAsked asked{.what = {}, .node = ask.argument, .who = caller.who};
    switch (static_cast<control::Wish>(ask.what)) {
        case control::Wish::console:
            asked.what = "attach";
            break;
        case control::Wish::drain:
            asked.what = "drain";
            break;
        case control::Wish::take_back:
            asked.what = "take_back";
            break;
        case control::Wish::files:
            if (caller.asked_before)  // it looks once a second
                return;
            asked.what = "top";
            asked.node.clear();
            break;
        default:
            return;
    }
    report(std::move(asked));
}

void JobSupervisor::on_ask(const control::Ask& ask, const std::shared_ptr<Caller>& caller) {
    note_ask(ask, *caller);
    if (ask.what == static_cast<std::uint8_t>(control::Wish::drain))
        return drain(ask.argument, caller);
    if (ask.what == static_cast<std::uint8_t>(control::Wish::take_back))
        return take_back(ask.argument, caller);
    if (ask.what == static_cast<std::uint8_t>(control::Wish::console) &&
        state_ != JobState::finished)
        return watchers_.add(caller, [this] { return status_line(); });
    if (ask.what == kFiles)
        return show_files(ask, caller);
    caller->send(control::Answer{.exit_code = exit_code::kUnavailable,
                                 .text = "the head has no answer to that",
                                 .hint = "is the job over, or another autolaunch here?"});
    caller->close();
}

// Who looks at the job asks again and again; others are heard once.
void JobSupervisor::take_guest(const control::Ask& ask, const HeadDoor::Guest& guest) {
    guest->set_handlers({});
    on_ask(ask, caller_of(guest));
    if (ask.what != kFiles)
        return;
    guest->set_handlers({.on_ready = {},
                         .on_message =
                             [this, alive = std::weak_ptr(alive_),
                              weak = std::weak_ptr(guest)](control::Message&& message) {
                                 const auto there = weak.lock();
                                 const auto* next = std::get_if<control::Ask>(&message);
                                 if (there == nullptr)
                                     return;
                                 if (alive.expired() || next == nullptr || next->what != kFiles)
                                     return there->close();
                                 const auto caller = caller_of(there);
                                 caller->asked_before = true;
                                 on_ask(*next, caller);
                             },
                         .on_end = {}});
}

void JobSupervisor::show_files(const control::Ask& ask, const std::shared_ptr<Caller>& caller) {
    control::FilePiece piece;
    try {
        const RunFolder folder(plan_.run_dir);
        if (ask.argument.empty()) {
            for (const RunFile& file : folder.list())
                if (piece.bytes.size() < kMostPieceBytes)
                    piece.bytes += fmt::format("{} {}\n", file.bytes, file.name);
        } else {
            RunFilePart part = read_for_others(folder, ask.argument, kMostPieceBytes);
            piece = {.bytes = std::move(part.bytes),
                     .covered = part.covered,
                     .file_bytes = part.file_bytes,
                     .wrong = std::move(part.wrong)};
        }
    } catch (const Error& error) {
        piece.wrong = error.what();
    }
    caller->send(std::move(piece));
}

void JobSupervisor::drain(const std::string& name, const std::shared_ptr<Caller>& caller) {
    const auto refuse = [&](int code, const std::string& why) {
        caller->send(control::Answer{.exit_code = code, .text = why, .hint = {}});
        caller->close();
    };
    const auto node = members_.find(name);
    if (!node)
        return refuse(exit_code::kNoHost, name + " is no node of this job");
    if (!takes_in_nodes())
        return refuse(exit_code::kUnavailable, "the job is ending");
    const bool takes_part = members_.takes_part(*node);
    if (const std::string why = members_.drain(*node); !why.empty())
        return refuse(exit_code::kUnavailable, why);
    caller->when_gone({});  // it is drained whoever waits for it
    drains_.push_back({*node, caller});
    if (!takes_part)
        return dismiss_drained();
    renew(name + " is drained");
}

// Whatever was found of it. A scheduler that excludes it is told by its operator.
void JobSupervisor::take_back(const std::string& name, const std::shared_ptr<Caller>& caller) {
    const auto answer = [&](int code, const std::string& text) {
        caller->send(control::Answer{.exit_code = code, .text = text, .hint = {}});
        caller->close();
    };
    const auto node = members_.find(name);
    const bool was_unfit = restart_book_.unfit_nodes().contains(name) ||
                           (node && members_.standing(*node) == Membership::Standing::unfit);
    if (!was_unfit)
        return answer(exit_code::kNoHost, name + " is not left out of this job");
    keep(restart_book_.note_taken_back(name));
    const bool is_there = members_.take_back(name);
    const std::string text =
        name + (is_there ? " is taken back: it waits as a spare" : " may be of this job again");
    report(WarningRaised{text});
    answer(exit_code::kSuccess, text);
    if (is_there && members_.can_grow() && plan_.spec.resources.grow == "now")
        renew(name + " has come back");
}

// Their ranks have ended, and no more are started.
void JobSupervisor::dismiss_drained() {
    const int nodes = roster_.taking_part(), ranks = roster_.world_size();
    for (const Drain& drain : std::exchange(drains_, {})) {
        const std::string& name = name_of(drain.node);
        head_.command_to(drain.node,
                         control::Finish{.exit_code = exit_code::kSuccess, .outcome = "drained"});
        report(NodeDrained{name});
        drain.caller->send(control::Answer{
            .exit_code = exit_code::kSuccess,
            .text = fmt::format("{} is left: the job has {} node{} and {} rank{}", name, nodes,
                                nodes == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s"),
            .hint = {}});
        drain.caller->close();
    }
}

void JobSupervisor::answer_all(const std::string& text) {
    for (const Drain& drain : std::exchange(drains_, {})) {
        drain.caller->send(
            control::Answer{.exit_code = exit_code::kSuccess, .text = text, .hint = {}});
        drain.caller->close();
    }
}

std::string JobSupervisor::status_line() const {
    const int nodes = roster_.taking_part(), ranks = roster_.world_size();
    const int spares = members_.spares_left();
    std::string line =
        fmt::format("generation {} · {} · {} node{} · {} rank{}", generation_number_,
                    state_name(state_), nodes, nodes == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s");
    if (spares > 0)
        line += fmt::format(" · {} spare{}", spares, spares == 1 ? "" : "s");
    line += fmt::format(" · {} restart{} · {}", restarts_, restarts_ == 1 ? "" : "s",
                        format_duration(elapsed_since(started_at_)));
    if (checkpoint_step_)
        line += fmt::format(" · checkpoint of step {}", *checkpoint_step_);
    return line;
}

}  // namespace autolaunch::launcher
