#include "cli/sweep_element.hpp"

#include "base/file_system.hpp"
#include "submission/code_state.hpp"
#include "sweep/elements.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <utility>

namespace autolaunch::launcher {

namespace {

SpecResult with_error(SpecResult read, std::string message) {
    read.errors.push_back(error_at(read.sweep.at, "sweep", std::move(message)));
    return read;
}

/// It goes by its own file, as it was when the sweep was submitted.
SpecResult of_its_own(const SpecRequest& asked, SpecResult read, std::vector<std::string>& notes) {
    SweepSpec& sweep = read.sweep;
    const auto array = asked.environment.find("SLURM_ARRAY_JOB_ID");
    if (array != asked.environment.end())
        sweep.array_job = array->second;
    notes.push_back(fmt::format("element {} of the sweep {}: {}", sweep.element.value_or(0),
                                sweep.of, describe(sweep.values)));
    return read;
}

SpecResult stored_one(const SpecRequest& asked, SpecResult read, int number,
                      std::vector<std::string>& notes) {
    const auto file = std::filesystem::path(asked.file).parent_path() / stored_element(number);
    if (!is_file(file))
        return with_error(std::move(read),
                          fmt::format("has no element {}: {} is not there", number, file.string()));
    SpecRequest own = asked;
    own.file = file.string();
    own.text.reset();
    SpecResult element = load_spec(own);
    return element.errors.empty() ? of_its_own(asked, std::move(element), notes)
                                  : std::move(element);
}

}  // namespace

SpecResult choose_element(const SpecRequest& asked, SpecResult read, bool plans,
                          std::vector<std::string>& notes) {
    const SweepSpec& sweep = read.sweep;
    if (!sweep.makes_elements())
        return of_its_own(asked, std::move(read), notes);
    const auto elements = sweep_elements(sweep);
    const auto chosen = element_of_start(sweep, asked.environment);
    if (!chosen && !plans)
        return with_error(std::move(read),
                          fmt::format("is of {} jobs: autolaunch submit -c {} makes a Slurm array "
                                      "of them; sweep.element=0 starts the first one here",
                                      elements.size(), asked.file));
    const int number = chosen.value_or(0);
    if (chosen && was_submitted(asked.file))
        return stored_one(asked, std::move(read), number, notes);
    if (static_cast<std::size_t>(number) >= elements.size())
        return with_error(std::move(read),
                          fmt::format("makes {} elements, 0 to {}, and SLURM_ARRAY_TASK_ID is {}",
                                      elements.size(), elements.size() - 1, number));
    const SweepElement& settings = elements[static_cast<std::size_t>(number)];
    SpecResult element = with_settings(read, settings, asked.base);
    element.sweep.element = number;
    notes.push_back(fmt::format("element {} of a sweep of {}: {}{}", number, elements.size(),
                                describe(settings),
                                chosen ? "" : "; sweep.element=1 shows another"));
    if (!plans && sweep.early_stop.rule != EarlyStopSpec::Rule::none)
        notes.emplace_back(
            "sweep.early_stop compares elements that autolaunch submit has stored, and does "
            "nothing here");
    return element;
}

}  // namespace autolaunch::launcher
