#include "bespoke/distill/reference_tolerance.h"

namespace bespoke {

Tolerances usual_tolerances(int nfe) {
  constexpr int kFew = 8;
  return nfe <= kFew ? Tolerances{3e-5, 3e-5} : Tolerances{1e-5, 1e-5};
}

}  // namespace bespoke
