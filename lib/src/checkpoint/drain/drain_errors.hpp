#pragma once
#include <autolaunch/error.hpp>

#include <cerrno>

namespace autolaunch {

// Why a checkpoint cannot be copied from where it is, told apart from what the far tier fails with.

/// The checkpoint here cannot be what was saved, or is of another version: trying again does not
/// help.
class DamagedHere : public Error {
public:
    explicit DamagedHere(const Error& error) : Error(error.code(), error.what(), error.hint()) {}
};

/// Its storage gave an error: others may be drained meanwhile.
class UnreadableHere : public Error {
public:
    explicit UnreadableHere(const Error& error) : Error(error.code(), error.what(), error.hint()) {}
};

/// It was deleted since it was looked for.
class GoneHere : public SystemError {
public:
    explicit GoneHere(const SystemError& error) : SystemError(error) {}
};

template <class Call>
auto reading_here(const Call& call) {
    try {
        return call();
    } catch (const SystemError& error) {
        if (error.error_number() == ENOENT)
            throw GoneHere(error);
        throw UnreadableHere(error);
    } catch (const Error& error) {
        if (error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported)
            throw DamagedHere(error);
        throw;
    }
}

}  // namespace autolaunch
