// What the parts of staging say to each other, lists of digests, and what gc removes.
#include "base/url.hpp"
#include "exit_codes/exit_error.hpp"
#include "quota/quota_inquiry.hpp"
#include "quota/quota_use.hpp"
#include "remote_data/http_date.hpp"
#include "remote_data/object_tree.hpp"
#include "remote_data/remote_source.hpp"
#include "retention/left_run.hpp"
#include "retention/staged_data.hpp"
#include "spec/stage_out_words.hpp"
#include "stage_cache/throttle.hpp"
#include "stage_out/finish_left.hpp"
#include "stage_out/out_journal.hpp"
#include "stage_out/out_words.hpp"
#include "staging/check_digests.hpp"
#include "staging/node_words.hpp"
#include "staging/stager_words.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

namespace staging_test {

using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

constexpr std::int64_t kDay = 24 * 3600, kNow = 1000 * kDay;
constexpr std::chrono::seconds kWeek{7 * kDay};

StageCache::Found used_before(std::int64_t days) {
    StageCache::Found found{.name = "x"};
    found.used_s = kNow - days * kDay;
    return found;
}

}  // namespace

TEST_CASE("words between an agent and its stager are read as they were said") {
    const StagerOrder order{.role = StagerRole::node,
                            .scratch = "/s",
                            .most_bytes = 1,
                            .bytes_per_second = 2,
                            .timeout = std::chrono::milliseconds(3),
                            .keep_s = 4,
                            .streams = "/s/of-x",
                            .items = {{"a", "/b\n", "c", "tar"}, {"b", "/c", "", "", true, true}},
                            .shared = {"/d", "datasets", true}};
    CHECK(parse_order(as_line(order)) == order);
    const SeenSource seen{2, "key", "address", "/l", "/f", "only", 5};
    const AgentWord answer{.sources = {seen},
                           .handed = {{1, {{"/there", "/here"}}}},
                           .came = {{2, {{"/a", "/b"}, {"/c", "/d"}}}},
                           .prepare = {3},
                           .deserted = true};
    CHECK(parse_agent_word(as_line(answer)) == answer);
    const StagerWord word{
        .staged = {{"n", "e", "/p", 1, 2, 3, 4, true, std::chrono::milliseconds(4), 2004}},
        .streams = {{"m", "/v", 5, 6}},
        .progress = {{"n", 1, 2}},
        .failed = {{65, "what", "hint"}},
        .notes = {"note"},
        .sources = {seen},
        .wanted = {{0, "/c", {"/p"}, {7}}},
        .offered = {{1, "/d", {}, {}, true}, {2, "/d", {"/p"}, {7}, true, {8}, {0444}}},
        .prepared = {4},
        .done = true};
    CHECK(parse_word(as_line(word)) == word);
    CHECK(as_line(word).find('\n') == std::string::npos);
    for (const char* text : {"", "{", "{}", "[]", "{\"done\": 1}", "[[[[[[[[[[]]]]]]]]]]"}) {
        CAPTURE(text);
        CHECK_THROWS_AS(parse_order(text), Error);
        CHECK_THROWS_AS(parse_word(text), Error);
        CHECK_THROWS_AS(parse_agent_word(text), Error);
    }
    CHECK_THROWS_AS(parse_word(R"({"done":true,"notes":[],"sources":[],"offered":[],"prepared":[],
        "wanted":[{"item":0,"copies":"","paths":["a"],"sizes":[]}]})"),
                    Error);
    CHECK_THROWS_AS(parse_word(R"({"done":true,"notes":[],"sources":[],"offered":[],"prepared":[],
        "wanted":[{"item":0,"copies":"","paths":["a"],"sizes":[1],"times":[2],"modes":[]}]})"),
                    Error);
}

TEST_CASE("words between agents") {
    CHECK(parse_node_word(node_word_ask()).asks);
    const SeenSource seen{2, "key", "address", "/l", "/f", "", 5};
    CHECK(parse_node_word(node_word_sources({seen})).sources == std::vector{seen});
    CHECK(parse_node_word(node_word_failed({69, "w", "h"})).failed ==
          std::vector{StagingFailure{69, "w", "h"}});
    CHECK(parse_node_word(R"({"port":1,"host":"h","item":3})").item == 3);
    CHECK_THROWS_AS(parse_node_word("port"), Error);
    CHECK_THROWS_AS(parse_node_word(R"({"item":"x"})"), Error);
}

