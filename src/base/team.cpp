#include "bespoke/base/team.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "bespoke/base/error.h"

namespace bespoke {

namespace {

class Alone : public Team {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> exchange(const std::string& mine) override { return {mine}; }
};

// The first letter of a message tells a result from an error, and the kinds of errors apart.
constexpr char kResult = '=';
constexpr char kOther = '?';

char letter_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::failed:
      return 'f';
    case ErrorKind::usage:
      return 'u';
    case ErrorKind::bad_input:
      return 'b';
    case ErrorKind::device:
      return 'm';
    case ErrorKind::diverged:
      return 'd';
    case ErrorKind::interrupted:
      break;
  }
  return 'i';
}

[[noreturn]] void throw_again(const std::string& message) {
  const std::string words = message.substr(1);
  for (const ErrorKind kind : {ErrorKind::failed, ErrorKind::usage, ErrorKind::bad_input,
                               ErrorKind::device, ErrorKind::diverged, ErrorKind::interrupted}) {
    if (letter_of(kind) == message.front()) throw Error(kind, words);
  }
  throw std::runtime_error(words);
}

std::string outcome_of(const std::function<std::string()>& work) {
  try {
    return kResult + work();
  } catch (const Error& error) {
    return letter_of(error.kind()) + std::string(error.what());
  } catch (const std::exception& error) {
    return kOther + std::string(error.what());
  }
}

}  // namespace

Team& alone() {
  static Alone team;
  return team;
}

std::vector<std::string> exchange_work(Team& team, const std::function<std::string()>& work) {
  if (team.size() == 1) return {work()};
  std::vector<std::string> all = team.exchange(outcome_of(work));
  for (std::string& one : all) {
    if (one.front() != kResult) throw_again(one);
    one.erase(0, 1);
  }
  return all;
}

bool any_of(Team& team, bool mine) {
  const auto all = team.exchange(mine ? "yes" : "no");
  return std::find(all.begin(), all.end(), "yes") != all.end();
}

Share share_of(int64_t count, const Team& team) {
  return {count * team.rank() / team.size(), count * (team.rank() + 1) / team.size()};
}

}  // namespace bespoke
