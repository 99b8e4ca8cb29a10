#pragma once
#include "secrets/json_text.hpp"
#include "spec/site_record.hpp"

#include <string>

namespace autolaunch::launcher {

/// A line for each key: its value, the file and line it came from, who enforces it, whether it
/// holds, and why. Then the decision and the notes. Empty where there is nothing to say. Pure.
std::string site_table(const SiteRecord& record);

/// The same as a JSON value (docs/site.md); null where there is no record.
void put_site(JsonText& json, const SiteRecord* record);

}  // namespace autolaunch::launcher
