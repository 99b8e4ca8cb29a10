// Job arrays: whether --array and the lists that SLURM_ARRAY_TASK_ID picks from agree.

#include "base/text.hpp"
#include "lint/arithmetic.hpp"
#include "lint/launch_edits.hpp"
#include "lint/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostTasks = 20'000;
constexpr std::size_t kMostPicks = 64;
constexpr std::size_t kLongestIndex = 512;  // bytes of [INDEX]
constexpr int kMostSteps = 8;               // variables that are computed from one another
constexpr const char* kTask = "SLURM_ARRAY_TASK_ID";

/// The indices of "0-15:2%4" and "1,3,5-7"; nothing where it is malformed or too large.
std::optional<std::vector<long long>> array_indices(std::string text) {
    text = text.substr(0, text.find('%'));
    std::set<long long> indices;
    for (const auto& part : split(text, ',')) {
        const std::size_t colon = part.find(':');
        const auto step =
            colon == std::string::npos ? std::optional(1LL) : whole_number(part.substr(colon + 1));
        const std::string range = part.substr(0, colon);
        const std::size_t dash = range.find('-');
        const auto first = whole_number(range.substr(0, dash));
        const auto last = dash == std::string::npos ? first : whole_number(range.substr(dash + 1));
        if (!first || !last || !step || *first < 0 || *step < 1 || *last < *first)
            return std::nullopt;
        if (static_cast<std::size_t>((*last - *first) / *step) > kMostTasks)
            return std::nullopt;
        for (long long i = *first; i <= *last; i += *step)
            indices.insert(i);
        if (indices.size() > kMostTasks)
            return std::nullopt;
    }
    return std::vector<long long>(indices.begin(), indices.end());
}

/// A list in the script that the task's number picks from, and which item each task gets.
struct Pick {
    std::string list;
    int line = 0;
    long long length = 0;
    std::vector<long long> items;  ///< by task
    bool from_end = false;         ///< some are counted from the list's end
};

struct Picks {
    int option_line = 0;
    std::vector<long long> tasks;
    std::vector<Pick> picks;
};

class PickFinder {
public:
    PickFinder(const SbatchScript& script, const std::vector<long long>& tasks)
        : script_(script), tasks_(tasks) {
        for (const auto& assignment : script.shell.assignments) {
            if (!assignment.value.array)
                continue;
            const auto& elements = assignment.value.elements;
            const bool counted =
                !assignment.append && !assignment.conditional &&
                std::all_of(elements.begin(), elements.end(), [](const Word& word) {
                    return word.literal && !word.value.starts_with('[');
                });
            const bool again = lengths_.contains(assignment.name);
            lengths_[assignment.name] =
                counted && !again ? static_cast<long long>(elements.size()) : -1;
        }
    }

    std::vector<Pick> find() {
        for (const auto& assignment : script_.shell.assignments)
            look_into(assignment.value);
        for (const auto& command : script_.shell.commands)
            if (!command.in_substitution)
                for (const auto& word : command.words)
                    look_into(word);
        return std::move(found_);
    }

private:
    /// Every ${LIST[INDEX]} in the word.
    void look_into(const Word& word) {
        std::size_t at = 0;
        while ((at = word.value.find("${", at)) != std::string::npos) {
            at += 2;
            const std::size_t open = word.value.find('[', at);
            if (open == std::string::npos)
                return;
            const std::string list = word.value.substr(at, open - at);
            const std::size_t close = matching_bracket(word.value, open);
            if (close == std::string::npos || !is_identifier(list) || !lengths_.contains(list))
                continue;
            if (found_.size() < kMostPicks)
                take(list, word.value.substr(open + 1, close - open - 1), word.line);
        }
    }

    static std::size_t matching_bracket(const std::string& text, std::size_t open) {
        int depth = 0;
        for (std::size_t i = open; i < std::min(text.size(), open + kLongestIndex); ++i) {
            depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
            if (depth == 0)
                return i;
        }
        return std::string::npos;
    }

