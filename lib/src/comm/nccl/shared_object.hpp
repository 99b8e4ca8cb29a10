#pragma once
#include <string>

namespace autolaunch {

/// A library loaded with dlopen(3). It stays loaded: CUDA and NCCL have threads of their own.
class SharedObject {
public:
    /// Throws Error{unsupported} with the linker's words and `hint`.
    SharedObject(const std::string& name, const std::string& hint);

    /// Null when the library has no such symbol.
    template <class Function>
    void find(const char* symbol, Function& function) const {
        function = reinterpret_cast<Function>(find(symbol));
    }
    /// Throws Error{unsupported} when the library has no such symbol.
    template <class Function>
    void require(const char* symbol, Function& function) const {
        find(symbol, function);
        if (function == nullptr)
            refuse(symbol);
    }

private:
    void* find(const char* symbol) const;
    [[noreturn]] void refuse(const char* symbol) const;

    std::string name_;
    void* handle_;
};

}  // namespace autolaunch
