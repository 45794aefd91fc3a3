#include "bespoke/tensor/recording.h"

#include <stdexcept>

namespace bespoke {

namespace {

thread_local int recordings = 0;

}  // namespace

RecordingScope::RecordingScope() { ++recordings; }

RecordingScope::~RecordingScope() { --recordings; }

bool is_recording() { return recordings > 0; }

void refuse_while_recording(const std::string& what) {
  if (is_recording()) throw std::runtime_error(what);
}

}  // namespace bespoke
