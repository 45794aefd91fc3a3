#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bespoke/base/team.h"

namespace bespoke::testing {

// A team whose members are threads, to test without MPI what teams do.
class ThreadTeam {
 public:
  explicit ThreadTeam(int size) : messages_(static_cast<size_t>(size)) {}

  // Calls work(team) on every member and waits for all.
  void run(const std::function<void(Team&)>& work) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      threads.emplace_back([this, rank, &work] {
        Member member(*this, rank);
        work(member);
      });
    }
    for (auto& thread : threads) thread.join();
  }

 private:
  class Member : public Team {
   public:
    Member(ThreadTeam& team, int rank) : team_(team), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return team_.size(); }
    std::vector<std::string> exchange(const std::string& mine) override {
      return team_.exchange(rank_, mine);
    }

   private:
    ThreadTeam& team_;
    int rank_;
  };

  int size() const { return static_cast<int>(messages_.size()); }

  std::vector<std::string> exchange(int rank, const std::string& mine) {
    std::unique_lock<std::mutex> lock(mutex_);
    messages_[static_cast<size_t>(rank)] = mine;
    wait_for_all(lock);
    const std::vector<std::string> all = messages_;
    wait_for_all(lock);  // none writes again before all have read
    return all;
  }

  void wait_for_all(std::unique_lock<std::mutex>& lock) {
    const int round = round_;
    if (++arrived_ == size()) {
      arrived_ = 0;
      ++round_;
      all_here_.notify_all();
      return;
    }
    all_here_.wait(lock, [&] { return round_ != round; });
  }

  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<std::string> messages_;
  int arrived_ = 0, round_ = 0;
};

}  // namespace bespoke::testing
