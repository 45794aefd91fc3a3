#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bespoke/model/network_program.h"

namespace bespoke::detail {

// An argument as a package takes it.
struct PackageArgument {
  std::string name;
  torch::ScalarType type;
  std::vector<int64_t> shape;  // without the batch
};

// What an AOTInductor package (.pt2) says of itself. LibTorch writes the device. The rest is
// written by bespoke-export, as metadata of the package: a compiled network does not check what it
// is called on, and would read other numbers, or past their end.
struct PackageFacts {
  std::string device;                      // "cuda", "cpu"
  std::string precision;                   // "fp32", "tf32", "fp64", "bf16", "fp16"
  std::vector<PackageArgument> arguments;  // of forward
  int64_t most_batch = 0;                  // the largest batch it was compiled for
  int64_t parameters = 0;
};

// Reads what the bytes of a package say; `source` is what errors call it. Bytes that are no
// package, or lack a fact, are bad input. Loads no code.
PackageFacts read_package_facts(const std::string& content, const std::string& source);

// Throws bad input unless the package was compiled for the device and the precision it is to run
// in. TF32 counts as a precision of its own, on where LibTorch allows it in matrix products:
// Inductor may write products of its own, which keep what was allowed when they were compiled.
void check_package(const PackageFacts& facts, const NetworkOptions& options,
                   const std::string& source);

// Throws bad input unless these are what its code reads: as many as it takes, of their shapes and
// types, for one batch that it was compiled for.
void check_arguments(const PackageFacts& facts, const std::vector<torch::Tensor>& arguments);

// Loads the code of a package for a device. Null where this program's LibTorch cannot.
using PackageOpener = std::function<std::unique_ptr<NetworkProgram>(
    const std::string& path, const PackageFacts& facts, torch::Device device)>;
PackageOpener package_opener();

// A package that may run as the options say. `expected_sha256` may be empty: not checked. Errors
// say what is wrong with the file, or that this program runs none.
std::unique_ptr<NetworkProgram> load_package(const std::filesystem::path& path,
                                             const std::string& expected_sha256,
                                             const NetworkOptions& options,
                                             const PackageOpener& opener = package_opener());

}  // namespace bespoke::detail
