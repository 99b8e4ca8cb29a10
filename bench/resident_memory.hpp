#pragma once
#include <fstream>
#include <string>

/// Bytes of this process that are in memory (Pss: pages that processes share count in equal parts).
inline double resident_bytes() {
    std::ifstream file("/proc/self/smaps_rollup");
    std::string word;
    while (file >> word)
        if (word == "Pss:" && file >> word)
            return std::stod(word) * 1024;
    return 0;
}