TEST_CASE("words of what goes out are read as they were said") {
    const OutOrder order{
        .run_id = "4711",
        .node = "node1",
        .run_dir = "/runs/4711",
        .nodes = 2,
        .bytes_per_second = 3,
        .timeout = std::chrono::milliseconds(4),
        .entries = {{"a", "/b\n", true, false, true}, {"c", "s3://d/", false, true}}};
    CHECK(parse_out_order(as_text(order)) == order);
    const CopyOrder copy{"/f", {"a", "b"}, false};
    CHECK(parse_copy_order(as_line(copy)) == copy);
    const OutWord word{
        .progress = {{"a", 1, 2}},
        .done = {{"a", 1, 2, 3, 4, 5, 73, "what", "hint", std::chrono::milliseconds(6)}},
        .notes = {"note"},
        .folder = "/f",
        .over = true};
    CHECK(parse_out_word(as_line(word)) == word);
    CHECK_FALSE(is_out_ask(as_line(word)));
    for (const OutEnd end :
         {OutEnd::unknown, OutEnd::succeeded, OutEnd::failed, OutEnd::requeued}) {
        const OutAsk ask{end, std::chrono::milliseconds(7)};
        CHECK(is_out_ask(as_line(ask)));
        CHECK(parse_out_ask(as_line(ask)) == ask);
        CHECK(out_end_of(name_of(end)) == end);
    }
    for (const char* text : {"", "[]", "{", "{\"end\":1}", "[[[[[[[[]]]]]]]]", "{\"over\":1}"}) {
        CHECK_THROWS_AS(parse_out_order(text), Error);
        CHECK_THROWS_AS(parse_copy_order(text), Error);
        CHECK_THROWS_AS(parse_out_word(text), Error);
        CHECK_THROWS_AS(parse_out_ask(text), Error);
    }
}

TEST_CASE("a list of copies is read up to where its writer was killed") {
    const CopiedFile one{5, 6, {7, 8}}, newer{9, 10, {11, 12}};
    const std::string text =
        journal_line("a b\n", one) + journal_line("c", one) + journal_line("c", newer);
    const auto known = parse_journal(text + "13 14 0011");
    CHECK(known.size() == 2);
    CHECK(known.at("a b\n") == one);
    CHECK(known.at("c") == newer);
    CHECK(parse_journal("x\n1 2 3 4\n" + journal_line("d", one)).size() == 1);
    for (std::size_t cut = 0; cut < text.size(); ++cut)
        for (const auto& [path, file] : parse_journal(text.substr(0, cut)))
            CHECK((file == one || file == newer));
}

TEST_CASE("gc leaves results that were not copied, whatever their age") {
    LeftOut left{.path = "/s/autolaunch-0/out/1@node"};
    left.parts = {{{.name = "a", .to = "/t"}, 1, 2}};
    const auto goes = [&] { return judge_left_out(left, kNow, kWeek.count()).goes; };
    for (const OutEnd end : {OutEnd::unknown, OutEnd::succeeded, OutEnd::failed}) {
        left.end = end;
        CHECK_FALSE(goes());
    }
    left.parts[0].entry.on_success = true;  // of a job that failed nobody wants it
    CHECK(goes());
    left.changed_s = kNow - kWeek.count();
    CHECK_FALSE(goes());
    left.changed_s = 0;
    left.is_held = true;
    CHECK_FALSE(goes());
    left.is_held = false;
    left.why_unreadable = "x";
    CHECK_FALSE(goes());
}

TEST_CASE("a target may not be in the scratch folder") {
    CHECK(why_no_target("/scratch/results", "/scratch") != "");
    CHECK(why_no_target("/scratch/", "/scratch") != "");
    CHECK(why_no_target("/scratch/../scratch", "/scratch/") != "");
    CHECK(why_no_target("/scratch2", "/scratch") == "");
    CHECK(why_no_target("/", "/scratch") == "");
    CHECK(why_no_target("s3://scratch/", "/scratch") == "");
}

