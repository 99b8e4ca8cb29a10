// What fuzzers of texts from outside check holds for their seeds, in every build.

#include "../fuzz/alert_condition_check.hpp"
#include "../fuzz/alert_incidents_check.hpp"
#include "../fuzz/allocation_check.hpp"
#include "../fuzz/audit_line_check.hpp"
#include "../fuzz/checkpoint_note_check.hpp"
#include "../fuzz/hand_over_list_check.hpp"
#include "../fuzz/identity_token_check.hpp"
#include "../fuzz/key_text_check.hpp"
#include "../fuzz/klist_check.hpp"
#include "../fuzz/lint_file_check.hpp"
#include "../fuzz/s3_answer_check.hpp"
#include "../fuzz/site_yaml_check.hpp"
#include "../fuzz/slurm_answer_check.hpp"
#include "../fuzz/slurm_record_check.hpp"
#include "../fuzz/spec_yaml_check.hpp"
#include "../fuzz/sweep_record_check.hpp"
#include "../fuzz/vault_answer_check.hpp"
#include "fuzz_seeds.hpp"

#include <doctest/doctest.h>

#include <string>

namespace text_seeds_test {

using namespace autolaunch;

TEST_CASE("a line of a trail is one or none, with any bit flipped") {
    std::size_t lines = 0;
    CHECK(check_seeds("audit_line", [&](const std::string& bytes) {
              lines += launcher::check_audit_bytes(bytes) ? 1 : 0;
          }) >= 2);
    CHECK(lines >= 2);
}

TEST_CASE("what Vault answers is taken for what it is, with any bit flipped and however deep") {
    std::size_t taken = 0;
    CHECK(check_seeds("vault_answer", [&](const std::string& bytes) {
              taken += launcher::check_vault_bytes(bytes) ? 1 : 0;
          }) >= 8);
    CHECK(taken >= 7);
    std::string deep = "{\"data\":";
    deep.append(500'000, '[').append(500'000, ']').append("}");
    CHECK_FALSE(launcher::check_vault_bytes(deep));
}

TEST_CASE("what Slurm's commands print is read or refused, with any bit flipped") {
    std::size_t read = 0;
    CHECK(check_seeds("slurm_answer", [&](const std::string& bytes) {
              read += launcher::check_slurm_bytes(bytes) > 0 ? 1 : 0;
          }) >= 6);
    CHECK(read >= 6);
}

TEST_CASE("a spec's text is a value or errors with their places, with any bit flipped") {
    std::size_t values = 0;
    CHECK(check_seeds("spec_yaml", [&](const std::string& bytes) {
              values += launcher::check_yaml_bytes(bytes) ? 1 : 0;
          }) >= 3);
    CHECK(values >= 2);
}

TEST_CASE("an administrator's file is settings or errors with their places, with any bit flipped") {
    std::size_t settings = 0;
    CHECK(check_seeds("site_yaml", [&](const std::string& bytes) {
              settings += launcher::check_site_bytes(bytes);
          }) >= 2);
    CHECK(settings >= 2);
}

TEST_CASE("a list of files from another mover is read or refused, with any bit flipped") {
    std::size_t lists = 0;
    CHECK(check_seeds("hand_over_list", [&](const std::string& bytes) {
              lists += launcher::check_hand_over_list(bytes) ? 1 : 0;
          }) >= 4);
    CHECK(lists >= 2);
    const std::string one = R"([["/a",1,0,420]])";
    CHECK(launcher::check_hand_over_list(one));
    for (const char* bytes : {"0", "-1", "4398046511105", "1e3", "1e300", "9223372036854775808"}) {
        std::string wrong = one;
        wrong.replace(wrong.find(",1,") + 1, 1, bytes);
        CHECK_FALSE(launcher::check_hand_over_list(wrong));
    }
}

TEST_CASE("what klist prints is a ticket or a reason, with any bit flipped") {
    std::size_t tickets = 0;
    CHECK(check_seeds("klist", [&](const std::string& bytes) {
              tickets += launcher::check_klist_bytes(bytes) ? 1 : 0;
          }) >= 2);
    CHECK(tickets >= 1);
}

TEST_CASE("what a bucket's server answers is read or refused, with any bit flipped") {
    std::size_t found = 0;
    CHECK(check_seeds("s3_answer",
                      [&](const std::string& bytes) { found += s3::check_s3_bytes(bytes); }) >= 6);
    CHECK(found >= 6);
}

TEST_CASE("what an issuer answers is read or refused, with any bit flipped") {
    std::size_t taken = 0;
    CHECK(check_seeds("identity_token", [&](const std::string& bytes) {
              taken += launcher::oidc::check_issuer_bytes(bytes);
          }) >= 5);
    CHECK(taken >= 4);
}

TEST_CASE("a condition is judged or its mistake has a place, with any bit flipped") {
    std::size_t conditions = 0;
    CHECK(check_seeds("alert_condition", [&](const std::string& bytes) {
              conditions += launcher::alerts::check_condition_bytes(bytes) ? 1 : 0;
          }) >= 8);
    CHECK(conditions >= 4);
}

TEST_CASE("an alerts.json goes on as incidents or is none, with any bit flipped") {
    std::size_t books = 0;
    CHECK(check_seeds(
              "alert_incidents",
              [&](const std::string& bytes) {
                  books += launcher::alerts::check_incident_bytes(bytes) ? 1 : 0;
              },
              13) >= 4);
    CHECK(books >= 3);
}

TEST_CASE("an element's record is one or none, with any bit flipped") {
    std::size_t records = 0;
    CHECK(check_seeds(
              "sweep_record",
              [&](const std::string& bytes) {
                  records += launcher::check_sweep_bytes(bytes) ? 1 : 0;
              },
              7) >= 3);
    CHECK(records >= 2);
}

TEST_CASE("a scheduler's variables make an allocation or are refused, with any bit flipped") {
    std::size_t schedulers = 0;
    CHECK(check_seeds(
              "allocation",
              [&](const std::string& bytes) {
                  schedulers += launcher::check_allocation_bytes(bytes) ? 1 : 0;
              },
              7) >= 8);
    CHECK(schedulers >= 5);
}

TEST_CASE("what Slurm says of jobs and nodes is read or left, with any bit flipped") {
    std::size_t read = 0;
    CHECK(check_seeds(
              "slurm_record",
              [&](const std::string& bytes) {
                  read += launcher::check_slurm_record_bytes(bytes) > 0 ? 1 : 0;
              },
              31) >= 10);
    CHECK(read >= 5);
}

TEST_CASE("a file that is linted has findings at its lines, with bits flipped") {
    std::size_t findings = 0;
    CHECK(check_seeds(
              "lint_file",
              [&](const std::string& bytes) { findings += launcher::check_lint_bytes(bytes); },
              31) >= 6);
    CHECK(findings >= 6);
}

TEST_CASE("a file of keys has keys or is refused, with any bit flipped") {
    std::size_t keys = 0;
    CHECK(check_seeds(
              "key_text", [&](const std::string& bytes) { keys += check_key_bytes(bytes); }, 3) >=
          6);
    CHECK(keys >= 6);
}

TEST_CASE("what stands beside a checkpoint is read or none, with any bit flipped") {
    std::size_t notes = 0;
    CHECK(check_seeds(
              "checkpoint_note",
              [&](const std::string& bytes) { notes += check_note_bytes(bytes); }, 7) >= 4);
    CHECK(notes >= 3);
}

}  // namespace text_seeds_test
