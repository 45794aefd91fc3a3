// In place of package_program.cpp where LibTorch is older than 2.9 and runs no packages.
#include "bespoke/model/compiled_package.h"

namespace bespoke::detail {

PackageOpener package_opener() { return nullptr; }

}  // namespace bespoke::detail
