// In place of cuda_graph.cpp where LibTorch computes on the CPU alone.
#include "bespoke/model/call_graphs.h"

namespace bespoke {

CallRecorder cuda_graph_recorder() { return nullptr; }

}  // namespace bespoke
