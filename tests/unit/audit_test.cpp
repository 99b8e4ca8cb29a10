// The lines of an audit trail, what journald gets of them, and which words mean which.
#include "audit/audit_line.hpp"
#include "audit/audit_settings.hpp"
#include "audit/journal.hpp"
#include "audit/read_anchors.hpp"
#include "audit/verify_trail.hpp"
#include "site/audit_kinds.hpp"

#include <doctest/doctest.h>

namespace audit_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

AuditLine sample() {
    AuditLine line;
    line.seq = 7;
    line.prev = std::string(64, 'a');
    line.time = "2026-01-31T12:00:00.123456Z";
    line.event = "end";
    line.actor = {"amy", 2001, "node1", 812};
    line.job = "4711";
    line.detail = {{"exit_code", 0}};
    return line;
}

}  // namespace

TEST_CASE("a line is these bytes") {
    CHECK(to_text(sample()) ==
          "{\"v\":1,\"prev\":\"" + std::string(64, 'a') +
              "\",\"seq\":7,\"time\":\"2026-01-31T12:00:00.123456Z\",\"event\":\"end\","
              "\"user\":\"amy\",\"uid\":2001,\"node\":\"node1\",\"pid\":812,\"job\":\"4711\","
              "\"detail\":{\"exit_code\":0}}");
    CHECK(to_text(sample()).find(std::string(64, 'a')) == 15);
}

TEST_CASE("whatever stands in a name, a line is one line of ASCII") {
    AuditLine line = sample();
    line.job = "a\nb \x1b[31m\"\\ \xff\xc3\xa9";
    line.detail = {{"path", "/runs/a\nb\r\t"}};
    const std::string text = to_text(line);
    for (const char c : text)
        CHECK((c >= ' ' && c < 127));
    const auto back = parse_audit_line(text);
    REQUIRE(back);
    CHECK(back->detail["path"] == "/runs/a\nb\r\t");
    CHECK(back->job == "a\nb \x1b[31m\"\\ \xef\xbf\xbd\xc3\xa9");
}

TEST_CASE("a line that is too long says so in the place of its detail") {
    AuditLine line = sample();
    line.detail = {{"path", std::string(kLongestAuditLine, 'x')}};
    const std::string text = to_text(line);
    CHECK(text.size() < 1000);
    REQUIRE(parse_audit_line(text));
    CHECK(parse_audit_line(text)->detail.contains("cut"));
}

TEST_CASE("what is no line is none") {
    const std::string good = to_text(sample());
    for (std::size_t end = 0; end < good.size(); ++end)
        CHECK(!parse_audit_line(good.substr(0, end)));
    CHECK(!parse_audit_line("[]"));
    CHECK(!parse_audit_line("{\"v\":2" + good.substr(6)));
    CHECK(!parse_audit_line(std::string(5000, '[')));
    for (const std::string name : {"seq", "uid", "pid"}) {
        std::string huge = good;
        const auto at = huge.find("\"" + name + "\":");
        REQUIRE(at != std::string::npos);
        const auto digits = at + name.size() + 3;
        huge.replace(digits, huge.find_first_not_of("0123456789", digits) - digits, "1e300");
        CHECK(!parse_audit_line(huge));
    }
    std::string other = good;
    other.replace(other.find("\"seq\":7"), 7, "\"seq\":\"7\"");
    CHECK(!parse_audit_line(other));
}

TEST_CASE("times") {
    const auto at = std::chrono::system_clock::time_point(1769860800s + 42us);
    CHECK(audit_time(at) == "2026-01-31T12:00:00.000042Z");
    CHECK(parse_audit_time("2026-01-31T12:00:00.000042Z") == at);
    CHECK(parse_audit_time("2261-12-31T23:59:59.000042Z"));
    for (const char* beyond : {"2262-01-01T12:00:00.000042Z", "9999-01-01T12:00:00.000042Z",
                               "1969-12-31T12:00:00.000042Z"})
        CHECK(!parse_audit_time(beyond));
    for (const char* wrong :
         {"", "2026-01-31", "2026-01-31T12:00:00Z", "2026-01-31 12:00:00.000042Z"})
        CHECK(!parse_audit_time(wrong));
}

TEST_CASE("journald's native form") {
    CHECK(journal_entry({{"A", "one"}, {"B", "two"}}) == "A=one\nB=two\n");
    using namespace std::string_literals;
    CHECK(journal_entry({{"A", "x\ny"}}) == "A\n\x03\0\0\0\0\0\0\0x\ny\n"s);
}

TEST_CASE("an entry counts with the user that journald says") {
    std::uint64_t seq = 0;
    AnchoredHead head;
    const std::string start = std::string("{\"MESSAGE_ID\":\"") + kAuditMessageId + "\",";
    CHECK(read_journal_entry(
        start + R"("AUTOLAUNCH_AUDIT_SEQ":"42","AUTOLAUNCH_AUDIT_SHA256":"ab","_UID":"2001"})", seq,
        head));
    CHECK(seq == 42);
    CHECK(head.uid == 2001U);
    CHECK(head.digest == "ab");
    CHECK(!read_journal_entry(start + R"("AUTOLAUNCH_AUDIT_SEQ":"42"})", seq, head));
    CHECK(!read_journal_entry(R"({"MESSAGE_ID":"x"})", seq, head));
    CHECK(!read_journal_entry("nonsense", seq, head));
}

TEST_CASE("words of events_to_log") {
    CHECK(kinds_of_word("key_use") == std::vector<std::string_view>{"key_use"});
    CHECK(kinds_of_word("model_export") == std::vector<std::string_view>{"checkpoint_exported"});
    CHECK(kinds_of_word("user_login").empty());
    AuditSettings settings;
    CHECK(settings.records("start"));
    settings.kinds = {"end"};
    CHECK(!settings.records("start"));
}

TEST_CASE("what others keep of a trail is compared with it") {
    TrailVerdict verdict;
    verdict.digests = {{0, "a"}, {1, "b"}, {2, "c"}};
    verdict.uid = 2001;
    SUBCASE("the same") {
        compare_with_anchors(verdict,
                             {{0, {"a", "journald", 2001U, ""}}, {2, {"c", "s3", {}, ""}}});
        CHECK(verdict.whole());
        CHECK(verdict.anchored == 2);
        CHECK(verdict.anchored_through == 2U);
    }
    SUBCASE("another line") {
        compare_with_anchors(verdict, {{1, {"x", "journald", 2001U, ""}}});
        CHECK(verdict.problems.size() == 1);
    }
    SUBCASE("cut off") {
        compare_with_anchors(verdict, {{3, {"d", "journald", 2001U, ""}}});
        REQUIRE(verdict.problems.size() == 1);
        CHECK(verdict.problems[0].find("cut off") != std::string::npos);
    }
    SUBCASE("another user's word") {
        compare_with_anchors(verdict, {{1, {"x", "journald", 2002U, ""}}});
        CHECK(verdict.whole());
        CHECK(verdict.remarks.size() == 1);
        CHECK(verdict.anchored == 0);
    }
}

}  // namespace audit_test
