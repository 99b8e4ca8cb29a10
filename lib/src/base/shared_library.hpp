#pragma once
#include <autolaunch/export.hpp>

#include <string>

namespace autolaunch {

/// A library that is loaded only when it is needed, and then for good: what it registered to run at exit must stay.
/// Throws Error{unsupported} with the loader's own words. Blocks: while the library is read.
class AUTOLAUNCH_API SharedLibrary {
public:
    explicit SharedLibrary(const std::string& soname);

    template <class Function>
    void find(Function*& function, const char* name) const {
        function = reinterpret_cast<Function*>(address_of(name));
    }

private:
    void* address_of(const char* name) const;

    std::string soname_;
    void* handle_ = nullptr;
};

}  // namespace autolaunch
