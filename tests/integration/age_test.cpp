// Files of age, with Debian's `age` as the witness: what we write it opens, and what it writes we
// open. Also keys from files and commands. Cases that need no witness run everywhere.

#include "../unit/need_crypto.hpp"
#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "checkpoint/age/age_file.hpp"
#include "checkpoint/age/bech32.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace age_test {

using namespace autolaunch;
using autolaunch::testing::need_crypto;
using namespace autolaunch::age;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

struct Folder {
    Folder() : path(fs::temp_directory_path() / ("autolaunch-age-" + random_hex(8))) {
        fs::create_directory(path);
    }
    ~Folder() { fs::remove_all(path); }
    fs::path path;
};

std::string key_file(const Folder& folder, const Identity& identity,
                     const std::string& name = "key") {
    const fs::path path = folder.path / name;
    const auto text = identity.to_text();
    write_file(path, "# made by a test\n\n" + std::string(crypto::as_text(text)) + "\n",
                       0600);
    return path;
}

std::string bytes_like_weights(std::size_t bytes) {
    std::mt19937_64 random(bytes);
    std::string text(bytes, '\0');
    for (char& c : text)
        c = static_cast<char>(random());
    return text;
}

std::span<const std::byte> span_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}
std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string encrypted(const std::string& plain, std::span<const Recipient> recipients,
                      std::size_t step = 1 << 20) {
    std::string file;
    Encryptor encryptor(recipients, [&](auto bytes) { file += text_of(bytes); });
    for (std::size_t at = 0; at < plain.size(); at += step)
        encryptor.write(span_of(plain.substr(at, step)));
    encryptor.finish();
    return file;
}

std::string decrypted(const std::string& file, std::span<const Identity> identities,
                      std::size_t step = 1 << 20) {
    std::string plain;
    Decryptor decryptor(identities, [&](auto bytes) { plain += text_of(bytes); });
    for (std::size_t at = 0; at < file.size(); at += step)
        decryptor.write(span_of(file.substr(at, step)));
    decryptor.finish();
    return plain;
}

RandomAccess at_random(const std::string& file, std::span<const Identity> identities) {
    return RandomAccess(identities, file.size(),
                        [&file](std::uint64_t offset, std::span<std::byte> bytes) {
                            REQUIRE(offset + bytes.size() <= file.size());
                            std::copy_n(span_of(file).begin() + static_cast<std::ptrdiff_t>(offset),
                                        bytes.size(), bytes.begin());
                        });
}

template <class Call>
void refused(ErrorCode code, const std::string& words, Call call) {
    try {
        call();
        FAIL("it was accepted; expected: ", words);
    } catch (const Error& error) {
        CHECK(error.code() == code);
        CHECK_MESSAGE(std::string(error.what()).find(words) != std::string::npos, error.what());
        CHECK(std::string(error.what()).find("AGE-SECRET-KEY-1Q") == std::string::npos);
    }
}

bool have_age() { return std::system("command -v age age-keygen >/dev/null 2>&1") == 0; }

void need_age() {
    if (have_age())
        return;
    std::printf(
        "skipped: Debian's age is not installed; nothing else can open and write these files\n");
    std::exit(77);
}

// Sizes around a chunk, and around the 64 KiB in which a header is looked for.
constexpr std::size_t kSizes[] = {0, 1, 65535, 65536, 65537, 131072, 131073, 1'000'000};

}  // namespace

TEST_CASE("what is encrypted comes back, in any steps, and for each recipient") {
    need_crypto();
    const Identity one = Identity::generate(), two = Identity::generate();
    const std::vector<Recipient> recipients = {one.recipient(), two.recipient()};
    for (const std::size_t size : kSizes) {
        const std::string plain = bytes_like_weights(size);
        const std::string file = encrypted(plain, recipients, size < 2 ? 1 : size / 3 + 1);
        const std::size_t start = start_file(recipients).start.size();
        CHECK(file.size() == start + sealed_bytes(size));
        CHECK(plain_bytes(file.size() - start) == size);
        CHECK(decrypted(file, std::span(&one, 1)) == plain);
        CHECK(decrypted(file, std::span(&two, 1), 4097) == plain);
    }
}

TEST_CASE("a range reads its own chunks alone") {
    const Identity identity = Identity::generate();
    const std::string plain = bytes_like_weights(5 * age::kChunkBytes + 77);
    const std::string file = encrypted(plain, std::span(&identity.recipient(), 1));
    std::size_t reads = 0;
    RandomAccess access(std::span(&identity, 1), file.size(),
                        [&](std::uint64_t offset, std::span<std::byte> bytes) {
                            ++reads;
                            std::copy_n(span_of(file).begin() + static_cast<std::ptrdiff_t>(offset),
                                        bytes.size(), bytes.begin());
                        });
    CHECK(access.size() == plain.size());
    CHECK(reads == 2);
    std::mt19937_64 random(3);
    for (int i = 0; i < 200; ++i) {
        const std::uint64_t offset = random() % (plain.size() + 10);
        std::string part(random() % (2 * age::kChunkBytes), '\0');
        reads = 0;
        part.resize(access.read(offset, std::as_writable_bytes(std::span(part))));
        CHECK(part == (offset < plain.size() ? plain.substr(offset, part.size()) : ""));
        if (!part.empty())
            CHECK(reads == (offset + part.size() - 1) / age::kChunkBytes - offset / age::kChunkBytes + 1);
    }
}

