#include "containers/image_digest.hpp"

#include "base/hash.hpp"
#include "base/refuse.hpp"
#include "base/unique_fd.hpp"
#include "checkpoint/crypto/crypto.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <string>

namespace autolaunch::launcher {

namespace {

/// A file's bytes, as the kernel reads them in.
class MappedFile {
public:
    explicit MappedFile(const std::string& path) {
        const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        struct stat facts {};
        if (file.get() < 0 || ::fstat(file.get(), &facts) != 0)
            throw SystemError(errno, "read the image " + path);
        bytes_ = static_cast<std::size_t>(facts.st_size);
        if (bytes_ == 0)
            return;
        start_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file.get(), 0);
        if (start_ == MAP_FAILED)
            throw SystemError(errno, "read the image " + path);
        ::madvise(start_, bytes_, MADV_SEQUENTIAL);
    }
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile() {
        if (bytes_ > 0 && start_ != MAP_FAILED)
            ::munmap(start_, bytes_);
    }

    std::string_view text() const { return {static_cast<const char*>(start_), bytes_}; }

private:
    void* start_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace

void check_image_file(const ContainerChoice& choice) {
    if (choice.file_digest.empty())
        return;
    const MappedFile image(choice.image);
    const std::string digest = "sha256:" + hex(crypto::sha256(crypto::bytes_of(image.text())));
    if (digest != choice.file_digest)
        refuse("container.digest: " + choice.image + " has " + digest + ", and not " +
                   choice.file_digest,
               "it is another image than the spec was written for: fetch that one, or write the "
               "new digest into the spec");
}

}  // namespace autolaunch::launcher
