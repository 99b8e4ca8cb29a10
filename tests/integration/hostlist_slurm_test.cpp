// Our reading of host lists against Slurm's own: the same random lists are given to `scontrol show
// hostnames`. It needs no cluster. Skipped where scontrol is not installed.

#include "../write_file.hpp"
#include "allocation/hostlist.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "processes.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace hostlist_slurm_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using Names = std::vector<std::string>;

namespace {

int run(const std::string& command) { return std::system(command.c_str()); }

// What Slurm makes of the lists, in one process; no names where it refuses one. scontrol repeats
// each command it reads after its prompt, which parts the answers.
std::vector<Names> ask_slurm(const std::vector<std::string>& lists) {
    const testing::TemporaryFolder folder;
    const std::string base = folder.path();
    std::string commands;
    for (const auto& list : lists)
        commands += "show hostnames " + list + "\n";
    write_file(base + "/slurm.conf", "ClusterName=none\nSlurmctldHost=localhost\n");
    write_file(base + "/in", commands);
    const int status = run(
        "cd " + base +
        " && SLURM_CONF=slurm.conf TERM=dumb COLUMNS=32000 timeout 100 scontrol <in >out 2>err");
    INFO(status, " ", testing::slurp(base + "/err").substr(0, 500));
    std::vector<Names> answers;
    constexpr std::string_view kPrompt = "scontrol: ";
    for (const auto& line : split(testing::slurp(base + "/out"), '\n')) {
        if (line.starts_with(kPrompt)) {
            const std::string_view command = std::string_view(line).substr(kPrompt.size());
            if (command.empty())
                break;  // the end of the input
            REQUIRE(answers.size() < lists.size());
            REQUIRE(command == "show hostnames " + lists[answers.size()]);
            answers.emplace_back();
        } else if (!line.empty()) {
            REQUIRE_FALSE(answers.empty());
            answers.back().push_back(line);
        }
    }
    REQUIRE(answers.size() == lists.size());
    return answers;
}

std::optional<Names> ask_us(const std::string& list) {
    try {
        return expand_hostlist(list);
    } catch (const Error&) {
        return std::nullopt;
    }
}

void skip_without_slurm() {
    static const bool there = run("command -v scontrol >/dev/null 2>&1") == 0;
    if (there)
        return;
    std::printf("skipped: scontrol is not installed, so there is nothing to compare with\n");
    std::exit(77);
}

class Lists {
public:
    explicit Lists(unsigned seed) : random_(seed) {}

    unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }

    // Slurm's own grammar: texts and up to three brackets a term, a bracket last where there is
    // one.
    std::string whole_list() {
        std::string list = term();
        for (unsigned more = below(3); more > 0; --more)
            list += "," + term();
        return list;
    }
    std::string suffix() { return pick({"-ib", "x", ".cluster.example", "-", "7"}); }
    std::string garbage() {
        static const std::string kAlphabet = "[],-0129nx";
        std::string text;
        for (unsigned length = 1 + below(12); length > 0; --length)
            text += kAlphabet[below(10)];
        return text;
    }

private:
    std::string pick(const Names& words) {
        return words[below(static_cast<unsigned>(words.size()))];
    }

    std::string number(unsigned value, unsigned width) {
        std::string digits = std::to_string(value);
        return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
    }
    std::string bracket() {
        std::string list = "[";
        for (unsigned i = 0, items = 1 + below(3); i < items; ++i) {
            const unsigned low = below(3) == 0 ? below(2000) : below(12),
                           width = below(3) == 0 ? 1 + below(5) : 1;
            if (i > 0)
                list += ',';
            list += number(low, width);
            if (below(2) == 0)
                list += '-' + number(low + below(12), below(4) == 0 ? 1 + below(5) : width);
        }
        return list + "]";
    }
    std::string term() {
        std::string text = pick({"n", "node", "gpu-a", "r1c", "cn-0", "x.y", "a1b2c", "é"});
        for (unsigned brackets = below(4); brackets > 0; --brackets) {
            text += bracket();
            if (brackets > 1)
                text += pick({"", "-", "c", "b0", ".s"});
        }
        return text;
    }

    std::mt19937 random_;
};

}  // namespace

TEST_CASE("we expand what Slurm expands, to the same names in the same order") {
    skip_without_slurm();
    Lists random(1);
    std::vector<std::string> lists;
    for (int i = 0; i < 6000; ++i)
        lists.push_back(random.whole_list());
    const auto answers = ask_slurm(lists);
    for (std::size_t i = 0; i < lists.size(); ++i) {
        INFO(lists[i]);
        REQUIRE_FALSE(answers[i].empty());
        REQUIRE(ask_us(lists[i]) == answers[i]);
    }
}

TEST_CASE("text after brackets: as Slurm, where it knows it") {
    skip_without_slurm();
    Lists random(2);
    std::vector<std::string> lists;
    for (int i = 0; i < 500; ++i)
        lists.push_back(random.whole_list() + "[1-2]" + random.suffix());
    const auto answers = ask_slurm(lists);
    for (std::size_t i = 0; i < lists.size(); ++i) {
        INFO(lists[i]);
        const auto ours = ask_us(lists[i]);
        REQUIRE(ours);
        if (!answers[i].empty())
            REQUIRE(*ours == answers[i]);
    }
}

TEST_CASE("what both accept of any text means the same") {
    skip_without_slurm();
    Lists random(3);
    std::vector<std::string> lists;
    for (int i = 0; i < 6000; ++i)
        lists.push_back(random.garbage());
    const auto answers = ask_slurm(lists);
    int both = 0;
    for (std::size_t i = 0; i < lists.size(); ++i) {
        if (lists[i].find("[[") != std::string::npos)
            continue;  // Slurm reads it, but as no one means it
        const auto ours = ask_us(lists[i]);
        if (!ours || answers[i].empty())
            continue;
        INFO(lists[i]);
        REQUIRE(*ours == answers[i]);
        ++both;
    }
    CHECK(both > 500);
}

TEST_CASE("Slurm reads what we compress") {
    skip_without_slurm();
    Lists random(4);
    std::vector<Names> rosters;
    std::vector<std::string> lists;
    for (int i = 0; i < 2000; ++i) {
        rosters.push_back(expand_hostlist(random.whole_list()));
        lists.push_back(compress_hostlist(rosters.back()));
    }
    const auto answers = ask_slurm(lists);
    int read = 0;
    for (std::size_t i = 0; i < lists.size(); ++i) {
        INFO(lists[i]);
        const bool suffix = lists[i].find("]") != std::string::npos && answers[i].empty();
        if (suffix)
            continue;  // digits in the middle of names, and a Slurm that knows no text after
                       // brackets
        REQUIRE(answers[i] == rosters[i]);
        ++read;
    }
    CHECK(read > 1500);
}

}  // namespace hostlist_slurm_test
