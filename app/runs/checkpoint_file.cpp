#include "runs/checkpoint_file.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <tuple>

#include "bespoke/base/error.h"
#include "runs/pickle.h"

namespace bespoke {

using namespace detail;

namespace {

using PickleKind = PickleValue::Kind;

// Tensors with more numbers are no solver's.
constexpr int64_t kMostNumbers = 1 << 20;

// Where a tensor's numbers are: in a record of the archive, with steps between them.
struct TensorPlace {
  std::string key;
  torch::ScalarType type = torch::kFloat;
  int64_t offset = 0;
  std::vector<int64_t> sizes, strides;
};

std::optional<torch::ScalarType> type_of_storage(const std::string& name) {
  static const std::map<std::string, torch::ScalarType> types = {
      {"torch.FloatStorage", torch::kFloat},       {"torch.DoubleStorage", torch::kDouble},
      {"torch.HalfStorage", torch::kHalf},         {"torch.LongStorage", torch::kLong},
      {"torch.BFloat16Storage", torch::kBFloat16}, {"torch.IntStorage", torch::kInt}};
  const auto found = types.find(name);
  if (found == types.end()) return std::nullopt;
  return found->second;
}

std::optional<std::vector<int64_t>> integers_of(const PickleValue& list) {
  std::vector<int64_t> integers;
  for (const auto& item : list.items) {
    if (item->kind != PickleKind::integer || item->integer < 0) return std::nullopt;
    integers.push_back(item->integer);
  }
  return integers;
}

// Of a call torch._utils._rebuild_tensor_v2(storage, offset, sizes, strides, ...), whose storage is
// ("storage", type, key, device, count); none where it is anything else.
std::optional<TensorPlace> place_of(const PickleValue& call) {
  if (call.items[0]->text != "torch._utils._rebuild_tensor_v2") return std::nullopt;
  const auto& arguments = call.items[1]->items;
  if (arguments.size() < 4 || arguments[0]->kind != PickleKind::stored) return std::nullopt;
  const auto& storage = arguments[0]->items[0]->items;
  if (storage.size() < 3) return std::nullopt;
  const auto type = type_of_storage(storage[1]->text);
  const auto sizes = integers_of(*arguments[2]), strides = integers_of(*arguments[3]);
  if (!type || !sizes || !strides || sizes->size() != strides->size()) return std::nullopt;
  return TensorPlace{storage[2]->text, *type, arguments[1]->integer, *sizes, *strides};
}

// What gives back its first argument.
bool is_transparent(const std::string& function) {
  return function == "torch._utils._rebuild_parameter" ||
         function == "torch.jit._pickle.restore_type_tag";
}

class PlaceCollector {
 public:
  void collect(const PickleValue& value, const std::string& name, int levels = 0) {
    constexpr int kDeepestTensor = 16, kMostVisits = 1 << 16;  // what holds itself has no end
    if (levels > kDeepestTensor || ++visits_ > kMostVisits) return;
    const auto visit = [&](const PickleValue& part, const std::string& key) {
      collect(part, name.empty() ? key : name + "/" + key, levels + 1);
    };
    if (value.kind == PickleKind::dictionary) {
      for (const auto& [key, part] : value.entries) {
        visit(*part, key->kind == PickleKind::integer ? std::to_string(key->integer) : key->text);
      }
    } else if (value.kind == PickleKind::list) {
      for (size_t i = 0; i < value.items.size(); ++i) visit(*value.items[i], std::to_string(i));
    } else if (value.kind == PickleKind::call) {
      const auto& arguments = value.items[1]->items;
      if (const auto place = place_of(value)) places_.emplace_back(name, *place);
      if (is_transparent(value.items[0]->text) && !arguments.empty()) {
        collect(*arguments[0], name, levels + 1);
      }
    }
  }
  const std::vector<std::pair<std::string, TensorPlace>>& places() const { return places_; }

 private:
  std::vector<std::pair<std::string, TensorPlace>> places_;
  int visits_ = 0;
};

// How many numbers, and how far behind the first the last one is; none where these are beyond use.
struct Extent {
  int64_t count, last;
};
std::optional<Extent> extent_of(const TensorPlace& place) {
  Extent extent = {1, 0};
  for (size_t i = 0; i < place.sizes.size(); ++i) {
    if (place.sizes[i] > kMostNumbers || place.strides[i] > kMostNumbers) return std::nullopt;
    extent.count *= place.sizes[i];
    extent.last += (place.sizes[i] - 1) * place.strides[i];
    if (extent.count > kMostNumbers || extent.last > kMostNumbers * kMostNumbers) {
      return std::nullopt;
    }
  }
  if (extent.count == 0 || place.offset < 0 || place.offset > kMostNumbers) return std::nullopt;
  return extent;
}

std::optional<NumberTable> read_table(const TensorPlace& place, const std::string& source,
                                      caffe2::serialize::PyTorchStreamReader& reader) {
  const auto extent = extent_of(place);
  if (!extent) return std::nullopt;
  const auto record = reader.getRecord("data/" + place.key);
  const auto available = static_cast<int64_t>(std::get<1>(record) / torch::elementSize(place.type));
  if (place.offset + extent->last >= available) {
    throw bad_input("{} is damaged: a tensor has more numbers than the file", source);
  }
  const torch::Tensor all =
      torch::from_blob(std::get<0>(record).get(), {available}, torch::TensorOptions(place.type));
  const torch::Tensor numbers =
      all.as_strided(place.sizes, place.strides, place.offset).to(torch::kDouble).contiguous();
  const auto* first = numbers.data_ptr<double>();
  return NumberTable{place.sizes, {first, first + numbers.numel()}};
}

}  // namespace

NamedTables read_checkpoint_tables(const std::string& content, const std::string& source) {
  try {
    std::istringstream stream(content);
    caffe2::serialize::PyTorchStreamReader reader(&stream);
    const auto record = reader.getRecord("data.pkl");
    const std::string program(static_cast<const char*>(std::get<0>(record).get()),
                              std::get<1>(record));
    const Pickle pickle = read_pickle(program, source);
    PlaceCollector collector;
    collector.collect(*pickle.root, "");
    NamedTables tables;
    for (const auto& [name, place] : collector.places()) {
      if (const auto table = read_table(place, source, reader)) tables.emplace_back(name, *table);
    }
    return tables;
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    throw bad_input("{} is no checkpoint that torch.save wrote, or it is damaged", source);
  }
}

}  // namespace bespoke
