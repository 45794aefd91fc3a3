#include "runs/pickle.h"

#include <map>
#include <utility>

#include "bespoke/base/error.h"

namespace bespoke {

namespace {

using Kind = PickleValue::Kind;

class PickleReader {
 public:
  PickleReader(const std::string& bytes, const std::string& source)
      : bytes_(bytes), source_(source) {}

  Pickle read() {
    for (;;) {
      const auto operation = static_cast<uint8_t>(take(1)[0]);
      if (operation == '.') break;
      perform(operation);
    }
    pickle_.root = pop();
    return std::move(pickle_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw bad_input("{} is no checkpoint that can be read: {}", source_, why);
  }

  std::string take(uint64_t count) {
    if (count > bytes_.size() - at_) refuse("it ends early");
    const std::string part = bytes_.substr(at_, count);
    at_ += count;
    return part;
  }

  // Of so many bytes, the least significant first.
  uint64_t take_number(size_t count) {
    uint64_t number = 0;
    const std::string part = take(count);
    for (size_t i = count; i-- > 0;) number = number << 8 | static_cast<uint8_t>(part[i]);
    return number;
  }

  std::string take_line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string::npos) refuse("it ends early");
    std::string line = take(end - at_);
    take(1);
    return line;
  }

  void push(PickleValue* value) { stack_.push_back(value); }

  void push_new(Kind kind) {
    pickle_.values.emplace_back();
    pickle_.values.back().kind = kind;
    push(&pickle_.values.back());
  }

  void push_integer(int64_t number) {
    push_new(Kind::integer);
    stack_.back()->integer = number;
  }

  void push_text(uint64_t length, Kind kind = Kind::text) {
    const std::string text = take(length);
    push_new(kind);
    stack_.back()->text = text;
  }

  PickleValue* pop() {
    if (stack_.empty()) refuse("a value is missing");
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }

  PickleValue* top() const {
    if (stack_.empty()) refuse("a value is missing");
    return stack_.back();
  }

  // Everything above the last mark, which goes too.
  std::vector<PickleValue*> pop_to_mark() {
    if (marks_.empty() || marks_.back() > stack_.size()) refuse("a mark is missing");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleValue*> values(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return values;
  }

  void push_list(const std::vector<PickleValue*>& items) {
    push_new(Kind::list);
    append(items);
  }

  void push_tuple(size_t count) {
    std::vector<PickleValue*> items;
    for (size_t i = 0; i < count; ++i) items.insert(items.begin(), pop());
    push_list(items);
  }

  void append(const std::vector<PickleValue*>& items) {
    top()->items.insert(top()->items.end(), items.begin(), items.end());
  }

  void set_items(const std::vector<PickleValue*>& items) {
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      top()->entries.emplace_back(items[i], items[i + 1]);
    }
  }

  void push_name(const std::string& module, const std::string& name) {
    push_new(Kind::name);
    stack_.back()->text = module + "." + name;
  }

  // f(arguments), written down. An ordered dictionary is a dictionary.
  void push_call() {
    const PickleValue *arguments = pop(), *called = pop();
    if (called->text == "collections.OrderedDict") {
      push_new(Kind::dictionary);
      return;
    }
    push_new(Kind::call);
    stack_.back()->items = {called, arguments};
  }

  void push_stored(const PickleValue* place) {
    push_new(Kind::stored);
    stack_.back()->items = {place};
  }

  void push_remembered(uint64_t number) {
    const auto found = memory_.find(number);
    if (found == memory_.end()) refuse("it refers to a value that is not there");
    push(found->second);
  }

  void perform(uint8_t operation) {
    switch (operation) {
      case 0x80:
        take(1);
        return;  // the protocol
      case 0x95:
        take(8);
        return;  // the length of a part
      case '(':
        marks_.push_back(stack_.size());
        return;
      case 'N':
        push_new(Kind::nothing);
        return;
      case 0x88:
        push_integer(1);
        return;
      case 0x89:
        push_integer(0);
        return;
      case 'K':
        push_integer(static_cast<int64_t>(take_number(1)));
        return;
      case 'M':
        push_integer(static_cast<int64_t>(take_number(2)));
        return;
      case 'J':
        push_integer(static_cast<int32_t>(take_number(4)));
        return;
      case 0x8a:
        push_long();
        return;
      case 'G':
        take(8);
        push_new(Kind::nothing);
        return;  // a float, which nobody needs
      case 'X':
        push_text(take_number(4));
        return;
      case 0x8c:
        push_text(take_number(1));
        return;
      case 0x8d:
        push_text(take_number(8));
        return;
      case 'U':
      case 'C':
        push_text(take_number(1), Kind::nothing);
        return;
      case 'T':
      case 'B':
        push_text(take_number(4), Kind::nothing);
        return;
      case ']':
      case 0x8f:
        push_list({});
        return;
      case ')':
        push_list({});
        return;
      case '}':
        push_new(Kind::dictionary);
        return;
      case 'a':
        append({pop()});
        return;
      case 'e':
      case 0x90:
        append(pop_to_mark());
        return;
      case 's':
        set_item();
        return;
      case 'u':
        set_items(pop_to_mark());
        return;
      case 't':
        push_list(pop_to_mark());
        return;
      case 0x85:
        push_tuple(1);
        return;
      case 0x86:
        push_tuple(2);
        return;
      case 0x87:
        push_tuple(3);
        return;
      case 'c':
        push_global();
        return;
      case 0x93:
        push_stack_global();
        return;
      case 'R':
      case 0x81:
        push_call();
        return;
      case 'b':
        pop();
        top();
        return;  // the state of an object
      case 'Q':
        push_stored(pop());
        return;
      case 'q':
        memory_[take_number(1)] = top();
        return;
      case 'r':
        memory_[take_number(4)] = top();
        return;
      case 0x94:
        memory_[memory_.size()] = top();
        return;
      case 'h':
        push_remembered(take_number(1));
        return;
      case 'j':
        push_remembered(take_number(4));
        return;
      default:
        refuse("it has an operation that PyTorch's checkpoints have not");
    }
  }

  void push_long() {
    const uint64_t length = take_number(1);
    if (length > 8) refuse("it has a number of more than 64 bits");
    uint64_t number = take_number(length);
    const bool negative = length > 0 && length < 8 && (number >> (8 * length - 1)) != 0;
    if (negative) number |= ~uint64_t{0} << (8 * length);
    push_integer(static_cast<int64_t>(number));
  }

  void set_item() {
    PickleValue *value = pop(), *key = pop();
    set_items({key, value});
  }

  void push_global() {
    const std::string module = take_line(), name = take_line();
    push_name(module, name);
  }

  void push_stack_global() {
    const PickleValue *name = pop(), *module = pop();
    push_name(module->text, name->text);
  }

  const std::string& bytes_;
  const std::string& source_;
  Pickle pickle_;
  size_t at_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, PickleValue*> memory_;
};

}  // namespace

Pickle read_pickle(const std::string& bytes, const std::string& source) {
  return PickleReader(bytes, source).read();
}

}  // namespace bespoke
