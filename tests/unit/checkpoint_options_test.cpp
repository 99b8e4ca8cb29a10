// What the spec says of checkpoints, as the library takes it over.
#include "base/file_io.hpp"
#include "checkpoint/options_of_spec.hpp"
#include "checkpoint/place/further_places.hpp"
#include "checkpoint/start_place.hpp"
#include "checkpoint/storage/striping.hpp"
#include "session/checkpoint_settings.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace checkpoint_options_test {

using namespace autolaunch;

namespace {

CheckpointSettings all_of_them() {
    CheckpointSettings settings;
    settings.directory = "/a \"place\"";
    settings.keep = 3;
    settings.keep_best = 1;
    settings.keep_every = std::int64_t{1} << 40;
    settings.lower_is_better = false;
    settings.node_local = true;
    settings.pass_over_unusable = true;
    settings.every_steps = 7;
    settings.every_seconds = 0.5;
    settings.optimal = true;
    settings.drain = "s3://bucket/prefix";
    settings.drain_keep = 9;
    settings.drain_wait_seconds = 2;
    settings.restore_from = "/b/step-00000004";
    settings.stripe_auto = false;
    settings.stripe_count = -1;
    settings.stripe_bytes = 4 << 20;
    return settings;
}

std::vector<TierSettings> two_tiers() {
    TierSettings near{.place = "/shared/"}, far{.place = "s3://bucket/prefix"};
    near.every_steps = 500;
    near.keep_every = 1000;
    far.every_seconds = 7200;
    far.keep = 10;
    far.keep_best = 2;
    far.bytes_per_second = std::uint64_t{1} << 63;
    return {near, far};
}

}  // namespace

TEST_CASE("settings of checkpoints reach the ranks as they were") {
    const CheckpointSettings all = all_of_them();
    CHECK(checkpoint_settings_from(to_text(all)) == all);
    CheckpointSettings tiered = all;
    tiered.tiers = two_tiers();
    CHECK(checkpoint_settings_from(to_text(tiered)) == tiered);
    CHECK(to_text(all).find('\n') == std::string::npos);
    CHECK(to_text(CheckpointSettings{}).empty());
    CHECK(checkpoint_settings_from("") == CheckpointSettings{});
    CheckpointSettings one;
    one.keep = 3;
    CHECK(to_text(one) == R"({"keep":3})");
    CHECK(checkpoint_settings_from(R"({"keep":3,"of a later version":1})") == one);
}

TEST_CASE("settings that nobody wrote so are refused") {
    for (const char* wrong :
         {"{", "[]", "7", "{\"keep\":1.5}", "{\"keep\":4294967297}", "{\"keep\":\"3\"}",
          "{\"every_seconds\":-1}", "{\"every_seconds\":1e999}", "{\"drain\":1}",
          "{\"node_local\":1}", "{\"keep\":[[1]]}", "{\"tiers\":1}", "{\"tiers\":[1]}",
          "{\"tiers\":[{\"keep\":\"3\"}]}", "{\"tiers\":[{\"bytes_per_second\":-1}]}",
          "{\"tiers\":[[[[1]]]]}"})
        CHECK_THROWS_AS_MESSAGE(checkpoint_settings_from(wrong), Error, wrong);
}

TEST_CASE("the spec's word wins over the trainer's, and what it does not say stays") {
    CheckpointOptions own;
    own.directory = "/mine";
    own.keep = 5;
    own.schedule.every_steps = 100;
    own.drain.keep = 4;
    const CheckpointOptions same = with_settings(own, {});
    CHECK(same.keep == 5);
    CHECK(same.schedule.every_steps == 100);
    CHECK(same.drain.place.empty());
    const CheckpointOptions told = with_settings(own, all_of_them());
    CHECK(told.directory == "/mine");
    CHECK(told.keep == 3);
    CHECK(told.keep_best == 1);
    CHECK(told.keep_every == std::int64_t{1} << 40);
    CHECK(!told.lower_is_better);
    CHECK(told.node_local);
    CHECK(told.pass_over_unusable);
    CHECK(told.schedule.every_steps == 7);
    CHECK(told.schedule.every_seconds == 0.5);
    CHECK(told.schedule.optimal);
    CHECK(told.drain.place == "s3://bucket/prefix");
    CHECK(told.drain.keep == 9);
    CHECK(told.drain.keep_every == told.keep_every);
    CHECK(told.drain.keep_best == 1);
    CHECK(told.drain.wait_at_end == std::chrono::seconds(2));
    CHECK(told.restore_from == "/b/step-00000004");
    CHECK(told.stripe.is_set());
    CHECK(told.stripe.count == -1);
    CHECK(told.stripe.bytes == 4 << 20);
    CHECK(!same.stripe.is_set());
}

