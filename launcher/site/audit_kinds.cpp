#include "site/audit_kinds.hpp"

#include <algorithm>
#include <array>

namespace autolaunch::launcher {

namespace {

using namespace audit_kind;

constexpr std::array<std::string_view, 11> kKinds = {
    kSubmit, kPolicy, kStart, kGrants, kKeyUse, kAsked, kWritten, kRead, kExported, kDeleted, kEnd};

struct Word {
    std::string_view word;
    std::vector<std::string_view> kinds;
};

const std::vector<Word>& words() {
    static const std::vector<Word> kWords = {
        {"job_submission", {kSubmit}},
        {"job_submit", {kSubmit}},
        {"job_start", {kStart}},
        {"job_end", {kEnd}},
        {"job_completion", {kEnd}},
        {"job_failure", {kEnd}},
        {"job", {kSubmit, kStart, kEnd}},
        {"policy_decision", {kPolicy}},
        {"authorization", {kPolicy}},
        {"access_denied", {kPolicy}},
        {"device_access", {kGrants}},
        {"data_access", {kGrants, kRead}},
        {"resource_allocation", {kGrants}},
        {"resource_access", {kGrants}},
        {"key_access", {kKeyUse}},
        {"secret_access", {kKeyUse}},
        {"attach", {kAsked}},
        {"drain", {kAsked}},
        {"checkpoint_save", {kWritten}},
        {"checkpoint_access", {kRead}},
        {"checkpoint", {kWritten, kRead, kExported, kDeleted}},
        {"model_access", {kRead, kExported}},
        {"model_export", {kExported}},
        {"model_deletion", {kDeleted}},
    };
    return kWords;
}

}  // namespace

std::span<const std::string_view> audit_kinds() { return kKinds; }

std::vector<std::string_view> kinds_of_word(std::string_view word) {
    if (const auto own = std::find(kKinds.begin(), kKinds.end(), word); own != kKinds.end())
        return {*own};
    for (const Word& known : words())
        if (known.word == word)
            return known.kinds;
    return {};
}

}  // namespace autolaunch::launcher
