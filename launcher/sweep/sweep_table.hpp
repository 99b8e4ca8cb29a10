#pragma once
#include "sweep/element_record.hpp"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

// How all elements of a sweep stand. All of it is pure. What files and Slurm said is hostile: the
// text goes through Screen.

enum class ElementState { pending, running, done, stopped_early, failed, unknown };
/// "stopped early"
std::string name_of(ElementState state);

struct ElementStanding {
    ElementState state = ElementState::unknown;
    std::string note;  ///< why; empty: the state says it
};
/// `record`: what the element has written, null: nothing. `slurm`: its state there, such as
/// RUNNING, of the newest array that has it, whose number is `array_job`; nothing: Slurm knows it
/// no longer, or has not `answered`.
ElementStanding judge_element(const ElementRecord* record, const std::optional<std::string>& slurm,
                              const std::string& array_job, bool answered);

struct ElementRow {
    int element = 0;
    std::vector<std::pair<std::string, std::string>> values = {};  ///< key and value
    std::string array_job = {};
    ElementStanding standing = {};
    std::optional<ElementRecord> record = {};
};
struct SweepTable {
    std::string folder, metric = {};
    bool maximise = false;
    std::vector<ElementRow> rows = {};
    std::vector<std::string> notes = {};  ///< what is not known, a sentence each
};

/// The best first, those without a value last, by number.
void sort_rows(SweepTable& table);
std::string sweep_text(const SweepTable& table);
std::string sweep_json(const SweepTable& table);

/// The numbers of those that failed, ascending.
std::vector<int> failed_elements(const SweepTable& table);
/// "3,5-7", as sbatch's --array has it; of ascending numbers.
std::string array_text(const std::vector<int>& elements);

}  // namespace autolaunch::launcher
