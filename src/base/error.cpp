#include "bespoke/base/error.h"

#include <new>

namespace bespoke {

bool is_out_of_memory(const std::exception& error) {
  const std::string message = error.what();
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         message.find("out of memory") != std::string::npos ||
         message.find("can't allocate memory") != std::string::npos;
}

}  // namespace bespoke
