#pragma once

namespace bespoke {

// Where the shell limits memory (ulimit -v, -d): lets OpenBLAS take what it needs for so many
// threads while there is some. Later, beside a model, it would be refused and ask again for ever.
// Throws an error of memory where there is too little.
void take_memory_of_threads(int threads);

}  // namespace bespoke
