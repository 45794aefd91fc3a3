#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bespoke {

// Values one after the other as bytes, for another process of a team. They are unpacked in the
// order in which they were packed.
class Packer {
 public:
  Packer& add(double value);
  Packer& add(int64_t value);
  Packer& add(const std::string& text);
  Packer& add(const std::vector<double>& values);
  Packer& add(const std::vector<int64_t>& values);

  const std::string& bytes() const { return bytes_; }

 private:
  void append(const void* data, size_t size);

  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string bytes);

  double number();
  int64_t integer();
  std::string text();
  std::vector<double> numbers();
  std::vector<int64_t> integers();

 private:
  void read(void* data, size_t size);

  std::string bytes_;
  size_t at_ = 0;
};

}  // namespace bespoke
