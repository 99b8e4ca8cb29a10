#include "run/ask_job.hpp"

#include "base/deadline.hpp"
#include "base/hostname.hpp"
#include "base/text.hpp"
#include "control/control_connection.hpp"
#include "control/control_security.hpp"
#include "control/local_link.hpp"
#include "exit_codes/exit_codes.hpp"
#include "exit_codes/exit_error.hpp"
#include "rendezvous/head_search.hpp"
#include "report/screen.hpp"
#include "report/terminal_text.hpp"
#include "run/head_record.hpp"
#include "supervise/restart_book.hpp"
#include "supervise/run_directory.hpp"

#include <autolaunch/error.hpp>

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

constexpr auto kSearchTime = 15s;
constexpr auto kLook = 100ms;
constexpr auto kShortAnswerTime = 30s;
constexpr auto kAnswerTime = 15min;  // a save may take long, and its grace is the job's to say
constexpr std::uint8_t kOut = 1, kErr = 2;

}  // namespace

/// Questions to a head, over its Unix socket where it is on this machine, else over TLS.
class Conversation {
public:
    using OnText = std::function<void(const control::ConsoleText&)>;

    Conversation(const JobCall& call, const EnvironmentMap& environment)
        : record_(find_head(call.job).record), timer_(io_) {
        if (!call.secret_file.empty())
            record_.secret_file = call.secret_file;
        if (!reach_locally())
            reach_by_network(environment);
    }

    /// Nothing: the time is over, or a signal of `signals` came.
    std::optional<control::Answer> ask(const control::Ask& ask, OnText on_text,
                                       std::optional<std::chrono::seconds> limit,
                                       asio::signal_set* signals) {
        on_text_ = std::move(on_text);
        send_(ask);
        if (limit)
            end_after(*limit);
        if (signals != nullptr)
            signals->async_wait([this](const std::error_code& error, int) {
                if (!error)
                    io_.stop();
            });
        io_.restart();
        io_.run();
        return answer_;
    }
    asio::io_context& io() { return io_; }
    bool broke_off() const { return gone_ && !answer_; }
    bool is_gone() const { return gone_; }
    /// The answer to Wish::files.
    std::optional<control::FilePiece> take_piece() { return std::exchange(piece_, std::nullopt); }

private:
    bool reach_locally() {
        if (record_.hostname != hostname() || ::access(record_.door.c_str(), F_OK) != 0)
            return false;
        const auto link = std::make_shared<LocalLink>(connect_locally(io_, record_.door));
        link->start([this](control::Message&& message) { on_message(std::move(message)); },
                    [this] { on_gone(); });
        send_ = [link](const control::Message& message) { link->send(message); };
        return true;
    }

    void reach_by_network(const EnvironmentMap& environment) {
        if (record_.identity.empty() || record_.ports.empty())
            throw ExitError(
                exit_code::kNoHost, ErrorCode::closed,
                "the head of this job runs on " + record_.hostname + ", and answers there alone",
                "call it there");
        const JobIdentity identity{record_.identity, record_.ports};
        RendezvousSpec spec;
        spec.secret_file = record_.secret_file;
        const auto security = ControlSecurity::for_node(
            io_, identity, plan_job_key(spec, environment, identity, record_.shared_directory));
        HeadSearch::Options options;
        for (const std::string& host : record_.hosts)
            options.hosts.push_back({host, "the head's, by head.json", false});
        options.ports = record_.ports;
        options.connection.silence_limit = record_.lost_after;  // by which the head drops us
        const auto search = std::make_shared<HeadSearch>(io_, security, options);
        search->start(
            [this](std::shared_ptr<ControlConnection> found) { connection_ = std::move(found); });
        const Deadline deadline = Deadline::after(kSearchTime);
        while (!connection_ && !deadline.passed() && !search->key_was_refused())
            io_.run_one_for(kLook);
        const bool refused = !connection_ && search->key_was_refused();
        search->stop();
        if (!connection_)
            throw ExitError(refused ? exit_code::kNotPermitted : exit_code::kNoHost,
                            ErrorCode::closed,
                            refused ? "the job has another key than we do"
                                    : "no head of this job answers at " + record_.hosts.front(),
                            refused ? "give its AUTOLAUNCH_JOB_KEY, or --secret-file; with MUNGE "
                                      "be the job's user"
                                    : "has the job ended? Its run directory's exit.json says so");
        connection_->set_frame_limit(control::kFrameLimit);
        connection_->set_handlers(
            {.on_ready = {},
             .on_message = [this](control::Message&& message) { on_message(std::move(message)); },
             .on_end = [this](const ConnectionEnd&) { on_gone(); }});
        send_ = [this](const control::Message& message) { connection_->send(message); };
    }

