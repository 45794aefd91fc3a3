#include "bespoke/base/team.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "bespoke/base/error.h"
#include "thread_team.h"

namespace bespoke {
namespace {

using testing::ThreadTeam;

TEST(Team, IsAloneWithoutOthers) {
  EXPECT_EQ(alone().size(), 1);
  EXPECT_EQ(exchange_work(alone(), [] { return std::string("mine"); }),
            std::vector<std::string>{"mine"});
  EXPECT_TRUE(any_of(alone(), true));
  EXPECT_FALSE(any_of(alone(), false));
  EXPECT_THROW(exchange_work(alone(), []() -> std::string { throw std::runtime_error("memory"); }),
               std::runtime_error);
}

TEST(Team, SharesCoverEverythingOnce) {
  for (const int size : {1, 2, 3, 7}) {
    for (const int64_t count : {0, 1, 5, 64}) {
      std::vector<Share> shares(static_cast<size_t>(size));
      ThreadTeam(size).run(
          [&](Team& team) { shares[static_cast<size_t>(team.rank())] = share_of(count, team); });
      int64_t reached = 0;
      for (const Share& share : shares) {
        EXPECT_EQ(share.begin, reached);
        EXPECT_LE(share.count(), count / size + 1);
        reached = share.end;
      }
      EXPECT_EQ(reached, count);
    }
  }
}

TEST(Team, ExchangesByRankAgainAndAgain) {
  ThreadTeam(3).run([](Team& team) {
    for (int round = 0; round < 50; ++round) {
      const auto all = exchange_work(
          team, [&] { return std::string(static_cast<size_t>(team.rank()), 'x') + "\0y"; });
      ASSERT_EQ(all.size(), 3u);
      for (size_t rank = 0; rank < 3; ++rank)
        EXPECT_EQ(all[rank].substr(0, rank), std::string(rank, 'x'));
      EXPECT_EQ(any_of(team, team.rank() == round % 4), round % 4 != 3);
    }
  });
}

TEST(Team, FailsTogether) {
  for (const int culprit : {0, 2}) {
    ThreadTeam(3).run([&](Team& team) {
      try {
        exchange_work(team, [&]() -> std::string {
          if (team.rank() == culprit) throw Error(ErrorKind::diverged, "sample 5 diverged");
          return "well";
        });
        ADD_FAILURE() << "nothing was thrown";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::diverged);
        EXPECT_STREQ(error.what(), "sample 5 diverged");
      }
    });
  }
  // What ran out of memory for one does so for all, who then try again with less.
  ThreadTeam(2).run([](Team& team) {
    try {
      exchange_work(team, [&]() -> std::string {
        if (team.rank() == 1) throw std::runtime_error("CUDA out of memory");
        return "";
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::exception& error) {
      EXPECT_TRUE(is_out_of_memory(error));
    }
  });
}

}  // namespace
}  // namespace bespoke
