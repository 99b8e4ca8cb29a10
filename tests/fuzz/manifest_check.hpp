#pragma once
#include "base/hash.hpp"
#include "checkpoint/format/read_plan.hpp"

#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

/// A manifest's text is a manifest or refused, and one reads back as it is written. Aborts where
/// that is not so. True for a complete one.
namespace autolaunch {

/// Every file name stays in the directory, and every piece in its file and its tensor.
inline void require_inside(const Manifest& manifest) {
    for (const auto& file : manifest.files)
        if (file.name.empty() || file.name[0] == '.' || file.name.find('/') != std::string::npos)
            std::abort();
    for (const auto& tensor : manifest.tensors)
        for (const auto& piece : tensor.pieces) {
            const std::uint64_t bytes = manifest.files.at(piece.file_index).bytes;
            const auto wanted = static_cast<std::uint64_t>(piece.count) * size_of(tensor.type);
            if (piece.count < 1 || piece.offset < 0 ||
                piece.offset > tensor.element_count() - piece.count)
                std::abort();
            if (piece.file_offset > bytes || wanted > bytes - piece.file_offset)
                std::abort();
            content_at(manifest, piece.file_index, piece.file_offset, piece.file_offset + 1);
        }
}

inline bool check_manifest_bytes(std::string_view bytes) {
    // Signed anew: what is behind the digest is what can go wrong, and no chance guesses a digest.
    constexpr std::size_t kDigits = 32;
    std::string text(bytes);
    const std::size_t quote = text.find(":\"");
    if (quote != std::string::npos && text.size() >= quote + 2 + kDigits) {
        const std::string body = text.substr(quote + 2 + kDigits);
        text.replace(quote + 2, kDigits, hex128(hash128(body.data(), body.size())));
    }
    try {
        const Manifest manifest = Manifest::parse(text);
        require_inside(manifest);
        if (!(Manifest::parse(manifest.to_text()) == manifest))
            std::abort();
        manifest.require_complete();
        return true;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::unsupported)
            std::abort();
        return false;
    }
}

}  // namespace autolaunch
