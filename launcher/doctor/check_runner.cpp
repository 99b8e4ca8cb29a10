#include "doctor/check_runner.hpp"

#include "doctor/examination.hpp"

#include "base/file_io.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <utility>

namespace autolaunch::launcher {

namespace {

// The child says this before each job, so that limits count from the job's own start.
constexpr std::string_view kBegins = "begins";

std::string seconds_text(std::chrono::milliseconds limit) {
    return fmt::format("{:g} s", static_cast<double>(limit.count()) / 1000);
}

// A check that ran for several things is fine only when it was fine for all of them.
void tidy(NodeReport& report) {
    std::set<std::string> spoke;
    for (const Finding& finding : report.findings)
        spoke.insert(finding.check);
    for (const Unchecked& entry : report.unchecked)
        spoke.insert(entry.check);
    std::erase_if(report.fine, [&](const std::string& name) { return !spoke.insert(name).second; });
    std::stable_sort(report.findings.begin(), report.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
}

}  // namespace

CheckRunner::CheckRunner(const NodeSources& sources, const CheckChoice& choice,
                         std::chrono::milliseconds total_limit)
    : sources_(sources), deadline_(Deadline::after(total_limit)) {
    std::map<Place, Child> by_place;
    for (const Check& check : checks()) {
        if (check.look == nullptr || !choice.has(check.name))
            continue;
        for (std::size_t part = 0; part < parts_of(check, sources); ++part) {
            if (check.place == Place::folders) {
                children_.emplace_back();
                children_.back().jobs.push_back({&check, part});
            } else {
                by_place[check.place].jobs.push_back({&check, part});
            }
        }
    }
    for (auto& [place, child] : by_place)
        children_.push_back(std::move(child));
    for (Child& child : children_)
        start(child);
}

void CheckRunner::start(Child& child) {
    child.started = Deadline::Clock::now();
    child.text.clear();
    child.process = HelperProcess([&](int output) { run_jobs(child, output); });
}

void CheckRunner::run_jobs(const Child& child, int output) const {
    ExaminedNode state(sources_);
    for (std::size_t i = child.next; i < child.jobs.size(); ++i) {
        write_all(output, std::string(kBegins) + '\n', "the pipe");
        write_all(output,
                  encode_report(run_check(*child.jobs[i].check, state, child.jobs[i].part)) + '\n',
                  "the pipe");
    }
}

void CheckRunner::read_output(Child& child) {
    const bool more = child.process.read_some(child.text);
    for (std::size_t eol = child.text.find('\n'); eol != std::string::npos;
         eol = child.text.find('\n')) {
        const std::string line = child.text.substr(0, eol);
        child.text.erase(0, eol + 1);
        take_line(child, line);
    }
    if (!more && !child.over())
        give_up_job(child, "its process ended", false);
}

void CheckRunner::take_line(Child& child, const std::string& line) {
    child.started = Deadline::Clock::now();
    if (line == kBegins || child.over())
        return;
    report_.merge(decode_report(line));
    if (++child.next == child.jobs.size())
        child.process.end();
}

// `silent`: it did not answer in time, which a check may call a finding.
void CheckRunner::give_up_job(Child& child, const std::string& why, bool silent) {
    child.process.end();
    const Job& job = child.jobs[child.next++];
    const std::string name(job.check->name);
    std::string what = why;
    if (job.check->place == Place::folders && job.part < sources_.folders.size())
        what = sources_.folders[job.part].path + ": " + why;
    if (silent && job.check->no_answer)
        report_.findings.push_back(
            {name, *job.check->no_answer, what, std::string(job.check->fix)});
    else
        report_.unchecked.push_back({name, what});
    if (!child.over() && !deadline_.passed())
        start(child);
}

void CheckRunner::enforce_limits() {
    const auto now = Deadline::Clock::now();
    for (Child& child : children_) {
        if (child.over())
            continue;
        const auto limit = child.jobs[child.next].check->time_limit;
        if (now - child.started >= limit)
            give_up_job(child, "no answer within " + seconds_text(limit), true);
        if (!deadline_.passed())
            continue;
        if (!child.over() && child.process.output() >= 0)
            give_up_job(child, "no answer when the time for all checks was over", true);
        while (!child.over())
            give_up_job(child, "no time was left for it", false);
    }
}

Deadline CheckRunner::next_limit() const {
    auto at = deadline_.at();
    for (const Child& child : children_)
        if (!child.over())
            at = std::min(at, child.started + child.jobs[child.next].check->time_limit);
    return Deadline(at);
}

bool CheckRunner::wait(Deadline until) {
    for (;;) {
        std::vector<pollfd> waiting;
        std::vector<Child*> whose;
        for (Child& child : children_)
            if (!child.over()) {
                waiting.push_back({child.process.output(), POLLIN, 0});
                whose.push_back(&child);
            }
        if (waiting.empty())
            return true;
        const Deadline next(std::min(next_limit().at(), until.at()));
        const int ready = ::poll(waiting.data(), waiting.size(), next.poll_timeout_ms());
        if (ready < 0 && errno != EINTR)
            throw SystemError(errno, "wait for checks");
        for (std::size_t i = 0; ready > 0 && i < waiting.size(); ++i)
            if (waiting[i].revents != 0)
                read_output(*whose[i]);
        enforce_limits();
        if (ready <= 0 && until.passed())
            return std::all_of(children_.begin(), children_.end(),
                               [](const Child& child) { return child.over(); });
    }
}

NodeReport CheckRunner::take(const std::string& node) {
    tidy(report_);
    report_.node = node;
    return std::move(report_);
}

NodeReport examine_node(const NodeSources& sources, const CheckChoice& choice,
                        std::chrono::milliseconds total_limit) {
    CheckRunner runner(sources, choice, total_limit);
    while (!runner.wait(Deadline::after(total_limit))) {
    }
    return runner.take(sources.hostname);
}

}  // namespace autolaunch::launcher