    void end_after(std::chrono::seconds time) {
        timer_.expires_after(time);
        timer_.async_wait([this](const std::error_code& error) {
            if (!error)
                io_.stop();
        });
    }
    void on_message(control::Message&& message) {
        if (auto* answer = std::get_if<control::Answer>(&message)) {
            answer_ = std::move(*answer);
            io_.stop();
        } else if (auto* piece = std::get_if<control::FilePiece>(&message)) {
            piece_ = std::move(*piece);
            io_.stop();
        } else if (const auto* text = std::get_if<control::ConsoleText>(&message);
                   text != nullptr && on_text_) {
            on_text_(*text);
        }
    }
    void on_gone() {
        gone_ = true;
        io_.stop();
    }

    HeadRecord record_;
    asio::io_context io_{1};
    asio::steady_timer timer_;
    std::shared_ptr<ControlConnection> connection_;
    std::function<void(const control::Message&)> send_;
    OnText on_text_;
    std::optional<control::Answer> answer_;
    std::optional<control::FilePiece> piece_;
    bool gone_ = false;
};

namespace {

void show_answer(const control::Answer& answer, const Screen& screen) {
    const std::string text = escape_for_terminal(answer.text, Colours::strip);
    if (answer.exit_code == exit_code::kSuccess)
        return screen.print(text + '\n');
    screen.complain("autolaunch: " + text);
    if (!answer.hint.empty())
        screen.complain("autolaunch:   " + escape_for_terminal(answer.hint, Colours::strip));
}

/// The job's lines, and on a terminal its status line below them; else that once, at first.
class Mirror {
public:
    void show(const control::ConsoleText& text) {
        if (text.to == kOut || text.to == kErr) {
            clear();
            write(text.to == kOut ? stdout : stderr, escape_lines(text.text, Colours::strip));
        } else {
            status_ = escape_for_terminal(text.text, Colours::strip);
            if (!is_terminal_ && !std::exchange(told_, true))
                write(stderr, status_ + '\n');
        }
        if (is_terminal_)
            write(stderr, "\r\x1b[K" + status_);
        shown_ = is_terminal_;
    }
    void clear() {
        if (std::exchange(shown_, false))
            write(stderr, "\r\x1b[K");
    }

private:
    static void write(std::FILE* to, const std::string& text) {
        std::fwrite(text.data(), 1, text.size(), to);
        std::fflush(to);
    }
    bool is_terminal_ = ::isatty(STDERR_FILENO) != 0, shown_ = false, told_ = false;
    std::string status_;
};

}  // namespace

int drain_node_of_job(const JobCall& call, const std::string& node,
                      const EnvironmentMap& environment) {
    const Screen screen(environment);
    Conversation head(call, environment);
    const auto answer =
        head.ask({static_cast<std::uint8_t>(control::Wish::drain), node}, {}, kAnswerTime, nullptr);
    if (!answer)
        throw ExitError(exit_code::kUnavailable, ErrorCode::closed,
                        head.broke_off()
                            ? "the head broke off before it had said what became of " + node
                            : node + " has not been left in 15 min",
                        "the job's console and events.jsonl say what happens");
    show_answer(*answer, screen);
    return answer->exit_code;
}

