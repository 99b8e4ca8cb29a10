#include "containers/image_digest.hpp"

#include "base/hash.hpp"
#include "base/mapped_file.hpp"
#include "base/refuse.hpp"
#include "base/unique_fd.hpp"
#include "checkpoint/crypto/crypto.hpp"

#include <fcntl.h>

#include <string>

namespace autolaunch::launcher {

void check_image_file(const ContainerChoice& choice) {
    if (choice.file_digest.empty())
        return;
    const UniqueFd file(::open(choice.image.c_str(), O_RDONLY | O_CLOEXEC));
    const MappedFile image(file.get(), "read the image " + choice.image);
    const std::string digest = "sha256:" + hex(crypto::sha256(crypto::bytes_of(image.text())));
    if (digest != choice.file_digest)
        refuse("container.digest: " + choice.image + " has " + digest + ", and not " +
                   choice.file_digest,
               "it is another image than the spec was written for: fetch that one, or write the "
               "new digest into the spec");
}

}  // namespace autolaunch::launcher