    void take(const std::string& list, const std::string& index, int line) {
        const long long length = lengths_.at(list);
        if (length < 0)
            return;
        Pick pick{list, line, length, {}};
        for (const long long task : tasks_) {
            task_ = task;
            uses_task_ = false;
            const auto item = evaluate_arithmetic(
                index, [this](const std::string& name) { return variable(name, 0); });
            if (!item || !uses_task_)
                return;
            pick.from_end = pick.from_end || *item < 0;
            pick.items.push_back(*item < 0 ? *item + length : *item);
        }
        const bool known = std::any_of(found_.begin(), found_.end(), [&](const Pick& other) {
            return other.list == pick.list && other.items == pick.items;
        });
        if (!known)
            found_.push_back(std::move(pick));
    }

    std::optional<long long> variable(const std::string& name, int step) {
        if (name == kTask) {
            uses_task_ = true;
            return task_;
        }
        if (name == "SLURM_ARRAY_TASK_COUNT")
            return static_cast<long long>(tasks_.size());
        if (name == "SLURM_ARRAY_TASK_MIN")
            return tasks_.front();
        if (name.starts_with('#')) {
            const auto length = lengths_.find(name.substr(1));
            return length == lengths_.end() || length->second < 0 ? std::nullopt
                                                                  : std::optional(length->second);
        }
        const auto value = step < kMostSteps ? script_.variable(name) : std::nullopt;
        if (!value || value->size() > 200)
            return std::nullopt;
        return evaluate_arithmetic(
            *value, [&](const std::string& inner) { return variable(inner, step + 1); });
    }

    const SbatchScript& script_;
    const std::vector<long long>& tasks_;
    std::map<std::string, long long> lengths_;  ///< -1: not known
    std::vector<Pick> found_;
    long long task_ = 0;
    bool uses_task_ = false;
};

std::optional<Picks> find_picks(const Subject& subject) {
    const SlurmOption* option = subject.script.option("array");
    if (option == nullptr)
        return std::nullopt;
    auto tasks = array_indices(option->value.value);
    if (!tasks || tasks->empty())
        return std::nullopt;
    Picks all{option->line, std::move(*tasks), {}};
    all.picks = PickFinder(subject.script, all.tasks).find();
    return all;
}

bool inside(const Pick& pick) {
    return std::all_of(pick.items.begin(), pick.items.end(),
                       [&](long long item) { return item >= 0 && item < pick.length; });
}

/// Lists that are picked from alike count once: LR[i] and BATCH[i] go together, they are no
/// product.
std::vector<const Pick*> independent(const Picks& all) {
    std::vector<const Pick*> different;
    for (const auto& pick : all.picks)
        if (inside(pick) &&
            std::none_of(different.begin(), different.end(),
                         [&](const Pick* other) { return other->items == pick.items; }))
            different.push_back(&pick);
    return different;
}

