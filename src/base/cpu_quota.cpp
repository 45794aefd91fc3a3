#include "bespoke/base/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "bespoke/base/text.h"

namespace bespoke {

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double quota_of(double granted, double period) {
  return granted > 0 && period > 0 ? granted / period : kUnlimited;
}

// "QUOTA PERIOD" or "max PERIOD", in microseconds.
double second_version(const std::filesystem::path& group) {
  std::ifstream file(group / "cpu.max");
  double granted = 0, period = 0;
  return file >> granted >> period ? quota_of(granted, period) : kUnlimited;
}

double first_version(const std::filesystem::path& group) {
  std::ifstream quota(group / "cpu.cfs_quota_us"), every(group / "cpu.cfs_period_us");
  double granted = 0, period = 0;  // -1 for no limit
  return quota >> granted && every >> period ? quota_of(granted, period) : kUnlimited;
}

// The least of a group's quota and those above it. Inside a container the upper part of the path
// may not be there; the container's own group is then the top.
double least_quota(const std::filesystem::path& top, std::filesystem::path group,
                   double (*quota)(const std::filesystem::path&)) {
  double least = quota(top);
  for (; group.has_relative_path(); group = group.parent_path()) {
    least = std::min(least, quota(top / group.relative_path()));
  }
  return least;
}

bool has_cpu(const std::string& controllers) {
  const auto names = detail::split(controllers, ',');
  return std::find(names.begin(), names.end(), "cpu") != names.end();
}

}  // namespace

double cpu_quota(const std::filesystem::path& root) {
  const std::filesystem::path mounted = root / "sys/fs/cgroup";
  double least = kUnlimited;
  std::ifstream groups(root / "proc/self/cgroup");
  // "number:controllers:path"; version 2 names no controllers.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::filesystem::path group = line.substr(second + 1);
    if (controllers.empty()) {
      least = std::min(least, least_quota(mounted, group, second_version));
    } else if (has_cpu(controllers)) {
      least = std::min({least, least_quota(mounted / "cpu", group, first_version),
                        least_quota(mounted / controllers, group, first_version)});
    }
  }
  return least;
}

}  // namespace bespoke