int take_back_node_of_job(const JobCall& call, const std::string& node,
                          const EnvironmentMap& environment) {
    const Screen screen(environment);
    const FoundHead found = find_head(call.job);
    try {
        if (take_back(found.run_dir, found.record.run_id, node)) {
            screen.print(
                fmt::format("{} may be of the job again, when it starts; where its "
                            "scheduler excludes the node, tell that, too (of Slurm, "
                            "scontrol show job says ExcNodeList)\n",
                            node));
            return exit_code::kSuccess;
        }
        throw ExitError(exit_code::kNoHost, ErrorCode::invalid_argument,
                        node + " is not left out of this job", "");
    } catch (const RunDirectoryInUse&) {  // it runs
    }
    Conversation head(call, environment);
    const auto answer = head.ask({static_cast<std::uint8_t>(control::Wish::take_back), node}, {},
                                 kShortAnswerTime, nullptr);
    if (!answer)
        throw ExitError(exit_code::kUnavailable, ErrorCode::closed, "the head did not answer", "");
    show_answer(*answer, screen);
    return answer->exit_code;
}

JobFiles::JobFiles(JobCall call, EnvironmentMap environment)
    : call_(std::move(call)), environment_(std::move(environment)) {}
JobFiles::~JobFiles() = default;

// A connection on which nobody has spoken for a while may be gone: that is no answer.
RunFilePart JobFiles::ask(const std::string& argument) {
    bool is_new = false;
    while (!is_new) {
        if (is_new = head_ == nullptr || head_->is_gone(); is_new)
            head_ = std::make_unique<Conversation>(call_, environment_);
        const auto answer = head_->ask({static_cast<std::uint8_t>(control::Wish::files), argument},
                                       {}, kShortAnswerTime, nullptr);
        if (auto piece = head_->take_piece())
            return {.bytes = std::move(piece->bytes),
                    .covered = piece->covered,
                    .file_bytes = piece->file_bytes,
                    .wrong = std::move(piece->wrong)};
        head_.reset();
        if (answer)
            throw ExitError(
                answer->exit_code == exit_code::kSuccess ? exit_code::kNoHost : answer->exit_code,
                ErrorCode::closed, answer->text, answer->hint);
    }
    throw ExitError(exit_code::kNoHost, ErrorCode::closed, "the head does not answer any more",
                    "has the job ended? Its run directory's exit.json says so");
}

std::vector<RunFile> JobFiles::list() {
    std::vector<RunFile> files;
    const RunFilePart part = ask({});
    for (const std::string& line : split(part.bytes, '\n')) {
        const std::size_t blank = line.find(' ');
        long long bytes = 0;
        if (blank != line.npos && parse_integer(line.substr(0, blank), bytes) && bytes >= 0 &&
            is_run_file(line.substr(blank + 1)))
            files.push_back({line.substr(blank + 1), static_cast<std::uint64_t>(bytes)});
    }
    return files;
}

RunFilePart JobFiles::read(const std::string& name, std::uint64_t offset, std::size_t most) {
    return ask(request_for_others(name, offset, most));
}

std::string doubt_of_job(const std::string& run_dir) {
    std::optional<HeadRecord> record;
    try {
        record = find_head(run_dir).record;
        if (record->hostname != hostname())
            return {};
        asio::io_context io(1);
        connect_locally(io, record->door);
        return {};
    } catch (const SystemError&) {
        return record ? "no end is recorded, and no autolaunch of this job runs here: it was killed"
                      : std::string();
    } catch (const Error&) {
        return {};  // another user's, or one that has no head
    }
}

int attach_to_job(const JobCall& call, const EnvironmentMap& environment) {
    const Screen screen(environment);
    ::signal(SIGPIPE, SIG_DFL);
    Conversation head(call, environment);
    asio::signal_set signals(head.io(), SIGINT, SIGTERM);
    Mirror mirror;
    const auto answer = head.ask(
        {static_cast<std::uint8_t>(control::Wish::console), {}},
        [&mirror](const control::ConsoleText& text) { mirror.show(text); }, std::nullopt, &signals);
    mirror.clear();
    if (!answer && !head.broke_off())
        return exit_code::kSuccess;  // the job goes on
    if (!answer)
        throw ExitError(exit_code::kNoHost, ErrorCode::closed, "the head was lost", "");
    show_answer(*answer, screen);
    return answer->exit_code;
}

}  // namespace autolaunch::launcher