TEST_CASE("an address is printed without what signs it") {
    CHECK(shown_url("https://h.x/a/b.tar?X-Amz-Signature=abc&x=1") == "https://h.x/a/b.tar?…");
    CHECK(shown_url("https://me:secret@h.x/a#frag") == "https://h.x/a?…");
    CHECK(shown_url("HTTPS://h.x?sig=1") == "HTTPS://h.x?…");
    CHECK(shown_url("https://h.x/a@b") == "https://h.x/a@b");
    CHECK(shown_url("s3://b/what?") == "s3://b/what?");
    CHECK(shown_url("/data/a?b") == "/data/a?b");
    CHECK(lasting_query("https://h/a?id=5&X-Amz-Date=1&sig=2&Expires=3&se=4&rev=6#x") ==
          "id=5&rev=6");
    CHECK(lasting_query("https://h/a?access_token=5") == "");
    CHECK(source_words("https://h/a?sig=1") == source_words("https://h/a?sig=2"));
    CHECK(source_words("https://h/a?id=1") != source_words("https://h/a?id=2"));
    CHECK(source_words("https://h/a?id=canary").find("canary") == std::string::npos);
}

TEST_CASE("bytes come at their rate, and no faster after nothing came for a while") {
    using namespace std::chrono_literals;
    constexpr std::int64_t kRate = 2'000'000;
    Pace pace(kRate);
    auto now = Pace::Clock::time_point(1h);
    const auto take = [&](std::int64_t bytes) {
        const auto before = now;
        now = std::max(now, pace.next(bytes, now));
        return now - before;
    };
    CHECK(take(kRate) == 1s - Pace::kMadeUp);
    CHECK(take(kRate / 2) == 500ms);
    now += 7ms;  // a scheduler's lateness costs no bytes
    CHECK(take(kRate / 2) == 493ms);
    now += 1h;  // a machine that stood still
    const auto began = now;
    for (int i = 0; i < 8; ++i)
        take(kRate);
    CHECK(now - began == 8s - Pace::kMadeUp);
}