struct Cases {
    long long possible = 1;  ///< of the lists together
    std::size_t run = 0;     ///< different ones
    std::vector<const Pick*> picks;
};
Cases count_cases(const Picks& all) {
    Cases cases;
    cases.picks = independent(all);
    std::set<std::vector<long long>> seen;
    for (std::size_t task = 0; task < all.tasks.size(); ++task) {
        std::vector<long long> one;
        for (const Pick* pick : cases.picks)
            one.push_back(pick->items[task]);
        seen.insert(std::move(one));
    }
    cases.run = seen.size();
    for (const Pick* pick : cases.picks)
        cases.possible = std::min(1'000'000'000LL, cases.possible * std::max(1LL, pick->length));
    return cases;
}

std::string list_names(const Cases& cases) {
    std::vector<std::string> names;
    for (const Pick* pick : cases.picks)
        names.push_back(fmt::format("{} ({})", pick->list, pick->length));
    return join(names, " x ");
}

/// Whether tasks from `first` on run each case once, and nothing beyond a list.
bool runs_all_once(const Subject& subject, long long first, long long cases) {
    std::vector<long long> tasks(static_cast<std::size_t>(cases));
    std::iota(tasks.begin(), tasks.end(), first);
    const auto picks = [&] { return PickFinder(subject.script, tasks).find(); };
    const Picks all{0, tasks, picks()};
    return !all.picks.empty() && std::all_of(all.picks.begin(), all.picks.end(), inside) &&
           std::none_of(all.picks.begin(), all.picks.end(),
                        [](const Pick& pick) { return pick.from_end; }) &&
           count_cases(all).possible == cases &&
           count_cases(all).run == static_cast<std::size_t>(cases);
}

/// Of all lists, also those that this --array goes beyond.
long long cases_of_lists(const Picks& all) {
    std::vector<const Pick*> different;
    for (const auto& pick : all.picks)
        if (std::none_of(different.begin(), different.end(),
                         [&](const Pick* other) { return other->items == pick.items; }))
            different.push_back(&pick);
    long long cases = 1;
    for (const Pick* pick : different)
        cases = std::min(1'000'000'000LL, cases * std::max(1LL, pick->length));
    return cases;
}

/// The numbers with which the script runs each case once, counted from where it counts itself.
std::optional<std::string> right_numbers(const Subject& subject, const Picks& all) {
    constexpr long long kMostCases = 5000;
    constexpr long long kFarthestBase = 16;
    const long long cases = cases_of_lists(all);
    if (cases > kMostCases)
        return std::nullopt;
    for (long long first = 0; first <= kFarthestBase; ++first) {
        if (!runs_all_once(subject, first, cases))
            continue;
        const std::string written = subject.script.text("array");
        const std::size_t limit = written.find('%');  // how many run at a time stays
        return fmt::format("{}-{}{}", first, first + cases - 1,
                           limit == std::string::npos ? "" : written.substr(limit));
    }
    return std::nullopt;
}

/// With the numbers for all cases, where there are such.
RuleHits with_right_numbers(const Subject& subject, const Picks& all, RuleHits hits) {
    const auto numbers = hits.empty() ? std::nullopt : right_numbers(subject, all);
    for (auto& hit : hits) {
        if (!numbers)
            break;
        hit.fix = fmt::format("--array={}, when all are meant", *numbers);
        hit.edits = set_option_value(subject.source, *subject.script.option("array"), *numbers);
    }
    return hits;
}

RuleHits beyond_list(const Subject& subject) {
    RuleHits hits;
    const auto all = find_picks(subject);
    if (!all)
        return hits;
    for (const auto& pick : all->picks) {
        if (inside(pick))
            continue;
        std::size_t at = 0;
        while (pick.items[at] >= 0 && pick.items[at] < pick.length)
            ++at;
        hits.push_back(
            {all->option_line,
             fmt::format("task {} takes item {} of {} (line {}), which has {}, from 0 on: it "
                         "gets nothing",
                         all->tasks[at], pick.items[at], pick.list, pick.line, pick.length)});
    }
    return with_right_numbers(subject, *all, std::move(hits));
}

RuleHits misses_cases(const Subject& subject) {
    const auto all = find_picks(subject);
    if (!all)
        return {};
    const Cases cases = count_cases(*all);
    if (cases.picks.empty() || static_cast<long long>(cases.run) >= cases.possible)
        return {};
    return with_right_numbers(
        subject, *all,
        {{all->option_line, fmt::format("{} of the {} cases of {} are run", cases.run,
                                        cases.possible, list_names(cases))}});
}

RuleHits repeats_cases(const Subject& subject) {
    const auto all = find_picks(subject);
    if (!all || all->picks.empty())
        return {};
    const Cases cases = count_cases(*all);
    // Where the task's number is used for something else, too, such as a seed, equal picks are no
    // equal cases.
    for (const auto& launch : subject.launches)
        for (const auto& word : launch.program)
            if (word.expands(kTask) && word.value.find('[') == std::string::npos)
                return {};
    for (const auto& assignment : subject.script.shell.assignments)
        if (assignment.name == "SEED" || assignment.name == "seed")
            return {};
    if (cases.picks.empty() || cases.run >= all->tasks.size())
        return {};
    return with_right_numbers(
        subject, *all,
        {{all->option_line, fmt::format("{} tasks, but only {} different cases of {}",
                                        all->tasks.size(), cases.run, list_names(cases))}});
}

/// logs/%A_%a.out of logs/%A.out.
std::string with_task(std::string path) {
    const std::size_t slash = path.rfind('/');
    const std::size_t dot = path.rfind('.');
    const bool extension = dot != std::string::npos && (slash == std::string::npos || dot > slash);
    return path.insert(extension ? dot : path.size(), "_%a");
}

RuleHits one_log(const Subject& subject) {
    const auto& script = subject.script;
    if (!script.has("array"))
        return {};
    RuleHits hits;
    for (const auto& option : script.options) {
        if ((option.name != "output" && option.name != "error") || !option.has_value)
            continue;
        const std::string& path = option.value.value;
        if (path.starts_with("/dev/") || path == "none")
            continue;
        // %a and %j, also with a width such as %4a, differ between tasks.
        bool differs = false;
        for (std::size_t at = path.find('%'); at != std::string::npos;
             at = path.find('%', at + 1)) {
            const std::size_t letter = path.find_first_not_of("0123456789", at + 1);
            differs =
                differs || (letter != std::string::npos &&
                            (path[letter] == 'a' || path[letter] == 'j' || path[letter] == 'J'));
        }
        if (!differs)
            hits.push_back({option.line,
                            fmt::format("all tasks of the array write to {}", path),
                            {},
                            set_option_value(subject.source, option, with_task(path))});
    }
    return hits;
}

RuleHits without_array(const Subject& subject) {
    const auto& script = subject.script;
    if (script.options.empty() || script.has("array"))
        return {};
    const auto uses = [](const Word& word) {
        return word.expands(kTask) &&
               word.value.find(std::string(kTask) + ":-") == std::string::npos &&
               word.value.find(std::string(kTask) + "-") == std::string::npos &&
               word.value.find(std::string(kTask) + ":+") == std::string::npos;
    };
    for (const auto& command : script.shell.commands) {
        if (command.is("[") || command.is("[[") || command.is("test") || command.in_substitution)
            continue;
        for (const auto& word : command.words)
            if (uses(word))
                return {{word.line, "SLURM_ARRAY_TASK_ID, and no --array in the script"}};
    }
    for (const auto& assignment : script.shell.assignments)
        if (uses(assignment.value))
            return {{assignment.value.line, "SLURM_ARRAY_TASK_ID, and no --array in the script"}};
    return {};
}

constexpr std::array<Rule, 5> kArrayRules = {{
    {"array-beyond-list", LintSeverity::error,
     "--array has numbers for which the script's list has no item",
     "The shell gives an empty text for an item that is not there, and the trainer runs with it.",
     "lists begin at 0: --array=0-N with N one less than the list's length, or 1-N where the "
     "script "
     "subtracts one",
     beyond_list},
    {"array-misses-cases", LintSeverity::warning,
     "--array does not run all cases of the script's lists",
     "Nothing says that some combinations are missing.", "give --array one number for each case",
     misses_cases},
    {"array-repeats-cases", LintSeverity::warning, "--array runs the same case more than once",
     "The tasks do the same work, and often write to the same folder.",
     "give --array one number for each case", repeats_cases},
    {"array-one-log", LintSeverity::warning, "all tasks of an array write to one log",
     "Each task opens the file anew and writes over the others.", "use %a, as in logs/%A_%a.out",
     one_log},
    {"array-variable", LintSeverity::info, "SLURM_ARRAY_TASK_ID without --array",
     "The variable is empty unless --array is given to sbatch on its command line.",
     "add #SBATCH --array=…", without_array},
}};

}  // namespace

std::span<const Rule> array_rules() { return kArrayRules; }

}  // namespace autolaunch::launcher
