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
  // The number of this member, from 0.
  virtual int rank() const = 0;
  // How many members there are.
  virtual int size() const = 0;

  // Hands over one text and returns those of all members, by rank. All members call it, equally
  // often.
  virtual std::vector<std::string> exchange(const std::string& mine) = 0;
};

// The team of a process on its own.
Team& alone();

// Does this member's part of some work and returns what came of every part, by rank. Where it fails
// for any of them it fails for all, with the error of the first, so that none is left waiting.
std::vector<std::string> exchange_work(Team& team, const std::function<std::string()>& work);

// Whether `mine` is true for any member.
bool any_of(Team& team, bool mine);

// The part of some things in a row that a member works on.
struct Share {
  int64_t begin;  // the first of them
  int64_t end;    // the one behind the last of them
  // How many they are.
  int64_t count() const { return end - begin; }
};
// The part of `count` things that this member works on.
Share share_of(int64_t count, const Team& team);

}  // namespace bespoke
