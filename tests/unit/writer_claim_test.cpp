// Who may publish and delete in a directory of checkpoints.
#include "checkpoint/commit/writer_claim.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "crashing_storage.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

namespace writer_claim_test {

using namespace autolaunch;
using testing::CrashingStorage;

namespace {

const std::filesystem::path kDirectory = "/d";

struct Directory {
    Directory() { storage.create_directories(kDirectory); }
    WriterFence fence(std::string run_id, std::int64_t generation) {
        return WriterFence(storage, kDirectory, {std::move(run_id), generation});
    }
    WriterClaim claim() {
        return WriterClaim::parse(read_whole(storage, kDirectory / kClaimName, 10'000));
    }
    CrashingStorage storage;
};

void check_lost(WriterFence& fence, const std::string& words, bool by_taking = false) {
    try {
        by_taking ? fence.take() : fence.require_held();
        FAIL("nothing was thrown");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::aborted);
        CHECK_MESSAGE(std::string(error.what()).find(words) != std::string::npos, error.what());
    }
}

}  // namespace

TEST_CASE("the last one to take a directory over is its writer") {
    Directory directory;
    auto first = directory.fence("job.1", 0), second = directory.fence("job.2", 0);
    first.take();
    first.take();
    CHECK(directory.claim().epoch == 1);
    second.take();
    CHECK(directory.claim().epoch == 2);
    CHECK(directory.claim().writer.run_id == "job.2");
    second.require_held();
    check_lost(first,
               "/d is written by run job.2, generation 0 now; this is run job.1, generation 0");
    check_lost(first, "run job.2", true);  // and it does not take it back
    second.require_held();
}

TEST_CASE("a generation takes over from earlier ones of its run, and never from a later one") {
    Directory directory;
    auto old = directory.fence("job.1", 1), later = directory.fence("job.1", 2),
         straggler = directory.fence("job.1", 1);
    old.take();
    later.take();
    check_lost(old, "generation 2 now; this is run job.1, generation 1");
    check_lost(straggler, "generation 2 now", true);
    later.require_held();
    // Another run knows nothing of its generations; processes without a launcher have none.
    auto other = directory.fence("job.3", 0), nobody = directory.fence("", 0);
    other.take();
    nobody.take();
    check_lost(other, "a process without a launcher");
    auto nobody_too = directory.fence("", 0);
    nobody_too.take();
    check_lost(nobody, "a process without a launcher");
}

TEST_CASE(
    "a writer deletes its own leftovers and those of writers before it, never those of one after "
    "it") {
    Directory directory;
    auto first = directory.fence("a", 0), second = directory.fence("b", 0);
    first.take();
    const std::string of_first = first.unfinished_name(checkpoint_name(7));
    second.take();
    const std::string of_second = second.unfinished_name(checkpoint_name(7));
    CHECK(of_first.starts_with("step-00000007.1-"));
    CHECK(of_first != of_second);
    for (const std::string& name : {of_first, of_second})
        directory.storage.create_directories(kDirectory / name);
    CHECK(first.may_delete(of_first));
    CHECK_FALSE(first.may_delete(of_second));
    CHECK_FALSE(first.may_delete(
        "step-00000007.1-ffff.tmp"));  // took over at the same time, and one of the two lost
    CHECK(second.may_delete(of_first));
    for (const char* name : {"step-00000003.tmp", "step-00000003.replaced.tmp"})
        CHECK(first.may_delete(name));
    for (const char* name : {"step-00000003", "latest.tmp", "notes.tmp", "step-00000003.replaced"})
        CHECK_FALSE(second.may_delete(name));
    remove_leftovers(directory.storage, kDirectory, first);
    CHECK(directory.storage.list(kDirectory) == std::vector<std::string>{of_second, "writer.json"});
    remove_leftovers(directory.storage, kDirectory, second);
    CHECK(directory.storage.list(kDirectory) == std::vector<std::string>{"writer.json"});
}

TEST_CASE("a claim that cannot be read is nobody's, and epochs still grow") {
    Directory directory;
    directory.storage.create_directories(kDirectory / "step-00000007.41-abc.tmp");
    for (const std::string text :
         {"", "{", "[]", "{\"format\":\"autolaunch-writer\",\"epoch\":-1}"}) {
        write_whole(directory.storage, kDirectory / kClaimName, text);
        CHECK_THROWS_AS(directory.claim(), Error);
        auto fence = directory.fence("a", 0);
        fence.take();
        CHECK(directory.claim().epoch == 42);
        fence.require_held();
    }
    auto fence = directory.fence("a", 0);
    fence.take();
    write_whole(directory.storage, kDirectory / kClaimName, "");
    check_lost(fence, "nobody that can be read");
}

TEST_CASE("a claim that is nested without end is torn, and nobody's") {
    for (const std::string& text :
         {std::string(1'000'000, '['), R"({"epoch":1,"writer":)" + std::string(1'000'000, '[')})
        CHECK_THROWS_WITH_AS(WriterClaim::parse(text), doctest::Contains("nested too deeply"),
                             Error);
}

}  // namespace writer_claim_test
