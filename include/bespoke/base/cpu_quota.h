#pragma once

#include <filesystem>

namespace bespoke {

// How many CPUs' time the control groups of this process grant it, as containers and job schedulers
// limit it: cpu.max of version 2, cpu.cfs_quota_us of version 1, of its group and those above.
// Infinity where none sets a limit. `root` holds /proc and /sys.
double cpu_quota(const std::filesystem::path& root = "/");

}  // namespace bespoke
