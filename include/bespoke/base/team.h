#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bespoke {

// Processes that do one job together, numbered by rank. Each has all of the job's inputs and works
// on its share; what came of the shares is exchanged, so that all know everything and go on alike.
class Team {
 public:
  virtual ~Team() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // What every member hands over, by rank. All members call it, equally often.
  virtual std::vector<std::string> exchange(const std::string& mine) = 0;
};

// A process on its own.
Team& alone();

// Work that every member does a part of, and what came of each part, by rank. Where it fails for
// any of them it fails for all, with the error of the first: none is left waiting.
std::vector<std::string> exchange_work(Team& team, const std::function<std::string()>& work);

// Whether anyone says so.
bool any_of(Team& team, bool mine);

// The part begin ... end - 1 of `count` things in a row that a member works on.
struct Share {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};
Share share_of(int64_t count, const Team& team);

}  // namespace bespoke
