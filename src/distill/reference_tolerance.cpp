#include "bespoke/distill/reference_tolerance.h"

namespace bespoke {

Tolerances usual_tolerances(int nfe) {
  constexpr int kFew = 12;
  return nfe <= kFew ? Tolerances{1e-5, 1e-5} : Tolerances{3e-6, 3e-6};
}

}  // namespace bespoke
