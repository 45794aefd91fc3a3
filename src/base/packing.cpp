#include "bespoke/base/packing.h"

#include <cstring>
#include <stdexcept>
#include <utility>

namespace bespoke {

void Packer::append(const void* data, size_t size) {
  bytes_.append(static_cast<const char*>(data), size);
}

Packer& Packer::add(double value) {
  append(&value, sizeof value);
  return *this;
}

Packer& Packer::add(int64_t value) {
  append(&value, sizeof value);
  return *this;
}

Packer& Packer::add(const std::string& text) {
  add(static_cast<int64_t>(text.size()));
  append(text.data(), text.size());
  return *this;
}

Packer& Packer::add(const std::vector<double>& values) {
  add(static_cast<int64_t>(values.size()));
  append(values.data(), values.size() * sizeof(double));
  return *this;
}

Packer& Packer::add(const std::vector<int64_t>& values) {
  add(static_cast<int64_t>(values.size()));
  append(values.data(), values.size() * sizeof(int64_t));
  return *this;
}

Unpacker::Unpacker(std::string bytes) : bytes_(std::move(bytes)) {}

void Unpacker::read(void* data, size_t size) {
  if (size > bytes_.size() - at_) throw std::runtime_error("a message of the team is cut short");
  if (size > 0) std::memcpy(data, bytes_.data() + at_, size);
  at_ += size;
}

double Unpacker::number() {
  double value = 0;
  read(&value, sizeof value);
  return value;
}

int64_t Unpacker::integer() {
  int64_t value = 0;
  read(&value, sizeof value);
  return value;
}

std::string Unpacker::text() {
  std::string text(static_cast<size_t>(integer()), '\0');
  read(text.data(), text.size());
  return text;
}

std::vector<double> Unpacker::numbers() {
  std::vector<double> values(static_cast<size_t>(integer()));
  read(values.data(), values.size() * sizeof(double));
  return values;
}

std::vector<int64_t> Unpacker::integers() {
  std::vector<int64_t> values(static_cast<size_t>(integer()));
  read(values.data(), values.size() * sizeof(int64_t));
  return values;
}

}  // namespace bespoke
