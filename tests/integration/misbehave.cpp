// A rank that misbehaves as told, for the tests of spawn and supervise.
//
//     misbehave STEPS-OF-RANK-0 [STEPS-OF-RANK-1 ...]      the last argument also serves all
//     further ranks
//
// STEPS are separated by commas, a step's argument follows a colon: "ignore-term,sleep:0.2,exit:3".
#include <autolaunch/session.hpp>

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Step = std::function<void(const std::string& argument)>;

constexpr auto kLongestLife =
    std::chrono::seconds(60);  // a test that fails must not leave us here for ever

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, separator);)
        parts.push_back(part);
    return parts;
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

void hang(const std::string&) { std::this_thread::sleep_for(kLongestLife); }

void wait_seconds(const std::string& seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::stod(seconds)));
}

void crash(const std::string& argument) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    const int signal = argument.empty() ? SIGSEGV : std::stoi(argument);
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

// Creates the file `path` on a signal, so that a test sees that it came; write(2) only.
char g_mark_path[512];
void mark_signal(int) {
    const int fd = ::open(g_mark_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0)
        ::close(fd);
}
void mark_on_usr1(const std::string& path) {
    std::snprintf(g_mark_path, sizeof g_mark_path, "%s", path.c_str());
    std::signal(SIGUSR1, mark_signal);
}

void exit_on_term(const std::string& code) {
    static int exit_code = 0;
    exit_code = std::stoi(code);
    std::signal(SIGTERM, [](int) { ::_exit(exit_code); });
}

// A child in our process group that no SIGTERM ends.
void leave_stubborn_child(const std::string&) {
    if (::fork() == 0) {
        std::signal(SIGTERM, SIG_IGN);
        std::this_thread::sleep_for(kLongestLife);
        ::_exit(0);
    }
}

// A grandchild that left our process group and session, and that nobody waits for.
void leave_daemon(const std::string&) {
    if (::fork() == 0) {
        ::setsid();
        if (::fork() == 0) {
            ::prctl(PR_SET_PDEATHSIG, 0);
            std::signal(SIGTERM, SIG_IGN);
            std::signal(SIGHUP, SIG_IGN);
            std::this_thread::sleep_for(kLongestLife);
        }
        ::_exit(0);
    }
}

void print_binary(const std::string&) {
    std::string bytes;
    for (int i = 0; i < 4096; ++i)
        bytes += static_cast<char>(i * 7 % 256);
    std::cout << bytes << std::flush;
}

void flood(const std::string& lines) {
    for (long i = 0, n = std::stol(lines); i < n; ++i)
        std::cout << "line " << i << " of a rank that says too much\n";
    std::cout << std::flush;
}

void write_error_file(const std::string& message) {
    std::ofstream(variable("TORCHELASTIC_ERROR_FILE"))
        << R"({"message": {"message": ")" << message << R"(", "extraInfo": {"timestamp": "1"}}})";
}

std::string status_line(const std::string& name) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind(name + ":", 0) == 0)
            return line.substr(line.find_first_not_of(" \t", name.size() + 1));
    return "?";
}

// One fact a line, for the test to read from our stdout.
void print_facts(const std::string&) {
    std::cout << "fds";
    for (int fd = 0; fd < 1024; ++fd)
        if (::fcntl(fd, F_GETFD) >= 0)
            std::cout << ' ' << fd;
    char folder[4096];
    int death_signal = 0;
    ::prctl(PR_GET_PDEATHSIG, &death_signal);
    std::cout << "\nblocked " << status_line("SigBlk") << "\nignored " << status_line("SigIgn")
              << "\ncaught " << status_line("SigCgt") << "\ncpus "
              << status_line("Cpus_allowed_list") << "\nworkdir "
              << (::getcwd(folder, sizeof folder) != nullptr ? folder : "?") << "\nleads_group "
              << (::getpgrp() == ::getpid()) << "\ndeath_signal " << death_signal << std::endl;
    for (char** entry = environ; *entry != nullptr; ++entry)
        std::cout << "env " << *entry << '\n';
    std::cout << std::flush;
}

void fail_before_generation(const std::string& argument) {  // "2:7": exit 7 in generations 0 and 1
    const auto parts = split(argument, ':');
    if (std::stoi(variable("AUTOLAUNCH_GENERATION")) < std::stoi(parts.at(0)))
        ::_exit(std::stoi(parts.at(1)));
}

