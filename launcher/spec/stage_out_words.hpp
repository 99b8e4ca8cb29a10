#pragma once
#include "spec/storage_spec.hpp"
#include "spec/value.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// storage.stage_out: a list of {from, to, when, layout, overwrite}. False where it is no list;
/// what is wrong in it goes to `errors`. Pure.
bool read_stage_out(const Value& value, const std::string& path, std::vector<StageOutSpec>& items,
                    std::vector<SpecError>& errors);

/// What can be wrong between the keys of storage: a target that is in the scratch folder itself.
void check_storage(const Value& root, const StorageSpec& storage, std::vector<SpecError>& errors);

/// Empty, or why files cannot go from `scratch` to `to`, both absolute, or an address: one would be
/// in the other. Pure.
std::string why_no_target(const std::string& to, const std::string& scratch);

}  // namespace autolaunch::launcher