TEST_CASE("a file that was cut, extended, put together or changed anywhere is refused") {
    const Identity identity = Identity::generate();
    const auto mine = std::span(&identity, 1);
    const auto recipients = std::span(&identity.recipient(), 1);
    const std::string plain = bytes_like_weights(2 * age::kChunkBytes + 100);
    const std::string file = encrypted(plain, recipients);
    const std::size_t start = file.size() - sealed_bytes(plain.size());
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{10}, start - kNonceBytes, start - 1, start, start + 15,
          start + kSealedChunkBytes, start + 2 * kSealedChunkBytes, file.size() - 1}) {
        INFO(bytes, " of ", file.size());
        refused(ErrorCode::corrupt, "age file", [&] { decrypted(file.substr(0, bytes), mine); });
        refused(ErrorCode::corrupt, "age file", [&] { at_random(file.substr(0, bytes), mine); });
    }
    refused(ErrorCode::corrupt, "age file", [&] { decrypted(file + "x", mine); });
    refused(ErrorCode::corrupt, "age file",
            [&] { decrypted(file + std::string(70'000, 'x'), mine); });
    std::string swapped = file;
    std::swap_ranges(swapped.begin() + static_cast<std::ptrdiff_t>(start),
                     swapped.begin() + static_cast<std::ptrdiff_t>(start + kSealedChunkBytes),
                     swapped.begin() + static_cast<std::ptrdiff_t>(start + kSealedChunkBytes));
    refused(ErrorCode::corrupt, "chunk 0", [&] { decrypted(swapped, mine); });
    std::string changed = file;
    for (std::size_t at = 0; at < file.size(); at += at < start + 20 ? 1 : 9973) {
        changed[at] = static_cast<char>(changed[at] ^ 1);
        INFO("byte ", at);
        try {
            decrypted(changed, mine);
            FAIL("a changed byte was not noticed");
        } catch (const Error& error) {
            CHECK((error.code() == ErrorCode::corrupt || error.code() == ErrorCode::mismatch));
        }
        changed[at] = file[at];
    }
}

TEST_CASE("for whom a file is not, he is told; a password's file too") {
    const Identity identity = Identity::generate(), other = Identity::generate();
    const std::string file = encrypted("weights", std::span(&identity.recipient(), 1));
    refused(ErrorCode::mismatch, "not encrypted for any of the 1 keys",
            [&] { decrypted(file, std::span(&other, 1)); });
    refused(ErrorCode::invalid_argument, "nobody to encrypt for", [&] { start_file({}); });
    const std::string locked = "age-encryption.org/v1\n-> scrypt bBjlhJVYZeE4aqUdmtRHfw 18\n" +
                               std::string(43, 'A') + "\n--- " + std::string(43, 'A') + "\n";
    refused(ErrorCode::unsupported, "with a password",
            [&] { decrypted(locked, std::span(&identity, 1)); });
}

TEST_CASE("a share of low order is refused") {
    const Identity identity = Identity::generate();
    const std::string file = "age-encryption.org/v1\n-> X25519 " + std::string(43, 'A') + "\n" +
                             std::string(43, 'A') + "\n--- " + std::string(43, 'A') + "\n" +
                             std::string(64, 'x');
    refused(ErrorCode::corrupt, "low order", [&] { decrypted(file, std::span(&identity, 1)); });
}

TEST_CASE("keys have age's text, and errors never quote them") {
    const Identity identity = Identity::generate();
    const std::string text(crypto::as_text(identity.to_text()));
    CHECK(text.starts_with("AGE-SECRET-KEY-1"));
    CHECK(text.size() == 74);
    CHECK(Identity::parse(text).recipient() == identity.recipient());
    CHECK(Recipient::parse(identity.recipient().to_text()) == identity.recipient());
    CHECK(identity.recipient().to_text().size() == 62);
    refused(ErrorCode::invalid_argument, "a secret key was given", [&] { Recipient::parse(text); });
    refused(ErrorCode::invalid_argument, "not a secret key",
            [&] { Identity::parse(identity.recipient().to_text()); });
    refused(ErrorCode::invalid_argument, "checksum",
            [&] { Identity::parse("AGE-SECRET-KEY-1Q" + text.substr(17)); });
    refused(ErrorCode::invalid_argument, "k.txt, line 2: not a Bech32",
            [&] { parse_identities("# a\nx\n", "k.txt"); });
    refused(ErrorCode::invalid_argument, "k.txt has no key in it",
            [&] { parse_identities("# a\n", "k.txt"); });
}

TEST_CASE("a key file that others may read is refused") {
    const Folder folder;
    const Identity identity = Identity::generate();
    const std::string path = key_file(folder, identity);
    CHECK(read_identities(path).at(0).recipient() == identity.recipient());
    for (const mode_t mode : {0644, 0640, 0620, 0604, 0601}) {
        REQUIRE(::chmod(path.c_str(), mode) == 0);
        refused(ErrorCode::invalid_argument, "is open to others", [&] { read_identities(path); });
    }
    REQUIRE(::mkfifo((folder.path / "fifo").c_str(), 0600) == 0);
    refused(ErrorCode::invalid_argument, "not a regular file",
            [&] { read_identities(folder.path / "fifo"); });
    refused(ErrorCode::system, "missing", [&] { read_identities(folder.path / "missing"); });
}

TEST_CASE("a command's output is keys; one that fails, hangs or floods is told by name") {
    const Folder folder;
    const Identity identity = Identity::generate();
    const std::string path = key_file(folder, identity);
    const auto soon = [] { return Deadline::after(10s); };
    CHECK(identities_of_command("cat '" + path + "'", soon()).at(0).recipient() ==
          identity.recipient());
    refused(ErrorCode::invalid_argument, "exited with 3",
            [&] { identities_of_command("cat '" + path + "'; exit 3", soon()); });
    refused(ErrorCode::invalid_argument, "was killed by SIGKILL",
            [&] { identities_of_command("kill -9 $$", soon()); });
    refused(ErrorCode::invalid_argument, "has no key in it",
            [&] { identities_of_command("true", soon()); });
    refused(ErrorCode::invalid_argument, "too long to be keys",
            [&] { identities_of_command("yes", soon()); });
    refused(ErrorCode::timeout, "printed no key in time", [&] {
        identities_of_command("sleep 1000 & echo $! > '" + path + ".pid'; wait",
                              Deadline::after(200ms));
    });
    // What it started died with it.
    const int left = std::stoi(read_file(path + ".pid"));
    for (int i = 0; i < 200 && ::kill(left, 0) == 0; ++i) {
        std::error_code error;
        const std::string state = read_file("/proc/" + std::to_string(left) + "/stat");
        if (state.find(") Z") != std::string::npos)
            break;
        ::usleep(10'000);
    }
    CHECK((::kill(left, 0) != 0 ||
           read_file("/proc/" + std::to_string(left) + "/stat").find(") Z") != std::string::npos));
}

TEST_CASE("plain age opens our files, with a key of ours and one of age-keygen") {
    need_age();
    const Folder folder;
    const Identity ours = Identity::generate();
    const std::string our_key = key_file(folder, ours);
    const std::string their_key = folder.path / "theirs";
    REQUIRE(std::system(("umask 077; age-keygen -o '" + their_key + "' 2>/dev/null").c_str()) == 0);
    const Identity theirs = std::move(read_identities(their_key).at(0));
    const std::vector<Recipient> both = {ours.recipient(), theirs.recipient()};
    const std::string at = folder.path;
    for (const std::size_t size : kSizes) {
        INFO(size, " bytes");
        const std::string plain = bytes_like_weights(size);
        write_file(folder.path / "sealed", encrypted(plain, both));
        for (const std::string& key : {our_key, their_key}) {
            REQUIRE(
                std::system(("age -d -i '" + key + "' '" + at + "/sealed' > '" + at + "/opened'")
                                .c_str()) == 0);
            CHECK((read_file(folder.path / "opened") == plain));
        }
    }
}

TEST_CASE(
    "we open what plain age wrote, whole and in ranges, and it agrees on who a key's recipient "
    "is") {
    need_age();
    const Folder folder;
    const Identity identity = Identity::generate(), other = Identity::generate();
    const std::string at = folder.path, key = key_file(folder, identity);
    REQUIRE(std::system(("age-keygen -y '" + key + "' > '" + at + "/recipient'").c_str()) == 0);
    CHECK(read_file(folder.path / "recipient") == identity.recipient().to_text() + "\n");
    for (const std::size_t size : kSizes) {
        INFO(size, " bytes");
        const std::string plain = bytes_like_weights(size);
        write_file(folder.path / "plain", plain);
        const std::string command = "age -e -r " + other.recipient().to_text() + " -r " +
                                    identity.recipient().to_text() + " -o '" + at + "/sealed' '" +
                                    at + "/plain'";
        REQUIRE(std::system(command.c_str()) == 0);
        const std::string file = read_file(folder.path / "sealed");
        CHECK((decrypted(file, std::span(&identity, 1)) == plain));
        RandomAccess access = at_random(file, std::span(&identity, 1));
        CHECK(access.size() == size);
        std::string part(100, '\0');
        part.resize(access.read(size / 2, std::as_writable_bytes(std::span(part))));
        CHECK((part == plain.substr(size / 2, 100)));
    }
}

}  // namespace age_test
