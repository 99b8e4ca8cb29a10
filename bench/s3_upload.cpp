// Puts a file into a bucket as drains do, with this library's S3 client, and says how fast it went.
//   s3_upload FILE s3://BUCKET/KEY [PARALLEL]
// Settings and key by the environment (docs/s3.md). Every part is signed with the SHA-256 of its
// bytes.
#include "base/deadline.hpp"
#include "base/environment.hpp"
#include "base/file_io.hpp"
#include "checkpoint/s3/s3_client.hpp"
#include "checkpoint/s3/s3_settings.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

using namespace autolaunch;

namespace {

void read_at(int fd, std::uint64_t offset, std::span<std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (got <= 0)
            throw SystemError(errno, "read the file");
        bytes = bytes.subspan(static_cast<std::size_t>(got));
        offset += static_cast<std::uint64_t>(got);
    }
}

void upload(const std::string& path, const std::string& url, int parallel) {
    const std::size_t slash = url.rfind('/');
    const Environment environment = environment_of_process();
    s3::S3Client client(s3::locate(url.substr(0, slash), environment),
                        s3::find_credential_source(environment));
    const UniqueFd file = open_file(path, O_RDONLY);
    const std::uint64_t bytes = std::filesystem::file_size(path);
    const auto start = std::chrono::steady_clock::now();
    s3::UploadOptions options;
    options.parallel = parallel;
    client.upload(
        url.substr(slash + 1), bytes,
        [&](std::uint64_t offset, std::span<std::byte> part) { read_at(file.get(), offset, part); },
        options, Deadline::after(std::chrono::minutes(10)));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("%.3f GB in %.2f s: %.3f GB/s\n", static_cast<double>(bytes) / 1e9, took.count(),
                static_cast<double>(bytes) / 1e9 / took.count());
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: s3_upload FILE s3://BUCKET/KEY [PARALLEL]\n");
        return 64;
    }
    try {
        upload(argv[1], argv[2], argc > 3 ? std::stoi(argv[3]) : s3::UploadOptions{}.parallel);
        return 0;
    } catch (const Error& error) {
        std::fprintf(stderr, "%s (%s)\n", error.what(), error.hint().c_str());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
    }
    return 1;
}
