#include "audit/read_anchors.hpp"

#include "allocation/slurm_command.hpp"
#include "audit/journal.hpp"
#include "audit/s3_anchor.hpp"
#include "base/deadline.hpp"
#include "base/json_nesting.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>

namespace autolaunch::launcher {

namespace {

constexpr auto kJournalTime = std::chrono::seconds(60);
constexpr int kEntryDeepest = 4;
constexpr char kJournalName[] = "journald";

std::string text_in(const nlohmann::json& json, const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::size_t read_journal(const std::string& chain, AnchoredHeads& heads) {
    SlurmCommand journalctl({"journalctl", "-o", "json", "--no-pager", "-q", "--all",
                             std::string("MESSAGE_ID=") + kAuditMessageId,
                             "AUTOLAUNCH_AUDIT_CHAIN=" + chain});
    const std::string answer = journalctl.wait(Deadline::after(kJournalTime));
    std::size_t found = 0;
    for (const std::string& line : split(answer, '\n')) {
        std::uint64_t seq = 0;
        AnchoredHead head;
        if (!read_journal_entry(line, seq, head))
            continue;
        heads.emplace(seq, head);
        ++found;
    }
    return found;
}

void read_bucket(const std::string& chain, const std::string& url, const Environment& environment,
                 Anchors& anchors) {
    anchors.in_vain = true;
    try {
        S3Anchor bucket(url, environment);
        const auto anchored = bucket.heads_of(chain);
        std::size_t locked = 0;
        for (const S3Anchor::Anchored& one : anchored) {
            anchors.heads.emplace(
                one.head.seq,
                AnchoredHead{one.head.digest, bucket.describe(), {}, one.locked_until});
            locked += one.locked_until.empty() ? 0 : 1;
        }
        anchors.in_vain = anchored.empty();
        anchors.told.push_back(
            fmt::format("{} has {} heads of it{}", bucket.describe(), anchored.size(),
                        anchored.empty() ? ""
                        : locked == anchored.size()
                            ? ", all locked until " + anchored.back().locked_until
                            : fmt::format(", {} of them locked: who has the bucket's key "
                                          "can delete the others",
                                          locked)));
    } catch (const Error& error) {
        anchors.told.push_back(url + " does not answer: " + error.what());
    }
}

}  // namespace

bool read_journal_entry(const std::string& line, std::uint64_t& seq, AnchoredHead& head) {
    const nlohmann::json json = nests_at_most(line, kEntryDeepest)
                                    ? nlohmann::json::parse(line, nullptr, false)
                                    : nlohmann::json();
    long long number = 0, uid = 0;
    if (!json.is_object() || text_in(json, "MESSAGE_ID") != kAuditMessageId ||
        !parse_integer(text_in(json, "AUTOLAUNCH_AUDIT_SEQ"), number) || number < 0 ||
        !parse_integer(text_in(json, "_UID"), uid) || uid < 0)
        return false;
    seq = static_cast<std::uint64_t>(number);
    head.digest = text_in(json, "AUTOLAUNCH_AUDIT_SHA256");
    head.by = kJournalName;
    head.uid = static_cast<std::uint32_t>(uid);
    return true;
}

Anchors read_anchors(const std::string& chain, const AuditSettings& settings,
                     const Environment& environment) {
    Anchors anchors;
    if (chain.empty()) {
        anchors.in_vain = !settings.anchor.empty();
        return anchors;
    }
    const std::size_t found = read_journal(chain, anchors.heads);
    anchors.told.push_back(
        found > 0 ? fmt::format("journald has {} lines of it", found)
                  : "journald shows no line of it: there is none, or it shows it to root "
                    "and the group systemd-journal alone");
    if (settings.anchor == kJournalName)
        anchors.in_vain = found == 0;
    else if (!settings.anchor.empty())
        read_bucket(chain, settings.anchor, environment, anchors);
    return anchors;
}

}  // namespace autolaunch::launcher
