#pragma once
#include "spec/spec.hpp"
#include "spec/sweep_spec.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What each element sets: of the grid, the last key's values fastest; of the list; of the samples,
/// which are the same wherever and whenever they are drawn, and more of them begin with fewer.
/// Pure.
std::vector<SweepElement> sweep_elements(const SweepSpec& sweep);

/// Adds to `errors` what is wrong with any element; each place is said once. Pure.
void check_elements(const SpecResult& read, const std::vector<SweepElement>& elements,
                    std::vector<SpecError>& errors);

/// Keys of the trainer's own that are set by the sweep and stand nowhere else in the spec: they may
/// be misspelt. Pure.
std::vector<std::string> new_keys(const SpecResult& read);

/// "optimizer.lr=1e-3 model.layers=4"; secrets masked.
std::string describe(const SweepElement& element);
/// Of one value, on one line.
std::string value_text(const Value& value);

/// The number of the element that a start is of: sweep.element, or SLURM_ARRAY_TASK_ID.
std::optional<int> element_of_start(const SweepSpec& sweep,
                                    const std::map<std::string, std::string>& environment);

/// "element-7.yaml": the stored spec of one of them, beside the sweep's own.
std::string stored_element(int element);
bool is_stored_element(const std::string& file_name);
/// What such a file holds: the tree of one element, with what it has to know of the others. Pure.
Value stored_tree(Value element, const SweepSpec& sweep, int number, const std::string& folder,
                  const SweepElement& values);

}  // namespace autolaunch::launcher