TEST_CASE("several places take the one's part, each with what it says, the rest from the section") {
    CheckpointOptions own;
    own.directory = "/mine";
    own.drain.place = "/own";
    CheckpointSettings settings;
    settings.keep_every = 2000;
    settings.keep_best = 1;
    settings.drain_wait_seconds = 5;
    settings.tiers = two_tiers();
    const CheckpointOptions told = with_settings(own, settings);
    CHECK(told.drain.wait_at_end == std::chrono::seconds(5));
    const auto places = further_places(told);
    REQUIRE(places.size() == 2);
    CHECK(places[0].place == "/shared");
    CHECK(places[0].every_steps == 500);
    CHECK(places[0].keep == 2);
    CHECK(places[0].keep_every == 1000);
    CHECK(places[0].keep_best == 1);
    CHECK(places[1].place == "s3://bucket/prefix");
    CHECK(places[1].every_seconds == 7200);
    CHECK(places[1].keep == 10);
    CHECK(places[1].keep_every == 2000);
    CHECK(places[1].keep_best == 2);
    CHECK(places[1].bytes_per_second == std::uint64_t{1} << 63);
    // The spec's one place takes the part of the trainer's several.
    CheckpointOptions several;
    several.directory = "/mine";
    several.tiers = {{.place = "/a"}, {.place = "/b"}};
    CheckpointSettings one;
    one.drain = "/c/";
    REQUIRE(further_places(with_settings(several, one)).size() == 1);
    CHECK(further_places(with_settings(several, one))[0].place == "/c");
    CHECK(further_places(CheckpointOptions{}).empty());
}

TEST_CASE("places that make no sense are refused by their names") {
    const auto refused = [](const CheckpointOptions& options, const char* said) {
        try {
            further_places(options);
            FAIL(std::string(said));
        } catch (const Error& error) {
            CHECK(error.code() == ErrorCode::invalid_argument);
            CHECK_MESSAGE(std::string(error.what()).find(said) != std::string::npos, error.what());
        }
    };
    CheckpointOptions options;
    options.directory = "/mine/";
    options.drain.place = "/a";
    options.tiers = {{.place = "/b"}};
    refused(options, "drain.place (checkpoint.drain) and tiers (checkpoint.tiers) both say");
    options.drain.place.clear();
    options.tiers = {{.place = "/b"}, {.place = "/b/."}};
    refused(options, "checkpoints go to /b/. twice");
    options.tiers = {{.place = "/mine"}};
    refused(options, "checkpoints go to /mine twice");
    options.tiers = {{.place = ""}};
    refused(options, "has no name");
    options.tiers = {{.place = "/b", .keep = 0}};
    refused(options, "/b: keep is 0");
    options.tiers = {{.place = "/b", .every_seconds = -1}};
    refused(options, "/b: keep_every, keep_best, every_steps and every_seconds must be 0 or more");
}

TEST_CASE("how files are spread is said in the words of each file system") {
    using Kind = ParallelFileSystem;
    using Words = std::vector<std::vector<std::string>>;
    const StripeOptions eight{.count = 8, .bytes = 4 << 20}, all{.count = -1},
        by_size{.automatic = true};
    CHECK(stripe_commands(Kind::lustre, eight, "/l/run") ==
          Words{{"lfs", "setstripe", "-c", "8", "-S", "4096K", "/l/run"}});
    CHECK(stripe_commands(Kind::lustre, all, "/l") ==
          Words{{"lfs", "setstripe", "-c", "-1", "/l"}});
    CHECK(stripe_commands(Kind::lustre, by_size, "/l") ==
          Words{{"lfs", "setstripe", "-E", "256M", "-c", "1", "-E", "4G", "-c", "4", "-E", "-1",
                 "-c", "-1", "/l"}});
    CHECK(stripe_commands(Kind::beegfs, eight, "/b") ==
          Words{{"beegfs-ctl", "--setpattern", "--numtargets=8", "--chunksize=4096k", "/b"},
                {"beegfs", "entry", "set", "--num-targets=8", "--chunk-size=4096KiB", "/b"}});
    CHECK(stripe_commands(Kind::beegfs, all, "/b").empty());
    CHECK(stripe_commands(Kind::lustre, {}, "/l").empty());
    CHECK(parallel_file_system_of("/proc") == Kind::none);
    CHECK(parallel_file_system_of("/nonexistent") == Kind::none);
}