// A trainer that stops by itself: looks at every step, saves, exits with the given code.
void train(const std::string& exit_code) {
    auto session = autolaunch::Session::from_environment();
    session.stop_requested();
    const auto end = std::chrono::steady_clock::now() + kLongestLife;
    for (std::int64_t step = 1; std::chrono::steady_clock::now() < end; ++step) {
        session.report_step(
            {.step = step, .total_steps = 100000, .loss = {}, .tokens = {}, .seconds = {}});
        if (session.checkpoint_requested())
            session.report_checkpoint(step, "/checkpoints/asked", 0.001);
        if (session.stop_requested()) {
            session.report_checkpoint(step, "/checkpoints/last", 0.001);
            ::_exit(std::stoi(exit_code));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

// The same, whose saves take so long, and one of them is done at the beginning.
void train_with_saves(const std::string& seconds) {
    auto session = autolaunch::Session::from_environment();
    const double took = std::stod(seconds);
    const auto save = [&](std::int64_t step, const char* path) {
        if (session.rank() == 0)
            session.report_checkpoint(step, path, took, took);
    };
    session.stop_requested();
    const auto end = std::chrono::steady_clock::now() + 5 * kLongestLife;
    for (std::int64_t step = 1; std::chrono::steady_clock::now() < end; ++step) {
        session.report_step(
            {.step = step, .total_steps = 100000, .loss = {}, .tokens = {}, .seconds = {}});
        if (step == 1)
            save(step, "/checkpoints/first");
        if (session.stop_requested()) {
            const auto until = session.stop_deadline().value_or(std::chrono::steady_clock::now());
            std::this_thread::sleep_for(std::chrono::duration<double>(took));
            std::cout
                << "saved with "
                << std::chrono::duration<double>(until - std::chrono::steady_clock::now()).count()
                << " s left" << std::endl;
            save(step, "/checkpoints/last");
            ::_exit(0);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

void report_steps(const std::string& last) {
    auto session = autolaunch::Session::from_environment();
    for (std::int64_t step = 1; step <= std::stoll(last); ++step)
        session.report_step(
            {.step = step, .total_steps = {}, .loss = {}, .tokens = {}, .seconds = {}});
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

void save_checkpoint(const std::string& step) {
    auto session = autolaunch::Session::from_environment();
    session.report_checkpoint(std::stoll(step), "/checkpoints/" + step, 0.001);
}

// Says why no checkpoint can be used; with nothing, that it goes on all the same.
void cannot_resume(const std::string& reason) {
    static auto session = autolaunch::Session::from_environment();
    session.report_cannot_resume(reason);
}

// Waits at the job's store until all ranks of this generation came.
void meet(const std::string&) {
    auto session = autolaunch::Session::from_environment();
    auto& store = session.store();
    if (store.add("came", 1) == session.world_size())
        store.set("all", "here");
    std::cout << "all " << store.get("all") << std::endl;
}

// A Session for as long as the process lives, or the reason that there is none.
void have_session(const std::string&) {
    try {
        static auto session = autolaunch::Session::from_environment();
    } catch (const std::exception& error) {
        std::cerr << error.what() << std::endl;
        ::_exit(5);
    }
}

// "exit:3", "crash:9", "hang", "fork", where this process is a spare (restart.warm_processes).
void end_as_spare(const std::string& argument) {
    if (variable("AUTOLAUNCH_SPARE").empty())
        return;
    const auto parts = split(argument, ':');
    if (parts.at(0) == "exit")
        ::_exit(std::stoi(parts.at(1)));
    if (parts.at(0) == "fork" && ::fork() > 0)
        hang("");  // the child goes on
    else if (parts.at(0) == "crash")
        crash(parts.at(1));
    else if (parts.at(0) == "hang")
        hang("");
}

const std::map<std::string, Step>& steps() {
    static const std::map<std::string, Step> kSteps{
        {"exit", [](const std::string& code) { ::_exit(std::stoi(code)); }},
        {"hang", hang},
        {"sleep", wait_seconds},
        {"crash", crash},
        {"ignore-term", [](const std::string&) { std::signal(SIGTERM, SIG_IGN); }},
        {"ignore-int", [](const std::string&) { std::signal(SIGINT, SIG_IGN); }},
        {"exit-on-term", exit_on_term},
        {"mark-on-usr1", mark_on_usr1},
        {"stubborn-child", leave_stubborn_child},
        {"daemon", leave_daemon},
        {"close-stdout", [](const std::string&) { ::close(1); }},
        {"binary", print_binary},
        {"flood", flood},
        {"say", [](const std::string& text) { std::cerr << text << std::endl; }},
        {"error-file", write_error_file},
        {"facts", print_facts},
        {"touch",
         [](const std::string& path) { std::ofstream(path + variable("RANK")) << ::getpid(); }},
        {"fail-before-generation", fail_before_generation},
        {"train", train},
        {"train-with-saves", train_with_saves},
        {"report-steps", report_steps},
        {"checkpoint", save_checkpoint},
        {"cannot-resume", cannot_resume},
        {"meet", meet},
        {"session", have_session},
        {"say-out", [](const std::string& text) { std::cout << text << std::endl; }},
        {"as-spare", end_as_spare},
    };
    return kSteps;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string rank_text = variable("RANK");
    const int rank = rank_text.empty() ? 0 : std::stoi(rank_text);
    if (argc < 2)
        return 2;
    const std::string script = argv[std::min(argc - 1, 1 + rank)];
    for (const auto& step : split(script, ',')) {
        const auto colon = step.find(':');
        const auto found = steps().find(step.substr(0, colon));
        if (found == steps().end()) {
            std::cerr << "misbehave: unknown step " << step << '\n';
            return 2;
        }
        found->second(colon == std::string::npos ? "" : step.substr(colon + 1));
    }
    return 0;
}
