#include "bespoke/io/npy.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <set>

#include "array_size.h"
#include "bespoke/base/error.h"
#include "bespoke/base/file.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicSize = sizeof(kMagic) - 1;
constexpr size_t kVersionEnd = kMagicSize + 2;
constexpr size_t kMostDimensions = 64;

struct Header {
  torch::ScalarType type = torch::kFloat;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

const std::vector<std::pair<std::string, torch::ScalarType>>& descriptions() {
  static const std::vector<std::pair<std::string, torch::ScalarType>> list = {
      {"<f8", torch::kDouble}, {"<f4", torch::kFloat}, {"<f2", torch::kHalf},
      {"<i8", torch::kLong},   {"<i4", torch::kInt},   {"<i2", torch::kShort},
      {"|i1", torch::kChar},   {"|u1", torch::kByte},  {"|b1", torch::kBool}};
  return list;
}

torch::ScalarType described_type(const std::string& name, const std::string& source) {
  for (const auto& [candidate, type] : descriptions()) {
    if (candidate == name) return type;
    // A type of one byte has no byte order, whatever the file says.
    const bool any_order = candidate[0] == '|' && name.find_first_of("|<>=") == 0;
    if (any_order && candidate.substr(1) == name.substr(1)) return type;
  }
  throw bad_input("{}: arrays of type '{}' are not supported; save it with .astype('<f4')", source,
                  name);
}

// Reads the header, a Python dictionary such as
// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, and nothing more of Python.
class HeaderReader {
 public:
  HeaderReader(const std::string& text, const std::string& source) : text_(text), source_(source) {}

  Header read() {
    expect('{');
    bool more = !take('}');
    while (more) {
      read_entry();
      more = more_until('}');
    }
    skip_spaces();
    if (at_ != text_.size()) throw broken("something follows its closing brace");
    if (seen_.size() != 3) throw broken("it needs descr, fortran_order and shape");
    return header_;
  }

 private:
  void read_entry() {
    const std::string key = read_text("a key");
    expect(':');
    if (!seen_.insert(key).second) throw broken(fmt::format("'{}' is there twice", key));
    if (key == "descr") {
      header_.type = described_type(read_text("one plain type as descr"), source_);
    } else if (key == "fortran_order") {
      header_.fortran_order = read_truth();
    } else if (key == "shape") {
      read_shape();
    } else {
      throw broken(fmt::format("it has the unknown key '{}'", key));
    }
  }

  std::string read_text(const char* what) {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : kNone;
    if (end == kNone) throw broken(fmt::format("expected {} in quotes", what));
    std::string text = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return text;
  }

  bool read_truth() {
    skip_spaces();
    for (const bool value : {false, true}) {
      const std::string word = value ? "True" : "False";
      if (text_.compare(at_, word.size(), word) != 0) continue;
      at_ += word.size();
      return value;
    }
    throw broken("fortran_order must be True or False");
  }

  void read_shape() {
    expect('(');
    bool more = !take(')');
    while (more) {
      header_.shape.push_back(read_size());
      if (header_.shape.size() > kMostDimensions) throw broken("shape has too many dimensions");
      more = more_until(')');
    }
  }

  int64_t read_size() {
    skip_spaces();
    constexpr int64_t most = std::numeric_limits<int64_t>::max();
    const size_t begin = at_;
    int64_t size = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const int64_t digit = text_[at_] - '0';
      if (size > (most - digit) / 10) throw broken("a size in shape is too large");
      size = 10 * size + digit;
    }
    if (at_ == begin) throw broken("shape must be a tuple of whole numbers from 0");
    take('L');  // Python 2 wrote its long integers so
    return size;
  }

  void skip_spaces() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  bool take(char wanted) {
    skip_spaces();
    const bool is_next = at_ < text_.size() && text_[at_] == wanted;
    if (is_next) ++at_;
    return is_next;
  }

  // After an item: whether another follows; Python allows a comma after the last one.
  bool more_until(char close) {
    if (take(',')) return !take(close);
    expect(close);
    return false;
  }

  void expect(char wanted) {
    if (!take(wanted)) throw broken(fmt::format("expected '{}' at character {}", wanted, at_ + 1));
  }

  Error broken(const std::string& why) const {
    return bad_input("{}: broken .npy header, {}; save the array again with numpy.save", source_,
                     why);
  }

  static constexpr size_t kNone = std::string::npos;
  const std::string& text_;
  const std::string& source_;
  size_t at_ = 0;
  Header header_;
  std::set<std::string> seen_;
};

// Where the header's text lies: from `begin` to `end`, at which the data starts.
struct HeaderPlace {
  size_t begin = 0;
  size_t end = 0;
};

HeaderPlace find_header(const std::string& content, const std::string& source) {
  if (content.compare(0, 2, "PK") == 0) {
    throw bad_input("{}: is a .npz archive; unpack it with unzip and give one of its .npy files",
                    source);
  }
  if (content.size() < kVersionEnd || content.compare(0, kMagicSize, kMagic) != 0) {
    throw bad_input("{}: not a .npy file; save the array with numpy.save", source);
  }
  const int version = static_cast<unsigned char>(content[kMagicSize]);
  if (version < 1 || version > 3) {
    throw bad_input("{}: .npy version {} is unknown; save the array with versions 1 to 3", source,
                    version);
  }
  uint32_t length = 0;
  const size_t begin = kVersionEnd + (version == 1 ? 2 : 4);
  const bool has_length = content.size() >= begin;
  if (has_length) std::memcpy(&length, content.data() + kVersionEnd, begin - kVersionEnd);
  if (!has_length || length > content.size() - begin) {
    throw bad_input("{}: ends within the .npy header; it is truncated or corrupt", source);
  }
  return {begin, begin + length};
}

// Refuses a shape that is not exactly what the file holds, or that overflows anywhere.
void check_size(const Header& header, size_t available, const std::string& source) {
  if (!is_array_of(header.shape, header.type, available)) {
    throw bad_input(
        "{}: {} bytes of data are not an array of shape {}; the file is truncated or corrupt",
        source, available, header.shape);
  }
}

// In Fortran order the bytes are those of the array with its dimensions reversed.
torch::Tensor read_data(const Header& header, const char* data, size_t bytes) {
  std::vector<int64_t> shape = header.shape;
  if (header.fortran_order) std::reverse(shape.begin(), shape.end());
  // A bool in memory must be 0 or 1; a file may hold any byte.
  const bool truth = header.type == torch::kBool;
  torch::Tensor tensor = torch::empty(shape, truth ? torch::kByte : header.type);
  if (bytes > 0) std::memcpy(tensor.data_ptr(), data, bytes);
  if (truth) tensor = tensor.ne(0);
  if (!header.fortran_order) return tensor;
  std::vector<int64_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(order.size() - 1 - i);
  return tensor.permute(order).contiguous();
}

}  // namespace

torch::Tensor read_npy(const std::filesystem::path& path) {
  return parse_npy(read_file(path), path.string());
}

torch::Tensor parse_npy(const std::string& content, const std::string& source) {
  const HeaderPlace place = find_header(content, source);
  const std::string text = content.substr(place.begin, place.end - place.begin);
  const Header header = HeaderReader(text, source).read();
  const size_t bytes = content.size() - place.end;
  check_size(header, bytes, source);
  return read_data(header, content.data() + place.end, bytes);
}

}  // namespace bespoke