// No Lustre can be had here: FAKES of lfs and beegfs are asked, which write down what they are
// asked.
TEST_CASE("what spreads files is run, and what fails is a line") {
    namespace fs = std::filesystem;
    using Kind = ParallelFileSystem;
    const fs::path folder = fs::temp_directory_path() / "autolaunch-fake-lfs";
    fs::remove_all(folder);
    fs::create_directories(folder);
    const auto fake = [&](const char* name, const std::string& body) {
        std::ofstream(folder / name) << "#!/bin/sh\n" << body << '\n';
        fs::permissions(folder / name, fs::perms::owner_all);
    };
    const std::string path = std::getenv("PATH");
    ::setenv("PATH", (folder.string() + ":/usr/bin:/bin").c_str(), 1);
    const auto said = [&](Kind kind, std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
        return stripe_directory(kind, {.count = 8}, "/l/run", timeout);
    };
    const std::string begin = "stripe has no effect on /l/run: ";
    CHECK(said(Kind::none) == begin + "it is neither on Lustre nor on BeeGFS");
    CHECK(said(Kind::lustre) == begin + "lfs is not installed");
    CHECK(stripe_directory(Kind::beegfs, {.automatic = true}, "/b").find("no word for all") !=
          std::string::npos);
    fake("lfs", "echo \"$@\" >" + (folder / "asked").string());
    CHECK(said(Kind::lustre).empty());
    CHECK(read_file(folder / "asked") == "setstripe -c 8 /l/run\n");
    fake("lfs", "echo 'error on ioctl: Permission denied' >&2; exit 1");
    CHECK(said(Kind::lustre) == begin +
                                    "lfs setstripe -c 8 /l/run failed: error on ioctl: "
                                    "Permission denied");
    fake("lfs", "exec sleep 60");
    CHECK(said(Kind::lustre, std::chrono::milliseconds(200)).ends_with(" does not end"));
    fake("beegfs", "echo \"$@\" >" + (folder / "asked").string());  // of version 8, alone
    CHECK(said(Kind::beegfs).empty());
    CHECK(read_file(folder / "asked") == "entry set --num-targets=8 /l/run\n");
    ::setenv("PATH", path.c_str(), 1);
    fs::remove_all(folder);
}

TEST_CASE("settings are for the directory that they name, by whichever name") {
    namespace fs = std::filesystem;
    const fs::path folder = fs::temp_directory_path() / "autolaunch-checkpoint-options";
    fs::remove_all(folder);
    fs::create_directories(folder / "real");
    fs::create_directory_symlink("real", folder / "link");
    CheckpointSettings settings;
    CHECK(is_meant(settings, "anywhere"));
    settings.directory = folder / "real";
    CHECK(is_meant(settings, folder / "real/"));
    CHECK(is_meant(settings, folder / "link"));
    CHECK(is_meant(settings, folder / "link/../real/."));
    CHECK(!is_meant(settings, folder / "other"));
    settings.directory = folder / "not there yet";
    CHECK(is_meant(settings, folder / "not there yet/"));
    fs::remove_all(folder);
}

TEST_CASE("what is to stay by its step or metric stays in each place that says nothing else") {
    CheckpointSettings settings;
    settings.keep_every = 100;
    settings.keep_best = 2;
    settings.tiers = {{.place = "/a", .keep = 3}, {.place = "/b", .keep_every = 7}};
    const auto tiers = tiers_of(settings);
    REQUIRE(tiers.size() == 2);
    CHECK(tiers[0] == TierSettings{.place = "/a", .keep = 3, .keep_best = 2, .keep_every = 100});
    CHECK(tiers[1] == TierSettings{.place = "/b", .keep_best = 2, .keep_every = 7});
    settings.tiers.clear();
    settings.drain = "/c";
    settings.drain_keep = 4;
    CHECK(tiers_of(settings) ==
          std::vector{TierSettings{.place = "/c", .keep = 4, .keep_best = 2, .keep_every = 100}});
    CHECK(tiers_of({}).empty());
}

TEST_CASE("a place to begin from is one checkpoint, or a place that has some") {
    const auto is = [](const std::string& text, const std::string& place,
                       std::optional<std::int64_t> step) {
        const NamedStart start = named_start(text);
        CHECK_MESSAGE(start.place == place, text);
        CHECK_MESSAGE(start.step == step, text);
    };
    is("/a/b", "/a/b", {});
    is("/a/b/", "/a/b", {});
    is("/a/step-00000400", "/a", 400);
    is("/a/step-00000400/", "/a", 400);
    is("/step-1", "/", 1);
    is("step-7", ".", 7);
    is("s3://bucket/x/step-00000003", "s3://bucket/x", 3);
    is("s3://bucket/x", "s3://bucket/x", {});
    for (const char* other : {"/a/step-", "/a/step-x", "/a/step--4", "/a/steps-4"})
        is(other, other, {});
}

}  // namespace checkpoint_options_test
