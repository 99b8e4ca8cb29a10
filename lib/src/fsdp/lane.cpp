#include "fsdp/lane.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>
#include <deque>

namespace autolaunch::fsdp {

namespace {

// Throws the exception that is being handled again, with `where` before its text.
[[noreturn]] void rethrow_from(const std::string& where) {
    try {
        throw;
    } catch (const TimeoutError& error) {
        throw TimeoutError(where + error.what(), error.hint());
    } catch (const AbortedError& error) {
        throw AbortedError(where + error.what(), error.hint());
    } catch (const Error& error) {
        throw Error(error.code(), where + error.what(), error.hint());
    } catch (const std::exception& error) {
        throw Error(ErrorCode::system, where + error.what());
    }
}

}  // namespace

void Lane::abort(const std::string& reason) {
    for (Communicator& communicator : communicators_)
        communicator.abort(reason);
}

void Lane::fail(const std::string& where) {
    abort(where + "failed on another rank");
    rethrow_from(where);
}

void Lane::run(const std::string& unit, std::string_view subject, const Job& job, Stream stream) {
    try {
        std::deque<ScopedLabel> labels;
        for (Communicator& communicator : communicators_)
            labels.emplace_back(communicator, unit, subject);
        job(stream);
    } catch (...) {
        fail("unit " + unit + ", " + std::string(subject) + ": ");
    }
}

ScopedLabel::ScopedLabel(Communicator& communicator, std::string_view unit, std::string_view what)
    : communicator_(communicator), before_bytes_(communicator.label().copy(before_, kBytes)) {
    std::array<char, kBytes> label{};
    const std::size_t unit_bytes = unit.copy(label.data(), label.size() - what.size() - 1);
    label[unit_bytes] = ' ';
    const std::size_t what_bytes = what.copy(label.data() + unit_bytes + 1, what.size());
    communicator_.set_label({label.data(), unit_bytes + 1 + what_bytes});
}

ScopedLabel::~ScopedLabel() { communicator_.set_label({before_, before_bytes_}); }

}  // namespace autolaunch::fsdp
