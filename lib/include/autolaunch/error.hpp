#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/export.hpp>

#include <stdexcept>
#include <string>
#include <utility>

namespace autolaunch {

/// What kind of thing went wrong; stable, for programs. The text is for people.
enum class ErrorCode {
    invalid_argument,  ///< the caller asked for something that makes no sense
    system,            ///< a system call failed; the text has strerror
    timeout,           ///< a deadline passed
    closed,            ///< the peer went away
    aborted,           ///< abort() was called, here or on another rank
    corrupt,           ///< data read back is not what was written
    mismatch,          ///< ranks, shapes or formats that should agree do not
    unsupported,       ///< this build or backend cannot do it
};

/// Every exception the library throws. what() says what happened, hint() what to do about it (may
/// be empty). Show both: std::cerr << error.what() << "; " << error.hint(). Of one that nobody
/// catches Session shows both.
class AUTOLAUNCH_API Error : public std::runtime_error {
public:
    Error(ErrorCode code, const std::string& what, std::string hint = {})
        : std::runtime_error(what), code_(code), hint_(std::move(hint)) {}

    ErrorCode code() const noexcept { return code_; }
    const std::string& hint() const& noexcept { return hint_; }
    std::string hint() && noexcept { return std::move(hint_); }

private:
    ErrorCode code_;
    std::string hint_;
};

/// A deadline passed. The operation may or may not have taken effect at the peer.
class AUTOLAUNCH_API TimeoutError : public Error {
public:
    explicit TimeoutError(const std::string& what, std::string hint = {})
        : Error(ErrorCode::timeout, what, std::move(hint)) {}
};

/// The communicator was aborted; every pending and later operation on it throws this.
class AUTOLAUNCH_API AbortedError : public Error {
public:
    explicit AbortedError(const std::string& what, std::string hint = {})
        : Error(ErrorCode::aborted, what, std::move(hint)) {}
};

/// The generation is over: another rank was lost, and this one can go on in the next generation.
/// See Session::run().
class AUTOLAUNCH_API GenerationChanged : public AbortedError {
public:
    /// `generation` is the one that is over, `reason` why.
    GenerationChanged(int generation, const std::string& reason)
        : AbortedError("generation " + std::to_string(generation) + " is over: " + reason),
          generation_(generation) {}

    int generation() const noexcept { return generation_; }

private:
    int generation_;
};

/// A system call failed. error_number() is its errno.
class AUTOLAUNCH_API SystemError : public Error {
public:
    /// `doing` reads as "cannot <doing>": e.g. "open /x/y for writing".
    SystemError(int error_number, const std::string& doing, std::string hint = {});

    int error_number() const noexcept { return error_number_; }

private:
    int error_number_;
};

}  // namespace autolaunch
