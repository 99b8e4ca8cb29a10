#include "audit/s3_anchor.hpp"

#include "base/deadline.hpp"
#include "base/json_nesting.hpp"
#include "base/text.hpp"
#include "base/whole_number.hpp"
#include "checkpoint/s3/s3_client.hpp"

#include <autolaunch/error.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <span>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

constexpr auto kTime = 10s;
constexpr std::size_t kMostBytes = 4096;
constexpr int kObjectDeepest = 4;

std::string key_of(const std::string& chain, std::uint64_t seq) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%012llu", static_cast<unsigned long long>(seq));
    return chain + '/' + digits;
}

std::string object_of(const AuditHead& head, const std::string& time) {
    return Json{{"v", 1},
                {"chain", head.chain},
                {"seq", head.seq},
                {"sha256", head.digest},
                {"time", time}}
               .dump() +
           '\n';
}

std::optional<AuditHead> head_of(const std::string& text) {
    const Json json =
        nests_at_most(text, kObjectDeepest) ? Json::parse(text, nullptr, false) : Json();
    try {
        return AuditHead{json.at("chain").get<std::string>(),
                         whole_number<std::uint64_t>(json.at("seq")),
                         json.at("sha256").get<std::string>()};
    } catch (const Json::exception&) {
        return std::nullopt;
    }
}

std::string date_in(int days) {
    return audit_time(std::chrono::system_clock::now() + std::chrono::hours(24) * days)
               .substr(0, 19) +
           'Z';
}

}  // namespace

struct S3Anchor::Parts {
    s3::S3Client client;

    std::string read(const std::string& key) {
        std::string text(kMostBytes, '\0');
        const std::size_t got =
            client.get(key, 0, std::as_writable_bytes(std::span(text)), Deadline::after(kTime));
        text.resize(got);
        return text;
    }
};

S3Anchor::S3Anchor(const std::string& url, const Environment& environment)
    : parts_(std::make_unique<Parts>(
          Parts{s3::S3Client(s3::locate(url.ends_with('/') ? url : url + '/', environment),
                             s3::find_credential_source(environment))})) {}

S3Anchor::~S3Anchor() = default;

std::string S3Anchor::describe() const { return parts_->client.describe(); }

// What is there already is this very head where an answer was lost on its way.
void S3Anchor::put(const AuditHead& head, const std::string& time, std::optional<int> keep_days) {
    const std::string key = key_of(head.chain, head.seq), text = object_of(head, time);
    std::map<std::string, std::string> lock;
    if (keep_days && *keep_days > 0)
        lock = {{"x-amz-object-lock-mode", "COMPLIANCE"},
                {"x-amz-object-lock-retain-until-date", date_in(*keep_days)}};
    const auto put = parts_->client.put_locked(key, std::as_bytes(std::span(text)), lock,
                                               Deadline::after(kTime));
    if (put == s3::S3Client::Put::created)
        return;
    const auto there = head_of(parts_->read(key));
    if (!there || *there != head)
        throw Error(ErrorCode::corrupt,
                    describe() + key + " has another head of this trail already",
                    "somebody has written another line of that number, here or before: "
                    "autolaunch audit verify says where");
}

std::vector<S3Anchor::Anchored> S3Anchor::heads_of(const std::string& chain) {
    std::vector<Anchored> found;
    const auto listing = parts_->client.list(chain + '/', true, Deadline::after(6 * kTime));
    for (const s3::Object& object : listing.objects)
        if (const auto head = head_of(parts_->read(object.key)))
            found.push_back(
                {*head, parts_->client.locked_until(object.key, Deadline::after(kTime))});
    std::sort(found.begin(), found.end(),
              [](const Anchored& a, const Anchored& b) { return a.head.seq < b.head.seq; });
    return found;
}

}  // namespace autolaunch::launcher
