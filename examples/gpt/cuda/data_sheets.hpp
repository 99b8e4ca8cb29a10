#pragma once
#include <cctype>
#include <string_view>

namespace gpt {

/// Arithmetic a second that a GPU's data sheet promises, without sparsity: bf16 on tensor cores,
/// f32 on ordinary ones (products in f32 do not use TF32 here).
struct DataSheet {
    std::string_view name = {};  ///< a part of the device's
    double bf16_flops = 0;
    double f32_flops = 0;
};
/// NVIDIA's. A name that is the beginning of another one comes after it.
inline constexpr DataSheet kDataSheets[] = {
    {"H200 NVL", 835.5e12, 60e12},
    {"H200", 989.4e12, 66.9e12},
    {"H100 PCIe", 756e12, 51.2e12},
    {"H100 NVL", 835.5e12, 60e12},
    {"H100 80GB HBM3", 989.4e12, 66.9e12},
    {"A100", 312e12, 19.5e12},
    {"L40S", 362e12, 91.6e12},
    {"L40", 181e12, 90.5e12},
    {"NVIDIA L4", 121e12, 30.3e12},
};

/// Zeros where there is none, and for a part of a GPU (MIG), which does not have the whole one's.
inline DataSheet data_sheet_of(std::string_view device) {
    if (device.find("MIG") != std::string_view::npos)
        return {};
    for (const auto& sheet : kDataSheets) {
        const auto at = device.find(sheet.name);
        if (at == std::string_view::npos)
            continue;
        const auto rest = device.substr(at + sheet.name.size());
        if (rest.empty() || !std::isalnum(static_cast<unsigned char>(rest.front())))
            return sheet;
    }
    return {};
}

}  // namespace gpt