TEST_CASE("many take bytes of one throttle in turn, until somebody gives up") {
    using namespace std::chrono_literals;
    const auto began = Pace::Clock::now();
    {
        Throttle throttle(1'000'000);
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&] { throttle.take(20'000); });
    }
    CHECK(Pace::Clock::now() - began >= 80ms - Pace::kMadeUp);
    {
        Throttle throttle(1);
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&] { throttle.take(3'600); });
        throttle.give_up();
    }
    Throttle none(0);
    none.take(std::int64_t{1} << 60);
    CHECK(Pace::Clock::now() - began < 60s);
}

TEST_CASE("names and redirects of addresses") {
    CHECK(name_in_url("https://h/a/b%20c.tar.gz?x=/y") == "b c.tar.gz");
    CHECK(name_in_url("https://h/a/b%2") == "b%2");
    CHECK(name_in_url("https://h/a/..%2Fb") == "../b");
    CHECK(name_in_url("s3://b/k/x%20y?") == "x%20y?");
    for (const char* none : {"https://h", "https://h/", "https://h/a/", "https://h?x"})
        CHECK(name_in_url(none) == "");
    CHECK(resolved_url("https://h/a/b?q", "https://o/c") == "https://o/c");
    CHECK(resolved_url("https://h/a/b?q", "/c?r") == "https://h/c?r");
    CHECK(resolved_url("https://h/a/b?q=/x", "c") == "https://h/a/c");
    CHECK(resolved_url("https://h?q", "c") == "https://h/c");
    CHECK(resolved_url("https://h/a", "//o/c") == "https://o/c");
    CHECK(scheme_of("S3://x") == "s3");
    for (const char* none : {"/a://b", "://b", "a b://c", "a:/b"})
        CHECK_FALSE(is_url(none));
}

TEST_CASE("times of servers") {
    constexpr std::int64_t kSecond = 1'000'000'000;
    CHECK(server_time_ns("Sun, 06 Nov 1994 08:49:37 GMT") == 784111777 * kSecond);
    CHECK(server_time_ns("1994-11-06T08:49:37.120Z") == 784111777 * kSecond + 120'000'000);
    CHECK(server_time_ns("1994-11-06T08:49:37Z") == 784111777 * kSecond);
    for (const char* text :
         {"", "GMT", "Sun, 06 Nox 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 CET",
          "1994-13-06T08:49:37Z", "1994-11-06T08:49:37.Z", "1994-11-06T25:49:37Z",
          "Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 0997 08:49:37 GMT", "9999-11-06T08:49:37Z",
          "1994-11-06T08:49:37.1234567890Z"}) {
        CAPTURE(text);
        CHECK_FALSE(server_time_ns(text));
    }
}

TEST_CASE("objects of a listing are files with the folders between them, or are refused") {
    const auto tree = tree_of_objects({{.key = "b/c/d", .bytes = 2, .etag = "\"x\""},
                                       {.key = "a", .bytes = 1},
                                       {.key = "", .bytes = 0},
                                       {.key = "e/", .bytes = 0},
                                       {.key = "b-c", .bytes = 3}},
                                      "s3://s/");
    std::string paths;
    for (const TreeEntry& entry : tree.entries)
        paths += static_cast<char>(entry.kind) + entry.path + ' ';
    CHECK(paths == "fa db fb-c db/c fb/c/d de ");
    CHECK(tree.entries[4].version == "\"x\"");
    CHECK(tree.bytes() == 6);
    const Tree again = parse_listing_text(listing_text("s3://s/", tree));
    CHECK(again.entries[4].version == "\"x\"");
    CHECK(source_key("s3://s/", again) == source_key("s3://s/", tree));
    for (const std::string& key :
         {std::string("../x"), std::string("a/../x"), std::string("/x"), std::string("a//x"),
          std::string("a/./x"), std::string("a\0b", 3), std::string(256, 'n')}) {
        CAPTURE(key);
        CHECK_THROWS_AS(tree_of_objects({{.key = key, .bytes = 1}}, "s3://s/"), ExitError);
    }
    CHECK_THROWS_AS(tree_of_objects({{.key = "a", .bytes = 1}, {.key = "a/b", .bytes = 1}}, ""),
                    ExitError);
    CHECK_THROWS_AS(tree_of_objects({{.key = "a/", .bytes = 1}}, ""), ExitError);
}

TEST_CASE("a list of digests is what sha256sum writes") {
    const std::string digest(64, 'a');
    const auto list = parse_digest_list(digest + "  b c\n" + digest + " *./d/e\n\n");
    CHECK(list == std::vector<ListedDigest>{{digest, "b c"}, {digest, "d/e"}});
    for (const std::string& text :
         {digest, digest + " b", digest + "  ", std::string(63, 'a') + "   b",
          "\\" + digest + "  a\\nb", std::string(64, 'g') + "  b"}) {
        CAPTURE(text);
        CHECK_THROWS_AS(parse_digest_list(text), Error);
    }
}

TEST_CASE(
    "what gc removes of staged data was not used for long, is held by nobody, and can be read") {
    const auto goes = [](const StageCache::Found& found) {
        return judge_staged(found, kNow, kWeek).goes;
    };
    CHECK(goes(used_before(8)));
    CHECK_FALSE(goes(used_before(7)));
    CHECK_FALSE(goes(used_before(-1)));
    auto found = used_before(800);
    found.is_held = true;
    CHECK_FALSE(goes(found));
    found = used_before(800);
    found.why_unreadable = "it has no manifest";
    CHECK_FALSE(goes(found));
    found = used_before(20);
    found.keep_s = 30 * kDay;
    CHECK_FALSE(goes(found));
    found = used_before(2);
    found.keep_s = kDay;
    CHECK(goes(found));
    found = used_before(2);
    found.is_part = true;
    CHECK(goes(found));
    found.is_held = true;
    CHECK_FALSE(goes(found));
}

TEST_CASE("a run goes when its job is over, by what is known, and nobody needs it") {
    LeftRun run{.folder = "runs/1", .exit_code = 0, .outcome = "succeeded"};
    run.last_s = kNow - 8 * kDay;
    RunRules rules{.older_than = kWeek};
    const auto goes = [&rules](const LeftRun& one) { return judge_run(one, kNow, rules).goes; };
    CHECK(goes(run));
    CHECK(judge_run(run, kNow, rules).why == "succeeded; ended 8 d 0 h ago, kept for 7 d 0 h");
    const auto with = [&run](auto change) {
        LeftRun other = run;
        change(other);
        return other;
    };
    CHECK_FALSE(goes(with([](LeftRun& r) { r.last_s = kNow - kDay; })));
    CHECK_FALSE(goes(with([](LeftRun& r) { r.last_s = kNow + kDay; })));
    CHECK_FALSE(goes(with([](LeftRun& r) { r.is_running = true; })));
    CHECK_FALSE(goes(with([](LeftRun& r) { r.of = "user 7"; })));
    CHECK_FALSE(goes(with([](LeftRun& r) { r.doubt = "job 1 is PENDING"; })));
    CHECK_FALSE(goes(with([](LeftRun& r) { r.foreign = "model.pt"; })));
    CHECK_FALSE(goes(with([](LeftRun& r) { r.needed_by = "runs/2"; })));
    CHECK_FALSE(goes(with([](LeftRun& r) { r.why_unreadable = "no"; })));
    const LeftRun failed = with([](LeftRun& r) { r.exit_code = 1, r.outcome = "failed"; });
    const LeftRun lost = with([](LeftRun& r) { r.exit_code.reset(), r.outcome.clear(); });
    CHECK(goes(failed));
    CHECK(goes(lost));
    rules.which = RunsThatGo::succeeded;
    CHECK(goes(run));
    CHECK_FALSE(goes(failed));
    CHECK_FALSE(goes(lost));
    rules.which = RunsThatGo::failed;
    CHECK_FALSE(goes(run));
    CHECK(goes(failed));
    CHECK(goes(lost));
}

TEST_CASE("what autolaunch writes into a run directory is known by name") {
    for (const char* ours :
         {"plan.json", "plan.node-3.json", "events.jsonl", "exit.json", "samples", "generation-0",
          "head.json", ".key", "ledger.json", "stage-out"})
        CHECK(is_name_of_run(ours));
    for (const char* other : {"model.pt", "checkpoints", "step-00000100", "planning", ""})
        CHECK_FALSE(is_name_of_run(other));
}

TEST_CASE("quotas are read as quota and lfs print them, and warned of from 90% on") {
    // quota 4.06, -u -w -p --show-mntpoint --hide-device; the same of a user who is over.
    const auto uses = parse_quotas(
        "Disk quotas for user amy (uid 1000): \n"
        "     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace\n"
        "/home         9300*   9000   10000 1795866582      20    0     100       0\n");
    REQUIRE(uses.size() == 2);
    CHECK(uses[0] == QuotaUse{QuotaUse::Of::bytes, 9300 * 1024, 9000 * 1024, 10000 * 1024});
    CHECK(uses[1] == QuotaUse{QuotaUse::Of::files, 20, 0, 100});
    CHECK(quota_words(uses[0]) ==
          "9.5 MB are used of the 9.2 MB that you may have there, for some days at most");
    CHECK(quota_words(uses[1]).empty());
    // lfs quota -q -u: a long name is on a line of its own, what a server did not say in brackets.
    const auto lustre = parse_quotas(
        "/lustre/scratch/a-long-name\n            [1899] 0    2000       -   10*       5      10   "
        "    -\n");
    REQUIRE(lustre.size() == 2);
    CHECK(quota_words(lustre[0]) == "95% of the 2.0 MB that you may have there are used");
    CHECK(quota_words(lustre[1]) ==
          "10 files are used of the 10 files that you may have there: nothing more can be written");
    for (const char* none :
         {"", "\n", "quota: no such file", "a b c d e f g h i", "/x -1 0 0 0 0 0 0 0",
          "/x 9223372036854775807 0 0 0 0 0 0 0", "/x 1 0 0 0 1 0 0 0 0 0"})
        CHECK(parse_quotas(none).empty());
    CHECK(quota_words({QuotaUse::Of::bytes, 5, 0, 0}).empty());
    CHECK(quota_question(0x6969, "/n", 7).front() == "quota");
    CHECK(quota_question(0x0BD00BD0, "/n", 7) ==
          std::vector<std::string>{"lfs", "quota", "-q", "-u", "7", "/n"});
    CHECK(quota_question(0xEF53, "/n", 7).empty());
}

}  // namespace staging_test
