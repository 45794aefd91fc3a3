#pragma once

#include <string>

namespace bespoke {

// While one lives, this thread records what it makes a device do, to be done again later. What is
// called then must leave nothing to the CPU: recordings within it are not replayed but made part of
// it (CallGraphs), and numbers may not be sent, since their memory is gone when it is replayed.
class RecordingScope {
 public:
  RecordingScope();
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
};

bool is_recording();

// Throws while this thread records, with what it was about to do.
void refuse_while_recording(const std::string& what);

}  // namespace bespoke
