#include "checkpoint/age/age_file.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <optional>

namespace autolaunch::age {
namespace {

using crypto::ChaCha20Poly1305;
using crypto::SecretBytes;

constexpr char kWrapInfo[] = "age-encryption.org/v1/X25519";
constexpr std::size_t kFileKeyBytes = 16;
constexpr std::size_t kWrappedKeyBytes = kFileKeyBytes + ChaCha20Poly1305::kTagBytes;
constexpr char kType[] = "X25519";

std::span<const std::byte> as_span(crypto::Bytes bytes) { return std::as_bytes(bytes); }

// A counter of 11 bytes, and whether it is the last chunk.
ChaCha20Poly1305::Nonce nonce_of(std::uint64_t chunk, bool last) {
    ChaCha20Poly1305::Nonce nonce = {};
    for (std::size_t i = 0; i < 8; ++i)
        nonce[10 - i] = static_cast<std::uint8_t>(chunk >> (8 * i));
    nonce[11] = last ? 1 : 0;
    return nonce;
}

SecretBytes wrapping_key(crypto::Bytes shared, const crypto::Point& share,
                         const Recipient& recipient) {
    std::vector<std::uint8_t> salt(share.begin(), share.end());
    salt.insert(salt.end(), recipient.point.begin(), recipient.point.end());
    return crypto::hkdf_sha256(shared, salt, kWrapInfo);
}

Stanza wrap(crypto::Bytes file_key, const Recipient& recipient) {
    const SecretBytes ephemeral = crypto::random_secret(32);
    const crypto::Point share = crypto::x25519_public(ephemeral);
    ChaCha20Poly1305 cipher(
        wrapping_key(crypto::x25519(ephemeral, recipient.point), share, recipient));
    Stanza stanza{{kType, encode_base64(share)}, std::vector<std::uint8_t>(kWrappedKeyBytes)};
    cipher.seal({}, as_span(file_key), std::as_writable_bytes(std::span(stanza.body)));
    return stanza;
}

crypto::Point share_of(const Stanza& stanza) {
    std::vector<std::uint8_t> bytes;
    crypto::Point share;
    if (stanza.arguments.size() != 2 || !decode_base64(stanza.arguments[1], bytes) ||
        bytes.size() != share.size() || stanza.body.size() != kWrappedKeyBytes)
        throw Error(ErrorCode::corrupt, "not an age file: a recipient of X25519 is not made right");
    std::copy(bytes.begin(), bytes.end(), share.begin());
    return share;
}

SecretBytes file_key_of(const Header& header, std::span<const Identity> identities) {
    SecretBytes file_key(kFileKeyBytes);
    bool with_password = false;
    for (const Stanza& stanza : header.stanzas) {
        with_password = with_password || stanza.arguments[0] == "scrypt";
        if (stanza.arguments[0] != kType)
            continue;
        const crypto::Point share = share_of(stanza);
        for (const Identity& identity : identities) {
            ChaCha20Poly1305 cipher(wrapping_key(crypto::x25519(identity.secret(), share), share,
                                                 identity.recipient()));
            if (cipher.open({}, as_span(stanza.body), std::as_writable_bytes(std::span(file_key))))
                return file_key;
        }
    }
    if (with_password)
        throw Error(ErrorCode::unsupported, "the file is encrypted with a password",
                    "only keys are supported");
    throw Error(ErrorCode::mismatch,
                "the file is not encrypted for any of the " + std::to_string(identities.size()) +
                    " keys given",
                "give the secret key of one of its recipients");
}

crypto::Digest mac_of(crypto::Bytes file_key, const std::vector<Stanza>& stanzas) {
    return crypto::hmac_sha256(crypto::hkdf_sha256(file_key, {}, "header"),
                               crypto::bytes_of(authenticated_text(stanzas)));
}

std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::uint64_t sealed_bytes(std::uint64_t plain) {
    const std::uint64_t chunks =
        std::max<std::uint64_t>(1, plain / kChunkBytes + (plain % kChunkBytes != 0 ? 1 : 0));
    return plain + chunks * ChaCha20Poly1305::kTagBytes;
}

std::uint64_t plain_bytes(std::uint64_t sealed) {
    const std::uint64_t chunks =
        sealed / kSealedChunkBytes + (sealed % kSealedChunkBytes != 0 ? 1 : 0);
    const std::uint64_t tags = chunks * ChaCha20Poly1305::kTagBytes;
    if (chunks == 0 || sealed < tags || sealed_bytes(sealed - tags) != sealed)
        throw Error(ErrorCode::corrupt,
                    "the age file is cut off: no payload has " + std::to_string(sealed) + " bytes");
    return sealed - tags;
}

void Payload::seal(std::uint64_t chunk, bool last, std::span<const std::byte> plain,
                   std::span<std::byte> sealed) {
    cipher_.seal(nonce_of(chunk, last), plain, sealed);
}

void Payload::open(std::uint64_t chunk, bool last, std::span<const std::byte> sealed,
                   std::span<std::byte> plain) {
    if (!cipher_.open(nonce_of(chunk, last), sealed, plain))
        throw Error(ErrorCode::corrupt,
                    "chunk " + std::to_string(chunk) +
                        " of the age file was changed, or the file was cut off or put together");
}

NewFile start_file(std::span<const Recipient> recipients) {
    if (recipients.empty())
        throw Error(ErrorCode::invalid_argument, "there is nobody to encrypt for");
    const SecretBytes file_key = crypto::random_secret(kFileKeyBytes);
    Header header;
    for (const Recipient& recipient : recipients)
        header.stanzas.push_back(wrap(file_key, recipient));
    header.mac = mac_of(file_key, header.stanzas);
    std::string start = format(header);
    if (start.size() > kMaxHeaderBytes)
        throw Error(ErrorCode::invalid_argument,
                    std::to_string(recipients.size()) + " recipients are too many");
    const SecretBytes nonce = crypto::random_secret(kNonceBytes);
    start += crypto::as_text(nonce);
    return {std::move(start), Payload(crypto::hkdf_sha256(file_key, nonce, "payload"))};
}

OpenedFile open_file_start(std::string_view start, std::span<const Identity> identities) {
    const ParsedHeader parsed = parse_header(start);
    const SecretBytes file_key = file_key_of(parsed.header, identities);
    if (!crypto::equal_in_constant_time(parsed.header.mac, mac_of(file_key, parsed.header.stanzas)))
        throw Error(ErrorCode::corrupt, "the age file's header was changed: its MAC is wrong");
    const std::string_view nonce = start.substr(parsed.bytes).substr(0, kNonceBytes);
    if (nonce.size() != kNonceBytes)
        throw Error(ErrorCode::corrupt, "the age file is cut off after its header");
    return {parsed.bytes + kNonceBytes,
            Payload(crypto::hkdf_sha256(file_key, crypto::bytes_of(nonce), "payload"))};
}

Encryptor::Encryptor(std::span<const Recipient> recipients, Sink sink)
    : file_(start_file(recipients)), sink_(std::move(sink)) {
    pending_.reserve(kChunkBytes);
    sealed_.resize(kSealedChunkBytes);
    sink_(std::as_bytes(std::span(file_.start)));
}

// A full chunk waits until more comes: only then it is known not to be the last.
void Encryptor::write(std::span<const std::byte> plain) {
    while (!plain.empty()) {
        if (pending_.size() == kChunkBytes)
            seal_pending(false);
        const std::size_t take = std::min(plain.size(), kChunkBytes - pending_.size());
        pending_.insert(pending_.end(), plain.begin(),
                        plain.begin() + static_cast<std::ptrdiff_t>(take));
        plain = plain.subspan(take);
    }
}

void Encryptor::finish() { seal_pending(true); }

void Encryptor::seal_pending(bool last) {
    const auto sealed = std::span(sealed_).first(pending_.size() + ChaCha20Poly1305::kTagBytes);
    file_.payload.seal(chunk_++, last, pending_, sealed);
    pending_.clear();
    sink_(sealed);
}

Decryptor::Decryptor(std::span<const Identity> identities, Sink sink)
    : identities_(identities), sink_(std::move(sink)) {
    plain_.resize(kChunkBytes);
}

void Decryptor::write(std::span<const std::byte> sealed) {
    pending_.insert(pending_.end(), sealed.begin(), sealed.end());
    if (file_.empty())
        open_start(false);
    if (file_.empty())
        return;
    std::size_t done = 0;
    for (; pending_.size() - done > kSealedChunkBytes; done += kSealedChunkBytes)
        open_chunk(std::span(pending_).subspan(done, kSealedChunkBytes), false);
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(done));
}

void Decryptor::finish() {
    if (file_.empty())
        open_start(true);
    const std::uint64_t plain = plain_bytes(pending_.size());
    if (plain == 0 && chunk_ > 0)
        throw Error(ErrorCode::corrupt, "the age file ends with an empty chunk");
    open_chunk(pending_, true);
    pending_.clear();
}

void Decryptor::open_start(bool all) {
    if (!all && pending_.size() < kMaxHeaderBytes + kNonceBytes)
        return;
    file_.push_back(open_file_start(text_of(pending_), identities_));
    pending_.erase(pending_.begin(),
                   pending_.begin() + static_cast<std::ptrdiff_t>(file_.front().start_bytes));
    // With the start all of a short file may have come: more than its last chunk.
    if (all)
        write({});
}

void Decryptor::open_chunk(std::span<const std::byte> sealed, bool last) {
    const auto plain = std::span(plain_).first(sealed.size() - ChaCha20Poly1305::kTagBytes);
    file_.front().payload.open(chunk_++, last, sealed, plain);
    sink_(plain);
}

namespace {

OpenedFile open_at(std::span<const Identity> identities, std::uint64_t file_bytes,
                   const RandomAccess::ReadAt& read_at) {
    std::string start(std::min<std::uint64_t>(file_bytes, kMaxHeaderBytes + kNonceBytes), '\0');
    read_at(0, std::as_writable_bytes(std::span(start)));
    return open_file_start(start, identities);
}

}  // namespace

RandomAccess::RandomAccess(std::span<const Identity> identities, std::uint64_t file_bytes,
                           ReadAt read_at)
    : read_at_(std::move(read_at)), file_(open_at(identities, file_bytes, read_at_)) {
    plain_bytes_ = plain_bytes(file_bytes - file_.start_bytes);
    chunks_ = (plain_bytes_ + kChunkBytes - 1) / kChunkBytes;
    buffer_.resize(kSealedChunkBytes);
    open_chunk(chunks_ == 0 ? 0 : chunks_ - 1);
}

std::size_t RandomAccess::read(std::uint64_t offset, std::span<std::byte> bytes) {
    if (offset >= plain_bytes_)
        return 0;
    bytes = bytes.first(std::min<std::uint64_t>(bytes.size(), plain_bytes_ - offset));
    for (std::size_t done = 0; done < bytes.size();) {
        const std::uint64_t at = offset + done;
        const auto plain = open_chunk(at / kChunkBytes).subspan(at % kChunkBytes);
        const std::size_t take = std::min(plain.size(), bytes.size() - done);
        std::copy_n(plain.begin(), take, bytes.begin() + static_cast<std::ptrdiff_t>(done));
        done += take;
    }
    return bytes.size();
}

std::span<const std::byte> RandomAccess::open_chunk(std::uint64_t chunk) {
    const std::uint64_t begin = chunk * kChunkBytes;
    const auto plain =
        static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, plain_bytes_ - begin));
    const auto sealed = std::span(buffer_).first(plain + ChaCha20Poly1305::kTagBytes);
    read_at_(file_.start_bytes + chunk * kSealedChunkBytes, sealed);
    file_.payload.open(chunk, chunk + 1 >= chunks_, sealed, sealed.first(plain));
    return sealed.first(plain);
}

}  // namespace autolaunch::age
